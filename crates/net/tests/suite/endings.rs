//! A session that ends by itself while an update is out: its caller is never told that the update does not count, and
//! whoever leaves says why.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::common::logs::lines;
use crate::common::proxy::Proxy;
use crate::common::three::{Three, mpc3};
use crate::common::*;
use blindsum_crypto::pki::{Kind, Validity};
use blindsum_net::party::{
    Absence, Departure, NextRound, Party, PartyConfig, Policy, RoundHandle, RoundResult,
};
use blindsum_net::report::RoundState;
use blindsum_net::{Credentials, JobError, NetError, NoUpdateTaken, WallClock};
use blindsum_protocol::{JobSpec, ProtocolName};

/// The protocols whose rounds differ most: what is sent with an update, and who learns the sum.
const PROTOCOLS: [ProtocolName; 4] = [
    ProtocolName::SecAggPlus,
    ProtocolName::Flashe,
    ProtocolName::Fssa,
    ProtocolName::PaillierRing,
];

/// A job of four parties, in which nobody is late.
fn patient(protocol: ProtocolName, rounds: u32) -> JobSpec {
    JobSpec {
        min_parties: 3,
        rounds,
        dropout: 0.25,
        corrupt: 0.0,
        adversary: blindsum_protocol::Adversary::SemiHonest,
        join_deadline: 5.0,
        stage_deadline: 60.0,
        input_deadline: 60.0,
        ..spec(protocol, 4)
    }
}

/// The next round, in which an update was submitted.
fn submitted(party: &mut Party, value: f32) -> RoundHandle {
    let mut round = party.next_round().unwrap().unwrap();
    round.submit(vec![value; 5], 1).unwrap();
    round
}

/// Waits until the coordinator has the update of a party: only others are waited for in the stage that brings updates.
fn wait_until_out(coordinator: &Running, name: &str, spec: &JobSpec) {
    let job = spec.clone().validate().unwrap();
    let input: Vec<&str> = (job.plan().answers())
        .filter(|step| step.input)
        .map(|step| step.name)
        .collect();
    coordinator.wait("test", |status| {
        let round = status.round.as_ref();
        let stage = round.and_then(|round| round.stages.last());
        let is_input = stage.is_some_and(|stage| input.contains(&&*stage.name));
        let waits = |other: &str| status.waiting_for.iter().any(|name| name == other);
        is_input && !waits(name) && !status.waiting_for.is_empty()
    });
}

/// One party whose update is out, and three that hold theirs back.
fn with_one_out(
    pki: &Pki,
    spec: &JobSpec,
    coordinator: &Running,
    first: PartyConfig,
) -> (Party, RoundHandle) {
    for name in ["b", "c", "d"] {
        let config = party_config(&coordinator.url(), pki.party(name));
        std::thread::spawn(move || {
            let mut party = Party::join(config).unwrap();
            // Held until the coordinator is gone.
            let round = party.next_round();
            let _ = party.wait_round(Duration::from_secs(60));
            drop(round);
        });
    }
    let mut party = Party::join(first).unwrap();
    let round = submitted(&mut party, 1.0);
    wait_until_out(coordinator, "a", spec);
    (party, round)
}

fn is_unknown(error: &NetError) -> bool {
    matches!(error, NetError::Job(JobError::Unknown { .. }))
}

#[test]
fn case_54_who_gives_up_with_its_update_out_is_not_told_that_it_does_not_count() {
    for protocol in PROTOCOLS {
        let (pki, spec) = (Pki::new(1), patient(protocol, 1));
        let coordinator = Running::start(&pki, vec![spec.clone()], None);
        let proxy = Proxy::to(coordinator.port);
        let config = PartyConfig {
            give_up_after: 0.5,
            ..party_config(&proxy.url(), pki.party("a"))
        };
        let (mut party, mut round) = with_one_out(&pki, &spec, &coordinator, config);
        proxy.interrupt();
        let error = round.result().unwrap_err();
        assert!(is_unknown(&error), "{protocol}: {error}");
        // Its end keeps the reason.
        let first = party.next_round().map(drop).unwrap_err();
        assert!(
            matches!(first, NetError::Unreachable { .. }),
            "{protocol}: {first}"
        );
        let again = party.next_round().map(drop).unwrap_err();
        assert!(
            again.to_string().contains(&first.to_string()),
            "{protocol}: {again}"
        );
        coordinator.kill();
    }
}

