//! Jobs of three servers to which parties upload, and which compute together.

use std::sync::Arc;

use blindsum_job::follower::{self, UploadId, Uploaded};
use blindsum_job::party::Say;
use blindsum_job::pb::party_frame::Frame as UpFrame;
use blindsum_job::pb::{self, CoordinatorFrame};
use blindsum_job::records::{MemoryRecords, Records};
use blindsum_job::report::{RoundReport, RoundState};
use blindsum_job::server::Hold;
use blindsum_protocol::{Adversary, ServerIndex, ServerRole};

use crate::ensemble::Ensemble;
use crate::hosts::{Machine, mpc3};

const BOTH: [Adversary; 2] = [Adversary::SemiHonest, Adversary::Active];

/// The numbers of the rounds that count, and how many parties are in each.
fn counted(job: &Ensemble) -> Vec<(u64, usize)> {
    let reports = job.reports().into_iter().rev();
    let done = reports.filter(|report| report.state == RoundState::Done);
    done.map(|report| (report.number, report.survivors.len()))
        .collect()
}

#[test]
fn every_round_has_the_sum_of_all() {
    for adversary in BOTH {
        let mut job = Ensemble::new(mpc3(adversary, 5, 3), 1);
        job.play();
        assert_eq!(counted(&job), [(1, 5), (2, 5), (3, 5)], "{adversary}");
        for host in &job.hosts[..5] {
            assert_eq!(host.results.len(), 3, "{}", host.name);
        }
    }
}

#[test]
fn a_party_lost_before_its_upload_is_left_out() {
    let mut job = Ensemble::new(mpc3(Adversary::SemiHonest, 5, 2), 1);
    job.play_to_round();
    job.lose(2);
    job.play();
    assert_eq!(counted(&job), [(1, 4), (2, 4)]);
}

/// Abuse case 38: the coordinator has no answer of a party before both other servers have their parts of it, so that a
/// party that vanishes is in no sum in part.
#[test]
fn case_38_a_party_answers_once_the_other_servers_have_their_parts() {
    for role in [ServerRole::Second, ServerRole::Third] {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
        job.takes_no_uploads = Some(role);
        job.play_to_round();
        (0..200).for_each(|_| job.advance());
        assert!(job.vectors.is_empty(), "{role}: {:?}", job.vectors);
        job.takes_no_uploads = None;
        job.play();
        assert!(!job.vectors.is_empty(), "{role}");
    }
}

/// Abuse case 3: whoever is killed, at whatever step, comes back, the job comes to its end, and nobody is in a sum twice.
/// A server is in no round any more in which it was killed.
#[test]
fn case_03_a_host_that_is_killed_at_any_step_comes_back() {
    for adversary in BOTH {
        let new = || Ensemble::new(mpc3(adversary, 4, 2), 1);
        let undisturbed = new().play();
        for host in 0..new().hosts.len() {
            for step in 1..undisturbed {
                let mut job = new();
                (0..step).for_each(|_| job.advance());
                job.kill(host);
                job.play();
                let counted = counted(&job);
                assert_eq!(counted.len(), 2, "{adversary}: {host} at step {step}");
            }
        }
    }
}

/// A coordinator with an empty store: the other two servers were in rounds that it knows nothing of, and come back to none.
#[test]
fn numbers_of_rounds_that_other_servers_were_in_are_skipped() {
    let mut before = Ensemble::new(mpc3(Adversary::Active, 4, 3), 1);
    before.play();
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
    for (host, old) in job.hosts.iter_mut().zip(&before.hosts).skip(4) {
        host.records = old.records.clone();
    }
    job.play();
    assert_eq!(counted(&job), [(4, 4), (5, 4)]);
    assert_eq!(job.reports().len(), 2, "no round is lost");
}

