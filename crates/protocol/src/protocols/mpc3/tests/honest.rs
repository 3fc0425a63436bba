//! Servers that keep to the protocol, and parties that vanish.

use proptest::prelude::*;

use super::spec;
use crate::testing::{Rig, body, parties, restart, with_body};
use crate::{Adversary, Answer, Clipping, FaultKind, JobSpec, PartyId, Quantised, ServerRole};

const BOTH: [Adversary; 2] = [Adversary::SemiHonest, Adversary::Active];

#[test]
fn the_sum_is_that_of_the_survivors() {
    for adversary in BOTH {
        let mut rig = Rig::new(spec(adversary), 3);
        let outcome = rig.finish().unwrap();
        assert_eq!(outcome.sum, Some(rig.cohort.sum_of(parties(0..6))));
        assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Any number of parties, width and length; any of the parties lost at any of the three points at which it can be:
    /// before it uploads, with a part at one other server, and with parts at both.
    #[test]
    fn whoever_vanishes_is_left_out(
        n in 5u32..9, dim in 1u64..40, bits in 2u32..17, lost in proptest::collection::vec((0u32..9, 0usize..3), 0..3), seed in 1u64..1000
    ) {
        let spec = JobSpec {
            parties: n,
            dim,
            min_parties: 3,
            encoding: Quantised { bits, ..Default::default() }.into(),
            ..spec(Adversary::Active)
        };
        let mut rig = Rig::new(spec, seed);
        let mut gone = std::collections::BTreeSet::new();
        for (rank, parts) in lost.into_iter().filter(|(rank, _)| *rank < n) {
            let party = PartyId(rank);
            let roles = [ServerRole::Second, ServerRole::Third];
            let given: Vec<_> = roles[..parts]
                .iter()
                .filter_map(|role| Some(((party, *role), rig.parts.get(&(party, *role))?.clone())))
                .collect();
            rig.drop_out([party]);
            rig.parts.extend(given);
            gone.insert(party);
        }
        let survivors: Vec<PartyId> = parties(0..n).filter(|party| !gone.contains(party)).collect();
        let outcome = rig.finish().unwrap();
        prop_assert_eq!(outcome.survivors.iter().collect::<Vec<_>>(), survivors.clone());
        prop_assert_eq!(outcome.sum, Some(rig.cohort.sum_of(survivors)));
    }
}

/// The other two servers have no model, so they would not have the bounds of the parties.
#[test]
fn bounds_that_are_found_from_models_are_refused() {
    let spec = JobSpec {
        encoding: Quantised {
            clipping: Clipping::Aciq,
            ..Default::default()
        }
        .into(),
        ..spec(Adversary::Active)
    };
    let error = spec.validate().unwrap_err();
    assert!(error.to_string().contains("clipping"), "{error}");
}

#[test]
fn too_few_survivors_open_nothing() {
    let mut rig = Rig::new(spec(Adversary::SemiHonest), 3);
    // All are at the coordinator, and only two of them at the third server.
    rig.parts
        .retain(|(party, role), _| *role == ServerRole::Second || party.0 < 2);
    let fault = rig.finish().unwrap_err();
    let need = rig.cohort.round.job().min_parties();
    assert_eq!(fault.kind, FaultKind::TooFewSurvivors { have: 2, need });
}

#[test]
fn a_party_goes_on_from_its_snapshot_once_its_upload_is_out() {
    for adversary in BOTH {
        let mut rig = Rig::new(spec(adversary), 3);
        for party in parties(0..6) {
            let before = rig.clients[&party].parts().to_vec();
            assert_eq!(before.len(), 2);
            assert!(restart(&mut rig, party));
            assert!(rig.clients[&party].parts() == before, "other parts");
        }
        rig.serve().unwrap();
        rig.serve().unwrap();
        for party in parties(0..6) {
            assert!(restart(&mut rig, party));
            let Ok(Answer::Done(sum)) = rig.answer(party) else {
                panic!("no sum");
            };
            assert_eq!(sum.sum, rig.cohort.sum_of(parties(0..6)));
        }
    }
}

/// Abuse case 38: the coordinator tells parties another sum, or other survivors, than the servers have opened.
#[test]
fn case_38_parties_take_no_sum_for_which_the_other_servers_do_not_vouch() {
    let told = |rig: &mut Rig| {
        rig.serve().unwrap();
        rig.serve().unwrap();
        rig.down[&PartyId(1)].clone()
    };
    let mut rig = Rig::new(spec(Adversary::Active), 3);
    let honest = told(&mut rig);
    let length = body(&honest).len();
    for at in 0..length {
        let mut changed = body(&honest).to_vec();
        changed[at] ^= 1;
        let mut rig = Rig::new(spec(Adversary::Active), 3);
        told(&mut rig);
        // A tag is for one party alone: those of others tell party 1 nothing.
        let is_mine = |at: usize| {
            let tags = length - 2 * 6 * 32;
            at < tags || (at - tags) / 32 % 6 == 1
        };
        let answer = rig.answer_to(PartyId(1), &with_body(&honest, &changed));
        assert_eq!(answer.is_err(), is_mine(at), "byte {at}");
    }
}

#[test]
fn whoever_is_not_in_the_sum_takes_none() {
    let mut rig = Rig::new(spec(Adversary::Active), 3);
    rig.parts.remove(&(PartyId(4), ServerRole::Third));
    rig.serve().unwrap();
    rig.serve().unwrap();
    let of_others = rig.down[&PartyId(0)].clone();
    let fault = rig.answer_to(PartyId(4), &of_others).unwrap_err();
    assert!(
        matches!(fault.kind, FaultKind::BadSurvivorList(_)),
        "{fault}"
    );
}
