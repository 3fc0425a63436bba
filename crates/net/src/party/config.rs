//! The configuration of a party.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use blindsum_encode::Reals;
use blindsum_job::coordinator::LONGEST_LOCATION;
use blindsum_protocol::JobSpec;

use super::Policy;
use crate::NetError;
use crate::paths::check_path;
use crate::tls::Credentials;

/// The configuration of a party that joins a job.
pub struct PartyConfig {
    /// The address of the coordinator: `https://HOST:PORT`.
    pub url: String,
    /// Where the three servers are, in order, the coordinator first, as at `url`: in a job whose servers compute
    /// together. Empty where the job has no server but its coordinator.
    pub servers: Vec<String>,
    /// Name of the job.
    pub job: String,
    /// The party's certificate and key, and the CA of the job.
    pub credentials: Credentials,
    /// The name in the coordinator's certificate, if it is not the host of `url`.
    pub server_name: Option<String>,
    /// The rules by which the party accepts jobs and rounds.
    pub policy: Policy,
    /// A folder in which the party remembers the round under way, so that it can go on after a crash, and the rounds in
    /// which it took part. `None` remembers nothing when the process ends.
    pub state_dir: Option<PathBuf>,
    /// A file elsewhere, on another disk, in which the ledger of the party's data says how far it has come: a ledger that was put
    /// back to an earlier state is refused. `None` keeps none.
    pub ledger_witness: Option<PathBuf>,
    /// Seconds for which the party tries to reach the coordinator, at first and after every lost connection.
    pub give_up_after: f64,
    /// Seconds between pings on an idle connection, and for the answer to a ping.
    pub keepalive: f64,
    /// Seconds that the coordinator may take to accept one chunk of a message.
    pub chunk_timeout: f64,
    /// Bytes of masks that may be computed ahead of time, while the party trains or waits for others for more than 0.2
    /// s; with 0 masks are computed when they are needed. `flashe` has masks to compute ahead, and the
    /// ring and the all-reduce of `paillier` the random part of encryption.
    pub mask_memory: usize,
    /// The location of the party, in words of its owner, at most 64 characters; may be empty. It is sent to the
    /// coordinator, and some rings use this order.
    pub location: String,
    /// The values of a model that this party can give a job that takes its first model from a party; `None` if it gives none.
    /// The coordinator and all parties learn it.
    pub initial: Option<Arc<Reals>>,
}

/// The default of [`PartyConfig::mask_memory`]: enough for 2^26 words of up to 32 bits.
pub const MASK_MEMORY: usize = 256 << 20;

impl PartyConfig {
    /// A configuration with defaults for everything else.
    pub fn new(url: impl Into<String>, job: impl Into<String>, credentials: Credentials) -> Self {
        Self {
            url: url.into(),
            servers: Vec::new(),
            job: job.into(),
            credentials,
            server_name: None,
            policy: Policy::default(),
            state_dir: None,
            ledger_witness: None,
            give_up_after: 120.0,
            keepalive: 15.0,
            chunk_timeout: 60.0,
            mask_memory: MASK_MEMORY,
            location: String::new(),
            initial: None,
        }
    }

    /// The first number that is out of range, or a name that no job can have.
    pub(super) fn check(&self) -> Result<(), NetError> {
        JobSpec::check_name(&self.job).map_err(|error| {
            NetError::config(error.field, format!("{:?}: {}", self.job, error.rule))
        })?;
        if !matches!(self.servers.len(), 0 | 3) {
            let got = self.servers.len();
            let rule = format!("{got} URLs: must be three, in order, or none");
            return Err(NetError::config("servers", rule));
        }
        if let Some(first) = self.servers.first()
            && *first != self.url
        {
            let rule = format!("the first one, {first:?}, must be url = {:?}", self.url);
            return Err(NetError::config("servers", rule));
        }
        let times = [
            ("give_up_after", self.give_up_after),
            ("keepalive", self.keepalive),
            ("chunk_timeout", self.chunk_timeout),
        ];
        for (field, value) in times {
            if !(value > 0.0 && value <= 1e6) {
                let rule = format!("0 < {field} = {value} <= 1000000 seconds");
                return Err(NetError::config(field, rule));
            }
        }
        let location = &self.location;
        if location.chars().count() > LONGEST_LOCATION || location.chars().any(char::is_control) {
            let rule = format!(
                "{location:?} must have at most {LONGEST_LOCATION} characters, on one line"
            );
            return Err(NetError::config("location", rule));
        }
        if let Some(folder) = &self.state_dir {
            check_path("state_dir", folder)?;
        }
        let broken = |(field, rule)| NetError::config(format!("policy.{field}"), rule);
        self.policy.check().map_err(broken)?;
        let lacks_folder = self.state_dir.is_none();
        // guard: a-budget-has-a-ledger-that-outlives-the-process
        if lacks_folder && self.policy.privacy.max_epsilon.is_some() {
            let rule = "is missing, and policy.max_epsilon needs it: name a folder for the ledger, the same in all jobs with \
                        this data";
            return Err(NetError::config("state_dir", rule));
        }
        if let Some(witness) = &self.ledger_witness {
            check_path("ledger_witness", witness)?;
            let Some(folder) = &self.state_dir else {
                let rule = "needs state_dir, the folder of the ledger: name it, or leave ledger_witness out";
                return Err(NetError::config("ledger_witness", rule));
            };
            // guard: a-witness-is-elsewhere
            if is_inside(witness, folder) {
                let rule = "must not be in state_dir: what puts that folder back brings back the witness, too; name a file on \
                            another disk";
                return Err(NetError::config("ledger_witness", rule));
            }
        }
        Ok(())
    }
}

/// Whether a file is in a folder, by whatever names, also where neither is there yet.
fn is_inside(file: &Path, folder: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    let parent = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    match (real(parent.unwrap_or(Path::new("."))), real(folder)) {
        (Ok(parent), Ok(folder)) => parent.starts_with(folder),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Abuse case 39: a budget that began anew with each process would be none.
    #[test]
    fn case_39_a_budget_needs_a_folder_for_its_ledger() {
        let credentials = Credentials::new("", "", "");
        let mut config = PartyConfig::new("https://localhost:1", "job", credentials);
        config.policy.privacy.max_epsilon = Some(8.0);
        let field = |config: &PartyConfig| match config.check() {
            Err(NetError::Config { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field(&config), "policy.max_delta");
        config.policy.privacy.max_delta = Some(1e-5);
        assert_eq!(field(&config), "state_dir");
        config.ledger_witness = Some("witness".into());
        config.policy.privacy.max_epsilon = None;
        config.policy.privacy.max_delta = None;
        assert_eq!(field(&config), "ledger_witness");
        config.state_dir = Some("state".into());
        config.check().unwrap();
        for inside in ["state/witness", "./state/a/witness"] {
            config.ledger_witness = Some(inside.into());
            assert_eq!(field(&config), "ledger_witness");
        }
    }
}
