//! What an operator may order, and which values that takes.

use blindsum_crypto::certificate::check_name;
use serde::{Deserialize, Serialize};

use super::{OrderError, Terms};

/// The most seconds that a command may name: as in a job's specification.
const MAX_SECONDS: f64 = blindsum_protocol::MAX_SECONDS;

/// What a job is ordered to do. In JSON it is an object with the field `command`, as in
/// `{"command": "extend", "rounds": 80}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum Command {
    /// Finish the round under way, offer none, then stop. The job goes on when a coordinator is started again.
    Drain {
        /// Seconds after which to stop even if the round has not ended; `None` for the job's input deadline.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<f64>,
    },
    /// Finish the round under way and offer none before [`Resume`](Self::Resume).
    Pause {},
    /// Go on with a job that was paused, or that has failed.
    Resume {},
    /// Change the job's terms. What is not named stays as it is.
    Extend(Change),
    /// Finish the round under way. The job is done then, whatever rounds were left.
    End {},
    /// Leave a party out: its connection ends, and it is not let in.
    Ban {
        /// The party's name.
        party: String,
        /// For how many seconds; `None` until [`Unban`](Self::Unban).
        #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
    },
    /// Let a party in again.
    Unban {
        /// The party's name.
        party: String,
    },
}

/// A change of a job's [`Terms`]: what is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// Number of rounds in all; 0 goes on until the job is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Seconds that a round waits for parties to join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_deadline: Option<f64>,
    /// Seconds that a stage waits for answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage_deadline: Option<f64>,
    /// Seconds that the input stage waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_deadline: Option<f64>,
}

impl Command {
    /// Its name, as operators say it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Drain { .. } => "drain",
            Self::Pause {} => "pause",
            Self::Resume {} => "resume",
            Self::Extend(_) => "extend",
            Self::End {} => "end",
            Self::Ban { .. } => "ban",
            Self::Unban { .. } => "unban",
        }
    }

    /// The party that is banned.
    pub(crate) fn bans(&self) -> Option<&str> {
        match self {
            Self::Ban { party, .. } => Some(party),
            _ => None,
        }
    }

    /// Checks its values.
    pub(super) fn check(&self) -> Result<(), OrderError> {
        match self {
            Self::Drain { within } => self.check_seconds("within", *within),
            Self::Ban { seconds, party } => {
                // A ban of a name that no certificate can have would wait for ever.
                if let Err(error) = check_name(party) {
                    return self.refused("party", error.to_string());
                }
                self.check_seconds("for", *seconds)
            }
            Self::Unban { party } => self.check_party(party),
            Self::Extend(change) => {
                if *change == Change::default() {
                    let rule = "name at least one of rounds, join_deadline, stage_deadline, input_deadline";
                    return self.refused("values", rule.into());
                }
                self.check_seconds("join_deadline", change.join_deadline)?;
                self.check_seconds("stage_deadline", change.stage_deadline)?;
                self.check_seconds("input_deadline", change.input_deadline)
            }
            Self::Pause {} | Self::Resume {} | Self::End {} => Ok(()),
        }
    }

    fn check_seconds(&self, field: &'static str, value: Option<f64>) -> Result<(), OrderError> {
        match value {
            Some(value) if !(value > 0.0 && value <= MAX_SECONDS) => self.refused(
                field,
                format!(
                    "is {value} s and must be above 0 and at most {MAX_SECONDS} s: {} it",
                    match value > MAX_SECONDS {
                        true => "lower",
                        false => "raise",
                    }
                ),
            ),
            _ => Ok(()),
        }
    }

    fn check_party(&self, party: &str) -> Result<(), OrderError> {
        match party.is_empty() || party.chars().any(crate::acts) {
            true => {
                let rule = format!("{party:?} must be the name in a party's certificate");
                self.refused("party", rule)
            }
            false => Ok(()),
        }
    }

    fn refused(&self, field: &'static str, rule: String) -> Result<(), OrderError> {
        let command = self.name();
        Err(OrderError::Value {
            command,
            field,
            rule,
        })
    }
}

impl Change {
    /// The terms after this change.
    pub fn of(&self, terms: Terms) -> Terms {
        Terms {
            rounds: self.rounds.unwrap_or(terms.rounds),
            join_deadline: self.join_deadline.unwrap_or(terms.join_deadline),
            stage_deadline: self.stage_deadline.unwrap_or(terms.stage_deadline),
            input_deadline: self.input_deadline.unwrap_or(terms.input_deadline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_the_same_from_their_json() {
        let commands = [
            (Command::Drain { within: None }, r#"{"command":"drain"}"#),
            (Command::Pause {}, r#"{"command":"pause"}"#),
            (
                Command::Extend(Change {
                    rounds: Some(80),
                    ..Change::default()
                }),
                r#"{"command":"extend","rounds":80}"#,
            ),
            (
                Command::Ban {
                    party: "a".into(),
                    seconds: Some(1.5),
                },
                r#"{"command":"ban","party":"a","for":1.5}"#,
            ),
        ];
        for (command, json) in commands {
            assert_eq!(serde_json::to_string(&command).unwrap(), json);
            assert_eq!(serde_json::from_str::<Command>(json).unwrap(), command);
        }
        for wrong in [
            r#"{"command":"stop"}"#,
            r#"{"command":"extend","parties":4}"#,
            r#"{"command":"pause","for":3}"#,
        ] {
            assert!(serde_json::from_str::<Command>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_are_refused_with_the_rule_that_they_break() {
        let refused = |command: Command| command.check().unwrap_err().to_string();
        let drain = |within| {
            refused(Command::Drain {
                within: Some(within),
            })
        };
        assert_eq!(
            drain(0.0),
            "drain: within: is 0 s and must be above 0 and at most 1000000 s: raise it"
        );
        assert!(drain(f64::NAN).contains("NaN"));
        let extend = refused(Command::Extend(Change::default()));
        assert!(extend.contains("at least one of rounds"), "{extend}");
        let ban = refused(Command::Ban {
            party: "a".into(),
            seconds: Some(-1.0),
        });
        assert!(
            ban.starts_with("ban: for: is -1 s and must be above 0"),
            "{ban}"
        );
        for party in ["bad name", &"a".repeat(5000), "", "-a", "A"] {
            let (party, seconds) = (party.to_owned(), None);
            let ban = refused(Command::Ban { party, seconds });
            assert!(ban.starts_with("ban: party: name \""), "{ban}");
            assert!(ban.contains("1 to 64 characters, labels of [a-z0-9-] joined by dots"));
            assert!(ban.len() < 400, "{ban}");
        }
        let unban = refused(Command::Unban {
            party: String::new(),
        });
        assert!(unban.contains("certificate"), "{unban}");
        let ban = refused(Command::Ban {
            party: "a\u{1b}[2J".into(),
            seconds: None,
        });
        assert!(!ban.contains('\u{1b}'), "{ban}");
    }
}
