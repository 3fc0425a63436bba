//! Rounds whose graph is drawn: a party opens its nonce once, for one roster, and begins no other round with it; what a
//! coordinator tells of numbers and nonces is checked.

use std::sync::Arc;

use blindsum_net::party::PartyConfig;
use blindsum_net::pb::{self, RoundRefusalCode, party_frame::Frame};
use blindsum_net::{Credentials, Model};
use blindsum_protocol::{Job, ProtocolName, nonce_commitment};

use crate::common::fake::{Cast, Fake, Line, name, one_round};
use crate::common::{Pki, party_config, spec};

/// A party `a` that is ready, in a job in which nonces are committed to.
struct Scene {
    pki: Pki,
    fake: Fake,
    job: Arc<Job>,
    a: Credentials,
}

/// What it hears next.
type Fixed = pb::RosterFixed;

impl Scene {
    fn new(seed: u64) -> Self {
        let pki = Pki::new(seed);
        let job = spec(ProtocolName::SecAggPlus, 5).validate().unwrap();
        Self {
            fake: Fake::start(&pki),
            a: pki.party("a"),
            job: Arc::new(job),
            pki,
        }
    }

    fn config(&self) -> PartyConfig {
        party_config(&self.fake.url(), self.a.clone())
    }

    /// A roster of `a` and others that are ready with nonces of sevens, and what begins a round with them.
    fn fixed(&self, ready: &pb::Ready, others: &[&str]) -> (Fixed, pb::RoundStart) {
        let model = Model::initial(&self.job);
        let parties: Vec<Credentials> = others.iter().map(|name| self.pki.party(name)).collect();
        let parties: Vec<&Credentials> = parties.iter().collect();
        let mut start = Cast::new(&self.a, &[], &parties).start(ready.round, &model);
        let numbers = self.job.round_parameters_for(start.roster.len()).unwrap();
        start.numbers = Some(numbers.into());
        let names = std::iter::once("a").chain(others.iter().copied());
        let committed = start.roster.iter().zip(names).map(|(member, name)| {
            let other = nonce_commitment(&self.job, ready.round, name, &[7; 32]).to_vec();
            pb::Committed {
                fingerprint: member.fingerprint.clone(),
                commitment: if name == "a" {
                    ready.commitment.clone().into()
                } else {
                    other.into()
                },
            }
        });
        let fixed = Fixed {
            round: ready.round,
            model: start.model.clone(),
            roster: committed.collect(),
            certificates: std::mem::take(&mut start.certificates),
            numbers: start.numbers,
        };
        (fixed, start)
    }

