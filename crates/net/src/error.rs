//! Everything that can go wrong on either side of the wire.

use std::path::PathBuf;

use blindsum_crypto::CryptoError;
use blindsum_protocol::{Fault, SpecError};

use crate::party::PolicyError;
use crate::pb::RefusalCode;

/// Why a coordinator or a party cannot do, or go on with, what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// A field of a configuration breaks a rule.
    #[error("{field}: {rule}")]
    Config {
        /// The field.
        field: String,
        /// The rule it breaks, with the value.
        rule: String,
    },
    /// A job specification breaks a rule.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A certificate, key or revocation list cannot be used.
    #[error("{what}: {reason}")]
    Credential {
        /// Which one.
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
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The coordinator could not be reached, or not again, in the time that was allowed.
    #[error("coordinator {url} not reached within {seconds} s: {reason}")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// How long it was tried.
        seconds: f64,
        /// What the last attempt met.
        reason: String,
    },
    /// The coordinator or its certificate cannot be trusted, or it does not trust this party's.
    #[error("TLS with coordinator {url}: {reason}")]
    Tls {
        /// Where it is.
        url: String,
        /// What failed.
        reason: String,
    },
    /// The coordinator refused this party.
    #[error("refused by the coordinator: {reason}")]
    Refused {
        /// The kind of refusal.
        code: RefusalCode,
        /// The coordinator's words.
        reason: String,
    },
    /// The party's policy forbids what the coordinator proposes.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The coordinator breaks the rules of the wire.
    #[error("the coordinator sent something wrong: {0}")]
    Coordinator(String),
    /// A machine of the protocol stopped this party's round.
    #[error("round {round}: {fault}")]
    Fault {
        /// The round.
        round: u64,
        /// What happened, and whose fault it is.
        fault: Fault,
    },
    /// A round gave no result.
    #[error("round {round} gave no result: {reason}")]
    RoundAborted {
        /// The round.
        round: u64,
        /// Why.
        reason: String,
    },
    /// The round goes on without this party.
    #[error("round {round} goes on without this party: {reason}")]
    Dropped {
        /// The round.
        round: u64,
        /// Why.
        reason: String,
    },
    /// The round counts this party's update, and yet its result does not come here any more.
    #[error("round {round} counts this party's update, but its result did not come here: {reason}")]
    Missed {
        /// The round.
        round: u64,
        /// Why.
        reason: String,
    },
    /// An update that cannot be taken; another may be submitted.
    #[error("update: {0}")]
    Input(String),
    /// This party and the coordinator come to different models from the same sum.
    #[error(
        "round {round}: the coordinator's model has hash {theirs}, this party computes {ours}; \
         the coordinator must not be trusted with this job"
    )]
    ModelMismatch {
        /// The round.
        round: u64,
        /// Hash that the coordinator told, in hexadecimal digits.
        theirs: String,
        /// Hash of what this party computes.
        ours: String,
    },
    /// The coordinator announces another result than the one it told this party.
    #[error(
        "round {round}: the coordinator announces the result {theirs}, this party was told {ours}; \
         the coordinator must not be trusted with this job"
    )]
    ResultMismatch {
        /// The round.
        round: u64,
        /// Name of the result that the coordinator announced, in hexadecimal digits.
        theirs: String,
        /// Name of the one that this party was told.
        ours: String,
    },
    /// The party's state folder cannot be used.
    #[error("state folder {path}: {reason}")]
    State {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A wait took longer than the caller allowed.
    #[error("nothing within {seconds} s: {what}")]
    Timeout {
        /// How long was waited.
        seconds: f64,
        /// What was waited for.
        what: &'static str,
    },
    /// A job ended without being done.
    #[error("job {job}: {reason}")]
    JobFailed {
        /// The job.
        job: String,
        /// Why.
        reason: String,
    },
    /// The party has left the job, or the job is over.
    #[error("this party has left the job")]
    Left,
    /// The system or a library failed.
    #[error("{0}")]
    System(String),
}

/// Why the coordinator's store cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another coordinator uses it.
    #[error("store {path}: another coordinator uses it; stop that one or choose another store")]
    InUse {
        /// The file.
        path: String,
    },
    /// The file is damaged.
    #[error(
        "store {path}: damaged ({reason}); nothing was changed: restore a copy or move it away"
    )]
    Corrupt {
        /// The file.
        path: String,
        /// What the check found.
        reason: String,
    },
    /// The file belongs to another program, or to another version of this one.
    #[error("store {path}: {reason}")]
    Foreign {
        /// The file.
        path: String,
        /// What it is.
        reason: String,
    },
    /// The job stands in the store with another specification.
    #[error(
        "job {job}: the store holds it with another specification (hash {stored}, now {given}); \
         give the job a new name or use another store"
    )]
    OtherSpec {
        /// The job.
        job: String,
        /// Hash in the store, in hexadecimal digits.
        stored: String,
        /// Hash of the specification that was given.
        given: String,
    },
    /// Reading or writing failed.
    #[error("store {path}: {reason}")]
    Io {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
}

impl NetError {
    pub(crate) fn config(field: impl Into<String>, rule: impl Into<String>) -> Self {
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

impl From<CryptoError> for NetError {
    fn from(error: CryptoError) -> Self {
        match error {
            CryptoError::Pem { what, why } => Self::Credential { what, reason: why },
            other => Self::System(other.to_string()),
        }
    }
}

/// An error with its causes, outermost first.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
