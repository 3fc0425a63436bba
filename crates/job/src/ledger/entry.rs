//! A record of a ledger: the length of what it says, in 4 bytes and once more with all bits turned round; what it says; and
//! the hash of that and of all before it.

use blindsum_crypto::kdf;
use blindsum_protocol::{Spent, SquaredMu};
use prost::Message as _;

use super::Release;

/// Bytes of a length, twice.
const LENGTH: usize = 8;
/// Bytes of a hash.
const HASH: usize = 32;

/// A record.
pub(super) struct Entry {
    pub release: Release,
    /// The hash of it and of all before it.
    pub head: [u8; HASH],
    /// Its bytes.
    pub length: u64,
}

/// What comes next in a ledger.
pub(super) enum Read {
    Entry(Box<Entry>),
    /// A record that was not written to its end.
    Torn,
    Damaged,
}

/// What a record says.
#[derive(Clone, PartialEq, prost::Message)]
struct Said {
    #[prost(bytes = "vec", tag = "1")]
    job: Vec<u8>,
    #[prost(uint64, tag = "2")]
    round: u64,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    /// μ² in units of 2^-64: 16 bytes, the lowest first.
    #[prost(bytes = "vec", tag = "4")]
    squared: Vec<u8>,
    /// Rényi divergences, where the noise is Skellam's.
    #[prost(double, repeated, tag = "5")]
    curve: Vec<f64>,
    #[prost(uint64, tag = "6")]
    honest: u64,
    #[prost(uint64, tag = "7")]
    time: u64,
}

/// The hash before all records of a unit.
pub(super) fn first_head(unit: &str) -> [u8; HASH] {
    kdf::hash("blindsum ledger 1", &[unit.as_bytes()])
}

fn next_head(before: &[u8; HASH], said: &[u8]) -> [u8; HASH] {
    // guard: records-of-a-ledger-are-chained
    kdf::hash("blindsum ledger record", &[before, said])
}

impl Entry {
    /// A release behind the record with this hash.
    pub fn new(release: Release, before: [u8; HASH]) -> Self {
        let said = said(&release);
        Self {
            head: next_head(&before, &said),
            length: (LENGTH + said.len() + HASH) as u64,
            release,
        }
    }

    /// The bytes of the record.
    pub fn bytes(&self) -> Vec<u8> {
        let said = said(&self.release);
        [&length(said.len())[..], &said, &self.head].concat()
    }

    /// The record that these bytes begin with, behind the one with this hash.
    ///
    /// What a crash leaves of a record is its beginning, or has zeros where nothing was written. Anything else that is wrong is
    /// damage: it may hide a release.
    pub fn read(bytes: &[u8], before: &[u8; HASH]) -> Read {
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else {
            return Read::Torn;
        };
        if rest.iter().all(|byte| *byte == 0) {
            return Read::Torn;
        }
        // guard: a-wrong-length-hides-no-release
        let Some(length) = read_length(*length) else {
            return Read::Damaged;
        };
        let Some((said, rest)) = rest.split_at_checked(length) else {
            return Read::Torn;
        };
        let Some((head, behind)) = rest.split_first_chunk::<HASH>() else {
            return Read::Torn;
        };
        // guard: damage-is-not-taken-for-a-crash
        if *head != next_head(before, said) {
            let is_unwritten = *head == [0; HASH] && behind.is_empty();
            return if is_unwritten {
                Read::Torn
            } else {
                Read::Damaged
            };
        }
        match released(said) {
            Some(release) => Read::Entry(Box::new(Self {
                release,
                head: *head,
                length: (LENGTH + length + HASH) as u64,
            })),
            None => Read::Damaged,
        }
    }
}

fn length(of: usize) -> [u8; LENGTH] {
    let length = of as u32;
    (u64::from(!length) << 32 | u64::from(length)).to_le_bytes()
}

fn read_length(bytes: [u8; LENGTH]) -> Option<usize> {
    let both = u64::from_le_bytes(bytes);
    let length = both as u32;
    ((both >> 32) as u32 == !length).then_some(length as usize)
}

fn said(release: &Release) -> Vec<u8> {
    Said {
        job: release.job.into(),
        round: release.round,
        key: release.key.into(),
        squared: release.cost.squared().units().to_le_bytes().into(),
        curve: release.cost.curve().into(),
        honest: release.honest as u64,
        time: release.time,
    }
    .encode_to_vec()
}

fn released(said: &[u8]) -> Option<Release> {
    let said = Said::decode(said).ok()?;
    let squared = u128::from_le_bytes(said.squared.try_into().ok()?);
    Some(Release {
        job: said.job.try_into().ok()?,
        round: said.round,
        key: said.key.try_into().ok()?,
        cost: Spent::of_parts(SquaredMu::of_units(squared), &said.curve)?,
        honest: usize::try_from(said.honest).ok()?,
        time: said.time,
    })
}