/// Abuse case 52: a coordinator that says what it must not say loses its connection. The server stays, and goes on with the
/// numbers that it had.
#[test]
fn case_52_no_word_of_a_coordinator_ends_a_server_or_all_numbers() {
    let round = |round| pb::RoundStart {
        round,
        ..pb::RoundStart::default()
    };
    let chunk = pb::Chunk {
        round: 1,
        stage: 0,
        offset: 0,
        total: 1 << 40,
        ..pb::Chunk::default()
    };
    let wrong: [CoordinatorFrame; 6] = [
        CoordinatorFrame::default(),
        pb::Welcome::default().into(),
        chunk.into(),
        round(0).into(),
        round((1 << 40) + 2).into(),
        round(u64::MAX).into(),
    ];
    for frame in wrong {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
        // It is in the first round.
        while job.hosts[4].records.read("last-round").unwrap().is_none() {
            job.advance();
        }
        let link = job.hosts[4].link;
        job.say_to(4, frame.clone());
        assert_eq!(job.hosts[4].link, None, "{frame:?}");
        job.play();
        assert_ne!(job.hosts[4].link, link);
        assert_eq!(counted(&job), [(1, 4), (2, 4)], "{frame:?}");
        let last = job.hosts[4].records.read("last-round").unwrap();
        assert_eq!(last.unwrap(), 2_u64.to_be_bytes(), "{frame:?}");
    }
}

/// Lets things happen until a server is in a round, and gives the beginning that it heard.
fn play_to_beginning(job: &mut Ensemble, number: usize) -> pb::RoundStart {
    loop {
        match job.beginning(number) {
            Some(start) if job.hosts[number].records.snapshot().len() == 1 => return start,
            _ => job.advance(),
        }
    }
}

/// Abuse case 3: a server that was killed in a round is not in it again, though the coordinator begins it once more.
#[test]
fn case_03_a_server_that_was_killed_in_a_round_is_not_in_it_again() {
    for ahead in [0, 1] {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
        let start = play_to_beginning(&mut job, 4);
        job.kill(4);
        while !job.is_welcome(4) {
            job.advance();
        }
        let said = job.refusals(4).len();
        let round = start.round + ahead;
        job.say_to(4, pb::RoundStart { round, ..start });
        let refused = job.refusals(4).split_off(said);
        let reasons: Vec<&str> = refused.iter().map(|it| it.reason.as_str()).collect();
        match ahead {
            0 => assert!(
                reasons[0].contains("before it was started again"),
                "{reasons:?}"
            ),
            _ => assert!(reasons.is_empty(), "{reasons:?}"),
        }
    }
}

/// Abuse case 3: a server that hears a second, different beginning of its round is in this round no more.
#[test]
fn case_03_two_beginnings_of_a_round_end_it() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
    let start = play_to_beginning(&mut job, 5);
    job.say_to(5, start.clone());
    assert!(job.refusals(5).is_empty(), "the same one once more is none");
    let mut second = start.clone();
    second.model.as_mut().unwrap().hash = vec![9; 32];
    job.say_to(5, second);
    let refused = job.refusals(5);
    let [refused] = &refused[..] else {
        panic!("{refused:?}");
    };
    assert_eq!(refused.round, start.round);
    assert!(
        refused.reason.contains("two different beginnings"),
        "{refused:?}"
    );
}

/// What a server does at once when it is handed something.
fn handed(job: &mut Ensemble, number: usize, input: follower::Input) -> Vec<follower::Effect> {
    let now = job.now;
    let Some(Machine::Server(server)) = &mut job.hosts[number].machine else {
        panic!("host {number} is a server");
    };
    server.handle(now, input);
    let mut done = Vec::new();
    while let Some(effect) = server.poll() {
        match effect {
            follower::Effect::Work(task) => {
                let ticket = task.ticket;
                task.run();
                server.worked(now, ticket);
            }
            other => done.push(other),
        }
    }
    done
}

/// Abuse case 28: what comes for a round that is over at a server is refused, and what comes for a later one is kept.
#[test]
fn case_28_an_upload_for_a_round_that_is_over_is_refused() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 3), 1);
    while job.beginning(4).is_none_or(|start| start.round < 2) {
        job.advance();
    }
    let upload = |round| follower::Input::Upload {
        id: UploadId(1 << 40),
        name: "party-0".into(),
        round,
        message: vec![7; 9].into(),
        hold: Hold::default(),
    };
    let late = handed(&mut job, 4, upload(1));
    let [follower::Effect::Uploaded(_, Uploaded::Refused(reason))] = &late[..] else {
        panic!("{} effects", late.len());
    };
    assert_eq!(reason, "round 1 is over here");
    let early = handed(&mut job, 4, upload(3));
    assert!(early.is_empty());
}

