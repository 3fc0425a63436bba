//! One of the three servers does not keep to the protocol.

use std::sync::{Arc, Mutex};

use super::spec;
use crate::testing::{OnLetter, Rig, body, parties, with_body};
use crate::{Adversary, Culprit, Fault, FaultKind, Message, Outcome, ServerIndex, ServerRole};

/// Letters as they were said, with who said them to whom.
type Said = Vec<(ServerIndex, ServerIndex, Message)>;

/// What an honest round's servers say.
fn said() -> Said {
    let said = Arc::new(Mutex::new(Said::new()));
    let mut rig = Rig::new(spec(Adversary::Active), 3);
    let keep = said.clone();
    rig.on_letter = Box::new(move |from, to, letter| {
        keep.lock().unwrap().push((from, to, letter.clone()));
        Some(letter)
    });
    rig.finish().unwrap();
    let said = said.lock().unwrap();
    said.clone()
}

/// Plays the round with the letter at this place changed.
fn with_letter(
    place: usize,
    mut change: impl FnMut(Message) -> Option<Message> + Send + 'static,
) -> (Rig, Result<Outcome, Fault>) {
    let mut rig = Rig::new(spec(Adversary::Active), 3);
    let mut number = 0;
    let on_letter: OnLetter = Box::new(move |_, _, letter| {
        number += 1;
        match number - 1 == place {
            true => change(letter),
            false => Some(letter),
        }
    });
    rig.on_letter = on_letter;
    let outcome = rig.finish();
    (rig, outcome)
}

#[test]
fn a_sum_takes_three_rounds() {
    let said = said();
    assert_eq!(said.len(), 3 * 6);
    assert!(body(&said[17].2).ends_with(&2u32.to_be_bytes()));
}

/// Abuse case 38: any byte of any letter changed, of any of the three servers. No sum comes out but the right one.
#[test]
fn case_38_a_changed_letter_gives_no_wrong_sum() {
    for (place, (from, to, letter)) in said().into_iter().enumerate() {
        let length = body(&letter).len();
        for at in (0..length).step_by(1 + length / 40) {
            let (rig, outcome) = with_letter(place, move |letter| {
                let mut changed = body(&letter).to_vec();
                changed[at] ^= 4;
                Some(with_body(&letter, &changed))
            });
            let what = format!("letter {place} from {from} to {to}, byte {at}");
            assert!(outcome.is_err(), "{what}: {:?}", rig.server_faults);
        }
    }
}

/// Abuse case 38: letters lost, cut, or said again in place of others.
#[test]
fn case_38_letters_that_are_lost_cut_or_exchanged_give_no_wrong_sum() {
    let said = said();
    for (place, (from, to, letter)) in said.iter().enumerate() {
        let others = said.iter().filter(|(_, _, it)| it != letter);
        let mut instead: Vec<Option<Message>> = others.map(|(_, _, it)| Some(it.clone())).collect();
        instead.push(None);
        instead.push(Some(letter.slice(..letter.len() - 1)));
        for other in instead {
            let (rig, outcome) = with_letter(place, move |_| other.clone());
            if let Ok(outcome) = outcome {
                let expected = rig.cohort.sum_of(outcome.survivors.iter());
                assert_eq!(outcome.sum, Some(expected), "{place} from {from} to {to}");
            }
        }
    }
}

/// Abuse case 32: a server that tells the others different lists of uploads gets no two sums opened.
#[test]
fn case_32_different_lists_open_nothing() {
    for liar in ServerIndex::ALL {
        let mut rig = Rig::new(spec(Adversary::Active), 3);
        let opened = Arc::new(Mutex::new(Vec::new()));
        let say = opened.clone();
        rig.on_notice = Box::new(move |from, _, notice| (from != liar).then_some(notice));
        // It leaves party 5 out towards one of them.
        rig.on_letter = Box::new(move |from, to, letter| {
            let mut changed = body(&letter).to_vec();
            if from != liar && changed.ends_with(&2u32.to_be_bytes()) {
                say.lock().unwrap().push(from);
            }
            let end = changed.len() - 4;
            if from == liar && to == liar.next() && changed[end..] == [0; 4] {
                changed[0] &= !(1 << 5);
                changed[end - 32..end].fill(0);
                return Some(with_body(&letter, &changed));
            }
            Some(letter)
        });
        let outcome = rig.finish();
        assert!(outcome.is_err(), "{liar}");
        let opened = opened.lock().unwrap();
        assert!(opened.is_empty(), "{liar}: {opened:?} say their components");
    }
}

