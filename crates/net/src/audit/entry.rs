//! What the audit trail records.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::report::{JobState, RoundReport, RoundState};
use crate::totals::LossCause;

/// One entry of the trail. It has names, addresses, reasons and hashes, and no value of an update.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Entry {
    /// A coordinator uses the trail from now on.
    Started {
        /// The version of the program.
        version: &'static str,
        /// The address at which it listens.
        address: String,
    },
    /// The coordinator ends.
    Stopped,
    /// The end of the file was half a line, which was cut off: the program or the machine stopped while it wrote.
    Repaired {
        /// Bytes that were cut off.
        bytes: u64,
    },
    /// A job is served from now on.
    JobOpened {
        job: String,
        /// The hash of its specification.
        specification: String,
        state: JobState,
        rounds_done: u64,
        next_round: u64,
        model_version: u64,
        model_hash: String,
    },
    /// Where a job stands has changed.
    JobState {
        job: String,
        state: JobState,
        #[serde(skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// A party or a server was let in.
    Joined {
        #[serde(flatten)]
        who: Guest,
        job: String,
        /// The SHA-256 of its certificate.
        certificate: String,
        #[serde(flatten)]
        times: Times,
    },
    /// Its connection has ended.
    Left {
        #[serde(flatten)]
        who: Guest,
        job: String,
        reason: String,
        #[serde(flatten)]
        times: Times,
    },
    /// It was not let in.
    Refused {
        #[serde(flatten)]
        who: Guest,
        reason: String,
        #[serde(flatten)]
        times: Times,
    },
    /// The TLS handshake of a certificate that the CA has signed was refused.
    HandshakeRefused {
        #[serde(flatten)]
        who: Guest,
        reason: String,
        #[serde(flatten)]
        times: Times,
    },
    /// The number of a round was taken; it was offered.
    RoundOffered {
        job: String,
        round: u64,
        model_version: u64,
    },
    /// The parties of a round are fixed; they train now.
    RoundBegan {
        job: String,
        round: u64,
        /// In order of rank.
        roster: Vec<String>,
    },
    /// A round has ended.
    RoundEnded {
        job: String,
        #[serde(flatten)]
        end: RoundEnd,
    },
    /// A member of a round did something wrong.
    Fault {
        job: String,
        round: u64,
        culprit: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        accuser: Option<String>,
        what: String,
    },
    /// An operator's order was carried out, or refused.
    Order(OrderEntry),
    /// Something else that the job records, as parties that have other results.
    Event {
        job: String,
        round: u64,
        kind: String,
        detail: String,
    },
}

/// Somebody at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Guest {
    /// The name in its certificate.
    pub name: String,
    /// The address from which it comes.
    pub address: String,
}

impl Guest {
    /// Somebody of this name, who comes from there.
    pub fn new(name: &str, address: impl ToString) -> Self {
        Self {
            name: name.to_owned(),
            address: address.to_string(),
        }
    }
}

/// How many entries of this kind and name an entry stands for, where they came too often for one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Times {
    #[serde(skip_serializing_if = "is_one")]
    pub times: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { times: 1 }
    }
}

fn is_one(times: &u64) -> bool {
    *times == 1
}

/// An order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct OrderEntry {
    /// The job; empty where the order goes to the coordinator as a whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job: String,
    /// The operator's name.
    pub by: String,
    pub order: &'static str,
    /// The values of the order, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<serde_json::Value>,
    /// The operator's words.
    pub reason: String,
    /// The outcome of the order, or the reason of its refusal.
    pub outcome: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

/// How a round ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RoundEnd {
    pub round: u64,
    pub state: RoundState,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub key_setup: bool,
    /// The roster, in order of rank.
    pub roster: Vec<String>,
    pub survivors: Vec<String>,
    /// The stage in which each lost party dropped out, and why.
    pub lost: BTreeMap<String, String>,
    /// The kind of each of these reasons.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: BTreeMap<String, LossCause>,
    /// The name of the result, by which parties compare it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub result: String,
    pub seconds: f64,
    /// Whether the entry was written at a later start, from the store: the coordinator ended between the two.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

impl RoundEnd {
    /// The end of a round as the store has it.
    pub fn of(report: &RoundReport) -> Self {
        let lost = |stage: &crate::report::StageReport| {
            let name = stage.name.clone();
            let said =
                move |(party, why): (&String, &String)| (party.clone(), format!("{name}: {why}"));
            stage.dropped.iter().map(said).collect::<Vec<_>>()
        };
        Self {
            round: report.number,
            state: report.state,
            reason: report.reason.clone(),
            key_setup: report.key_setup,
            roster: report.parties.clone(),
            survivors: report.survivors.clone(),
            lost: report.stages.iter().flat_map(lost).collect(),
            causes: report.causes(),
            result: report.result.clone(),
            seconds: report.seconds,
            late: false,
        }
    }
}

impl Entry {
    /// The event and name by which frequent entries are counted; `None` for events that happen once.
    pub fn counted_by(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Joined { who, .. } => Some(("joined", who.name.clone())),
            Self::Left { who, .. } => Some(("left", who.name.clone())),
            Self::Refused { who, .. } => Some(("refused", who.name.clone())),
            Self::HandshakeRefused { who, .. } => Some(("handshake-refused", who.name.clone())),
            _ => None,
        }
    }

    /// The same, standing for so many.
    pub fn standing_for(mut self, count: u64) -> Self {
        if let Self::Joined { times, .. }
        | Self::Left { times, .. }
        | Self::Refused { times, .. }
        | Self::HandshakeRefused { times, .. } = &mut self
        {
            times.times = count;
        }
        self
    }

    /// Whether the entry must be on the disk before anything goes on.
    pub fn is_kept_at_once(&self) -> bool {
        matches!(
            self,
            Self::RoundEnded { .. }
                | Self::Order(_)
                | Self::JobState { .. }
                | Self::Fault { .. }
                | Self::Event { .. }
                | Self::Stopped
        )
    }
}
