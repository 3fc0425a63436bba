//! Links that are lost at a bad moment, and what stands between a party and its coordinator for a while:
//! nobody is lost for good.

use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::fake::{Cast, Fake, job};
use crate::common::proxy::{Proxy, Way};
use crate::common::raw::Raw;
use crate::common::*;
use blindsum_crypto::pki::{Kind, Validity};
use blindsum_net::party::{Party, PartyConfig};
use blindsum_net::pb::{self, RefusalCode};
use blindsum_net::{JobError, Model, NetError};
use blindsum_protocol::{JobSpec, ProtocolName};

/// A party that keeps trying for far longer than any test takes.
fn patient(url: &str, credentials: blindsum_net::Credentials) -> PartyConfig {
    PartyConfig {
        give_up_after: 600.0,
        ..party_config(url, credentials)
    }
}

/// In each round the link of one party is lost while it trains. It submits before it has a connection, while
/// that is being made, and soon after.
fn submits_while_reconnecting(spec: JobSpec) {
    const ROUNDS: u64 = 12;
    let pki = Pki::new(1);
    let spec = JobSpec {
        rounds: ROUNDS as u32,
        min_parties: 3,
        join_deadline: 20.0,
        stage_deadline: 20.0,
        input_deadline: 20.0,
        ..spec
    };
    let mut config = config(&pki, vec![spec], None);
    config.limits.reconnect_grace = 20.0;
    let coordinator = Running::with(config).unwrap();
    let proxy = Proxy::to(coordinator.port);
    let url = coordinator.url();
    let steady = run_party(party_config(&url, pki.party("a")), constant(1.0));
    // It answers last, so that the round waits for it while the other one has trouble.
    let mut last = Party::join(party_config(&url, pki.party("b"))).unwrap();
    let mut party = Party::join(patient(&proxy.url(), pki.party("c"))).unwrap();
    for turn in 1..=ROUNDS {
        let (mut own, mut round) = std::thread::scope(|scope| {
            let own = scope.spawn(|| last.next_round().unwrap().unwrap());
            let round = party.next_round().unwrap().unwrap();
            (own.join().unwrap(), round)
        });
        assert_eq!(round.number(), turn, "a round was lost");
        proxy.lead(Way::Held);
        proxy.cut();
        if turn % 4 > 0 {
            proxy.wait_taken(1);
        }
        if turn % 4 > 1 {
            proxy.mend();
            std::thread::sleep(Duration::from_millis(2 * turn));
        }
        round.submit(vec![4.0f32; 5], 1).unwrap();
        proxy.mend();
        coordinator.wait("test", |status| status.waiting_for == ["b"]);
        own.submit(vec![1.0f32; 5], 1).unwrap();
        let result = round.result().unwrap();
        assert_eq!(
            (result.mean.to_doubles()[0], result.survivors.len()),
            (2.0, 3)
        );
        own.result().unwrap();
    }
    assert!(party.next_round().unwrap().is_none());
    let rounds = steady.join().unwrap().unwrap();
    assert!(rounds.iter().all(Result::is_ok), "{rounds:?}");
}

#[test]
fn case_55_a_party_that_submits_while_it_reconnects_stays_in_the_round_plain() {
    submits_while_reconnecting(spec(ProtocolName::Plain, 3));
}

#[test]
fn case_55_a_party_that_submits_while_it_reconnects_stays_in_the_round_secagg() {
    submits_while_reconnecting(JobSpec {
        corrupt: 0.0,
        dropout: 0.0,
        ..spec(ProtocolName::SecAgg, 3)
    });
}

#[test]
fn case_55_nothing_of_a_round_goes_out_before_the_connection_has_begun_it() {
    let pki = Pki::new(2);
    let (fake, job, a) = (Fake::start(&pki), job(), pki.party("a"));
    let (b, c) = (pki.party("b"), pki.party("c"));
    let model = Model::initial(&job);
    let (submit, waits) = channel();
    let (submitted, done) = channel();
    let party = std::thread::spawn({
        let config = patient(&fake.url(), a.clone());
        move || {
            let mut party = Party::join(config).unwrap();
            let mut round = party.next_round().unwrap().unwrap();
            submitted.send(()).unwrap();
            waits.recv_timeout(PATIENCE).unwrap();
            round.submit(vec![1.0f32; 5], 1).unwrap();
            submitted.send(()).unwrap();
            let _ = round.result();
        }
    });
    let mut line = fake.welcome(&job);
    let nonce = line.offer(1, &model);
    let start = pb::RoundStart {
        numbers: Some(job.round_parameters_for(3).unwrap().into()),
        ..Cast::new(&a, &nonce, &[&b, &c]).start(1, &model)
    };
    line.send(start.clone());
    done.recv_timeout(PATIENCE).unwrap();
    drop(line);
    let mut line = fake.welcome(&job);
    // Once the party trains on, it has a connection again, and no word of the round over it.
    std::thread::sleep(Duration::from_millis(100));
    submit.send(()).unwrap();
    done.recv_timeout(PATIENCE).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    line.close();
    assert_eq!(line.next(), None, "it speaks of a round too early");
    let mut line = fake.welcome(&job);
    line.send(start);
    let answer = line.chunk();
    line.send(pb::RoundAborted {
        round: 1,
        reason: "enough".into(),
        ..pb::RoundAborted::default()
    });
    assert_eq!((answer.round, answer.stage), (1, 0));
    party.join().unwrap();
}

