//! The errors of a job.

mod policy;

use std::path::PathBuf;

use blindsum_crypto::CryptoError;
use blindsum_protocol::{Fault, SpecError};

use crate::difference::{Difference, advice};
use crate::pb::RefusalCode;

pub use policy::PolicyError;

/// Why a party has no result, or a job has no next round.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The job specification breaks a rule.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The job, or a round, breaks this party's policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The coordinator refuses this party.
    #[error("refused by the coordinator: {reason}")]
    Refused {
        /// What kind of refusal it is.
        code: RefusalCode,
        /// The coordinator's words.
        reason: String,
    },
    /// The coordinator sent something that it must not send.
    #[error("the coordinator sent something wrong: {0}")]
    Coordinator(String),
    /// By the clock of this machine the certificate of somebody in a round is not in its time. One of the clocks may be
    /// wrong: nobody is said to have done wrong.
    #[error("round {round}: {reason}")]
    OutOfTime {
        /// The number of the round.
        round: u64,
        /// Whose certificate it is, both dates, and what to do.
        reason: String,
    },
    /// The protocol's machine ended the party's round.
    #[error("round {round}: {fault}")]
    Fault {
        /// The number of the round.
        round: u64,
        /// What was wrong.
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
    /// A round goes on, or has ended, without this party.
    #[error("round {round} goes on without this party: {reason}")]
    Dropped {
        /// The round.
        round: u64,
        /// Why.
        reason: String,
    },
    /// The round that the coordinator offers is of another step of its host than the caller waits for.
    #[error(
        "round {round} has {}, and this party waits for tag {wanted}: {}",
        offered.map_or("no tag".into(), |tag| format!("the tag {tag}")),
        match offered {
            None => "its host gives the rounds no tags, or no host begins them, so wait without a tag",
            Some(tag) if tag < wanted => "its round is still to come",
            Some(_) => "its round is over, so drop what was made for it and wait for a later tag",
        }
    )]
    OtherTag {
        /// The round.
        round: u64,
        /// The tag that the caller waits for.
        wanted: u64,
        /// The tag of the round; `None` if it has none.
        offered: Option<u64>,
    },
    /// The round of the tag that the caller waits for is about something else than the caller was told by the host.
    #[error(
        "round {round} of the tag {tag} is about something else than this party was given for it: parties of one round must \
         be given the same; give no update, and ask who runs the host of the job"
    )]
    AboutOther {
        /// The round.
        round: u64,
        /// The tag.
        tag: u64,
    },
    /// A round counts this party's update, but this party did not get its result.
    #[error(
        "round {round} counts this party's update, but this party did not get its result: {reason}"
    )]
    Missed {
        /// The round.
        round: u64,
        /// Why.
        reason: String,
    },
    /// This party's update is out, and whether it counts in the round is not known here.
    #[error(
        "round {round}: this party's update is out, and whether it counts is not known here: {reason}; the \
         coordinator's store knows, and a party that was stopped is told when it is started again with its state folder"
    )]
    Unknown {
        /// The round.
        round: u64,
        /// Why it is not known.
        reason: String,
        /// The rule of this party's policy by which it left the round, if it did.
        policy: Option<Box<PolicyError>>,
    },
    /// The caller gave an update to a round that takes none. It was dropped.
    #[error("round {round}: {why}")]
    Submission {
        /// The round.
        round: u64,
        /// Why the round takes no update.
        why: NoUpdateTaken,
    },
    /// An update or a weight was refused. The caller may give another one.
    #[error("update: {0}")]
    Input(String),
    /// The first model that this party was given to give cannot be that of the job.
    #[error("initial: {0}")]
    Initial(String),
    /// The sum leads to a model that cannot be: one that is not finite.
    #[error("{0}")]
    Model(String),
    /// The coordinator announces another model than this party computes.
    #[error(
        "round {round}: the coordinator's model has hash {theirs}, this party computes {ours}; \
         the coordinator must not be trusted with this job"
    )]
    ModelMismatch {
        /// The round.
        round: u64,
        /// The hash of the coordinator's model, in hexadecimal digits.
        theirs: String,
        /// The hash of this party's model.
        ours: String,
    },
    /// The coordinator announces another result than this party was told.
    #[error(
        "round {round}: the coordinator announces the result {theirs}, this party was told {ours}; \
         the coordinator must not be trusted with this job"
    )]
    ResultMismatch {
        /// The round.
        round: u64,
        /// The coordinator's name of the result, in hexadecimal digits.
        theirs: String,
        /// This party's name of it.
        ours: String,
    },
    /// The party's records cannot be read or written.
    #[error("state folder {path}: {reason}")]
    State {
        /// Where it is kept.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The job failed.
    #[error("job {job}: {reason}")]
    JobFailed {
        /// The job.
        job: String,
        /// Why.
        reason: String,
    },
    /// The coordinator's store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// This computer fails: it gives no randomness, or a task did not end.
    #[error("{0}")]
    System(String),
}

/// Why a round takes no update from its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoUpdateTaken {
    /// The caller has submitted one before.
    #[error(
        "an update was submitted already, and this one was dropped: a round takes one update of a party"
    )]
    Submitted,
    /// The round has ended for this party, with a result or without one.
    #[error(
        "the round is over for this party, and this update was dropped: submit to the next round"
    )]
    Over,
    /// The caller has said that it gives no update.
    #[error("this party sits the round out, and this update was dropped: submit to the next round")]
    SitsOut,
    /// The caller was not given the round.
    #[error(
        "the round has not begun for this party, and this update was dropped: wait for the round"
    )]
    NotBegun,
}

impl NoUpdateTaken {
    /// A name for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Over => "over",
            Self::SitsOut => "sits out",
            Self::NotBegun => "not begun",
        }
    }
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
        /// What the file is.
        reason: String,
    },
    /// The store has the job with another specification.
    #[error(
        "job {job}: the store holds it with another specification (hash {stored}, now {given}): {}",
        advice(differences)
    )]
    OtherSpec {
        /// The job.
        job: String,
        /// Hash in the store, in hexadecimal digits.
        stored: String,
        /// Hash of the specification that was given.
        given: String,
        /// The fields in which they differ; empty if that is not known.
        differences: Vec<Difference>,
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

impl From<CryptoError> for JobError {
    fn from(error: CryptoError) -> Self {
        Self::System(error.to_string())
    }
}

impl JobError {
    /// The error as others may hear it, who must not learn the paths of this machine.
    pub fn for_others(&self) -> String {
        match self {
            // guard: others-do-not-learn-what-was-spent
            Self::State { .. } => "its state folder cannot be used".into(),
            Self::Store(StoreError::Io { reason, .. }) => format!("store: {reason}"),
            Self::Store(_) => "its store cannot be used".into(),
            // guard: others-do-not-learn-the-budget
            Self::Policy(PolicyError::Budget { .. }) => {
                "this party's privacy budget does not allow another round".into()
            }
            other => other.to_string(),
        }
    }

    /// This party's update of a round is out, and whether it counts is not known here, for this reason.
    pub fn unknown(round: u64, reason: impl Into<String>) -> Self {
        let (reason, policy) = (reason.into(), None);
        Self::Unknown {
            round,
            reason,
            policy,
        }
    }
}

/// The coordinator did what none may do.
pub(crate) fn wrong(reason: impl Into<String>) -> JobError {
    JobError::Coordinator(reason.into())
}
