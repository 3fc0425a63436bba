//! Secrets of a round leave nothing behind on the heap.

#[path = "../../crypto/tests/inspector/mod.rs"]
mod inspector;

use std::convert::Infallible;

use blindsum_crypto::{kdf::derive32, seal::StorageKey, secret::Secret};
use blindsum_math::words::TileMut;
use blindsum_protocol::{
    Adversary, Answer, AnySurvivors, Client, ClientSetup, Closed, EncodingName, Excuse, Fault,
    FaultKind, Flashe, Follower, FollowerSetup, Input, Job, JobMemory, JobSpec, KnownServers,
    MemoryVault, Message, Outcome, Outgoing, PartyId, PartySet, ProtocolName, Round, RoundSum,
    Seat, Server, ServerIdentity, ServerIndex, ServerRole, SparseInput, Vault,
};
use inspector::left_behind;
use rand_core::{Rng, SeedableRng, TryCryptoRng, TryRng};

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use testing::{Given, Rig, restart};

/// Gives one secret that the test knows, then what a good generator gives.
struct Planted(Option<[u8; 32]>, rand_chacha::ChaCha20Rng);

impl TryRng for Planted {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.1.next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.1.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        match self.0.take() {
            Some(planted) => bytes.copy_from_slice(&planted),
            None => self.1.fill_bytes(bytes),
        }
        Ok(())
    }
}

impl TryCryptoRng for Planted {}

/// One test, because there is one allocator for all threads.
#[test]
fn case_41_secrets_are_wiped() {
    let canary: [u8; 32] = std::array::from_fn(|i| 0xa5 ^ (11 * i) as u8);
    let found = left_behind(&canary, || Box::new(canary));
    assert_eq!(found, 1, "what is not wiped is found");
    self_mask_seed(&canary);
    refused_input(&canary);
    for protocol in [ProtocolName::Fssa, ProtocolName::Pss] {
        ramp_sharing(&canary, protocol);
    }
    delivered_key(&canary);
    for density in [1.0, 0.4] {
        shared_keys(density);
    }
}

fn spec(dim: u64) -> JobSpec {
    JobSpec {
        protocol: ProtocolName::SecAgg.into(),
        adversary: Adversary::Active,
        parties: 4,
        dim,
        ..JobSpec::default()
    }
}

/// b, from its drawing to the masked vector.
fn self_mask_seed(canary: &[u8; 32]) {
    let me = PartyId(1);
    let mut rig = Rig::at(spec(50), 0);
    rig.serve().unwrap();
    let keys = rig.down[&me].clone();
    let mut planted = Planted(Some(*canary), rand_chacha::ChaCha20Rng::seed_from_u64(1));
    let found = left_behind(canary, || {
        let mut client = rig.clients.remove(&me).unwrap();
        let answer = client.answer(&keys, None, &mut planted).unwrap();
        let Answer::Send(message) = answer else {
            panic!("it answers")
        };
        (rig.clients.insert(me, client), rig.up.insert(me, message))
    });
    assert!(planted.0.is_none(), "the seed was drawn");
    assert_eq!(found, 0, "drawn and shared");

    rig.down.remove(&me);
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    let shares = rig.down[&me].clone();
    let words = rig.cohort.inputs[me.rank()].clone();
    let found = left_behind(canary, || {
        let client = rig.clients.get_mut(&me).unwrap();
        client
            .answer(&shares, Some(&Given(&words)), &mut planted)
            .unwrap()
    });
    assert_eq!(found, 0, "expanded and dropped");
}

/// Words of which the second tile is no good.
struct Breaking<'a>(&'a [u8; 32], usize);

impl Input for Breaking<'_> {
    fn lanes(&self) -> usize {
        self.1
    }

    fn read(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        let TileMut::W32(lanes) = tile else {
            panic!("words of 18 bits")
        };
        for (lane, bytes) in lanes.iter_mut().zip(self.0.as_chunks().0.iter().cycle()) {
            *lane = u32::from_ne_bytes(*bytes);
        }
        match first_lane {
            0 => Ok(()),
            _ => Err(FaultKind::Input("the rest is lost".into())),
        }
    }
}

/// The words of a vector that could not be encoded to its end.
fn refused_input(canary: &[u8; 32]) {
    let me = PartyId(1);
    let mut rig = Rig::at(spec(10_000), 1);
    rig.serve().unwrap();
    let shares = rig.down[&me].clone();
    let mut client = rig.clients.remove(&me).unwrap();
    let plain = Breaking(canary, rig.cohort.round.job().lanes());
    let found = left_behind(canary, || {
        client
            .answer(&shares, Some(&plain), &mut rig.rng)
            .unwrap_err()
    });
    assert_eq!(found, 0);
}

/// Words that are the secret over and over.
struct Repeating<'a>(&'a [u8; 32], usize);

