//! What a party writes to disk when it is suspended: all that is in its memory and in no other record.
//!
//! It is one sealed record, in the encoding of the wire's messages.

use std::time::Duration;

use blindsum_crypto::Zeroizing;
use blindsum_encode::{Judged, Update};
use blindsum_protocol::Job;
use prost::Message as _;

use super::active::Active;
use super::machine::check_update;
use super::metrics::Metrics;
use super::past::PastStep;
use super::pledge::Pledge;
use super::result::{Clipped, Timings};
use crate::chunks::Assembly;
use crate::connection::Receiving;
use crate::machine::Time;
use crate::pb;

/// The form of this version.
pub(super) const VERSION: u32 = 2;

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
    #[prost(bytes = "vec", tag = "4")]
    pub process: Vec<u8>,
    #[prost(uint64, tag = "5")]
    pub connections: u64,
    #[prost(bytes = "vec", tag = "6")]
    pub token: Vec<u8>,
    /// Whether there is a connection.
    #[prost(bool, tag = "7")]
    pub linked: bool,
    /// Whether it was welcomed over it.
    #[prost(bool, tag = "8")]
    pub welcomed: bool,
    /// The first Welcome, which told the job.
    #[prost(message, optional, tag = "9")]
    pub welcome: Option<pb::Welcome>,
    #[prost(bool, tag = "10")]
    pub newer: bool,
    #[prost(bool, tag = "11")]
    pub wanted: bool,
    #[prost(uint64, optional, tag = "12")]
    pub begun: Option<u64>,
    #[prost(message, optional, tag = "13")]
    pub offer: Option<pb::RoundOffer>,
    #[prost(message, optional, tag = "14")]
    pub pledge: Option<KeptPledge>,
    #[prost(uint64, tag = "15")]
    pub last_round: u64,
    /// The round under way, and how many messages of the coordinator were answered in it.
    #[prost(uint64, optional, tag = "16")]
    pub live: Option<u64>,
    #[prost(uint32, tag = "17")]
    pub answered: u32,
    /// In DER, as this connection brought them.
    #[prost(bytes = "vec", repeated, tag = "18")]
    pub certificates: Vec<Vec<u8>>,
    #[prost(message, optional, tag = "19")]
    pub requested: Option<Requested>,
    #[prost(uint64, optional, tag = "20")]
    pub unopened: Option<u64>,
    #[prost(message, optional, tag = "21")]
    pub done: Option<pb::ModelName>,
    #[prost(message, optional, tag = "22")]
    pub missed: Option<Missed>,
    #[prost(uint64, optional, tag = "23")]
    pub told: Option<u64>,
    #[prost(bool, tag = "24")]
    pub clipping_told: bool,
    #[prost(message, optional, tag = "25")]
    pub model: Option<KeptModel>,
    #[prost(message, optional, tag = "26")]
    pub round: Option<RoundUnderWay>,
    /// The end of that round, where the caller was told its result and has not taken it.
    #[prost(message, optional, tag = "27")]
    pub untaken: Option<pb::RoundDone>,
    /// Until when the last model is asked for, in milliseconds since 1970 UTC.
    #[prost(uint64, optional, tag = "28")]
    pub farewell: Option<u64>,
    /// The latest round in which its vector went out, which no record may have counted.
    #[prost(uint64, optional, tag = "29")]
    pub sent: Option<u64>,
    /// When the members of the round under way were certified.
    #[prost(uint64, optional, tag = "30")]
    pub certified: Option<u64>,
    /// Whether it was asked for its first model over this connection.
    #[prost(bool, tag = "31")]
    pub gave: bool,
    /// The version of the model that it has sealed over this connection, and how often.
    #[prost(uint64, tag = "32")]
    pub sealed: u64,
    #[prost(uint32, tag = "33")]
    pub sealed_times: u32,
    /// Why operators let no round begin, as the coordinator said last.
    #[prost(string, tag = "34")]
    pub held: String,
    /// The tag of the round that the caller waits for.
    #[prost(uint64, optional, tag = "35")]
    pub wanted_tag: Option<u64>,
    /// What the caller wants that round to be about; empty where it does not say.
    #[prost(bytes = "vec", tag = "36")]
    pub wanted_about: Vec<u8>,
}

/// What the party is ready with.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct KeptPledge {
    #[prost(message, optional, tag = "1")]
    ready: Option<pb::Ready>,
    #[prost(bytes = "vec", tag = "2")]
    nonce: Vec<u8>,
    #[prost(message, optional, tag = "3")]
    opened: Option<pb::RosterFixed>,
}

/// A model that was asked for, and what has come of it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Requested {
    #[prost(message, optional, tag = "1")]
    pub name: Option<pb::ModelName>,
    #[prost(message, optional, tag = "2")]
    pub part: Option<Part>,
}

/// A message of which some pieces have come.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Part {
    #[prost(uint32, tag = "1")]
    stage: u32,
    #[prost(uint64, tag = "2")]
    total: u64,
    #[prost(bytes = "vec", tag = "3")]
    came: Vec<u8>,
}