/// Abuse case 52: whoever gives servers different uploads is left out and named, and nobody else: not by its place in the
/// round, which may read like the name of another one.
#[test]
fn case_52_a_party_that_gives_servers_different_uploads_is_named() {
    let mut job = Ensemble::new(mpc3(Adversary::SemiHonest, 7, 1), 1);
    job.lose(0);
    // The hash of the component that the server lacks, behind the frame.
    while !job.spoil_upload(3, ServerRole::Second, 34) {
        job.advance();
    }
    job.play();
    let report = &job.reports()[0];
    let survivors = ["party-1", "party-2", "party-4", "party-5", "party-6"];
    assert_eq!(report.survivors, survivors);
    let [fault] = &report.faults[..] else {
        panic!("{:?}", report.faults);
    };
    assert!(fault.starts_with("server or party-3: "), "{fault}");
}

/// Abuse case 52: so is one whose upload a server refuses.
#[test]
fn case_52_an_upload_that_is_refused_says_whose_it_is() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 7, 1), 1);
    job.lose(0);
    play_to_beginning(&mut job, 7);
    let rubbish = follower::Input::Upload {
        id: UploadId(1 << 40),
        name: "party-3".into(),
        round: 1,
        message: vec![7; 9].into(),
        hold: Hold::default(),
    };
    let said = handed(&mut job, 7, rubbish);
    let [follower::Effect::Uploaded(_, Uploaded::Refused(reason))] = &said[..] else {
        panic!("{} effects", said.len());
    };
    assert!(reason.starts_with("party-3: "), "{reason}");
}

/// Letters that are on a line when it is lost do not come: a server that talks ends the round, and one that does not yet
/// goes on.
#[test]
fn a_lost_line_ends_a_round_in_which_servers_talk() {
    let lost = || follower::Input::LineLost {
        to: ServerIndex::ALL[2],
        reason: "it broke".into(),
    };
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
    play_to_beginning(&mut job, 4);
    assert!(handed(&mut job, 4, lost()).is_empty());
    let talks = |job: &Ensemble| {
        job.letters
            .keys()
            .any(|(from, ..)| *from == ServerIndex::ALL[1])
    };
    while !talks(&job) {
        job.advance();
    }
    let said = handed(&mut job, 4, lost());
    let [follower::Effect::Send(_, Say::Frame(frame))] = &said[..] else {
        panic!("{} effects", said.len());
    };
    let Some(UpFrame::RoundRefused(refused)) = &frame.frame else {
        panic!("{frame:?}");
    };
    assert!(
        refused
            .reason
            .contains("the line to the third server was lost: it broke"),
        "{refused:?}"
    );
    assert!(
        handed(&mut job, 4, lost()).is_empty(),
        "it is in the round no more"
    );
}

/// A coordinator with an empty store goes on behind a server at once, however far that is.
#[test]
fn a_servers_word_on_later_rounds_is_worth_more_than_a_partys() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
    let last = 1_000_000_u64;
    let records = job.hosts[5].records.clone();
    records
        .replace("last-round", &[&last.to_be_bytes()])
        .unwrap();
    job.play();
    assert_eq!(counted(&job), [(last + 1, 4), (last + 2, 4)]);
    assert_eq!(job.reports().len(), 2, "no round is lost");
}

#[test]
fn a_server_that_is_missing_is_named() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
    job.lose(5);
    (0..100).for_each(|_| job.advance());
    let warning = job.status().warning.clone();
    assert!(warning.contains("without the third server"), "{warning}");
    assert!(job.reports().is_empty());
}

/// How many things may happen until a round has ended.
const STEPS: usize = 2000;

/// Lets things happen until a round has come to nothing; gives why.
fn play_to_abort(job: &mut Ensemble) -> String {
    for _ in 0..STEPS {
        let reports = job.reports();
        if let Some(report) = reports.iter().find(|r| r.state == RoundState::Aborted) {
            return report.reason.clone();
        }
        job.advance();
    }
    panic!("no round comes to nothing: {:?}", job.reports());
}

#[test]
fn a_server_that_does_not_answer_is_named_and_not_the_one_that_waits_for_it() {
    for (frozen, name, other) in [
        (4, "second server", "third server"),
        (5, "third server", "second server"),
    ] {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
        job.play_to_round();
        while job.status().round.as_ref().unwrap().stages.len() < 2 {
            job.advance();
        }
        job.frozen = Some(frozen);
        let reason = play_to_abort(&mut job);
        assert!(
            reason.contains(name) && reason.contains("no answer"),
            "{reason}"
        );
        assert!(!reason.contains(other), "{reason}");
        job.frozen = None;
        job.kill(frozen);
        job.play();
    }
}

