//! What the fuzz targets share: rounds that went well, from which they start.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use blindsum_crypto::seal::StorageKey;
use blindsum_crypto::secret::Secret;
use blindsum_protocol::{
    Adversary, Answer, AnySurvivors, Client, ClientSetup, Closed, EncodingName, Excuse, Fault,
    FaultKind, Flashe, Follower, Input, Job, JobSpec, Kept, Masking, MemoryVault, Message, Outcome,
    Outgoing, PartyId, PartySet, ProtocolName, Quantised, Round, RoundSum, Seat, Server,
    ServerRole, SparseInput, SuiteName, Vault,
};

#[path = "../../crates/protocol/src/testing.rs"]
#[allow(dead_code)]
pub mod testing;

use testing::{Cohort, Rig};

/// Bytes of the frame before a message's body.
pub const HEADER: usize = 34;

/// A whole round, as it went over the wire.
pub struct Transcript {
    /// Which one it is.
    number: usize,
    /// Round, keys and inputs.
    pub cohort: Cohort,
    /// What every party sent, stage by stage.
    pub up: Vec<BTreeMap<PartyId, Message>>,
    /// What every party was sent, stage by stage.
    pub down: Vec<BTreeMap<PartyId, Message>>,
    /// Party 0 after its answer of each stage, sealed under [`storage_key`], where there is something to go on from.
    pub snapshots: Vec<Option<Vec<u8>>>,
    /// What party 0 kept in its vault by then.
    kept: Vec<Kept>,
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
        LazyLock::new(|| (0..specs().len() + 2).map(Transcript::record).collect());
    &ALL[usize::from(number) % ALL.len()]
}

/// Cohorts whose first messages are on their way: a round of each job, and two key set-ups.
fn rig(number: usize) -> Rig {
    let specs = specs();
    let set_up = number.checked_sub(specs.len());
    match (specs.get(number), set_up) {
        (Some(spec), _) => Rig::new(spec.clone(), 7),
        (None, Some(0)) => Rig::first_key_setup(flashe(), 7),
        (None, _) => late_joiner(flashe()),
    }
}

fn base() -> JobSpec {
    JobSpec {
        parties: 5,
        dim: 9,
        ..JobSpec::default()
    }
}

fn flashe() -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Flashe.into(),
        adversary: Adversary::Active,
        ..base()
    }
}

fn specs() -> Vec<JobSpec> {
    let with = |protocol: ProtocolName, adversary| JobSpec {
        protocol: protocol.into(),
        adversary,
        ..base()
    };
    vec![
        with(ProtocolName::Plain, Adversary::Active),
        with(ProtocolName::SecAgg, Adversary::SemiHonest),
        with(ProtocolName::SecAgg, Adversary::Active),
        JobSpec {
            suite: SuiteName::P256,
            encoding: EncodingName::Fixed64.into(),
            ..with(ProtocolName::SecAggPlus, Adversary::Active)
        },
        with(ProtocolName::Fssa, Adversary::Active),
        with(ProtocolName::Pss, Adversary::SemiHonest),
        with(ProtocolName::Flashe, Adversary::Active),
        JobSpec {
            encoding: EncodingName::Fixed64.into(),
            ..with(ProtocolName::Flashe, Adversary::SemiHonest)
        },
        // Few coordinates of many, told by distances; most of few, told by bitmaps.
        JobSpec {
            dim: 300,
            protocol: Flashe {
                density: 0.02,
                ..Default::default()
            }
            .into(),
            ..with(ProtocolName::Flashe, Adversary::Active)
        },
        JobSpec {
            protocol: Flashe {
                density: 0.9,
                masking: Masking::Double,
                min_contributors: 1,
                ..Default::default()
            }
            .into(),
            encoding: Quantised {
                bits: 32,
                ..Default::default()
            }
            .into(),
            ..with(ProtocolName::Flashe, Adversary::SemiHonest)
        },
    ]
}

/// A key set-up for party 0, which has lost the key that the others hold.
fn late_joiner(spec: JobSpec) -> Rig {
    let mut held = Rig::new(spec, 7);
    held.finish().expect("nobody is lost");
    held.cohort.vaults[0] = Arc::default();
    held.key_setup(8)
}

/// The snapshot of party 0.
fn sealed(rig: &mut Rig) -> Option<Vec<u8>> {
    let sealed = rig.clients[&PartyId(0)].seal(&storage_key(), &mut rig.rng);
    sealed.expect("the round goes on")
}

impl Transcript {
    fn record(number: usize) -> Self {
        let mut rig = rig(number);
        let (mut up, mut down, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
        let mut kept = Vec::new();
        while rig.outcome.is_none() {
            snapshots.push(sealed(&mut rig));
            kept.push(rig.cohort.vaults[0].read().expect("it is in memory"));
            up.push(rig.up.clone());
            rig.serve().expect("nobody is lost");
            down.push(rig.down.clone());
            rig.answer_all().expect("nobody lies");
        }
        let outcome = rig.outcome.take().expect("the round is over");
        Self {
            number,
            cohort: rig.cohort,
            up,
            down,
            snapshots,
            kept,
            outcome,
        }
    }

    /// Party 0 after its answer of a stage, with its vault: from its snapshot, or by playing the round that far.
    pub fn client(&self, stage: usize) -> (Client, Arc<MemoryVault>) {
        if let Some(snapshot) = &self.snapshots[stage] {
            let vault = self.vault(stage);
            let client = Client::unseal(self.setup(&vault), &storage_key(), snapshot);
            return (client.expect("its own snapshot"), vault);
        }
        let mut rig = rig(self.number);
        for _ in 0..stage {
            sealed(&mut rig);
            rig.serve().expect("nobody is lost");
            rig.answer_all().expect("nobody lies");
        }
        let client = rig.clients.remove(&PartyId(0)).expect("it takes part");
        (client, rig.cohort.vaults[0].clone())
    }

    /// Number of stages.
    pub fn stages(&self) -> usize {
        self.up.len()
    }

    /// The vault of party 0 after its answer of a stage.
    pub fn vault(&self, stage: usize) -> Arc<MemoryVault> {
        let (vault, kept) = (MemoryVault::default(), &self.kept[stage]);
        if let Some(contents) = &kept.contents {
            vault.write(contents, kept.mark).expect("it is in memory");
        }
        Arc::new(vault)
    }

    /// Party 0 with such a vault.
    pub fn setup(&self, vault: &Arc<MemoryVault>) -> ClientSetup {
        ClientSetup {
            vault: vault.clone(),
            prepared: Arc::default(),
            guard: Arc::new(AnySurvivors),
            ..self.cohort.setup(PartyId(0))
        }
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
