//! What happens while nonces are opened: connections end and are made again, processes end, the coordinator ends. A round
//! goes on where all members still can open, and comes to nothing where one cannot; either way no nonce is opened for two
//! rosters.

use std::sync::Arc;
use std::time::Duration;

use blindsum_job::coordinator::Input;
use blindsum_job::pb::{self, coordinator_frame::Frame};
use blindsum_job::report::{JobState, RoundState};
use blindsum_job::store::Store;
use blindsum_protocol::{JobSpec, ProtocolName};

use super::ensemble::Ensemble;
use super::hosts::toy;
use super::nonces::{fixed_for_the_first, scene, the_next_one_does_without};
use super::scene::Scene;

/// A party connects again, from the process that is ready for the first round.
fn comes_back(scene: &mut Scene, party: usize) {
    scene.connect_as(party, |hello| hello.round = 1);
}

/// The connection of a party ends, and the party does not know that.
fn loses(scene: &mut Scene, party: usize) {
    scene.give(Input::Lost {
        link: scene.parties[party].link,
        reason: "lost".into(),
        returns: true,
    });
}

/// So many seconds pass.
fn pass(scene: &mut Scene, seconds: u64) {
    scene.pass(Duration::from_secs(seconds));
}

/// The roster that a party was told is fixed, if it was.
fn fixed_told(scene: &mut Scene, party: usize) -> Option<pb::RosterFixed> {
    let fixed = |frame| match frame {
        Frame::RosterFixed(fixed) => Some(fixed),
        _ => None,
    };
    scene.frames_to(party).into_iter().find_map(fixed)
}

/// A party says its nonce.
fn opens(scene: &mut Scene, party: usize, fixed: &pb::RosterFixed) {
    let opening = scene.parties[party].open(fixed);
    scene.frame(party, opening);
}

/// The first two parties are told that the roster is fixed, and everybody else has opened.
fn fixed_for_two(scene: &mut Scene) -> [pb::RosterFixed; 2] {
    scene.connect_all();
    let others: Vec<usize> = (2..6).collect();
    scene.play_with(&others);
    for party in 0..2 {
        scene.heard_by(party);
        let ready = scene.parties[party].ready(&scene.job.clone(), 1);
        scene.frame(party, ready);
    }
    scene.play_with(&others);
    [0, 1].map(|party| fixed_told(scene, party).unwrap())
}

/// The first round has a sum of these.
fn has_a_sum_of(scene: &mut Scene, parties: std::ops::Range<usize>) {
    let parties: Vec<usize> = parties.collect();
    for _ in 0..1000 {
        if scene.server.status().rounds_done > 0 {
            break;
        }
        scene.play_with(&parties);
        scene.wait();
    }
    let reports = scene.store.rounds(&scene.job.spec().job, 10).unwrap();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(reports[0].survivors.len(), parties.len());
}

#[test]
fn who_reconnects_before_it_has_opened_is_told_the_roster_once_more() {
    for is_known_to_be_lost in [false, true] {
        let mut scene = scene();
        fixed_for_the_first(&mut scene, |scene, fixed| {
            if is_known_to_be_lost {
                loses(scene, 0);
                pass(scene, 4);
            }
            comes_back(scene, 0);
            // With all certificates: they are those of a connection.
            assert_eq!(fixed_told(scene, 0).as_ref(), Some(&fixed));
            // It is there again, for longer than anybody is waited for who is not.
            pass(scene, 6);
            opens(scene, 0, &fixed);
        });
        has_a_sum_of(&mut scene, 0..6);
    }
}

#[test]
fn who_reconnects_after_it_has_opened_says_the_same_once_more() {
    let mut scene = scene();
    let [mine, theirs] = fixed_for_two(&mut scene);
    opens(&mut scene, 0, &mine);
    comes_back(&mut scene, 0);
    let again = fixed_told(&mut scene, 0).unwrap();
    assert_eq!(again, mine);
    opens(&mut scene, 0, &again);
    pass(&mut scene, 1);
    assert_eq!(scene.server.status().waiting_for, ["party-1"]);
    opens(&mut scene, 1, &theirs);
    has_a_sum_of(&mut scene, 0..6);
}

#[test]
fn who_is_lost_after_it_has_opened_is_not_waited_for() {
    for was_started_again in [false, true] {
        let mut scene = scene();
        let [mine, theirs] = fixed_for_two(&mut scene);
        opens(&mut scene, 0, &mine);
        match was_started_again {
            // The round begins and does without it.
            true => {
                scene.connect(0);
            }
            false => loses(&mut scene, 0),
        }
        pass(&mut scene, 10);
        opens(&mut scene, 1, &theirs);
        has_a_sum_of(&mut scene, 1..6);
    }
}