    /// What becomes of a party that is ready: `play` goes on from there.
    fn ready(&self, play: impl FnOnce(&mut Line<'_>, pb::Ready)) {
        let party = one_round(self.config());
        let mut line = self.fake.welcome(&self.job);
        let model = Some(name(&Model::initial(&self.job)));
        line.send(pb::RoundOffer {
            round: 1,
            model,
            ..pb::RoundOffer::default()
        });
        let Some(Frame::Ready(ready)) = line.next() else {
            panic!("not ready");
        };
        assert_eq!((ready.nonce.len(), ready.commitment.len()), (0, 32));
        play(&mut line, ready);
        drop(line);
        let refused = pb::Refused::new(pb::RefusalCode::RefusalUnknownJob, "enough");
        if let Some(line) = self.fake.welcome_or(&self.job, || party.is_finished()) {
            line.send(refused);
        }
        let _ = party.join();
    }
}

/// The nonce that `a` opens.
fn opened(line: &mut Line<'_>) -> Vec<u8> {
    match line.next() {
        Some(Frame::NonceOpening(opening)) => opening.nonce,
        other => panic!("not opened: {other:?}"),
    }
}

/// The next thing that `a` says is that it refuses the round, for this reason.
fn refused(line: &mut Line<'_>, says: &str) {
    let (code, reason) = line.refusal();
    assert_eq!(code, RoundRefusalCode::RoundRefusalFault, "{reason}");
    assert!(reason.contains(says), "{reason}");
}

/// Abuse case 46: a coordinator that knows the nonce of a party has no choice any more. The round has the members,
/// the nonces, the model and the numbers that were fixed, or the party has no part in it.
#[test]
fn case_46_a_round_is_the_one_for_which_nonces_were_opened() {
    type Change = fn(&Scene, &pb::Ready, &mut pb::RoundStart);
    let changes: [(Change, &str); 4] = [
        (
            |_, _, start| {
                let mut nonce = start.roster[1].nonce.to_vec();
                nonce[5] ^= 1;
                start.roster[1].nonce = nonce.into();
            },
            "the nonce of b is not the one that it committed to",
        ),
        (
            |scene, ready, start| {
                let (fixed, other) = scene.fixed(ready, &["b", "c", "e"]);
                start.roster[3] = other.roster[3].clone();
                start.certificates = vec![fixed.certificates[3].clone()];
            },
            "other members than were fixed",
        ),
        (
            |_, _, start| start.numbers.as_mut().unwrap().threshold += 1,
            "other numbers than were fixed",
        ),
        (
            |_, _, start| start.kind = pb::RoundKind::KeySetup.into(),
            "key set-up",
        ),
    ];
    for (seed, (change, says)) in (1..).zip(changes) {
        let scene = Scene::new(seed);
        scene.ready(|line, ready| {
            let (fixed, mut start) = scene.fixed(&ready, &["b", "c", "d"]);
            line.send(fixed.clone());
            let nonce = opened(line);
            let commitment = nonce_commitment(&scene.job, 1, "a", nonce[..].try_into().unwrap());
            assert_eq!(commitment[..], ready.commitment);
            // Once more, as after a connection that was lost: the same.
            line.send(Fixed {
                certificates: Vec::new(),
                ..fixed
            });
            assert_eq!(opened(line), nonce);
            start.roster[0].nonce = nonce.into();
            change(&scene, &ready, &mut start);
            line.send(start);
            refused(line, says);
        });
    }
}

/// Abuse case 46: a nonce is opened for one roster and never for another one.
#[test]
fn case_46_a_nonce_is_opened_for_one_roster_only() {
    type Change = fn(&Scene, &pb::Ready, &mut Fixed);
    let changes: [Change; 3] = [
        |scene, ready, fixed| {
            let (other, _) = scene.fixed(ready, &["b", "c", "e"]);
            fixed.roster[3] = other.roster[3].clone();
            fixed.certificates = vec![other.certificates[3].clone()];
        },
        |_, _, fixed| {
            let mut another = fixed.roster[1].commitment.to_vec();
            another[5] ^= 1;
            fixed.roster[1].commitment = another.into();
        },
        |_, _, fixed| fixed.numbers.as_mut().unwrap().threshold += 1,
    ];
    for (seed, change) in (11..).zip(changes) {
        let scene = Scene::new(seed);
        scene.ready(|line, ready| {
            let (fixed, _) = scene.fixed(&ready, &["b", "c", "d"]);
            line.send(fixed.clone());
            opened(line);
            let mut other = Fixed {
                certificates: Vec::new(),
                ..fixed
            };
            change(&scene, &ready, &mut other);
            line.send(other);
            refused(line, "fixed a second time");
        });
    }
}

/// Abuse case 46: no round begins before its roster was fixed.
#[test]
fn case_46_a_round_that_begins_before_its_roster_is_fixed_is_refused() {
    let scene = Scene::new(21);
    scene.ready(|line, ready| {
        let (fixed, mut start) = scene.fixed(&ready, &["b", "c", "d"]);
        start.certificates = fixed.certificates;
        // Whoever knows no nonce can only say another one.
        start.roster[0].nonce = vec![0; 32].into();
        line.send(start);
        let (code, reason) = line.refusal();
        assert_eq!(code, RoundRefusalCode::RoundRefusalUnable, "{reason}");
    });
}

/// Abuse case 46: numbers that do not keep the secrets of a party are refused before its nonce is opened, by name.
#[test]
fn case_46_weak_numbers_are_refused_by_name() {
    type Change = fn(&mut pb::Numbers);
    let changes: [(Change, &str); 4] = [
        (|numbers| numbers.threshold = 2, "threshold is 2"),
        (|numbers| numbers.neighbours = 2, "neighbours is 2"),
        (|numbers| numbers.packing = 1, "packing = 1"),
        (
            |numbers| *numbers = pb::Numbers::default(),
            "neighbours is 0",
        ),
    ];
    for (seed, (change, says)) in (31..).zip(changes) {
        let scene = Scene::new(seed);
        scene.ready(|line, ready| {
            let (mut fixed, _) = scene.fixed(&ready, &["b", "c", "d"]);
            change(fixed.numbers.as_mut().unwrap());
            line.send(fixed);
            refused(line, says);
        });
    }
}
