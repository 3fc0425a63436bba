//! Whole jobs over real connections.

mod common;

use blindsum_net::report::JobState;
use blindsum_protocol::{ModelUpdate, ProtocolName};
use common::*;

#[test]
fn three_parties_learn_the_exact_mean_and_agree_on_the_model() {
    let pki = Pki::new(1);
    let mut spec = spec(ProtocolName::Plain, 3);
    spec.rounds = 3;
    spec.model_update = ModelUpdate::Add;
    let coordinator = Running::start(&pki, vec![spec], None);
    let parties: Vec<_> = [("a", 1.0), ("b", 2.5), ("c", -0.5)]
        .map(|(name, value)| {
            run_party(
                party_config(&coordinator.url(), pki.party(name)),
                constant(value),
            )
        })
        .into();
    let mut models = Vec::new();
    for party in parties {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds.len(), 3);
        for (i, round) in rounds.iter().enumerate() {
            let round = round.as_ref().unwrap();
            assert_eq!(round.mean, [1.0; 5]);
            assert_eq!(round.total_weight, 3);
            assert_eq!(round.survivors, ["a", "b", "c"]);
            assert_eq!(round.model.values()[..], [i as f32 + 1.0; 5]);
        }
        models.push(rounds[2].as_ref().unwrap().model.clone());
    }
    let status = coordinator.wait_done("test");
    assert_eq!(status.state, JobState::Done);
    assert_eq!(status.model_version, 3);
    assert!(models.iter().all(|model| *model == models[0]));
    coordinator.stop().unwrap();
}
