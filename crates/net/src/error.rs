//! The errors of coordinators and parties.

use blindsum_crypto::CryptoError;
use blindsum_job::PolicyError;
use blindsum_job::{JobError, StoreError};
use blindsum_protocol::SpecError;

/// Why a coordinator or a party cannot do what it was asked to, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// An error of the job itself, not of the network.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A field of a configuration breaks a rule.
    #[error("{field}: {rule}")]
    Config {
        /// The field.
        field: String,
        /// The rule it breaks, with the value.
        rule: String,
    },
    /// A certificate, key or revocation list cannot be used.
    #[error("{what}: {reason}")]
    Credential {
        /// Which certificate, key or list.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The coordinator cannot listen where it was told to.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: String,
        /// The system's reason, and what to do.
        reason: String,
    },
    /// The coordinator could not be reached, at first or after a lost connection, in the time that was allowed.
    #[error("coordinator {url} not reached{}: {reason}", within(*seconds))]
    Unreachable {
        /// The address at which it should be.
        url: String,
        /// How long it was tried again and again, in seconds; 0 where it was tried once.
        seconds: f64,
        /// Why the last attempt failed.
        reason: String,
    },
    /// TLS failed: this side does not trust the coordinator or server, or is not trusted by it.
    #[error("TLS with {url}: {reason}")]
    Tls {
        /// The address of the coordinator or server.
        url: String,
        /// What failed.
        reason: String,
    },
    /// A wait took longer than the caller allowed.
    #[error("waited {seconds} s in vain: {what}")]
    Timeout {
        /// How long the wait was, in seconds.
        seconds: f64,
        /// What was waited for.
        what: &'static str,
    },
    /// The party cannot go on in the job. An earlier call gave the error itself.
    #[error("this party has left the job: {reason}")]
    Ended {
        /// The first reason.
        reason: String,
    },
    /// The party has left the job, or the job is over.
    #[error("this party has left the job")]
    Left,
    /// A job needs more memory than this process may take.
    #[error(
        "job {job:?}: {task} with parties = {parties} and dim = {dim} takes about {needed} bytes of memory, and this \
         process may take {room} bytes more, by {bound}; have fewer parties or coordinates, or raise the limit"
    )]
    Memory {
        /// The job.
        job: String,
        /// What the process is to do in it.
        task: String,
        /// The parties of a round.
        parties: usize,
        /// The coordinates of a vector.
        dim: u64,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that this process may still take.
        room: u64,
        /// Their limit.
        bound: String,
    },
    /// The system or a library failed.
    #[error("{0}")]
    System(String),
}

impl NetError {
    /// A field of a configuration that breaks a rule.
    pub fn config(field: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::Config {
            field: field.into(),
            rule: rule.into(),
        }
    }

    pub(crate) fn credential(what: &'static str, reason: impl std::fmt::Display) -> Self {
        Self::Credential {
            what,
            reason: reason.to_string(),
        }
    }

    pub(crate) fn system(error: impl std::fmt::Display) -> Self {
        Self::System(error.to_string())
    }
}

/// What is an error of a job is one of its connection.
macro_rules! of_job {
    ($($error:ty),+) => {
        $(impl From<$error> for NetError {
            fn from(error: $error) -> Self {
                Self::Job(error.into())
            }
        })+
    };
}

of_job!(SpecError, StoreError, PolicyError);

impl From<CryptoError> for NetError {
    fn from(error: CryptoError) -> Self {
        match error {
            CryptoError::Pem { what, why } => Self::Credential { what, reason: why },
            other => Self::System(other.to_string()),
        }
    }
}

fn within(seconds: f64) -> String {
    match seconds > 0.0 {
        true => format!(" within {seconds} s"),
        false => String::new(),
    }
}
