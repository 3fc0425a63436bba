//! What a party writes to disk when it is suspended: all that is in its memory and in no other record.
//!
//! It is one sealed record, in the encoding of the wire's messages.

use std::time::Duration;

use blindsum_crypto::Zeroizing;
use blindsum_encode::{Judged, Update};
use blindsum_protocol::Job;
use prost::{DecodeError, Message as _};

use super::context::{Context, Conversation, Introduction};
use super::left::Untold;
use super::metrics::Metrics;
use super::participation::Participation;
use super::records::Live;
use super::replay_log::ReplayStep;
use super::result::{Clipped, Timings};
use super::steps::check_update;
use crate::connection::{Receiving, Standing};
use crate::machine::{Hand, Time};
use crate::pb;

/// The form of this version.
pub(super) const VERSION: u32 = 3;

/// The form of a suspended party; what else there is depends on it.
#[derive(Clone, PartialEq, prost::Message)]
struct Form {
    #[prost(uint32, tag = "1")]
    version: u32,
}

/// A suspended party.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Suspended {
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// Which of the party's suspended states it is: each has a higher one than those before.
    #[prost(uint64, tag = "2")]
    pub mark: u64,
    #[prost(string, tag = "3")]
    pub job: String,
    #[prost(message, required, tag = "4")]
    pub introduction: Introduction,
    /// How the connection stands, and what came over it.
    #[prost(enumeration = "Standing", tag = "5")]
    pub standing: i32,
    #[prost(message, required, tag = "6")]
    pub conversation: Conversation,
    /// In DER.
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub certificates: Vec<Vec<u8>>,
    #[prost(message, optional, tag = "8")]
    pub receiving: Option<Receiving>,
    /// The first Welcome, which told the job.
    #[prost(message, optional, tag = "9")]
    pub welcome: Option<pb::Welcome>,
    /// What the caller waits for: whether for a round, its tag, and what it is about; empty where it does not say.
    #[prost(bool, tag = "10")]
    pub wanted: bool,
    #[prost(uint64, optional, tag = "11")]
    pub wanted_tag: Option<u64>,
    #[prost(bytes = "vec", tag = "12")]
    pub wanted_about: Vec<u8>,
    #[prost(message, optional, tag = "13")]
    pub pledge: Option<KeptPledge>,
    #[prost(uint64, tag = "14")]
    pub last_round: u64,
    #[prost(message, optional, tag = "15")]
    pub live: Option<Live>,
    /// The latest round in which its vector went out, which no record may have counted.
    #[prost(uint64, optional, tag = "16")]
    pub sent: Option<u64>,
    #[prost(uint64, optional, tag = "17")]
    pub unopened: Option<u64>,
    #[prost(message, optional, tag = "18")]
    pub done: Option<pb::ModelName>,
    /// Until when the last model is asked for, in milliseconds since 1970 UTC.
    #[prost(uint64, optional, tag = "19")]
    pub farewell: Option<u64>,
    #[prost(message, optional, tag = "20")]
    pub missed: Option<Untold>,
    #[prost(uint64, optional, tag = "21")]
    pub told: Option<u64>,
    #[prost(bool, tag = "22")]
    pub clipping_told: bool,
    /// Why operators let no round begin, as the coordinator said last.
    #[prost(string, tag = "23")]
    pub held: String,
    /// The model, where it is in no record of its own.
    #[prost(message, optional, tag = "24")]
    pub model: Option<KeptModel>,
    #[prost(message, optional, tag = "25")]
    pub round: Option<RoundUnderWay>,
    /// The end of that round, where the caller was told its result and has not taken it.
    #[prost(message, optional, tag = "26")]
    pub untaken: Option<pb::RoundDone>,
}

/// What a party is ready with.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct KeptPledge {
    #[prost(message, required, tag = "1")]
    pub ready: pb::Ready,
    #[prost(bytes = "vec", tag = "2")]
    pub nonce: Vec<u8>,
    /// The roster for which the nonce was opened, if it was.
    #[prost(message, optional, tag = "3")]
    pub opened: Option<pb::RosterFixed>,
}

