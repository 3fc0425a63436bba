//! Servers tell each other of uploads while these come, and add what all three have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::super::holding::Holding;
use super::super::options::Mpc3;
use super::spec;
use crate::testing::{Rig, body, parties, with_body};
use crate::{Adversary, Culprit, JobSpec, Message, PartyId, RuleName, ServerIndex, ServerRole};

/// Who tells whom what.
type Told = Vec<(ServerIndex, ServerIndex, Message)>;

/// An honest round's notices.
fn told(spec: JobSpec) -> Told {
    let told = Arc::new(Mutex::new(Told::new()));
    let mut rig = Rig::new(spec, 3);
    let keep = told.clone();
    rig.on_notice = Box::new(move |from, to, notice| {
        keep.lock().unwrap().push((from, to, notice.clone()));
        Some(notice)
    });
    rig.finish().unwrap();
    told.lock().unwrap().clone()
}

/// What each party gives this server.
fn uploads(rig: &Rig, server: ServerIndex) -> BTreeMap<PartyId, Message> {
    let part = |party| match ServerRole::at(server) {
        Some(role) => rig.parts[&(party, role)].clone(),
        None => rig.up[&party].clone(),
    };
    parties(0..6).map(|party| (party, part(party))).collect()
}

#[test]
fn servers_tell_each_other_of_every_upload() {
    for adversary in [Adversary::SemiHonest, Adversary::Active] {
        let told = told(spec(adversary));
        assert_eq!(told.len(), 6 * 6);
        for party in parties(0..6) {
            let of_party = |notice: &Message| body(notice)[..4] == party.0.to_be_bytes();
            let mut told = told.iter().filter(|(.., notice)| of_party(notice));
            let (_, _, first) = told.next().unwrap();
            assert_eq!(body(first).len(), 36);
            assert_eq!(told.filter(|(.., it)| it == first).count(), 5);
        }
    }
}

#[test]
fn servers_that_compute_with_vectors_tell_nothing() {
    let rule = Mpc3 {
        rule: RuleName::Median,
        ..Mpc3::default()
    };
    let spec = JobSpec {
        protocol: rule.into(),
        ..spec(Adversary::Active)
    };
    assert!(told(spec).is_empty());
}

/// A server keeps no vector that all three have, whatever comes first.
#[test]
fn a_vector_that_all_three_have_is_added_and_forgotten() {
    let rig = Rig::new(spec(Adversary::SemiHonest), 3);
    let told = told(spec(Adversary::SemiHonest));
    for me in ServerIndex::ALL {
        let uploads = uploads(&rig, me);
        let notices: Vec<_> = told.iter().filter(|(_, to, _)| *to == me).collect();
        let mut holding = Holding::new(rig.cohort.round.clone(), me).unwrap();
        for (party, upload) in &uploads {
            let of_party = |notice: &Message| body(notice)[..4] == party.0.to_be_bytes();
            let notices = notices.iter().filter(|(.., notice)| of_party(notice));
            let [first, second] = notices.collect::<Vec<_>>()[..] else {
                panic!("two others tell of {party}")
            };
            let mut receive = |(from, _, notice): &(ServerIndex, _, Message)| {
                holding.note(*from, body(notice)).unwrap();
            };
            // The upload comes last, between, or first.
            match party.0 % 3 {
                0 => {
                    receive(first);
                    receive(second);
                    holding.take(*party, body(upload)).unwrap();
                }
                1 => {
                    receive(first);
                    holding.take(*party, body(upload)).unwrap();
                    holding.note(second.0, body(&second.2)).unwrap();
                }
                _ => {
                    holding.take(*party, body(upload)).unwrap();
                    for (from, _, notice) in [first, second] {
                        let explicit = usize::from(party.0 % 3 != (me.previous().number() as u32));
                        assert_eq!(holding.explicit_kept(), explicit, "{me} {party}");
                        holding.note(*from, body(notice)).unwrap();
                    }
                }
            }
            assert_eq!(holding.explicit_kept(), 0, "{me} {party}");
        }
    }
}

/// Notices may be lost, any of them: the sum is the same. So it is where parties vanish between two servers, and where
/// they give the servers different components.
#[test]
fn the_sum_is_right_whatever_notices_are_lost() {
    for seed in 0..60 {
        let mut choose = ChaCha20Rng::seed_from_u64(seed);
        let adversary = [Adversary::SemiHonest, Adversary::Active][seed as usize % 2];
        let mut rig = Rig::new(spec(adversary), 3);
        let lost = choose.next_u32() % 4;
        let absent = (seed % 3 == 0).then(|| (PartyId(choose.next_u32() % 6), ServerRole::Third));
        if let Some(absent) = absent {
            rig.parts.remove(&absent);
        }
        let liar = (seed % 5 == 0).then(|| PartyId(choose.next_u32() % 6));
        let liar = liar.filter(|liar| absent.is_none_or(|(absent, _)| absent != *liar));
        if let Some(liar) = liar {
            let other = rig.parts_again(liar).remove(&ServerRole::Second).unwrap();
            rig.parts.insert((liar, ServerRole::Second), other);
        }
        rig.on_notice =
            Box::new(move |_, _, notice| (choose.next_u32() % 3 >= lost).then_some(notice));
        let outcome = rig.finish().unwrap();
        let left_out = [absent.map(|it| it.0), liar];
        let survivors: Vec<_> = parties(0..6)
            .filter(|it| !left_out.contains(&Some(*it)))
            .collect();
        assert_eq!(outcome.survivors.iter().collect::<Vec<_>>(), survivors);
        assert_eq!(outcome.sum, Some(rig.cohort.sum_of(survivors)), "{seed}");
    }
}

