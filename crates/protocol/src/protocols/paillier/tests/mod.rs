//! Tests of the three ways, of their abuse, and of what the key service refuses.

mod comparing;
mod jobs;
mod opening;
mod reading;

use blindsum_crypto::kex::{KeyPair, Suite};
use blindsum_crypto::secret::Secret;
use rand_core::CryptoRng;

use super::cipher::Sum;
use super::circle::{Circle, KEY_SIGNATURES, Line};
use super::hops::SUM;
use super::messages::Opened;
use super::*;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::advertise::Advert;
use crate::kit::vector::biased_words;
use crate::kit::wire::{Bounded, encode, frame};
use crate::testing::{Rig, body, parties};
use crate::{
    Fault, FaultKind, Follower, FollowerSetup, JobSpec, Message, PartyId, PartySet, ProtocolName,
    Quantised, Round, Seat,
};

const NAMES: [ProtocolName; 3] = [
    ProtocolName::PaillierRing,
    ProtocolName::PaillierBroadcast,
    ProtocolName::PaillierAllReduce,
];

fn job(name: ProtocolName, parties: u32, dim: u64) -> JobSpec {
    JobSpec {
        protocol: name.into(),
        parties,
        dim,
        encoding: Quantised::default().into(),
        ..JobSpec::default()
    }
}

fn everyone(rig: &Rig) -> impl Iterator<Item = PartyId> + use<> {
    rig.cohort.round.everyone()
}

#[test]
fn every_way_leads_to_the_sum() {
    // Fewer words than parties; words that fill a ciphertext, and more.
    for (parties, dim) in [(2, 300), (3, 1), (5, 93)] {
        for name in NAMES {
            let mut rig = Rig::new(job(name, parties, dim), 3);
            let outcome = rig.finish().unwrap();
            let expected = rig.cohort.sum_of(everyone(&rig));
            assert_eq!(outcome.sum, Some(expected), "{name}, {parties}");
            assert_eq!(outcome.survivors.len(), parties as usize);
        }
    }
}

#[test]
fn parts_of_a_vector_are_one_after_the_other() {
    for (words, parts) in [(10, 3), (2, 5), (0, 4), (7, 7)] {
        let ranges: Vec<_> = (0..parts)
            .map(|index| cipher::part(words, parts, index))
            .collect();
        assert_eq!(ranges[0].start, 0);
        assert_eq!(ranges[parts - 1].end, words);
        assert!(ranges.windows(2).all(|two| two[0].end == two[1].start));
        let (least, most) = (words / parts, words.div_ceil(parts));
        assert!(
            ranges
                .iter()
                .all(|part| (least..=most).contains(&part.len()))
        );
    }
}

/// Abuse cases 35 and 37: the process with the key has every message of the round. It opens the sum, and no hop.
#[test]
fn case_37_whoever_has_the_key_and_every_message_reads_no_hop() {
    for name in NAMES {
        let mut rig = Rig::new(job(name, 4, 5), 3);
        let mut rng = rig.rng.clone();
        let mut transcript: Vec<Message> = Vec::new();
        rig.serve().unwrap();
        // What the key service drew: its fresh key.
        let own = KeyPair::generate(Suite::X25519, &mut rng).unwrap();
        rig.serve().unwrap();
        let opened = Opened::read(4, body(&rig.down[&PartyId(0)])).unwrap();
        assert_eq!(opened.opening.seal_key.as_slice(), own.public().as_bytes());
        rig.answer_all().unwrap();
        while rig.outcome.is_none() {
            transcript.extend(rig.up.values().cloned());
            rig.serve().unwrap();
            transcript.extend(rig.down.values().cloned());
            rig.answer_all().unwrap();
        }
        let round = &rig.cohort.round;
        let keys = circle::check_adverts(round, &opened.adverts).unwrap();
        let opens = |me: Seat, from: Seat, purpose: &str, sealed: &[u8]| {
            let secret = Secret::from(*own.secret().expose());
            let own = KeyPair::from_secret(Suite::X25519, secret).unwrap();
            let line = Line::new(round, me, own, keys.clone(), &opened).unwrap();
            line.open(from, purpose, sealed).is_ok()
        };
        let service: Seat = ServerRole::Decryptor.into();
        let seats: Vec<Seat> = everyone(&rig).map(Seat::from).chain([service]).collect();
        let hops = (0..4).map(|step| format!("hop {step}"));
        let purposes: Vec<String> = hops.chain([SUM.into(), "vector key".into()]).collect();
        let mut opened_sums = 0;
        for message in &transcript {
            let sealed = body(message);
            for purpose in &purposes {
                for from in &seats {
                    let own_sum = opens(service, *from, purpose, sealed);
                    opened_sums += usize::from(own_sum);
                    assert!(!own_sum || purpose == SUM, "{name}: {purpose} from {from}");
                    for me in &seats[..4] {
                        assert!(!opens(*me, *from, purpose, sealed), "{name}: {purpose}");
                    }
                }
            }
        }
        let expected = if name == ProtocolName::PaillierRing {
            1
        } else {
            4
        };
        assert_eq!(
            opened_sums, expected,
            "{name}: what is for the service it opens"
        );
    }
}