#[test]
fn who_is_lost_for_longer_than_the_grace_ends_the_round() {
    let mut scene = scene();
    fixed_for_the_first(&mut scene, |scene, _| {
        loses(scene, 0);
        pass(scene, 4);
        assert_eq!(scene.server.status().waiting_for, ["party-0"]);
        pass(scene, 1);
        // Back at once, it sits out the next round, which is offered already.
        comes_back(scene, 0);
    });
    the_next_one_does_without(&mut scene, "its connection was lost");
}

#[test]
fn who_is_started_again_without_its_nonce_ends_the_round_at_once() {
    let mut scene = scene();
    let mut then = scene.now.time;
    fixed_for_the_first(&mut scene, |scene, _| {
        then = scene.now.time;
        scene.connect(0);
        assert_eq!(scene.server.status().round.as_ref().unwrap().number, 2);
    });
    assert_eq!(scene.now.time, then);
    the_next_one_does_without(&mut scene, "it was started again without its nonce");
}

#[test]
fn who_is_not_in_the_roster_hears_that_and_is_in_the_next_one() {
    let spec = JobSpec {
        join_deadline: 60.0,
        ..scene().job.spec().clone()
    };
    let mut scene = Scene::new(spec, 1);
    let others: Vec<usize> = (0..5).collect();
    for &party in &others {
        scene.connect(party);
    }
    scene.play_with(&others);
    pass(&mut scene, 60);
    scene.play_with(&others[..4]);
    let fixed = fixed_told(&mut scene, 4).unwrap();
    comes_back(&mut scene, 5);
    let told = scene.frames_to(5);
    let aborted = |frame: &Frame| matches!(frame, Frame::RoundAborted(it) if it.only_you);
    assert!(told.iter().any(aborted), "{told:?}");
    assert!(
        !told
            .iter()
            .any(|frame| matches!(frame, Frame::RosterFixed(_)))
    );
    opens(&mut scene, 4, &fixed);
    has_a_sum_of(&mut scene, 0..5);
}

#[test]
fn a_coordinator_that_is_killed_offers_the_next_round() {
    let mut scene = scene();
    let [mine, _] = fixed_for_two(&mut scene);
    opens(&mut scene, 0, &mine);
    scene.restart(scene.store.snapshot(), 2);
    (0..6).for_each(|party| comes_back(&mut scene, party));
    let told = scene.frames_to(0);
    let aborted = |frame: &Frame| matches!(frame, Frame::RoundAborted(it) if it.round == 1);
    assert!(told.iter().any(aborted), "{told:?}");
    let late = scene.parties[0].open(&mine);
    let ready = scene.parties[0].ready(&scene.job.clone(), 2);
    scene.frame(0, ready);
    scene.play_with(&[1, 2, 3, 4, 5]);
    // The coordinator waits for others to come back, as long as it waits for anybody.
    scene.wait();
    scene.play_with(&[1, 2, 3, 4, 5]);
    let fixed = fixed_told(&mut scene, 0).unwrap();
    // A nonce that comes late is of no round.
    scene.frame(0, late);
    opens(&mut scene, 0, &fixed);
    scene.play();
    let mut reports = scene.store.rounds(&scene.job.spec().job, 10).unwrap();
    reports.reverse();
    let states: Vec<_> = reports.iter().map(|it| (it.number, it.state)).collect();
    assert_eq!(states, [(1, RoundState::Aborted), (2, RoundState::Done)]);
    assert_eq!(reports[1].survivors.len(), 6);
}

/// Five real parties of which three are enough.
fn job() -> Ensemble {
    Ensemble::new(
        JobSpec {
            protocol: ProtocolName::SecAggPlus.into(),
            min_parties: 3,
            dropout: 0.2,
            ..toy("opening", 5, 1)
        },
        1,
    )
}

/// From the step in which the first one hears that the roster is fixed to the one in which all have opened.
fn steps_of_the_opening() -> std::ops::Range<usize> {
    let mut job = job();
    let mut fixed = None;
    for step in 0.. {
        if !job.opened.is_empty() {
            fixed.get_or_insert(step - 1);
        }
        if let Some(fixed) = fixed
            && job.opened.len() == 5
        {
            return fixed..step + 5;
        }
        job.advance();
    }
    unreachable!()
}