#[test]
fn parties_are_not_blamed_for_a_server_that_takes_no_uploads() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 1), 1);
    job.takes_no_uploads = Some(ServerRole::Third);
    let reason = play_to_abort(&mut job);
    assert!(reason.contains("only 0 of the 3 uploads"), "{reason}");
    assert!(reason.contains("one of these may not answer"), "{reason}");
    let reports = job.reports();
    let stages = reports.iter().flat_map(|report| &report.stages);
    assert!(
        stages
            .map(|stage| stage.dropped.len())
            .all(|dropped| dropped == 0)
    );
    job.takes_no_uploads = None;
    job.play();
}

#[test]
fn a_round_that_is_offered_waits_for_a_server_that_has_gone() {
    let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
    let is_offered = |job: &Ensemble| {
        let round = job.status().round.clone();
        round.is_some_and(|round| round.number == 2 && round.state == RoundState::Joining)
    };
    while !is_offered(&job) {
        job.advance();
    }
    job.lose(5);
    (0..200).for_each(|_| job.advance());
    assert!(is_offered(&job), "{:?}", job.status());
    let warning = job.status().warning.clone();
    assert!(warning.contains("without the third server"), "{warning}");
    job.hosts[5].lost = false;
    job.start_again(5);
    job.play();
    assert_eq!(counted(&job), [(1, 4), (2, 4)]);
    assert_eq!(job.reports().len(), 2, "no round is lost");
}

#[test]
fn killed_hosts_come_back_and_every_sum_is_right() {
    let mut kills = 0;
    for seed in 0..20 {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 5, 4), seed);
        (job.kill_one_in, job.stop_one_in) = (80, 400);
        job.play();
        assert_eq!(counted(&job).len(), 4, "{seed}");
        kills += job.hosts.iter().map(|host| host.lives - 1).sum::<u64>();
    }
    assert!(kills > 40, "{kills} hosts were killed");
}

/// Abuse case 48: a server is killed in a round and comes back with the records from before it. It is in that round no more,
/// and says nothing in it again.
#[test]
fn case_48_a_server_with_old_records_answers_nothing_twice() {
    for steps in 0..40 {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
        job.play_to_round();
        let old = job.hosts[4].records.snapshot();
        (0..steps).for_each(|_| job.advance());
        job.kill(4);
        job.hosts[4].records = Arc::new(MemoryRecords::of(old));
        job.play();
        assert_eq!(counted(&job).len(), 2, "{steps}");
        // There are three letters to each other server in a round.
        let again = job.letters.iter().find(|(_, letters)| **letters > 3);
        assert_eq!(again, None, "{steps}");
    }
}

/// The first party hears all sums that it is in.
fn assert_nothing_lost(job: &Ensemble, when: &str) {
    let host = &job.hosts[0];
    let counts = |report: &RoundReport| report.survivors.contains(&host.name);
    let lacks = |report: &RoundReport| !host.results.contains_key(&report.number);
    let reports = job.reports();
    let lost = reports
        .iter()
        .find(|report| counts(report) && lacks(report));
    assert_eq!(lost, None, "{when}: {:?}", job.failures);
}

/// Abuse case 54: a party that is killed at any step, also just after the round was done, hears the sum that it is in.
#[test]
fn case_54_a_party_that_is_killed_at_any_step_hears_its_sums() {
    for adversary in BOTH {
        let new = || Ensemble::new(mpc3(adversary, 4, 2), 1);
        for step in 1..new().play() {
            let mut job = new();
            (0..step).for_each(|_| job.advance());
            job.kill(0);
            job.play();
            assert_nothing_lost(&job, &format!("{adversary}: step {step}"));
        }
        // It has its result, and its caller has not taken that.
        let mut job = new();
        job.hosts[0].trouble.dies_telling = true;
        job.play();
        assert!(!job.hosts[0].trouble.dies_telling && job.hosts[0].lives == 2);
        assert_nothing_lost(&job, &format!("{adversary}: telling"));
    }
}