#[test]
fn case_54_who_is_displaced_with_its_update_out_is_not_told_that_it_does_not_count() {
    for protocol in PROTOCOLS {
        let (pki, spec) = (Pki::new(1), patient(protocol, 1));
        let coordinator = Running::start(&pki, vec![spec.clone()], None);
        let (url, own) = (coordinator.url(), pki.party("a"));
        let config = party_config(&url, own.clone());
        let (party, mut round) = with_one_out(&pki, &spec, &coordinator, config);
        let second = Party::join(party_config(&url, own)).unwrap();
        let error = round.result().unwrap_err();
        assert!(is_unknown(&error), "{protocol}: {error}");
        assert!(
            error.to_string().contains("another process"),
            "{protocol}: {error}"
        );
        coordinator.kill();
        drop((party, second));
    }
}

#[test]
fn case_54_who_leaves_with_its_update_out_is_not_told_that_it_does_not_count() {
    let (pki, spec) = (Pki::new(1), patient(ProtocolName::SecAggPlus, 1));
    let coordinator = Running::start(&pki, vec![spec.clone()], None);
    let config = party_config(&coordinator.url(), pki.party("a"));
    let (party, mut round) = with_one_out(&pki, &spec, &coordinator, config);
    party.leave(Departure::Stopped);
    let error = round.result().unwrap_err();
    assert!(is_unknown(&error), "{error}");
    let status = coordinator.wait("test", |status| status.left.contains_key("a"));
    assert_eq!(status.left["a"], "its program was stopped");
    coordinator.kill();
}

/// The same where parties give their updates to three servers.
#[test]
fn case_54_nobody_is_told_the_opposite_where_three_servers_compute() {
    let three = Three::new(JobSpec {
        stage_deadline: 60.0,
        input_deadline: 60.0,
        ..mpc3(1)
    });
    let own = three.pki.party("a");
    let others: Vec<_> = (1..5).map(|i| three.held_party(i)).collect();
    let mut party = Party::join(three.party_config(own.clone())).unwrap();
    let mut round = submitted(&mut party, 1.0);
    three.coordinator.wait("test", |status| {
        let waits = |other: &str| status.waiting_for.iter().any(|name| name == other);
        let round = status.round.as_ref();
        round.is_some_and(|round| !round.stages.is_empty()) && !waits("a") && waits("b")
    });
    let second = Party::join(three.party_config(own)).unwrap();
    let error = round.result().unwrap_err();
    assert!(is_unknown(&error), "{error}");
    drop((others, second));
}

/// A coordinator that has lost what it knew does not know whether a round had a result.
#[test]
fn case_54_a_coordinator_that_does_not_know_a_round_does_not_say_that_it_had_no_sum() {
    let (pki, spec) = (Pki::new(1), patient(ProtocolName::SecAgg, 1));
    let coordinator = Running::start(&pki, vec![spec.clone()], None);
    let proxy = Proxy::to(coordinator.port);
    let config = PartyConfig {
        give_up_after: 600.0,
        ..party_config(&proxy.url(), pki.party("a"))
    };
    let (_party, mut round) = with_one_out(&pki, &spec, &coordinator, config);
    proxy.interrupt();
    coordinator.kill();
    // Without a store it begins anew.
    let again = Running::start(&pki, vec![spec], None);
    proxy.lead(crate::common::proxy::Way::To(again.port));
    let error = round.result().unwrap_err();
    assert!(is_unknown(&error), "{error}");
    assert!(error.to_string().contains("nothing is known of it"));
}

/// Three parties that give their updates when they are told to, one of them with a certificate that soon ends.
struct Held(Vec<(Sender<()>, Played)>);

impl Held {
    fn back(pki: &Pki, url: &str) -> Self {
        let own = |name| match name {
            "d" => {
                let validity = Validity {
                    not_before: now() - 60,
                    not_after: now() + 3600,
                };
                pki.issue(name, &Kind::Party, validity)
            }
            name => pki.party(name),
        };
        let start = |name| {
            let (go_on, waits) = channel::<()>();
            let update = move |_| {
                let _ = waits.recv_timeout(PATIENCE);
                vec![1.0f32; 5]
            };
            (go_on, run_party(party_config(url, own(name)), update))
        };
        Self(["b", "c", "d"].map(start).into())
    }

    /// What the round gave them.
    fn finish(self) -> Vec<Result<RoundResult, NetError>> {
        let (go_on, parties): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        go_on.iter().for_each(|go_on| go_on.send(()).unwrap());
        let ended = parties.into_iter().map(|party| party.join().unwrap());
        ended.map(|rounds| rounds.unwrap().remove(0)).collect()
    }
}

/// Hours later by the clock of this party.
fn hours_later(credentials: Credentials, hours: &Arc<AtomicU64>) -> Credentials {
    let hours = hours.clone();
    let passed = move || hours.load(Ordering::Relaxed) * 3_600;
    credentials.with_clock(WallClock::new(move || (now() + passed()) * 1000))
}