/// Abuse case 35, which shows the limit that the documentation states: a party that shows the key service what it heard
/// has shown it the vector of the party before.
#[test]
fn case_35_the_key_service_and_one_party_read_a_vector() {
    let mut rig = Rig::new(job(ProtocolName::PaillierRing, 3, 5), 3);
    let round = rig.cohort.round.clone();
    let mut rng = rig.rng.clone();
    let own = KeyPair::generate(Suite::X25519, &mut rng).unwrap();
    let setup = rig.cohort.setup(PartyId(1));
    let advert = encode("keys", &Advert::of(&setup, own.public(), KEY_SIGNATURES)).unwrap();
    rig.up
        .insert(PartyId(1), frame(round.context(), 0, &advert));
    rig.serve().unwrap();
    rig.serve().unwrap();
    let opened = Opened::read(3, body(&rig.down.remove(&PartyId(1)).unwrap())).unwrap();
    let keys = circle::check_adverts(&round, &opened.adverts).unwrap();
    let line = Line::new(&round, PartyId(1).into(), own, keys, &opened).unwrap();
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    let heard = line
        .open(PartyId(0), "hop 0", body(&rig.down[&PartyId(1)]))
        .unwrap();
    let service = rig.cohort.memory.kept::<service::KeyService>();
    let everyone = PartySet::of(3, parties(0..3));
    let layout = opened.opening.cipher(&round).unwrap().layout;
    let words = service.decrypt(&round, &[&everyone], |key| {
        let lanes = round.job().lanes();
        let hop = layout.read(key.public(), lanes, &heard).unwrap();
        Ok(layout.open_words(key, &hop, lanes).unwrap().to_vec())
    });
    let vector: Vec<u64> = rig.cohort.inputs[0].iter().collect();
    assert_eq!(words, Ok(vector));
}

/// What a party does instead of adding its vector once.
#[derive(Clone, Copy)]
enum Lie {
    Skips,
    AddsTwice,
    StartsAnew,
}

/// Party 2 of a ring of four, which lies; it says that it has added its vector.
struct Liar(Arc<Circle>, Lie);

impl ClientStage for Liar {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let Self(circle, lie) = *self;
        let (setup, cipher) = (&circle.setup, &circle.cipher);
        let job = setup.round.job();
        let hop = circle.line.open(PartyId(1), "hop 1", body)?;
        let key = cipher.key();
        let before = cipher.layout.read(key, job.lanes(), &hop).unwrap();
        let words = biased_words(job, input.unwrap()).unwrap();
        let own = cipher.encrypt(setup.me, &words, rng).unwrap();
        let add = |sums: &[&Sum]| Sum {
            of: PartySet::of(4, parties(0..3)),
            roll: key
                .sum(&sums.iter().map(|sum| &sum.roll).collect::<Vec<_>>())
                .unwrap(),
            words: key
                .sum(&sums.iter().map(|sum| &sum.words).collect::<Vec<_>>())
                .unwrap(),
        };
        let sum = match lie {
            Lie::Skips => add(&[&before]),
            Lie::AddsTwice => add(&[&before, &own, &own]),
            Lie::StartsAnew => add(&[&own]),
        };
        let plain = cipher.layout.write(&sum);
        let everyone = PartySet::of(4, parties(0..4));
        Ok(ClientStep::Send {
            body: circle.line.seal(PartyId(3), "hop 2", &plain).unwrap(),
            next: Box::new(AwaitResult::new(setup.clone(), everyone)),
        })
    }
}