/// A model that is in no record of its own.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeptModel {
    #[prost(message, optional, tag = "1")]
    pub name: Option<pb::ModelName>,
    #[prost(bytes = "vec", tag = "2")]
    pub bytes: Vec<u8>,
}

/// A round under way.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct RoundUnderWay {
    /// What began it, with the certificates of all members.
    #[prost(message, optional, tag = "1")]
    pub start: Option<pb::RoundStart>,
    #[prost(bool, tag = "2")]
    pub from_snapshot: bool,
    #[prost(message, repeated, tag = "3")]
    steps: Vec<KeptStep>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub held: Option<Vec<u8>>,
    #[prost(message, optional, tag = "6")]
    pub update: Option<KeptUpdate>,
    #[prost(message, optional, tag = "7")]
    pub clipped: Option<Clipped>,
    #[prost(message, required, tag = "8")]
    pub timings: Timings,
    /// In milliseconds since 1970-01-01 UTC: the other clock may be another one in the next process.
    #[prost(uint64, tag = "11")]
    pub deadline: u64,
    /// Whether the caller does not want the result.
    #[prost(bool, tag = "12")]
    pub unwanted: bool,
    /// Whether the party's update may count already; none in records of earlier versions, which did not say.
    #[prost(bool, optional, tag = "13")]
    pub out: Option<bool>,
    /// What the caller is warned of.
    #[prost(string, repeated, tag = "14")]
    pub warnings: Vec<String>,
}

/// What one step of the machine was given.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct KeptStep {
    #[prost(bytes = "vec", tag = "1")]
    seed: Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "2")]
    message: Option<Vec<u8>>,
}

/// An update that the machine has not got yet; one of the four has its values.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct KeptUpdate {
    #[prost(oneof = "Numbers", tags = "1, 2, 3, 4")]
    numbers: Option<Numbers>,
    #[prost(uint32, tag = "5")]
    weight: u32,
    /// Of each metric its level and 1, or 0 if it is missing.
    #[prost(uint32, repeated, tag = "6")]
    metrics: Vec<u32>,
}

/// The values of an update, little-endian.
#[derive(Clone, PartialEq, prost::Oneof)]
#[prost(skip_debug)]
enum Numbers {
    #[prost(bytes, tag = "1")]
    F32(Vec<u8>),
    #[prost(bytes, tag = "2")]
    F64(Vec<u8>),
    #[prost(bytes, tag = "3")]
    U32(Vec<u8>),
    #[prost(bytes, tag = "4")]
    U64(Vec<u8>),
}

impl Suspended {
    /// All of it as bytes.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.encode_to_vec())
    }

    /// Reads it again.
    ///
    /// # Errors
    /// Bytes that this version does not write.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let unreadable = |error: DecodeError| error.to_string();
        match Form::decode(bytes).map_err(unreadable)?.version {
            VERSION => Self::decode(bytes).map_err(unreadable),
            other => Err(format!("form {other}, this program reads {VERSION}")),
        }
    }
}

/// A time as the wall clock has it, in milliseconds since 1970 UTC: each process has a clock of its own.
pub(super) fn unix_millis_at<I, E>(time: Time, hand: &Hand<I, E>) -> u64 {
    let left = u64::try_from((time - hand.now()).as_millis()).unwrap_or(u64::MAX);
    hand.unix_millis().saturating_add(left)
}

/// The time of this process at which the wall clock has this.
pub(super) fn time_at<I, E>(unix_millis: u64, hand: &Hand<I, E>) -> Time {
    hand.now() + Duration::from_millis(unix_millis.saturating_sub(hand.unix_millis()))
}