/// The certificate of another party ends while a round is under way, and a line breaks: the round goes on with those with
/// whom it began.
#[test]
fn case_54_a_certificate_that_ends_amid_a_round_is_no_reason_to_leave_it() {
    for protocol in PROTOCOLS {
        let (pki, spec) = (Pki::new(6), patient(protocol, 1));
        let coordinator = Running::start(&pki, vec![spec.clone()], None);
        let (proxy, hours) = (Proxy::to(coordinator.port), Arc::<AtomicU64>::default());
        let others = Held::back(&pki, &coordinator.url());
        let own = hours_later(pki.party("a"), &hours);
        let mut party = Party::join(party_config(&proxy.url(), own)).unwrap();
        let mut round = submitted(&mut party, 1.0);
        wait_until_out(&coordinator, "a", &spec);
        hours.store(2, Ordering::Relaxed);
        proxy.cut();
        coordinator.wait("test", |status| !status.connected.contains(&"a".into()));
        coordinator.wait("test", |status| status.connected.contains(&"a".into()));
        for ended in others.finish() {
            assert_eq!(ended.unwrap().survivors.len(), 4, "{protocol}");
        }
        let own = round.result().unwrap();
        assert_eq!(own.survivors.len(), 4, "{protocol}");
    }
}

/// Nothing can be written into this folder any more. A party that writes at the same time makes one that is missing anew.
fn replace_by_a_file(folder: &Path) {
    for number in 0.. {
        std::fs::rename(folder, folder.with_extension(number.to_string())).unwrap();
        if std::fs::File::create_new(folder).is_ok() {
            break;
        }
    }
}

/// The state folder cannot be written any more once the update is out. That ends the party, and says nothing of the round.
#[test]
fn case_54_whose_state_folder_fails_with_its_update_out_is_not_told_that_it_does_not_count() {
    for protocol in [ProtocolName::SecAggPlus, ProtocolName::Fssa] {
        let (pki, spec) = (Pki::new(7), patient(protocol, 1));
        let coordinator = Running::start(&pki, vec![spec.clone()], None);
        let others = Held::back(&pki, &coordinator.url());
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("state");
        let config = config_in(&folder, &coordinator.url(), &pki.party("a"));
        let mut party = Party::join(config).unwrap();
        let mut round = submitted(&mut party, 1.0);
        wait_until_out(&coordinator, "a", &spec);
        replace_by_a_file(&folder);
        let results = others.finish();
        let error = round.result().unwrap_err();
        assert!(is_unknown(&error), "{protocol}: {error}");
        assert!(error.to_string().contains("state folder"), "{error}");
        let counts = |ended: &RoundResult| ended.survivors.iter().any(|name| name == "a");
        assert!(results.iter().flatten().all(counts), "{protocol}");
        // The session ends with what it was.
        let ended = party.next_round().map(drop).unwrap_err();
        assert!(
            matches!(ended, NetError::Job(JobError::State { .. })),
            "{ended}"
        );
    }
}

/// The state folder cannot be written any more before the update is out. The party does not speak, so its update does not count,
/// and it is told what failed.
#[test]
fn case_54_whose_state_folder_fails_before_its_update_is_out_is_told_so() {
    for protocol in [
        ProtocolName::Plain,
        ProtocolName::SecAggPlus,
        ProtocolName::Fssa,
    ] {
        let (pki, spec) = (Pki::new(7), patient(protocol, 1));
        let coordinator = Running::start(&pki, vec![spec.clone()], None);
        let others = Held::back(&pki, &coordinator.url());
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("state");
        let config = config_in(&folder, &coordinator.url(), &pki.party("a"));
        let mut party = Party::join(config).unwrap();
        let mut round = party.next_round().unwrap().unwrap();
        replace_by_a_file(&folder);
        round.submit(vec![1.0; 5], 1).unwrap();
        let error = round.result().unwrap_err();
        assert!(
            matches!(error, NetError::Job(JobError::State { .. })),
            "{protocol}: {error:?}"
        );
        assert!(error.to_string().contains("state folder"), "{error}");
        let counts = |ended: &RoundResult| ended.survivors.iter().any(|name| name == "a");
        assert!(!others.finish().iter().flatten().any(counts), "{protocol}");
    }
}