fn lying(lie: Lie) -> circle::Begin {
    macro_rules! with {
        ($lie:expr) => {
            |circle, _, _| {
                let next = Box::new(Liar(circle, $lie));
                Ok(ClientStep::Wait { next })
            }
        };
    }
    match lie {
        Lie::Skips => with!(Lie::Skips),
        Lie::AddsTwice => with!(Lie::AddsTwice),
        Lie::StartsAnew => with!(Lie::StartsAnew),
    }
}

#[test]
fn case_37_a_party_that_skips_adding_or_adds_twice_is_found() {
    let found = |missing: &[u32], repeated: &[u32]| FaultKind::RollCall {
        missing: parties(missing.iter().copied()).collect(),
        repeated: parties(repeated.iter().copied()).collect(),
    };
    for (lie, expected) in [
        (Lie::Skips, found(&[2], &[])),
        (Lie::AddsTwice, found(&[], &[2])),
        (Lie::StartsAnew, found(&[0, 1], &[])),
    ] {
        let mut rig = Rig::new(job(ProtocolName::PaillierRing, 4, 5), 3);
        let (liar, round) = (PartyId(2), rig.cohort.round.clone());
        let setup: Arc<ClientSetup> = Arc::new(rig.cohort.setup(liar));
        let started = circle::start(&setup, lying(lie), &mut rig.rng).unwrap();
        let ClientStep::Send { body: advert, next } = started else {
            panic!("it begins with its key");
        };
        rig.up.insert(liar, frame(round.context(), 0, &advert));
        let mut stage = Some(next);
        while rig.role_faults.is_empty() {
            rig.serve().unwrap();
            if let Some(message) = rig.down.remove(&liar) {
                let input = rig.cohort.input(liar);
                let stage_now = stage.take().unwrap();
                let step = stage_now
                    .answer(body(&message), Some(&*input), &mut rig.rng)
                    .unwrap();
                match step {
                    ClientStep::Wait { next } => stage = Some(next),
                    ClientStep::Send { body, .. } => {
                        rig.up.insert(liar, frame(round.context(), 4, &body));
                    }
                    _ => panic!("it waits and sends"),
                }
            }
            rig.answer_all().unwrap();
        }
        assert_eq!(rig.role_faults[0].1.kind, expected);
        // Nothing comes of the round.
        let failed = rig.serve().unwrap_err();
        assert_eq!(failed.kind, FaultKind::TooFewSurvivors { have: 0, need: 1 });
    }
}

/// Fixed point has negative words, whose sums wrap: none of them may touch its neighbour.
#[test]
fn words_that_wrap_stay_in_their_lanes() {
    for name in NAMES {
        let spec = JobSpec {
            encoding: crate::Fixed64::default().into(),
            ..job(name, 3, 70)
        };
        let mut rig = Rig::lying(spec, 3, |inputs| {
            for (rank, words) in (1..).zip(inputs.iter_mut()) {
                let lanes = words.len() as u64;
                let near = |lane: u64| (lane % 3).wrapping_sub(rank * lane);
                let values: Vec<u64> = (0..lanes).map(near).collect();
                *words = blindsum_math::words::Words::from_values(words.width(), &values).unwrap();
            }
        });
        let outcome = rig.finish().unwrap();
        assert_eq!(
            outcome.sum,
            Some(rig.cohort.sum_of(everyone(&rig))),
            "{name}"
        );
    }
}