impl RoundUnderWay {
    /// The round that a party is in, where its update may count already or not; none where its machine could not be brought
    /// back to where it is.
    pub fn of(active: &Participation, may_count: bool, ctx: &Context) -> Option<Self> {
        let log = active.log.as_ref()?;
        let step = |step: &ReplayStep| KeptStep {
            seed: step.seed.to_vec(),
            message: step.message.as_ref().map(|message| message.to_vec()),
        };
        let mut start = log.start.clone();
        let members = active.round.roster().members().iter();
        start.certificates = members
            .map(|member| member.certificate.clone().into())
            .collect();
        Some(Self {
            start: Some(start),
            from_snapshot: log.from_snapshot,
            steps: log.steps.iter().map(step).collect(),
            held: None,
            update: None,
            clipped: active.clipped,
            timings: active.timings,
            deadline: unix_millis_at(active.deadline, &ctx.hand),
            unwanted: active.unwanted,
            out: Some(may_count),
            warnings: active.warnings.clone(),
        })
    }

    /// What the machine was given; none where a seed is damaged.
    pub fn steps(&mut self) -> Option<Vec<ReplayStep>> {
        let step = |step: KeptStep| {
            let seed = Zeroizing::new(step.seed);
            Some(ReplayStep {
                seed: Zeroizing::new(seed.as_slice().try_into().ok()?),
                message: step.message.map(Into::into),
            })
        };
        std::mem::take(&mut self.steps)
            .into_iter()
            .map(step)
            .collect()
    }
}

impl KeptUpdate {
    pub fn of(judged: &Judged) -> Self {
        let numbers = match judged.update() {
            Update::F32(values) => Numbers::F32(bytes(values, f32::to_le_bytes)),
            Update::F64(values) => Numbers::F64(bytes(values, f64::to_le_bytes)),
            Update::U32(values) => Numbers::U32(bytes(values, u32::to_le_bytes)),
            Update::U64(values) => Numbers::U64(bytes(values, u64::to_le_bytes)),
        };
        let level = |level: &Option<u32>| level.map_or(0, |level| level + 1);
        Self {
            numbers: Some(numbers),
            weight: judged.weight(),
            metrics: judged.metrics().levels().iter().map(level).collect(),
        }
    }

    /// The update with its weight, judged anew; none where it is damaged.
    pub fn judged(self, job: &Job) -> Option<Judged> {
        let update = match self.numbers? {
            Numbers::F32(bytes) => Update::F32(numbers(&bytes, f32::from_le_bytes)?),
            Numbers::F64(bytes) => Update::F64(numbers(&bytes, f64::from_le_bytes)?),
            Numbers::U32(bytes) => Update::U32(numbers(&bytes, u32::from_le_bytes)?),
            Numbers::U64(bytes) => Update::U64(numbers(&bytes, u64::from_le_bytes)?),
        };
        let levels = self.metrics.iter().map(|level| level.checked_sub(1));
        let metrics = job.encoding().metrics_of_levels(levels.collect()).ok()?;
        let judged = check_update(job, update, self.weight, &Metrics::new()).ok()?;
        Some(judged.with_metrics(metrics))
    }
}

fn bytes<T: Copy, const N: usize>(values: &[T], write: fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| write(*value)).collect()
}

fn numbers<T, const N: usize>(bytes: &[u8], read: fn([u8; N]) -> T) -> Option<Vec<T>> {
    let (numbers, rest) = bytes.as_chunks::<N>();
    let numbers = numbers.iter().map(|bytes| read(*bytes)).collect();
    rest.is_empty().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_form_is_refused_whatever_else_is_in_it() {
        let current = Suspended {
            version: VERSION,
            mark: 7,
            ..Suspended::default()
        };
        let read = Suspended::from_bytes(&current.to_bytes());
        assert!(read.is_ok_and(|read| read.mark == 7));
        // Form 2, with the 16 bytes of a process in the place of a message.
        let process = [[0x08, 2, 0x22, 16].as_slice(), &[0xff; 16]].concat();
        let refused = Suspended::from_bytes(&process).err().unwrap();
        assert_eq!(refused, "form 2, this program reads 3");
        assert!(Suspended::from_bytes(b"nonsense").is_err());
    }
}
