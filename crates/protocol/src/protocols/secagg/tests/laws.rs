//! Masks cancel for every graph and every set of lost parties.

use proptest::prelude::*;

use super::*;
use crate::{SecAggPlus, SpecError};

/// A job of a few parties on the complete graph or on a sparse one; `None` where its bounds cannot be met.
fn job(
    protocol: ProtocolName,
    adversary: Adversary,
    parties: u32,
    neighbours: u32,
) -> Option<JobSpec> {
    let spec = JobSpec {
        protocol: match protocol {
            ProtocolName::SecAggPlus => SecAggPlus {
                neighbours: neighbours.min(parties - 1),
                ..Default::default()
            }
            .into(),
            complete => complete.into(),
        },
        corrupt: 0.0,
        dropout: 0.0,
        min_parties: 2,
        dim: 13,
        ..spec(protocol, adversary, parties)
    };
    let checked: Result<_, SpecError> = spec.clone().validate();
    checked.is_ok().then_some(spec)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whoever is lost, and when: the sum is that of the parties whose vectors came, or the round ends for want
    /// of survivors.
    #[test]
    fn masks_cancel_for_every_survivor_set(
        protocol in prop::sample::select(vec![ProtocolName::SecAgg, ProtocolName::SecAggPlus]),
        adversary in prop::sample::select(Adversary::ALL),
        (n, neighbours) in (2..24u32, 1..24u32),
        lost_at in prop::collection::vec(prop_oneof![3 => Just(u8::MAX), 1 => 0..5u8], 24),
    ) {
        let Some(spec) = job(protocol, adversary, n, neighbours) else { return Ok(()) };
        let mut rig = Rig::new(spec, 7);
        let mut stage = 0;
        let outcome = loop {
            let lost = parties(0..n).filter(|party| lost_at[party.rank()] == stage);
            rig.drop_out(lost);
            if let Err(fault) = rig.serve() {
                break Err(fault);
            }
            if let Some(outcome) = rig.outcome.take() {
                break Ok(outcome);
            }
            for party in rig.down.keys().copied().collect::<Vec<_>>() {
                if rig.clients.contains_key(&party) && rig.answer(party).is_err() {
                    rig.drop_out([party]);
                }
            }
            stage += 1;
        };
        match outcome {
            Ok(outcome) => {
                prop_assert_eq!(outcome.sum, Some(rig.cohort.sum_of(outcome.survivors.iter())));
                prop_assert!(outcome.survivors.iter().all(|party| lost_at[party.rank()] > MASKED_INPUT));
                prop_assert!(outcome.faults.is_empty());
            }
            Err(fault) => {
                let too_few = matches!(fault.kind, FaultKind::TooFewSurvivors { .. });
                prop_assert!(too_few, "{}", fault);
            }
        }
    }
}
