//! Results and models that a coordinator announces and that are not those that parties have.

use std::sync::Arc;

use crate::common::fake::{Cast, Fake, done, job, name, one_round, tripled};
use crate::common::*;
use blindsum_net::party::RoundResult;
use blindsum_net::{JobError, Model, NetError, pb};
use blindsum_protocol::{JobSpec, ModelUpdate};

/// A party that is told this sum of a round and then `says`; what it confirms, and what it is left with.
fn told_the_end(
    seed: u64,
    says: impl FnOnce(&pb::Chunk) -> pb::RoundDone,
) -> (pb::RoundConfirmed, NetError) {
    let pki = Pki::new(seed);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let party = one_round(party_config(&fake.url(), a.clone()));
    let mut line = fake.welcome(&job);
    let model = Model::initial(&job);
    let nonce = line.offer(1, &model);
    line.send(Cast::new(&a, &nonce, &[&pki.party("b"), &pki.party("c")]).start(1, &model));
    let told = tripled(&job, &line.chunk());
    line.send(told.clone());
    line.send(says(&told));
    let Some(pb::party_frame::Frame::RoundConfirmed(own)) = line.next() else {
        panic!("it does not say what it has");
    };
    let (outcome, party) = party.join().unwrap();
    let error = outcome.unwrap().unwrap().unwrap_err();
    let Err(again) = party.unwrap().next_round() else {
        panic!("it goes on with a coordinator that lies");
    };
    assert_eq!(again.to_string(), error.to_string());
    (own, error)
}

#[test]
fn case_45_a_model_that_the_sum_does_not_lead_to_is_found() {
    let (own, error) = told_the_end(16, |told| done(&Model::new(1, vec![2.0; 5]), told));
    assert_eq!(own.model, Some(name(&Model::new(1, vec![1.0; 5]))));
    assert!(
        matches!(
            error,
            NetError::Job(JobError::ModelMismatch { round: 1, .. })
        ),
        "{error}"
    );
}

#[test]
fn case_45_a_result_other_than_the_announced_one_is_found() {
    let lead = Model::new(1, vec![1.0; 5]);
    let (own, error) = told_the_end(21, |told| pb::RoundDone {
        result: vec![1; 32],
        ..done(&lead, told)
    });
    assert_eq!(own.model, Some(name(&lead)));
    assert_ne!(own.result, [1; 32]);
    assert!(
        matches!(
            error,
            NetError::Job(JobError::ResultMismatch { round: 1, .. })
        ),
        "{error}"
    );
}

/// The job keeps no model, so nothing but the results themselves differs.
#[test]
fn case_45_two_results_of_one_round_have_two_names() {
    let pki = Pki::new(22);
    let fake = Fake::start(&pki);
    let spec = JobSpec {
        model_update: ModelUpdate::Nothing,
        ..job().spec().clone()
    };
    let job = Arc::new(spec.validate().unwrap());
    let model = Model::initial(&job);
    let credentials = ["a", "b", "c"].map(|name| pki.party(name));
    let mut parties = Vec::new();
    let mut lines = Vec::new();
    for own in &credentials[..2] {
        parties.push(one_round(party_config(&fake.url(), own.clone())));
        lines.push(fake.welcome(&job));
    }
    let mut cast = Cast::new(&credentials[0], &[], &[&credentials[1], &credentials[2]]);
    for (line, (_, own)) in lines.iter_mut().zip(&mut cast.0) {
        *own = line.offer(1, &model);
    }
    lines
        .iter()
        .for_each(|line| line.send(cast.start(1, &model)));
    let answers: Vec<_> = lines.iter_mut().map(|line| line.chunk()).collect();
    // The first is told that all three are in the sum, the second that only two are.
    let all = tripled(&job, &answers[0]);
    let mut two = all.data.to_vec();
    two[34] = 0b011;
    let two = pb::Chunk {
        data: two.into(),
        ..all.clone()
    };
    for (line, told) in lines.iter().zip([&all, &two]) {
        line.send(told.clone());
        line.send(done(&model, told));
    }
    let ends = parties.into_iter().map(|party| party.join().unwrap().0);
    let ends: Vec<RoundResult> = ends.map(|end| end.unwrap().unwrap().unwrap()).collect();
    assert_eq!(ends[0].model, ends[1].model);
    assert_ne!(ends[0].survivors, ends[1].survivors);
    // What each of them can tell the others, and find in the coordinator's report.
    assert_ne!(ends[0].result, ends[1].result);
    assert_eq!(ends[0].result[..], done(&model, &all).result[..]);
}
