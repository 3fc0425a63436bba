//! The errors of a simulation that are not faults of a round.

use blindsum_crypto::CryptoError;
use blindsum_crypto::roster::RosterError;
use blindsum_encode::EncodeError;
use blindsum_protocol::{Fault, FaultKind, PartyId, Seat, SpecError};

/// Why a simulation cannot be run, or which law the machines broke that they must keep.
///
/// A round that ends without a sum is no error: see [`crate::RoundReport::outcome`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A field of the scenario that breaks a rule.
    #[error("scenario: {field}: {rule}")]
    Scenario {
        /// The field.
        field: &'static str,
        /// The rule, with the values that break it.
        rule: String,
    },
    /// The job specification breaks a rule.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The vectors do not fit the job.
    #[error("inputs: {field} of {party}: {rule}")]
    Inputs {
        /// The party whose vector it is.
        party: PartyId,
        /// The field.
        field: &'static str,
        /// The rule, with the values that break it.
        rule: String,
    },
    /// Keys or certificates of the cohort could not be made.
    #[error("cohort: {0}")]
    Crypto(#[from] CryptoError),
    /// The certificates of the cohort were refused.
    #[error("cohort: {0}")]
    Roster(#[from] RosterError),
    /// What a party keeps between rounds is damaged.
    #[error("vault of a party: {0}")]
    Vault(FaultKind),
    /// The round cannot start: its parameters do not fit this roster.
    #[error("round: {0}")]
    Round(Fault),
    /// A client that was sealed and opened again is not the one that was sealed.
    #[error("{party}: restart in stage {stage}: {rule}")]
    Restart {
        /// The client.
        party: PartyId,
        /// The stage it had answered.
        stage: u8,
        /// What differs.
        rule: String,
    },
    /// A machine sends something that its plan does not allow.
    #[error("{who} says {} in stage {stage}, where the plan allows {allowed} bytes at most", length(*bytes))]
    Plan {
        /// The machine.
        who: String,
        /// The stage.
        stage: u8,
        /// Bytes of the message; `None` if the machine sends nothing although it must.
        bytes: Option<u64>,
        /// Bytes of the largest message that the plan allows; 0 if it allows none.
        allowed: u64,
    },
    /// The server passes on bytes of answers that it did not take.
    #[error("{to}: the message of stage {stage} passes on bytes of answers that were not taken")]
    Relay {
        /// The receiver of the message.
        to: Seat,
        /// The stage that the message ends.
        stage: u8,
    },
    /// Answers that a stage passes on could not be written to a temporary file, or read from it.
    #[error("answers to pass on, in a temporary file: {0}")]
    Spool(std::io::Error),
    /// The worker threads could not be started.
    #[error("threads: {0}")]
    Threads(String),
    /// The progress callback asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl SimError {
    pub(crate) fn scenario(field: &'static str, rule: impl Into<String>) -> Self {
        SimError::Scenario {
            field,
            rule: rule.into(),
        }
    }

    /// An encoding refuses the values of a party.
    pub(crate) fn values(party: PartyId, error: &EncodeError) -> Self {
        SimError::Inputs {
            party,
            field: "values",
            rule: error.to_string(),
        }
    }
}

fn length(bytes: Option<u64>) -> String {
    bytes.map_or("nothing".into(), |bytes| format!("{bytes} bytes"))
}
