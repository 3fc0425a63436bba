//! Parties against coordinators that repeat, forget and replay: the same bytes or none.

use std::time::Duration;

use crate::common::fake::{Cast, Fake, done, job, name, one_round, tripled, welcome};
use crate::common::proxy::Proxy;
use crate::common::*;
use blindsum_net::Model;
use blindsum_net::party::{Party, PartyConfig};
use blindsum_net::pb::{self, RoundRefusalCode};
use blindsum_protocol::JobSpec;

const FAULT: RoundRefusalCode = RoundRefusalCode::RoundRefusalFault;
const UNABLE: RoundRefusalCode = RoundRefusalCode::RoundRefusalUnable;

#[test]
fn case_03_two_beginnings_of_one_round_and_rounds_from_the_past_are_refused() {
    let pki = Pki::new(17);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let (b, c, d) = (pki.party("b"), pki.party("c"), pki.party("d"));
    let party = one_round(party_config(&fake.url(), a.clone()));
    let mut line = fake.welcome(&job);
    let model = Model::initial(&job);
    let nonce = line.offer(5, &model);
    line.send(Cast::new(&a, &nonce, &[&b, &c]).start(5, &model));
    let first = line.chunk();
    // The same beginning again: the same bytes again.
    line.send(Cast::new(&a, &nonce, &[&b, &c]).start(5, &model));
    assert_eq!(line.chunk(), first);
    // Another one: nothing but a refusal, and nothing ever again in this round.
    line.send(Cast::new(&a, &nonce, &[&b, &d]).start(5, &model));
    let (code, reason) = line.refusal();
    assert_eq!(code, FAULT);
    assert!(
        reason.contains("two different beginnings of round 5"),
        "{reason}"
    );
    line.send(Cast::new(&a, &nonce, &[&b, &c]).start(5, &model));
    assert_eq!(line.refusal().0, UNABLE);
    let (outcome, party) = party.join().unwrap();
    assert!(outcome.unwrap().unwrap().is_err());
    let next = std::thread::spawn(move || party.unwrap().next_round().map(|_| ()));
    line.send(pb::RoundOffer {
        round: 5,
        model: Some(name(&model)),
        ..pb::RoundOffer::default()
    });
    let (code, reason) = line.refusal();
    assert_eq!(code, UNABLE);
    assert!(reason.contains("took part in round 5 already"), "{reason}");
    assert!(next.join().unwrap().is_err());
}

#[test]
fn case_03_an_answer_that_was_lost_comes_again_byte_by_byte_and_one_that_came_does_not() {
    let pki = Pki::new(21);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let (b, c) = (pki.party("b"), pki.party("c"));
    let party = one_round(party_config(&fake.url(), a.clone()));
    let model = Model::initial(&job);
    let mut line = fake.welcome(&job);
    let nonce = line.offer(1, &model);
    let start = Cast::new(&a, &nonce, &[&b, &c]).start(1, &model);
    line.send(start.clone());
    let first = line.chunk();
    drop(line);
    let (mut line, hello) = fake.accept();
    assert_eq!((hello.round, hello.answered), (1, 0));
    line.send(welcome(&job));
    line.send(start.clone());
    assert_eq!(line.chunk(), first);
    drop(line);
    let mut line = fake.welcome(&job);
    line.send(pb::RoundStart {
        answers_taken: 1,
        ..start
    });
    let told = tripled(&job, &first);
    let lead = Model::new(1, vec![1.0; 5]);
    line.send(told.clone());
    line.send(done(&lead, &told));
    let next = line.next();
    assert!(
        matches!(next, Some(pb::party_frame::Frame::RoundConfirmed(_))),
        "{next:?}"
    );
    let (outcome, _) = party.join().unwrap();
    assert_eq!(outcome.unwrap().unwrap().unwrap().model, lead);
}

