//! Results that the servers alone learn.

use super::rules::{BOTH, assert_right, rig, with};
use crate::testing::{body, parties};
use crate::{Adversary, Answer, JobSpec, ModelUpdate, Mpc3, PartyId, ResultName, RuleName};
use blindsum_math::words::Words;

fn spec(rule: RuleName, adversary: Adversary) -> JobSpec {
    let options = Mpc3 {
        rule,
        result: ResultName::Servers,
        ..Mpc3::default()
    };
    JobSpec {
        model_update: ModelUpdate::Nothing,
        ..with(options, adversary)
    }
}

/// All three servers learn the same result, of a sum and of a rule; parties hear who is in it.
#[test]
fn servers_alone_learn_the_result() {
    for adversary in BOTH {
        for rule in [RuleName::FedAvg, RuleName::Clipped, RuleName::Median] {
            let mut rig = rig(spec(rule, adversary), 7, |_| ());
            rig.serve().unwrap();
            rig.serve().unwrap();
            let outcome = rig.outcome.take().unwrap();
            for follower in rig.followers.values_mut() {
                let learnt = follower.learnt().unwrap();
                assert_eq!(Some(learnt.sum), outcome.sum);
                assert_eq!(learnt.survivors, outcome.survivors);
                assert!(follower.learnt().is_none());
            }
            for party in parties(0..6) {
                let Ok(Answer::Done(sum)) = rig.answer(party) else {
                    panic!("{rule} {adversary}: no end");
                };
                assert_eq!((sum.sum.len(), &sum.survivors), (0, &outcome.survivors));
            }
            match rule {
                RuleName::FedAvg => {
                    let sum = rig.cohort.sum_of(parties(0..6));
                    assert_eq!(outcome.sum, Some(sum));
                }
                _ => assert_right(&rig, &outcome, rule.as_str()),
            }
        }
    }
}

/// Abuse case 38: what parties are told says nothing of a result that is for the servers alone: it is the same whatever the
/// vectors are.
#[test]
fn case_38_parties_hear_nothing_of_what_is_for_servers() {
    let told = |adversary, first: u64| {
        let mut rig = rig(spec(RuleName::FedAvg, adversary), 7, |inputs| {
            let words: Vec<u64> = inputs[0].iter().map(|word| word ^ first).collect();
            inputs[0] = Words::from_values(inputs[0].width(), &words).unwrap();
        });
        rig.serve().unwrap();
        rig.serve().unwrap();
        let sum = rig.outcome.take().unwrap().sum;
        (sum, body(&rig.down[&PartyId(1)]).to_vec())
    };
    for adversary in BOTH {
        let (one, other) = (told(adversary, 0), told(adversary, 1));
        assert_ne!(one.0, other.0);
        // Of active servers the tags are of keys that the same random numbers gave.
        assert_eq!(one.1, other.1);
    }
}

/// A job whose parties hear no result has no model.
#[test]
fn a_model_needs_a_result() {
    let refused = JobSpec {
        model_update: ModelUpdate::Add,
        ..spec(RuleName::FedAvg, Adversary::Active)
    };
    let error = refused.validate().unwrap_err();
    assert_eq!(error.field, "model_update");
    assert!(error.rule.contains("result = servers"), "{error}");
}
