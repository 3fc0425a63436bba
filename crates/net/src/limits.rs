//! What one peer, or all of them together, may take of the coordinator.

use serde::{Deserialize, Serialize};

/// Limits of a coordinator. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections of certified parties at once.
    pub connections: usize,
    /// Those of one party; whoever watches with its certificate counts as well.
    pub connections_per_party: usize,
    /// TLS handshakes at once; when there are more, the oldest is dropped.
    pub handshakes: usize,
    /// Time for a TLS handshake.
    pub handshake_timeout: f64,
    /// Time from a stream's beginning to its Hello, and for a connection without any stream.
    pub hello_timeout: f64,
    /// Time for one chunk of a message, in either direction: a peer that moves less than 256 KiB in
    /// it is disconnected.
    pub chunk_timeout: f64,
    /// Bytes of messages that are being received, all parties together. One message always fits.
    pub message_memory: u64,
    /// Bytes of messages between parties that are kept in memory until they are passed on, all jobs
    /// together. What is beyond it goes to a temporary file beside the store.
    pub relay_memory: u64,
    /// How long a lost party of a round may take to come back before the stage goes on without it.
    pub reconnect_grace: f64,
    /// Rounds that may fail in a row before the job ends.
    pub failed_rounds: u32,
    /// How long a job waits for enough parties to be ready before it ends.
    pub patience: f64,
    /// How long a coordinator that stops when its jobs are done stays for parties of the last round that were lost and
    /// have not heard its end, and for survivors that have not confirmed its result.
    pub farewell: f64,
    /// Time between signs of life on an idle connection, and the time for the answer.
    pub keepalive: f64,
    /// Versions of a model that are kept.
    pub models_kept: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_party: 16,
            handshakes: 256,
            handshake_timeout: 10.0,
            hello_timeout: 10.0,
            chunk_timeout: 30.0,
            message_memory: 1 << 30,
            relay_memory: 256 << 20,
            reconnect_grace: 5.0,
            failed_rounds: 10,
            patience: 3600.0,
            farewell: 30.0,
            keepalive: 15.0,
            models_kept: 3,
        }
    }
}

impl Limits {
    /// Checks every rule; the error is the field and the rule it breaks.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let times = [
            ("handshake_timeout", self.handshake_timeout),
            ("hello_timeout", self.hello_timeout),
            ("chunk_timeout", self.chunk_timeout),
            ("reconnect_grace", self.reconnect_grace),
            ("patience", self.patience),
            ("farewell", self.farewell),
            ("keepalive", self.keepalive),
        ];
        for (field, value) in times {
            if !(value > 0.0 && value <= 1e6) {
                return Err((field, format!("0 < {field} = {value} <= 1000000 seconds")));
            }
        }
        let counts = [
            ("connections", self.connections as u64),
            ("connections_per_party", self.connections_per_party as u64),
            ("handshakes", self.handshakes as u64),
            ("message_memory", self.message_memory),
            ("failed_rounds", self.failed_rounds.into()),
            ("models_kept", self.models_kept.into()),
        ];
        for (field, value) in counts {
            if !(1..=1 << 46).contains(&value) {
                return Err((field, format!("1 <= {field} = {value} <= 2^46")));
            }
        }
        // 0 is fine: everything goes to the file.
        if self.relay_memory > 1 << 46 {
            let rule = format!("relay_memory = {} <= 2^46", self.relay_memory);
            return Err(("relay_memory", rule));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_quote_the_rule_that_is_broken() {
        assert_eq!(Limits::default().check(), Ok(()));
        let limits = Limits {
            chunk_timeout: f64::NAN,
            ..Limits::default()
        };
        assert_eq!(limits.check().unwrap_err().0, "chunk_timeout");
        let limits = Limits {
            connections: 0,
            ..Limits::default()
        };
        assert_eq!(limits.check().unwrap_err().0, "connections");
    }
}