/// A round in which the party's update was out, and whose result does not come here.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Missed {
    #[prost(uint64, tag = "1")]
    pub round: u64,
    #[prost(string, tag = "2")]
    pub reason: String,
    /// Whether it is not known that the round counts the update.
    #[prost(bool, tag = "3")]
    pub unknown: bool,
    /// Whether the round has no sum.
    #[prost(bool, tag = "4")]
    pub aborted: bool,
    /// Whether the round went on without the update.
    #[prost(bool, tag = "5")]
    pub dropped: bool,
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
    #[prost(message, optional, tag = "4")]
    pub receiving: Option<Part>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub held: Option<Vec<u8>>,
    #[prost(message, optional, tag = "6")]
    pub update: Option<KeptUpdate>,
    #[prost(message, optional, tag = "7")]
    clipped: Option<KeptClipped>,
    /// Seconds worked ahead, to protect and to open.
    #[prost(double, tag = "8")]
    ahead: f64,
    #[prost(double, tag = "9")]
    protect: f64,
    #[prost(double, tag = "10")]
    open: f64,
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

#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct KeptClipped {
    #[prost(uint64, tag = "1")]
    coordinates: u64,
    #[prost(double, optional, tag = "2")]
    scaled_by: Option<f64>,
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
        let read = Self::decode(bytes).map_err(|error| error.to_string())?;
        match read.version {
            VERSION => Ok(read),
            other => Err(format!("form {other}, this program reads {VERSION}")),
        }
    }
}

impl KeptPledge {
    pub fn of(pledge: &Pledge) -> Self {
        Self {
            ready: Some(pledge.ready.clone()),
            nonce: pledge.nonce.to_vec(),
            opened: pledge.opened.clone(),
        }
    }

    /// None where it is damaged.
    pub fn pledge(self) -> Option<Pledge> {
        Some(Pledge {
            ready: self.ready?,
            nonce: self.nonce.try_into().ok()?,
            opened: self.opened,
        })
    }
}

impl Part {
    pub fn of(stage: u32, assembly: &Assembly) -> Self {
        Self {
            stage,
            total: assembly.total(),
            came: assembly.came().to_vec(),
        }
    }

    /// What has come of a message of this round; none where it is damaged.
    pub fn receiving(self, round: u64) -> Option<Receiving> {
        let stage = self.stage;
        let assembly = self.assembly()?;
        Some(Receiving {
            round,
            stage,
            assembly,
        })
    }

    pub fn assembly(self) -> Option<Assembly> {
        Assembly::resume(self.total, self.came)
    }
}

/// A time as the wall clock has it, in milliseconds since 1970 UTC: each process has a clock of its own.
pub(super) fn unix_millis_at(time: Time, now: Time, unix_millis: u64) -> u64 {
    let left = u64::try_from((time - now).as_millis()).unwrap_or(u64::MAX);
    unix_millis.saturating_add(left)
}

/// The time of this process at which the wall clock has this.
pub(super) fn time_at(unix_millis_then: u64, now: Time, unix_millis: u64) -> Time {
    now + Duration::from_millis(unix_millis_then.saturating_sub(unix_millis))
}

impl RoundUnderWay {
    /// The round that a party is in; none where its machine could not be brought back to where it is.
    pub fn of(
        active: &Active,
        receiving: Option<&Receiving>,
        now: Time,
        unix_millis: u64,
    ) -> Option<Self> {
        let past = active.past.as_ref()?;
        let step = |step: &PastStep| KeptStep {
            seed: step.seed.to_vec(),
            message: step.message.as_ref().map(|message| message.to_vec()),
        };
        let mut start = past.start.clone();
        let members = active.round.roster().members().iter();
        start.certificates = members
            .map(|member| member.certificate.clone().into())
            .collect();
        let update = active.update.as_ref();
        Some(Self {
            start: Some(start),
            from_snapshot: past.from_snapshot,
            steps: past.steps.iter().map(step).collect(),
            receiving: receiving.map(|it| Part::of(it.stage, &it.assembly)),
            held: active.held.as_ref().map(|message| message.to_vec()),
            update: update.map(KeptUpdate::of),
            clipped: active.clipped.map(|clipped| KeptClipped {
                coordinates: clipped.coordinates,
                scaled_by: clipped.scaled_by,
            }),
            ahead: active.timings.ahead,
            protect: active.timings.protect,
            open: active.timings.open,
            deadline: unix_millis_at(active.deadline, now, unix_millis),
            unwanted: active.unwanted,
            out: Some(active.may_count()),
            warnings: active.warnings.clone(),
        })
    }

    /// What the machine was given; none where a seed is damaged.
    pub fn steps(&mut self) -> Option<Vec<PastStep>> {
        let step = |step: KeptStep| {
            let seed = Zeroizing::new(step.seed);
            Some(PastStep {
                seed: Zeroizing::new(seed.as_slice().try_into().ok()?),
                message: step.message.map(Into::into),
            })
        };
        std::mem::take(&mut self.steps)
            .into_iter()
            .map(step)
            .collect()
    }

    pub fn timings(&self) -> Timings {
        Timings {
            ahead: self.ahead,
            protect: self.protect,
            open: self.open,
        }
    }

    pub fn clipped(&self) -> Option<Clipped> {
        self.clipped.as_ref().map(|clipped| Clipped {
            coordinates: clipped.coordinates,
            scaled_by: clipped.scaled_by,
        })
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