/// Something happens at each step of the opening of a job of its own, which is done after so many rounds at most.
fn at_every_step(rounds: usize, survivors: usize, happens: impl Fn(&mut Ensemble)) {
    let steps = steps_of_the_opening();
    assert!(steps.len() >= 10, "{steps:?}");
    for step in steps {
        let mut job = job();
        (0..step).for_each(|_| job.advance());
        happens(&mut job);
        job.play();
        let reports = job.reports();
        let what = format!("step {step}: {reports:?}");
        assert!(reports.len() <= rounds, "{what}");
        assert!(reports[0].survivors.len() >= survivors, "{what}");
        for rosters in job.opened.values() {
            assert!(rosters.iter().all(|one| *one == rosters[0]), "{what}");
        }
    }
}

#[test]
fn parties_that_reconnect_while_nonces_are_opened_lose_no_round() {
    for party in 0..5 {
        at_every_step(1, 5, |job| job.disconnect(party));
    }
    at_every_step(1, 5, |job| (0..5).for_each(|party| job.disconnect(party)));
}

#[test]
fn a_process_that_ends_while_nonces_are_opened_costs_one_round() {
    for has_records in [true, false] {
        at_every_step(2, 4, |job| {
            job.kill(2);
            if !has_records {
                job.hosts[2].records = Arc::default();
            }
        });
    }
}

#[test]
fn a_party_that_is_lost_while_nonces_are_opened_costs_one_round() {
    at_every_step(2, 4, |job| job.lose(2));
}

#[test]
fn a_coordinator_that_ends_while_nonces_are_opened_costs_one_round() {
    at_every_step(2, 5, Ensemble::restart_server);
}

/// Six parties of which so many are enough, in a job of so many rounds. It fails with the third round in a row that does.
fn needs(min_parties: u32, rounds: u32) -> Scene {
    let spec = JobSpec {
        min_parties,
        rounds,
        corrupt: 0.1,
        join_deadline: 60.0,
        ..scene().job.spec().clone()
    };
    let mut scene = Scene::new(spec, 1);
    scene.connect_all();
    scene
}

/// Plays a job to its end, in which the first parties do what they want once they are told that the roster is fixed; gives
/// the rounds in which they were told that, each with who was.
fn play_with_members(
    scene: &mut Scene,
    members: usize,
    mut told: impl FnMut(&mut Scene, &[(usize, pb::RosterFixed)]),
) -> Vec<(u64, Vec<usize>)> {
    let honest: Vec<usize> = (members..6).collect();
    let mut rounds = Vec::new();
    while scene.state() == JobState::Running && rounds.len() < 200 {
        scene.play_with(&honest);
        let mut fixed = Vec::new();
        let mut is_quiet = true;
        for party in 0..members {
            for frame in scene.frames_to(party) {
                is_quiet = false;
                match frame {
                    Frame::RoundOffer(offer) => {
                        let ready = scene.parties[party].ready(&scene.job.clone(), offer.round);
                        scene.frame(party, ready);
                    }
                    Frame::RosterFixed(roster) => {
                        // For its certificates, which come once.
                        scene.parties[party].open(&roster);
                        fixed.push((party, roster));
                    }
                    _ => {}
                }
            }
        }
        if let Some((_, roster)) = fixed.first() {
            rounds.push((
                roster.round,
                fixed.iter().map(|(party, _)| *party).collect(),
            ));
            told(scene, &fixed);
        } else if is_quiet {
            scene.wait();
        }
    }
    rounds
}

/// A party does not want to be in a round.
fn refuses(scene: &mut Scene, party: usize, round: u64) {
    scene.frame(
        party,
        pb::RoundRefused {
            round,
            reason: "not with me".into(),
            ..pb::RoundRefused::default()
        },
    );
}

fn first_refuses(scene: &mut Scene, fixed: &[(usize, pb::RosterFixed)]) {
    refuses(scene, fixed[0].0, fixed[0].1.round);
}

#[test]
fn who_does_not_open_sits_out_longer_each_time() {
    let mut scene = needs(5, 8);
    let rounds = play_with_members(&mut scene, 1, first_refuses);
    let rounds: Vec<u64> = rounds.into_iter().map(|(round, _)| round).collect();
    // One round without it, then two, then four.
    assert_eq!(rounds, [1, 3, 6, 11]);
}

