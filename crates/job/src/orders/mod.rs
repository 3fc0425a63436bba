//! Orders of an operator to a running job: what may be ordered, what becomes of it, and what is recorded.
//!
//! A coordinator's machine takes an [`Order`] as an input between two others, never amid one. It records the order, does
//! what it says, and answers with an [`Outcome`] or an [`OrderError`].

mod command;
mod reading;
mod terms;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use command::{Change, Command};
pub use terms::{Changed, Terms};

use crate::report::JobState;

/// The most characters of an operator's reason.
pub const MAX_REASON: usize = 500;

/// The number of an order, by which the program that drives the job finds its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderId(pub u64);

/// An order to a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// What to do.
    pub command: Command,
    /// Who orders it: the name in the operator's certificate, or the program that runs the coordinator.
    pub by: String,
    /// Why, in the operator's words; at most [`MAX_REASON`] characters.
    pub reason: String,
}

/// What was done. `round` is the round that is under way and ends first; `None` if there is none.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// No round begins any more, and the job stops here.
    Draining {
        /// The round that ends first.
        round: Option<u64>,
        /// Seconds after which the job stops even if the round has not ended.
        within: f64,
    },
    /// No round begins before the job is resumed.
    Paused {
        /// The round that ends first.
        round: Option<u64>,
    },
    /// Rounds begin again.
    Resumed,
    /// The job has other terms.
    Extended(Changed),
    /// The job is done.
    Ended {
        /// The round that ends first.
        round: Option<u64>,
    },
    /// The party takes no part.
    Banned {
        /// The party.
        party: String,
        /// For how many seconds; `None` until the ban is lifted.
        seconds: Option<f64>,
        /// Whether a party of that name is known here.
        is_known: bool,
        /// The round under way that cannot give a sum any more.
        ends: Option<LostRound>,
    },
    /// The party may take part again.
    Unbanned {
        /// The party.
        party: String,
    },
}

/// A round that a ban leaves with too few parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRound {
    /// The round.
    pub round: u64,
    /// The parties that are left.
    pub left: usize,
    /// The parties that it needs at least.
    pub needed: usize,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = |round: &Option<u64>| match round {
            Some(round) => format!("after round {round}, which is under way"),
            None => "now: no round is under way".into(),
        };
        match self {
            Self::Draining { round, within } => match round {
                Some(_) => write!(f, "stops {}, in {within} s at the latest", first(round)),
                None => write!(f, "stops {}", first(round)),
            },
            Self::Paused { round } => write!(f, "paused {}", first(round)),
            Self::Resumed => f.write_str("rounds begin again"),
            Self::Extended(changed) => write!(f, "{changed}"),
            Self::Ended { round } => write!(f, "done {}", first(round)),
            Self::Banned {
                party,
                seconds,
                is_known,
                ends,
            } => {
                match seconds {
                    Some(seconds) => write!(f, "{party} takes no part for {seconds} s")?,
                    None => write!(f, "{party} takes no part until the ban is lifted")?,
                }
                if !is_known {
                    f.write_str("; no party of that name is known; the ban waits for it")?;
                }
                match ends {
                    Some(LostRound {
                        round,
                        left,
                        needed,
                    }) => write!(
                        f,
                        "; round {round} has {left} of at least {needed} parties left and is lost"
                    ),
                    None => Ok(()),
                }
            }
            Self::Unbanned { party } => write!(f, "{party} may take part again"),
        }
    }
}