#[test]
fn case_03_a_party_killed_between_writing_and_sending_says_what_was_written() {
    let pki = Pki::new(22);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let (b, c) = (pki.party("b"), pki.party("c"));
    let state = tempfile::tempdir().unwrap();
    let model = Model::initial(&job);
    let joining = {
        let config = PartyConfig {
            state_dir: Some(state.path().to_owned()),
            ..party_config(&fake.url(), a.clone())
        };
        std::thread::spawn(move || {
            let mut party = Party::join(config).unwrap();
            let mut round = party.next_round().unwrap().unwrap();
            round.submit(vec![1.0f32; 5], 1).unwrap();
            (party, round)
        })
    };
    let mut line = fake.welcome(&job);
    let nonce = line.offer(1, &model);
    let start = Cast::new(&a, &nonce, &[&b, &c]).start(1, &model);
    line.send(start.clone());
    let first = line.chunk();
    drop(joining.join().unwrap());
    line.leaves();
    // Another process, another vector, and yet the same bytes.
    let again = std::thread::spawn({
        let (url, folder) = (fake.url(), state.path().to_owned());
        move || {
            let mut party = join_again(|| PartyConfig {
                state_dir: Some(folder.clone()),
                ..party_config(&url, a.clone())
            });
            let mut round = party.next_round().unwrap().unwrap();
            assert!(!round.needs_update());
            round.submit(vec![9.0f32; 5], 1).unwrap();
            round.result().map(|result| result.mean)
        }
    });
    let (mut line, hello) = fake.accept();
    assert_eq!((hello.round, hello.answered), (1, 0));
    line.send(welcome(&job));
    line.send(start);
    assert_eq!(line.chunk(), first);
    let told = tripled(&job, &first);
    line.send(told.clone());
    line.send(done(&Model::new(1, vec![1.0; 5]), &told));
    assert_eq!(again.join().unwrap().unwrap(), [1.0; 5]);
}

/// The link is lost when the party has its result and not yet the coordinator's word on it.
#[test]
fn case_54_a_party_that_has_its_result_says_nothing_more_and_waits_for_the_last_word() {
    let pki = Pki::new(23);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let (b, c) = (pki.party("b"), pki.party("c"));
    let state = tempfile::tempdir().unwrap();
    let party = one_round(config_in(state.path(), &fake.url(), &a));
    let model = Model::initial(&job);
    let mut line = fake.welcome(&job);
    let nonce = line.offer(1, &model);
    let start = Cast::new(&a, &nonce, &[&b, &c]).start(1, &model);
    line.send(start.clone());
    let told = tripled(&job, &line.chunk());
    line.send(told.clone());
    line.close();
    assert_eq!(line.next(), None);
    for _ in 0..2 {
        let mut line = fake.welcome(&job);
        line.send(pb::RoundStart {
            answers_taken: 1,
            ..start.clone()
        });
        line.send(told.clone());
        line.close();
        assert_eq!(line.next(), None);
    }
    let mut line = fake.welcome(&job);
    line.send(start);
    let lead = Model::new(1, vec![1.0; 5]);
    line.send(done(&lead, &told));
    let Some(pb::party_frame::Frame::RoundConfirmed(confirmed)) = line.next() else {
        panic!("it does not confirm");
    };
    assert_eq!(confirmed.result, done(&lead, &told).result);
    assert_eq!(
        party.join().unwrap().0.unwrap().unwrap().unwrap().model,
        lead
    );
}

/// Case 54: whoever may be in the sum asks for it as long as it takes to reach the coordinator. Beyond the deadlines of
/// a round a party allows for half a minute, which this test lets pass.
#[test]
fn case_54_a_party_that_may_be_in_the_sum_asks_for_it_after_every_deadline() {
    let pki = Pki::new(24);
    let spec = JobSpec {
        input_deadline: 0.5,
        stage_deadline: 0.5,
        ..job().spec().clone()
    };
    let (fake, job, a) = (Fake::start(&pki), spec.validate().unwrap(), pki.party("a"));
    let proxy = Proxy::to(fake.port);
    let party = one_round(PartyConfig {
        give_up_after: 600.0,
        ..party_config(&proxy.url(), a.clone())
    });
    let model = Model::initial(&job);
    let mut line = fake.welcome(&job);
    let nonce = line.offer(1, &model);
    let start = Cast::new(&a, &nonce, &[&pki.party("b"), &pki.party("c")]).start(1, &model);
    line.send(start.clone());
    let told = tripled(&job, &line.chunk());
    proxy.interrupt();
    drop(line);
    std::thread::sleep(Duration::from_secs(33));
    proxy.mend();
    let line = fake.welcome(&job);
    line.send(pb::RoundStart {
        answers_taken: 1,
        ..start
    });
    line.send(told.clone());
    let lead = Model::new(1, vec![1.0; 5]);
    line.send(done(&lead, &told));
    let (outcome, _party) = party.join().unwrap();
    assert_eq!(outcome.unwrap().unwrap().unwrap().model, lead);
}
