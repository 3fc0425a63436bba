//! What the fuzz targets share: rounds that went well, from which they start.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use blindsum_crypto::seal::StorageKey;
use blindsum_crypto::secret::Secret;
use blindsum_protocol::{
    Adversary, Answer, Client, ClientSetup, Closed, EncodingName, Fault, FaultKind, Input, Job,
    JobSpec, Message, Outcome, PartyId, ProtocolName, Round, Server, SuiteName,
};

#[path = "../../crates/protocol/src/testing.rs"]
#[allow(dead_code)]
pub mod testing;

use testing::{Cohort, Rig};

/// Bytes of the frame before a message's body.
pub const HEADER: usize = 34;

/// A whole round, as it went over the wire.
pub struct Transcript {
    /// Round, keys and inputs.
    pub cohort: Cohort,
    /// What every party sent, stage by stage.
    pub up: Vec<BTreeMap<PartyId, Message>>,
    /// What every party was sent, stage by stage.
    pub down: Vec<BTreeMap<PartyId, Message>>,
    /// Party 0 after its answer of each stage, sealed under [`storage_key`].
    pub snapshots: Vec<Vec<u8>>,
    /// The end of the round.
    pub outcome: Outcome,
}

/// The key of all snapshots.
pub fn storage_key() -> StorageKey {
    StorageKey::from(Secret::from([3; 32]))
}

/// The transcript with this number, modulo how many there are.
pub fn transcript(number: u8) -> &'static Transcript {
    static ALL: LazyLock<Vec<Transcript>> =
        LazyLock::new(|| specs().into_iter().map(Transcript::record).collect());
    &ALL[usize::from(number) % ALL.len()]
}

fn specs() -> Vec<JobSpec> {
    let base = JobSpec {
        parties: 5,
        dim: 9,
        ..JobSpec::default()
    };
    let with = |protocol, adversary| JobSpec {
        protocol,
        adversary,
        ..base.clone()
    };
    vec![
        with(ProtocolName::Plain, Adversary::Active),
        with(ProtocolName::SecAgg, Adversary::SemiHonest),
        with(ProtocolName::SecAgg, Adversary::Active),
        JobSpec {
            suite: SuiteName::P256,
            encoding: EncodingName::Fixed64,
            ..with(ProtocolName::SecAggPlus, Adversary::Active)
        },
        with(ProtocolName::Fssa, Adversary::Active),
        with(ProtocolName::Pss, Adversary::SemiHonest),
    ]
}

impl Transcript {
    fn record(spec: JobSpec) -> Self {
        let mut rig = Rig::new(spec, 7);
        let (mut up, mut down, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
        let seal = |rig: &mut Rig| rig.clients[&PartyId(0)].seal(&storage_key(), &mut rig.rng);
        while rig.outcome.is_none() {
            snapshots.push(seal(&mut rig).expect("the round goes on"));
            up.push(rig.up.clone());
            rig.serve().expect("nobody is lost");
            down.push(rig.down.clone());
            rig.answer_all().expect("nobody lies");
        }
        let outcome = rig.outcome.take().expect("the round is over");
        Self {
            cohort: rig.cohort,
            up,
            down,
            snapshots,
            outcome,
        }
    }

    /// Number of stages.
    pub fn stages(&self) -> usize {
        self.up.len()
    }
}

/// A change of a message's body.
#[derive(Arbitrary, Debug)]
pub enum Edit {
    /// Bits of one byte change.
    Flip(u16, u8),
    /// The rest is cut off.
    Cut(u16),
    /// Bytes are put in.
    Insert(u16, Vec<u8>),
    /// Bytes are overwritten.
    Overwrite(u16, [u8; 4]),
    /// A piece is repeated at the end.
    Repeat(u16, u16),
    /// Everything is replaced.
    Replace(Vec<u8>),
}

/// The body after all edits.
pub fn edited(body: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = body.to_vec();
    for edit in edits {
        let length = bytes.len();
        let at = |place: u16| usize::from(place) % (length + 1);
        match edit {
            Edit::Flip(place, bits) => {
                if let Some(byte) = bytes.get_mut(at(*place)) {
                    *byte ^= bits;
                }
            }
            Edit::Cut(place) => bytes.truncate(at(*place)),
            Edit::Insert(place, more) => {
                let place = at(*place);
                bytes.splice(place..place, more.iter().copied());
            }
            Edit::Overwrite(place, new) => {
                bytes
                    .iter_mut()
                    .skip(at(*place))
                    .zip(new)
                    .for_each(|(byte, new)| *byte = *new);
            }
            Edit::Repeat(from, to) => {
                let (from, to) = (at(*from).min(at(*to)), at(*from).max(at(*to)));
                bytes.extend_from_within(from..to);
            }
            Edit::Replace(new) => bytes = new.clone(),
        }
    }
    bytes
}

/// A message of `like`'s frame with another stage and body.
pub fn framed(like: &[u8], stage: u8, body: &[u8]) -> Vec<u8> {
    [&like[..1], &[stage], &like[2..HEADER], body].concat()
}