/// Abuse case 32: a server that holds uploads back until too few are left gets no sum of these.
#[test]
fn case_32_too_few_uploads_open_nothing() {
    for liar in [1, 2].map(|place| ServerIndex::ALL[place]) {
        let mut rig = Rig::new(spec(Adversary::Active), 3);
        rig.on_notice = Box::new(move |from, _, notice| (from != liar).then_some(notice));
        rig.on_letter = Box::new(move |from, _, letter| {
            let mut changed = body(&letter).to_vec();
            let end = changed.len() - 4;
            if from == liar && changed[end..] == [0; 4] {
                // Party 0 alone.
                changed[0] = 1;
                changed[33..end].fill(0);
            }
            Some(with_body(&letter, &changed))
        });
        let fault = rig.finish().unwrap_err();
        let few = FaultKind::TooFewSurvivors { have: 1, need: 3 };
        assert_eq!(fault.kind, few, "{liar}");
    }
}

/// Abuse case 38: the word of another server is neither cut nor lengthened. Of two words that are as long together as they
/// must be, the first one is named.
#[test]
fn case_38_the_word_of_a_server_has_its_length() {
    let roles = [ServerRole::Second, ServerRole::Third];
    for lengths in [
        [-1isize, 0],
        [0, -32],
        [1, 0],
        [0, 32],
        [-32, 32],
        [32, -32],
    ] {
        let mut rig = Rig::new(spec(Adversary::Active), 3);
        rig.serve().unwrap();
        for (role, by) in roles.into_iter().zip(lengths) {
            let word = rig.up_of_servers[&role].clone();
            let mut changed = body(&word).to_vec();
            changed.resize(changed.len().saturating_add_signed(by), 0);
            rig.up_of_servers.insert(role, with_body(&word, &changed));
        }
        let fault = rig.serve().unwrap_err();
        let first = usize::from(lengths[0] == 0);
        assert_eq!(fault.culprit, Culprit::Role(roles[first]), "{lengths:?}");
        assert!(fault.to_string().contains("as long as"), "{fault}");
    }
}

/// Abuse case 38: the word of another server is on the result that the coordinator has.
#[test]
fn case_38_the_word_of_a_server_is_on_the_same_result() {
    for adversary in [Adversary::SemiHonest, Adversary::Active] {
        for role in [ServerRole::Second, ServerRole::Third] {
            let mut rig = Rig::new(spec(adversary), 3);
            rig.serve().unwrap();
            let word = rig.up_of_servers[&role].clone();
            let mut changed = body(&word).to_vec();
            changed[0] ^= 1;
            rig.up_of_servers.insert(role, with_body(&word, &changed));
            let fault = rig.serve().unwrap_err();
            assert_eq!(fault.culprit, Culprit::Role(role), "{adversary}");
            assert!(fault.to_string().contains("another result"), "{fault}");
        }
    }
}

/// Abuse case 28: letters that come before a server needs them are kept, two of each other server and no more.
#[test]
fn case_28_a_server_keeps_few_letters_that_come_early() {
    let mut rig = Rig::new(spec(Adversary::Active), 3);
    let letters = said();
    let role = ServerRole::Third;
    let me = role.place().unwrap();
    let mut early = letters
        .iter()
        .filter(|(from, to, _)| *to == me && *from == me.next());
    let mut receive = || {
        let (from, _, letter) = early.next().unwrap();
        rig.followers
            .get_mut(&role)
            .unwrap()
            .receive_letter(*from, letter)
    };
    assert!(receive().is_ok() && receive().is_ok());
    let fault = receive().unwrap_err();
    assert_eq!(fault.culprit, Culprit::Server, "{fault}");
    assert!(
        fault
            .to_string()
            .contains("before this server has answered"),
        "{fault}"
    );
}

#[test]
fn what_a_server_holds_of_a_vector_is_random() {
    // The same vectors, split twice: every component that a server sees is another one.
    let (one, two) = (
        Rig::new(spec(Adversary::Active), 3),
        Rig::new(spec(Adversary::Active), 4),
    );
    for party in parties(0..6) {
        for (role, part) in one.clients[&party].parts() {
            let other = two.clients[&party].parts().iter();
            let (_, other) = other.clone().find(|(it, _)| it == role).unwrap();
            assert!(body(part) != body(other), "{party} {role}");
        }
    }
}