#[test]
fn a_round_takes_one_update() {
    let pki = Pki::new(2);
    let coordinator = coordinator(&pki);
    let url = coordinator.url();
    let others =
        ["b", "c"].map(|name| run_party(party_config(&url, pki.party(name)), constant(1.0)));
    let mut party = Party::join(party_config(&url, pki.party("a"))).unwrap();
    let mut round = submitted(&mut party, 1.0);
    let says = |round: &mut RoundHandle| match round.submit(vec![9.0; 5], 1) {
        Err(NetError::Job(JobError::Submission { round: 1, why })) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(says(&mut round), NoUpdateTaken::Submitted);
    assert_eq!(round.result().unwrap().mean, [1.0; 5]);
    assert_eq!(says(&mut round), NoUpdateTaken::Over);
    for other in others {
        other.join().unwrap().unwrap();
    }
}

/// The coordinator hears at once that a party sits a round out, and why; nobody waits for its update.
#[test]
fn who_sits_a_round_out_says_so_and_stays() {
    let (pki, spec) = (Pki::new(3), patient(ProtocolName::SecAggPlus, 2));
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let others = ["b", "c", "d"].map(|name| {
        let (go_on, waits) = channel::<()>();
        let update = move |round| {
            if round == 1 {
                let _ = waits.recv_timeout(PATIENCE);
            }
            vec![1.0f32; 5]
        };
        (
            go_on,
            run_party(party_config(&url, pki.party(name)), update),
        )
    });
    let mut party = Party::join(party_config(&url, pki.party("a"))).unwrap();
    let round = party.next_round().unwrap().unwrap();
    round.skip(Absence::Unusable("it is not finite".into()));
    let status = coordinator.wait("test", |status| {
        let round = status.round.as_ref().filter(|round| round.number == 1);
        let mut stages = round.iter().flat_map(|round| &round.stages);
        stages.any(|stage| stage.dropped.contains_key("a"))
    });
    let report = status.round.unwrap();
    assert_eq!(report.state, RoundState::Running);
    let mut dropped = report
        .stages
        .iter()
        .filter_map(|stage| stage.dropped.get("a"));
    let reason = dropped.next().unwrap();
    assert_eq!(reason, "its update was not accepted: it is not finite");
    let others = others.map(|(go_on, other)| {
        go_on.send(()).unwrap();
        other
    });
    let mut round = submitted(&mut party, 1.0);
    assert_eq!(round.result().unwrap().survivors.len(), 4);
    for other in others {
        let rounds = other.join().unwrap().unwrap();
        assert_eq!(rounds[0].as_ref().unwrap().survivors, ["b", "c", "d"]);
    }
}

/// Where a round ends since too few are left, everybody hears who left, and why.
#[test]
fn a_round_that_loses_too_many_names_them() {
    let (pki, spec) = (Pki::new(4), patient(ProtocolName::SecAgg, 1));
    let spec = JobSpec {
        parties: 3,
        dropout: 0.0,
        ..spec
    };
    let coordinator = Running::start(&pki, vec![spec], None);
    let mut parties = join(&pki, &coordinator.url(), &["a", "b", "c"]).into_iter();
    let mut next_one = || parties.next().unwrap();
    let (mut a, mut b, mut c) = (next_one(), next_one(), next_one());
    for party in [&mut a, &mut b] {
        let waits = party.wait_round(Duration::from_millis(1)).unwrap();
        assert!(matches!(waits, NextRound::Waiting));
    }
    let (third, mut first, second) = (next(&mut c), next(&mut a), next(&mut b));
    first.submit(vec![1.0f32; 5], 1).unwrap();
    third.skip(Absence::Unusable("it is not finite".into()));
    let error = first.result().unwrap_err().to_string();
    for part in [
        "c sat out (",
        "it is not finite",
        "2 are left",
        "3 are needed",
    ] {
        assert!(error.contains(part), "{error}");
    }
    drop(second);
}

fn next(party: &mut Party) -> RoundHandle {
    match party.wait_round(PATIENCE).unwrap() {
        NextRound::Round(round) => *round,
        _ => panic!("no round begins"),
    }
}

/// A policy that refuses the job is told, the lease is given back, and nobody is said to have failed.
#[test]
fn who_refuses_the_job_says_why() {
    let pki = Pki::new(5);
    let mut config = config(&pki, vec![patient(ProtocolName::SecAggPlus, 1)], None);
    config.limits.lease = 1.0;
    let coordinator = Running::with(config).unwrap();
    let strict = PartyConfig {
        policy: Policy {
            max_message: 10,
            ..lenient()
        },
        ..party_config(&coordinator.url(), pki.party("refuses-jobs"))
    };
    let refused = Party::join(strict).map(drop).unwrap_err();
    assert!(matches!(refused, NetError::Job(JobError::Policy(_))));
    let status = coordinator.wait("test", |status| status.left.contains_key("refuses-jobs"));
    let reason = &status.left["refuses-jobs"];
    assert!(
        reason.starts_with("it refuses the job: policy max_message"),
        "{reason}"
    );
    assert!(status.lost.is_empty() && status.connected.is_empty());
    assert_eq!(lines("refuses-jobs", "leaves the job"), 1);
    assert_eq!(lines("refuses-jobs", "party left"), 0);
    // It takes the job after all, and is one of those that are there.
    let _party = Party::join(party_config(&coordinator.url(), pki.party("refuses-jobs"))).unwrap();
    coordinator.wait("test", |status| status.left.is_empty());
}