impl Input for Repeating<'_> {
    fn lanes(&self) -> usize {
        self.1
    }

    fn read(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        let TileMut::W64(lanes) = tile else {
            panic!("words of 64 bits")
        };
        let words = self.0.as_chunks().0.iter().cycle().skip(first_lane % 4);
        for (lane, bytes) in lanes.iter_mut().zip(words) {
            *lane = u64::from_ne_bytes(*bytes);
        }
        Ok(())
    }
}

/// The seed of the random elements and the words, from sharing to the sealed columns, through a snapshot.
fn ramp_sharing(canary: &[u8; 32], protocol: ProtocolName) {
    let (me, key) = (PartyId(1), StorageKey::from(Secret::from([3; 32])));
    let spec = JobSpec {
        protocol: protocol.into(),
        encoding: EncodingName::Fixed64.into(),
        ..spec(3000)
    };
    for seed in [Some(*canary), None] {
        let mut rig = Rig::at(spec.clone(), 0);
        rig.serve().unwrap();
        let keys = rig.down[&me].clone();
        let mut planted = Planted(seed, rand_chacha::ChaCha20Rng::seed_from_u64(1));
        let words = rig.cohort.inputs[me.rank()].clone();
        let found = left_behind(canary, || {
            let mut client = rig.clients.remove(&me).unwrap();
            let input: Box<dyn Input> = match seed {
                Some(_) => Box::new(Given(&words)),
                None => Box::new(Repeating(canary, 3000)),
            };
            client.answer(&keys, Some(&*input), &mut planted).unwrap();
            let sealed = client.seal(&key, &mut planted).unwrap().unwrap();
            drop(client);
            Client::unseal(rig.cohort.setup(me), &key, &sealed).unwrap()
        });
        assert!(planted.0.is_none(), "the seed was drawn");
        assert_eq!(found, 0, "shared, sealed and opened");
    }
}

fn flashe(density: f64) -> JobSpec {
    JobSpec {
        protocol: Flashe {
            density,
            ..Default::default()
        }
        .into(),
        ..spec(300)
    }
}

/// The key of a job, from its drawing until all parties hold it and are gone.
fn delivered_key(canary: &[u8; 32]) {
    let leader = PartyId(0);
    let mut rig = Rig::first_key_setup(flashe(1.0), 7);
    rig.serve().unwrap();
    let mut planted = Planted(Some(*canary), rand_chacha::ChaCha20Rng::seed_from_u64(1));
    let found = left_behind(canary, || {
        let adverts = rig.down.remove(&leader).unwrap();
        let client = rig.clients.get_mut(&leader).unwrap();
        let Answer::Send(keys) = client.answer(&adverts, None, &mut planted).unwrap() else {
            panic!("it delivers the key")
        };
        rig.answer_all().unwrap();
        rig.up.insert(leader, keys);
        assert!(restart(&mut rig, leader));
        rig.finish().unwrap();
        assert_eq!(*job_key(&rig).expose(), *canary);
        drop(rig);
    });
    assert!(planted.0.is_none(), "the key was drawn");
    assert_eq!(found, 0, "drawn, sealed, opened and kept");
}

/// What party 1 has written down.
fn job_key(rig: &Rig) -> Secret<32> {
    let kept = rig.cohort.vaults[1].read().unwrap().contents.unwrap();
    // Behind the version.
    Secret::from(kept[1..].first_chunk::<32>().unwrap())
}

/// The key of a job and what is derived from it, in rounds that parties encrypt, are restarted in, decrypt and leave.
fn shared_keys(density: f64) {
    let held = Rig::new(flashe(density), 7);
    let labels: [&[&str]; 4] = [
        &[],
        &["flashe round"],
        &["flashe round", "flashe check"],
        &["flashe round", "flashe permutation"],
    ];
    for (number, labels) in (8..).step_by(2).zip(labels) {
        let play = |number| {
            let mut rig = held.again(number);
            let last = rig.cohort.round.plan().answers().count() as u8 - 1;
            while rig.outcome.is_none() {
                let encrypted = rig.clients[&PartyId(1)].stage() == Some(last);
                assert_eq!(restart(&mut rig, PartyId(1)), encrypted);
                rig.serve().unwrap();
                rig.answer_all().unwrap();
            }
        };
        let key = derived(&held, number, labels);
        let found = left_behind(key.expose(), || play(number));
        assert_eq!(found, 0, "{labels:?} where density is {density}");
        let key = derived(&held, number + 1, labels);
        let found = left_behind(key.expose(), || {
            play(number + 1);
            Box::new(*key.expose())
        });
        assert_eq!(found, 1, "{labels:?}: a copy that is not wiped is found");
    }
}

/// A key of the round with this number.
fn derived(held: &Rig, number: u64, labels: &[&str]) -> Secret<32> {
    let (job, roster) = (held.cohort.round.job(), held.cohort.round.roster());
    let round = Round::new(job.clone(), number, roster.clone(), &[9; 32]).unwrap();
    let next = |key: Secret<32>, label: &&str| derive32(&key, round.context(), label, &[]);
    labels.iter().fold(job_key(held), next)
}