#[test]
fn rounds_that_end_at_the_opening_end_no_job_that_has_enough_others() {
    let mut scene = needs(3, 1);
    let begun = scene.now.time;
    let rounds = play_with_members(&mut scene, 3, first_refuses);
    // Three are ended, one after the other and at once.
    assert!(rounds.len() >= 3, "{rounds:?}");
    assert_eq!(scene.state(), JobState::Done);
    assert!(scene.now.time - begun < Duration::from_secs(10));
}

#[test]
fn rounds_that_end_at_the_opening_hold_up_a_job_that_needs_everybody_and_do_not_end_it() {
    let mut scene = needs(6, 1);
    let begun = scene.now.time;
    let rounds = play_with_members(&mut scene, 1, |scene, fixed| match fixed[0].1.round {
        ..=12 => first_refuses(scene, fixed),
        _ => {
            opens(scene, 0, &fixed[0].1);
            scene.play();
        }
    });
    let rounds: Vec<u64> = rounds.into_iter().map(|(round, _)| round).collect();
    assert!(rounds.into_iter().eq(1..=13));
    assert_eq!(scene.state(), JobState::Done);
    // Twelve pauses, each twice as long as the one before, and no longer than a minute.
    assert!(scene.now.time - begun > Duration::from_secs(500));
}

/// Abuse case 46: members that end rounds in turn, each of them after the others have opened, do not end all of them.
#[test]
fn case_46_members_that_end_rounds_in_turn_do_not_end_all_of_them() {
    let mut scene = needs(3, 40);
    let mut latest = [0; 3];
    let ended = play_with_members(&mut scene, 3, |scene, fixed| {
        let (one, roster) = fixed
            .iter()
            .min_by_key(|(party, _)| latest[*party])
            .unwrap();
        for (party, roster) in fixed.iter().filter(|(party, _)| party != one) {
            opens(scene, *party, roster);
        }
        latest[*one] = roster.round;
        refuses(scene, *one, roster.round);
    });
    assert_eq!(scene.state(), JobState::Done);
    assert!(ended.len() <= 20, "{} rounds were ended", ended.len());
}

/// A coordinator that was stopped for a while, or a network, makes nobody a liar.
#[test]
fn where_more_say_nothing_than_may_lie_nobody_sits_out() {
    let mut scene = needs(5, 1);
    let begun = scene.now.time;
    let mut is_first = true;
    let told = play_with_members(&mut scene, 3, |scene, fixed| {
        if std::mem::take(&mut is_first) {
            pass(scene, 30);
        }
        for (party, roster) in fixed {
            opens(scene, *party, roster);
        }
        scene.play();
    });
    assert_eq!(scene.state(), JobState::Done);
    assert_eq!(told, [(1, vec![0, 1, 2]), (2, vec![0, 1, 2])]);
    assert!(scene.now.time - begun < Duration::from_secs(60));
}

/// A connection may be dead though nobody knows yet.
#[test]
fn who_says_nothing_in_time_sits_out_one_round() {
    let mut scene = needs(5, 2);
    play_with_members(&mut scene, 1, |scene, fixed| match fixed[0].1.round {
        1 => pass(scene, 30),
        _ => opens(scene, 0, &fixed[0].1),
    });
    let mut reports = scene.store.rounds(&scene.job.spec().job, 10).unwrap();
    reports.reverse();
    let parties: Vec<_> = reports.iter().map(|it| it.parties.len()).collect();
    assert_eq!(parties, [6, 5, 6], "{reports:?}");
}

/// Abuse case 46: who ends rounds now and then cannot end many of them.
#[test]
fn case_46_who_has_not_opened_is_forgiven_once_in_ten_rounds() {
    let mut scene = needs(5, 25);
    play_with_members(&mut scene, 1, |scene, fixed| {
        let roster = &fixed[0].1;
        match [1, 12, 25].contains(&roster.round) {
            true => refuses(scene, 0, roster.round),
            false => opens(scene, 0, roster),
        }
    });
    let reports = scene.store.rounds(&scene.job.spec().job, 100).unwrap();
    let sums = reports
        .iter()
        .rev()
        .filter(|it| it.state == RoundState::Done);
    let without = sums.filter(|it| !it.parties.iter().any(|name| name == "party-0"));
    let without: Vec<u64> = without.map(|it| it.number).collect();
    // One round without it; two after nine that it was in; after ten, of the two times only one is forgotten.
    assert_eq!(without, [2, 13, 14, 26, 27]);
}
