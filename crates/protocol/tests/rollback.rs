//! A party goes on from any snapshot that it ever wrote, with any vault that it ever had, and is told anything. Abuse
//! case 48: what it says then encrypts, masks and seals nothing that it has not said before.

use std::sync::Arc;

use blindsum_crypto::audit;
use blindsum_protocol::{
    Adversary, Answer, AnySurvivors, Client, ClientSetup, Closed, EncodingName, Excuse, Fault,
    FaultKind, Flashe, Follower, FollowerSetup, Input, Job, JobMemory, JobSpec, KnownServers,
    MemoryVault, Message, Outcome, Outgoing, PartyId, PartySet, ProtocolName, Round, RoundSum,
    Seat, Server, ServerIdentity, ServerIndex, ServerRole, SparseInput, Vault,
};

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use testing::{Given, Rig, body, storage_key, with_body};

const BOTH: [Adversary; 2] = [Adversary::SemiHonest, Adversary::Active];

fn spec(protocol: ProtocolName, adversary: Adversary) -> JobSpec {
    JobSpec {
        protocol: protocol.into(),
        adversary,
        parties: 5,
        dim: 20,
        encoding: EncodingName::Quantised.into(),
        ..JobSpec::default()
    }
}

/// A party as it was after an answer: its snapshot, if it wrote one, and the vaults that it may have by then.
struct Moment {
    party: PartyId,
    stage: u8,
    snapshot: Option<Vec<u8>>,
    vault: Arc<MemoryVault>,
}

/// A round, as everybody lived it.
struct Lived {
    rig: Rig,
    moments: Vec<Moment>,
    /// What was said by whom, with its frame.
    up: Vec<(PartyId, Message)>,
    /// What was told to whom at the end of each stage.
    down: Vec<(u8, PartyId, Message)>,
}

fn copy_of(vault: &MemoryVault) -> Arc<MemoryVault> {
    let (kept, copy) = (vault.read().unwrap(), MemoryVault::default());
    if let Some(contents) = kept.contents {
        copy.write(&contents, kept.mark).unwrap();
    }
    Arc::new(copy)
}

impl Lived {
    fn new(mut rig: Rig) -> Self {
        let (mut moments, mut up, mut down) = (Vec::new(), Vec::new(), Vec::new());
        for stage in 0.. {
            for (party, client) in &rig.clients {
                moments.push(Moment {
                    party: *party,
                    stage,
                    snapshot: client.seal(&storage_key(), &mut rig.rng).unwrap(),
                    vault: copy_of(&rig.cohort.vaults[party.rank()]),
                });
            }
            up.extend(rig.up.clone());
            rig.serve().unwrap();
            down.extend(rig.down.iter().map(|(to, said)| (stage, *to, said.clone())));
            rig.answer_all().unwrap();
            if rig.outcome.is_some() {
                break;
            }
        }
        Self {
            rig,
            moments,
            up,
            down,
        }
    }

    /// What may be told to a party after a stage: what it was told, what the others were, and changes of that.
    fn told(&self, moment: &Moment) -> Vec<Message> {
        let of_stage = self
            .down
            .iter()
            .filter(|(stage, ..)| *stage == moment.stage);
        let mut all: Vec<Message> = of_stage.map(|(.., said)| said.clone()).collect();
        for honest in all.clone() {
            for bit in 0..16 {
                let mut changed = body(&honest).to_vec();
                if let Some(byte) = changed.get_mut(bit / 8) {
                    *byte ^= 1 << (bit % 8);
                    all.push(with_body(&honest, &changed));
                }
            }
        }
        all
    }

    /// Goes on from a moment with every vault that the party ever had, and every message; gives what it says that
    /// it has not said before.
    fn says_anew(&self, moment: &Moment, snapshot: &[u8]) -> Vec<u8> {
        let cohort = &self.rig.cohort;
        let other = cohort.round.job().zeros();
        let vaults = self.moments.iter().filter(|m| m.party == moment.party);
        let (mut rng, mut anew) = (self.rig.rng.clone(), Vec::new());
        for vault in vaults {
            for message in self.told(moment) {
                let setup = ClientSetup {
                    vault: copy_of(&vault.vault),
                    ..cohort.setup(moment.party)
                };
                let mut client = Client::unseal(setup, &storage_key(), snapshot).unwrap();
                let latest = client.latest().clone();
                let input = Given(&other);
                let answer = client.answer(&message, Some(&input), &mut rng);
                let answer = match answer {
                    Ok(Answer::Send(answer)) => answer,
                    _ => Message::new(),
                };
                let said = |said: &Message| {
                    let before = (moment.party, said.clone());
                    said.is_empty() || self.up.contains(&before)
                };
                anew.extend([latest, answer].iter().filter(|m| !said(m)).map(|m| m[1]));
            }
        }
        anew
    }
}

/// `open` are the stages after everything is encrypted, masked and sealed: there alone a party that was put back may
/// say something else than it did.
fn check(rig: Rig, open: std::ops::RangeInclusive<u8>) {
    let (lived, seen) = audit::watch(|| {
        let lived = Lived::new(rig);
        for moment in &lived.moments {
            let goes_on = moment.stage + 1 >= *open.start();
            assert_eq!(moment.snapshot.is_some(), goes_on, "stage {}", moment.stage);
            let Some(snapshot) = &moment.snapshot else {
                continue;
            };
            for stage in lived.says_anew(moment, snapshot) {
                assert!(open.contains(&stage), "something else in stage {stage}");
            }
        }
        lived
    });
    assert_eq!(seen.repeated, 0);
    assert_eq!(
        lived.moments.len(),
        5 * lived.rig.cohort.round.plan().answers().count()
    );
}

#[test]
fn case_48_no_snapshot_masks_or_seals_secagg() {
    for adversary in BOTH {
        for protocol in [ProtocolName::SecAgg, ProtocolName::SecAggPlus] {
            check(Rig::new(spec(protocol, adversary), 7), 3..=4);
        }
    }
}

#[test]
fn case_48_no_snapshot_seals_fssa_and_pss() {
    for adversary in BOTH {
        for protocol in [ProtocolName::Fssa, ProtocolName::Pss] {
            check(Rig::new(spec(protocol, adversary), 7), 2..=3);
        }
    }
}

#[test]
fn case_48_no_snapshot_sends_another_vector_plain() {
    check(
        Rig::new(spec(ProtocolName::Plain, Adversary::Active), 7),
        1..=1,
    );
}

/// Dense and sparse, and the key set-ups before, in which the leader seals in the second stage.
#[test]
fn case_48_no_snapshot_encrypts_flashe() {
    for adversary in BOTH {
        let dense = spec(ProtocolName::Flashe, adversary);
        let sparse = JobSpec {
            protocol: Flashe {
                density: 0.5,
                ..Default::default()
            }
            .into(),
            ..dense.clone()
        };
        check(Rig::first_key_setup(dense.clone(), 7), 2..=2);
        let held = Rig::new(dense, 7);
        check(held.key_setup(8), 2..=2);
        check(held.again(9), 1..=1);
        check(Rig::new(sparse, 7), 2..=2);
    }
}
