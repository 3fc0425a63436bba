//! Limits on what one peer, or all peers together, may use of the coordinator.

use blindsum_protocol::Job;
use serde::{Deserialize, Serialize};

use crate::NetError;

/// Limits of a coordinator. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Most connections of certified parties at a time.
    pub connections: usize,
    /// Most connections of one party at a time, including those that watch the status with its certificate.
    pub connections_per_party: usize,
    /// Most TLS handshakes at a time. If there are more, the oldest is dropped.
    pub handshakes: usize,
    /// Time for a TLS handshake.
    pub handshake_timeout: f64,
    /// Time from the beginning of a stream to its Hello. Also the time that a connection may be without a stream.
    pub hello_timeout: f64,
    /// Time for one chunk of a message, in either direction. A peer that transfers less than 256 KiB in it is
    /// disconnected.
    pub chunk_timeout: f64,
    /// Bytes of memory for messages that are being received, of all parties together. One message always fits.
    pub message_memory: u64,
    /// Bytes of memory for what each of three servers computes in a job (`mpc3`). A job that may need more is refused.
    pub computing_memory: u64,
    /// Bytes of memory for relayed messages between parties, of all jobs together. The rest goes to a temporary file
    /// beside the store.
    pub relay_memory: u64,
    /// How long a party of a round whose connection was lost may stay away. After that the stage goes on without it.
    pub reconnect_grace: f64,
    /// How long a party is a member without a sign of life. After that it has failed: its connection is cut, the round
    /// under way goes on without it, and it takes part again once it has come back.
    pub lease: f64,
    /// Rounds that may fail in a row before the job ends.
    pub failed_rounds: u32,
    /// How long a job waits for enough parties to be ready. After that it ends.
    pub patience: f64,
    /// How long a coordinator that stops when its jobs are done waits for parties of the last round that were lost and
    /// have not been told its end, and for survivors that have not confirmed its result.
    pub farewell: f64,
    /// Time between pings on an idle connection, at most, and the time for the answer to a ping. Where a quarter of
    /// `lease` is less, that is the time between them.
    pub keepalive: f64,
    /// How long a coordinator that drains lets a round last; `None` is the input deadline of the job. After that it stops.
    pub drain_deadline: Option<f64>,
    /// Versions of a model that are kept in the store.
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
            computing_memory: 8 << 30,
            relay_memory: 256 << 20,
            reconnect_grace: 5.0,
            lease: 30.0,
            failed_rounds: 10,
            patience: 3600.0,
            farewell: 30.0,
            keepalive: 15.0,
            drain_deadline: None,
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
            ("drain_deadline", self.drain_deadline.unwrap_or(1.0)),
        ];
        for (field, value) in times {
            if !(value > 0.0 && value <= 1e6) {
                let rule = format!("is {value} s and must be above 0 and at most 1000000 s");
                return Err((field, advised(rule, value > 1e6)));
            }
        }
        // Etcd counts leases in whole seconds, and on a slow line a sign of life takes its time.
        if !(self.lease >= 1.0 && self.lease <= 1e6) {
            let rule = format!("is {} s and must be from 1 to 1000000 s", self.lease);
            return Err(("lease", advised(rule, self.lease > 1e6)));
        }
        let counts = [
            ("connections", self.connections as u64),
            ("connections_per_party", self.connections_per_party as u64),
            ("handshakes", self.handshakes as u64),
            ("message_memory", self.message_memory),
            ("computing_memory", self.computing_memory),
            ("failed_rounds", self.failed_rounds.into()),
            ("models_kept", self.models_kept.into()),
        ];
        for (field, value) in counts {
            if !(1..=1 << 46).contains(&value) {
                let rule = format!("is {value} and must be from 1 to 2^46");
                return Err((field, advised(rule, value > 0)));
            }
        }
        // 0 is fine: everything goes to the file.
        if self.relay_memory > 1 << 46 {
            let rule = format!("is {} and must be at most 2^46", self.relay_memory);
            return Err(("relay_memory", advised(rule, true)));
        }
        Ok(())
    }

    /// The names of the limits that have another value there.
    pub(crate) fn differing(&self, other: &Self) -> Vec<String> {
        let fields = |limits: &Self| match serde_json::to_value(limits) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        let other = fields(other);
        let differs = fields(self)
            .into_iter()
            .filter(|(name, value)| other.get(name) != Some(value));
        differs.map(|(name, _)| name).collect()
    }

    /// A limit with its value here and there, for people.
    pub(crate) fn change(&self, other: &Self, name: &str) -> String {
        let value = |limits: &Self| {
            let fields = serde_json::to_value(limits).unwrap_or_default();
            match fields.get(name) {
                None | Some(serde_json::Value::Null) => "none".to_owned(),
                Some(value) => value.to_string(),
            }
        };
        format!("limits.{name}: {} → {}", value(self), value(other))
    }

    /// Whether what a server computes for this job fits in memory.
    pub(crate) fn check_memory(&self, job: &Job) -> Result<(), NetError> {
        let (needed, allowed) = (job.plan().memory(), self.computing_memory);
        if needed <= allowed {
            return Ok(());
        }
        let spec = job.spec();
        let rule = format!(
            "job {:?} computes with up to {needed} bytes at each server, with parties = {} and dim = {}, but \
             {needed} <= computing_memory = {allowed} must hold: raise it if this machine has twice as much, or have fewer \
             parties or coordinates, or another rule if it computes with single vectors",
            spec.job, spec.parties, spec.dim,
        );
        Err(NetError::config("limits.computing_memory", rule))
    }
}

/// A rule with what to do about the value that breaks it.
fn advised(rule: String, is_high: bool) -> String {
    match is_high {
        true => format!("{rule}: lower it"),
        false => format!("{rule}: raise it"),
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
        for lease in [0.0, 0.99, -1.0, 1e7, f64::NAN, f64::INFINITY] {
            let limits = Limits {
                lease,
                ..Limits::default()
            };
            let (field, rule) = limits.check().unwrap_err();
            assert_eq!(field, "lease");
            assert!(
                rule.contains(" and must be from 1 to 1000000 s: "),
                "{rule}"
            );
        }
        let limits = Limits {
            connections: 0,
            ..Limits::default()
        };
        assert_eq!(limits.check().unwrap_err().0, "connections");
    }
}