/// Why an order was refused. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// There is no such job.
    #[error("order to job {job:?}: there is no such job here; `blindsum admin jobs` lists them")]
    UnknownJob {
        /// The name that was given.
        job: String,
    },
    /// The job, or its coordinator, has stopped or stops.
    #[error(
        "order to job {job}: it has stopped here; start its coordinator again, and give the order then"
    )]
    Stopping {
        /// The job.
        job: String,
    },
    /// The job is in a state in which this cannot be done.
    #[error("{command} job {job}: the job is {}; {advice}", state.as_str())]
    State {
        /// The command.
        command: &'static str,
        /// The job.
        job: String,
        /// Its state.
        state: JobState,
        /// What to do.
        advice: &'static str,
    },
    /// The order would change nothing.
    #[error("{command} job {job}: {what}")]
    Unchanged {
        /// The command.
        command: &'static str,
        /// The job.
        job: String,
        /// What is so already, and what to do.
        what: String,
    },
    /// A value of the order is not allowed.
    #[error("{command}: {field}: {rule}")]
    Value {
        /// The command.
        command: &'static str,
        /// The field.
        field: &'static str,
        /// The rule, with the value.
        rule: String,
    },
    /// The order could not be recorded.
    #[error(
        "{reason}: the order could not be recorded, and it was not carried out: see to the coordinator's store"
    )]
    NotRecorded {
        /// Why it could not be recorded.
        reason: String,
    },
}

impl OrderError {
    /// A name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownJob { .. } => "unknown-job",
            Self::Stopping { .. } => "stopping",
            Self::State { .. } => "state",
            Self::Unchanged { .. } => "unchanged",
            Self::Value { .. } => "value",
            Self::NotRecorded { .. } => "not-recorded",
        }
    }
}

/// Checks the reason of an order, which is recorded with it.
///
/// # Errors
/// [`OrderError::Value`]: it is missing or too long.
pub fn check_reason(command: &'static str, reason: &str) -> Result<(), OrderError> {
    let rule = match reason.chars().count() {
        _ if reason.trim().is_empty() => {
            "is missing: say why, it is recorded with the order".to_owned()
        }
        length if length > MAX_REASON => {
            format!("has {length} characters, at most {MAX_REASON} are recorded: say it shorter")
        }
        _ if reason.chars().any(crate::acts) => {
            "has a line break or another character that moves a terminal: leave it out".to_owned()
        }
        _ => return Ok(()),
    };
    let field = "reason";
    Err(OrderError::Value {
        command,
        field,
        rule,
    })
}

/// An order as it is recorded, whether it was carried out or refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderRecord {
    /// When it came, in milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// Who gave it.
    pub by: String,
    /// What was ordered.
    pub command: Command,
    /// Why, in the operator's words.
    pub reason: String,
    /// What was done, or why nothing was; for people.
    pub outcome: String,
    /// Whether it was refused.
    pub refused: bool,
}

impl Order {
    /// Checks what does not depend on the job.
    ///
    /// # Errors
    /// [`OrderError::Value`]: a reason that is missing or too long, or a value of the command.
    pub fn check(&self) -> Result<(), OrderError> {
        check_reason(self.command.name(), &self.reason)?;
        self.command.check()
    }

    /// The record of this order, which came at this time.
    pub fn record(&self, at_ms: u64, outcome: &Result<Outcome, OrderError>) -> OrderRecord {
        OrderRecord {
            at_ms,
            by: crate::foreign(&self.by),
            command: self.command.clone(),
            reason: crate::plain_text(&self.reason, MAX_REASON),
            outcome: match outcome {
                Ok(outcome) => outcome.to_string(),
                Err(error) => error.to_string(),
            },
            refused: outcome.is_err(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_53_what_is_recorded_of_a_reason_is_short_and_moves_no_terminal() {
        let order = Order {
            command: Command::Pause {},
            by: "olga\u{1b}[2J".into(),
            reason: format!("first\n\u{1b}[2J\u{202e}{}", "x".repeat(1 << 20)),
        };
        let short = Order {
            reason: "first\u{7}\nsecond".into(),
            ..order.clone()
        };
        let error = short.check().unwrap_err().to_string();
        assert!(
            error.starts_with("pause: reason: has a line break"),
            "{error}"
        );
        let refused = order.check().map(|()| Outcome::Paused { round: None });
        let record = order.record(0, &refused);
        assert!(record.refused);
        for text in [&record.by, &record.reason, &record.outcome] {
            assert!(!text.chars().any(crate::acts), "{text}");
            assert!(text.len() < 2 * MAX_REASON, "{}", text.len());
        }
        assert!(record.reason.starts_with("first\\u{a}\\u{1b}[2J"));
    }
}