/// Sends an answer once more; the round must not notice.
fn repeats(again: impl Fn(&pb::RoundStart, Raw, &str, &[u8]) -> Raw) {
    let pki = Pki::new(3);
    let mut spec = spec(ProtocolName::Plain, 3);
    spec.input_deadline = 20.0;
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let mut members = ["a", "b", "c"].map(|name| Raw::join(&url, pki.party(name), name));
    members.iter_mut().for_each(Raw::ready);
    let starts = members.each_mut().map(Raw::started);
    let [mut first, mut second, mut third] = members;
    let answer = first.play(&starts[0], 1.0, 0).unwrap();
    first.send_message(0, &answer);
    coordinator.wait("test", |status| status.waiting_for == ["b", "c"]);
    let mut first = again(&starts[0], first, &url, &answer);
    for (member, start) in [(&mut second, &starts[1]), (&mut third, &starts[2])] {
        let answer = member.play(start, 1.0, 0).unwrap();
        member.send_message(0, &answer);
    }
    assert!(first.message().is_some(), "it lost its place");
    let report = coordinator.wait_done("test").round.unwrap();
    assert_eq!((report.survivors.len(), report.total_weight), (3, Some(3)));
    assert!(report.faults.is_empty(), "{report:?}");
}

#[test]
fn case_55_an_equal_answer_over_the_same_connection_is_quiet() {
    repeats(|_, first, _, answer| {
        first.send_message(0, answer);
        first.send_message(0, answer);
        first
    });
}

#[test]
fn case_55_an_equal_answer_over_a_new_connection_is_quiet() {
    repeats(|_, first, url, answer| {
        let mut first = first.again(url, "a", 0);
        first.send_message(0, answer);
        assert_eq!(first.started().answers_taken, 1);
        first.send_message(0, answer);
        first
    });
}

/// Whatever stands in the way for a while, a party that was welcomed once comes back.
#[test]
fn case_56_passing_trouble_is_waited_out_by_a_party_that_was_welcomed() {
    let pki = Pki::new(4);
    let mut spec = spec(ProtocolName::Plain, 2);
    spec.join_deadline = 600.0;
    let coordinator = Running::start(&pki, vec![spec], None);
    let late = Fake::with(&pki, expired(&pki));
    let proxy = Proxy::to(coordinator.port);
    let mut party = Party::join(patient(&proxy.url(), pki.party("a"))).unwrap();
    let troubles = [
        Way::Closed,
        Way::ClearText,
        Way::Alert,
        Way::Flipped(coordinator.port),
        Way::To(late.port),
    ];
    for trouble in troubles {
        proxy.lead(trouble);
        proxy.cut();
        proxy.wait_taken(1);
    }
    proxy.mend();
    let other = run_party(
        party_config(&coordinator.url(), pki.party("b")),
        constant(3.0),
    );
    let mut round = party.next_round().unwrap().unwrap();
    round.submit(vec![1.0f32; 5], 1).unwrap();
    assert_eq!(round.result().unwrap().mean, [2.0; 5]);
    let rounds = other.join().unwrap().unwrap();
    assert_eq!(rounds[0].as_ref().unwrap().mean, [2.0; 5]);
}

/// The certificate of a coordinator whose clock, or ours, is wrong.
fn expired(pki: &Pki) -> blindsum_net::Credentials {
    let hosts = vec!["localhost".to_owned()];
    let validity = Validity {
        not_before: now() - 7200,
        not_after: now() - 3600,
    };
    pki.issue("late", &Kind::Coordinator { hosts }, validity)
}

#[test]
fn case_56_trouble_that_stays_is_named_when_the_party_gives_up() {
    let pki = Pki::new(5);
    let coordinator = Running::start(&pki, vec![spec(ProtocolName::Plain, 3)], None);
    let late = Fake::with(&pki, expired(&pki));
    let troubles = [
        (Way::ClearText, "does not use TLS"),
        (Way::Alert, "internal error"),
        (Way::To(late.port), "certificate expired"),
    ];
    for (trouble, says) in troubles {
        let proxy = Proxy::to(coordinator.port);
        let config = PartyConfig {
            give_up_after: 0.5,
            ..party_config(&proxy.url(), pki.party("a"))
        };
        let mut party = Party::join(config).unwrap();
        proxy.lead(trouble);
        proxy.cut();
        let Err(error) = party.next_round() else {
            panic!("there is no round");
        };
        assert!(matches!(error, NetError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn case_56_what_cannot_get_better_ends_a_party_that_was_never_welcomed() {
    let pki = Pki::new(6);
    let coordinator = Running::start(&pki, vec![spec(ProtocolName::Plain, 3)], None);
    let late = Fake::with(&pki, expired(&pki));
    for trouble in [Way::ClearText, Way::Alert, Way::To(late.port)] {
        let proxy = Proxy::to(coordinator.port);
        proxy.lead(trouble);
        let config = patient(&proxy.url(), pki.party("a"));
        let (ended, end) = channel();
        std::thread::spawn(move || ended.send(Party::join(config).map(|_| ())));
        let error = end.recv_timeout(PATIENCE).expect("it goes on trying");
        assert!(matches!(error, Err(NetError::Tls { .. })), "{error:?}");
    }
}

/// What the coordinator says inside the protocol stays final.
#[test]
fn case_56_a_refusal_is_not_waited_out() {
    let pki = Pki::new(7);
    let (fake, job) = (Fake::start(&pki), job());
    let party = std::thread::spawn({
        let config = patient(&fake.url(), pki.party("a"));
        move || Party::join(config).unwrap().next_round().map(|_| ())
    });
    drop(fake.welcome(&job));
    let (line, _) = fake.accept();
    line.send(pb::Refused {
        code: RefusalCode::RefusalUnknownJob.into(),
        reason: "no such job".into(),
        ..pb::Refused::default()
    });
    let error = party.join().unwrap().unwrap_err();
    assert!(
        matches!(error, NetError::Job(JobError::Refused { .. })),
        "{error}"
    );
}
