//! What becomes of rounds at the second and the third server: where one begins twice or is over, where a line breaks, and
//! where a party lies.

use blindsum_job::coordinator::Hold;
use blindsum_job::follower::{self, UploadId, Uploaded};
use blindsum_job::party::Say;
use blindsum_job::pb;
use blindsum_job::pb::party_frame::Frame as UpFrame;
use blindsum_job::report::RoundState;
use blindsum_protocol::{
    Adversary, Clipping, JobSpec, ModelUpdate, Mpc3, Quantised, ResultName, RuleName, ServerIndex,
    ServerRole,
};

use crate::ensemble::Ensemble;
use crate::hosts::{Machine, mpc3};

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
    std::iter::from_fn(|| server.poll_working(now)).collect()
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

/// Abuse case 52: a root that has lied sits no round out, since there is none without it.
#[test]
fn case_52_no_round_begins_without_a_root_that_lied() {
    let options = Mpc3 {
        rule: RuleName::FlTrust,
        root: "party-2".into(),
        result: ResultName::Servers,
        ..Mpc3::default()
    };
    let spec = JobSpec {
        protocol: options.into(),
        encoding: Quantised {
            clipping: Clipping::L2,
            clip: 4.0,
            ..Quantised::default()
        }
        .into(),
        model_update: ModelUpdate::Nothing,
        min_parties: 4,
        ..mpc3(Adversary::Active, 6, 2)
    };
    let mut job = Ensemble::new(spec, 1);
    while !job.spoil_answer(2) {
        job.advance();
    }
    job.play();
    let reports = job.reports();
    let states: Vec<RoundState> = reports.iter().rev().map(|report| report.state).collect();
    let [aborted, done @ ..] = &states[..] else {
        panic!("no rounds");
    };
    assert_eq!(
        (*aborted, done),
        (RoundState::Aborted, &[RoundState::Done; 2][..])
    );
    assert!(
        reports
            .iter()
            .all(|it| it.parties.contains(&"party-2".to_string()))
    );
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
    while job.lines.notices.is_empty() {
        job.advance();
    }
    assert!(
        handed(&mut job, 4, lost()).is_empty(),
        "no notice is missed"
    );
    let talks = |job: &Ensemble| {
        job.lines
            .letters
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