/// Abuse case 38: a server that tells of an upload and then does not list it, or lists another one, is named by whom it told:
/// the vector may be in the sum.
#[test]
fn case_38_a_server_stands_by_the_uploads_that_it_told_of() {
    for liar in ServerIndex::ALL {
        for to in [liar.next(), liar.previous()] {
            let mut rig = Rig::new(spec(Adversary::SemiHonest), 3);
            rig.on_letter = Box::new(move |from, _, letter| {
                let mut changed = body(&letter).to_vec();
                let end = changed.len() - 4;
                if from == liar && changed[end..] == [0; 4] {
                    // Party 5 is not in the list, towards both.
                    changed[0] &= !(1 << 5);
                    changed[end - 32..end].fill(0);
                }
                Some(with_body(&letter, &changed))
            });
            // Nobody else can find it.
            rig.on_notice =
                Box::new(move |from, told, notice| (from != liar || told == to).then_some(notice));
            let fault = match rig.finish() {
                Err(fault) if to == ServerIndex::ALL[0] => fault,
                _ => {
                    let mut faults = rig.server_faults.iter();
                    let (_, fault) = faults.find(|(by, _)| *by == to).unwrap();
                    fault.clone()
                }
            };
            assert_eq!(fault.culprit, culprit(liar), "{liar} to {to}");
            let text = fault.to_string();
            assert!(
                text.contains("of which it has sent a notice"),
                "{liar} to {to}: {text}"
            );
        }
    }
}

fn culprit(server: ServerIndex) -> Culprit {
    match ServerRole::at(server) {
        Some(role) => Culprit::Role(role),
        None => Culprit::Server,
    }
}

/// Abuse case 27: notices that no honest server sends.
#[test]
fn case_27_notices_that_no_server_sends_are_refused() {
    let rig = Rig::new(spec(Adversary::SemiHonest), 3);
    let me = ServerIndex::ALL[1];
    let notice = |rank: u32, header: u8, length: usize| {
        let mut notice = [&rank.to_be_bytes()[..], &[header; 32]].concat();
        notice.resize(length, 0);
        notice
    };
    let refused = |notices: &[(ServerIndex, Vec<u8>)]| {
        let mut holding = Holding::new(rig.cohort.round.clone(), me).unwrap();
        let (last, before) = notices.split_last().unwrap();
        for (from, notice) in before {
            holding.note(*from, notice).unwrap();
        }
        let fault = holding.note(last.0, &last.1).unwrap_err();
        assert_eq!(fault.culprit, culprit(last.0));
        fault.to_string()
    };
    let next = me.next();
    for length in [0, 3, 4, 35, 37, 64] {
        let text = refused(&[(next, notice(0, 1, length))]);
        assert!(text.contains("36 bytes"), "{text}");
    }
    for rank in [6, 7, u32::MAX] {
        let text = refused(&[(next, notice(rank, 1, 36))]);
        assert!(text.contains("not in the round"), "{text}");
    }
    let text = refused(&[(me, notice(0, 1, 36))]);
    assert!(text.contains("own"), "{text}");
    let twice = [(next, notice(0, 1, 36)), (next, notice(0, 2, 36))];
    let text = refused(&twice);
    assert!(text.contains("another upload of this party"), "{text}");
    // Of another server, or the same once more, it is none.
    let mut holding = Holding::new(rig.cohort.round.clone(), me).unwrap();
    for (from, header) in [(next, 1), (me.previous(), 2), (next, 1)] {
        holding.note(from, &notice(0, header, 36)).unwrap();
    }
}

/// Abuse case 28: a notice that comes when uploads are over, or the part in the round is, changes nothing.
#[test]
fn case_28_notices_that_come_late_mean_nothing() {
    let told = told(spec(Adversary::SemiHonest));
    let mut rig = Rig::new(spec(Adversary::SemiHonest), 3);
    rig.on_notice = Box::new(|_, _, _| None);
    rig.serve().unwrap();
    let hear_all = |rig: &mut Rig| {
        for (from, to, notice) in &told {
            match ServerRole::at(*to) {
                None => rig
                    .server
                    .as_mut()
                    .unwrap()
                    .receive_letter(*from, notice)
                    .unwrap(),
                Some(role) => {
                    let follower = rig.followers.get_mut(&role).unwrap();
                    assert!(follower.receive_letter(*from, notice).unwrap().is_none());
                }
            }
        }
    };
    hear_all(&mut rig);
    rig.serve().unwrap();
    let outcome = rig.outcome.take().unwrap();
    assert_eq!(outcome.sum, Some(rig.cohort.sum_of(parties(0..6))));
}
