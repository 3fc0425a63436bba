//! What ends no job: a server or a party whose program crashes again and again. The job waits, longer each time, and says
//! for whom.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use blindsum_job::coordinator::Input;
use blindsum_job::machine::Time;
use blindsum_job::pb::coordinator_frame::Frame;
use blindsum_job::pb::{self, RoundRefusalCode};
use blindsum_job::report::{JobState, RoundReport, RoundState, StageReport};
use blindsum_job::store::Store;
use blindsum_job::totals::LossCause;
use blindsum_protocol::{Adversary, JobSpec, ModelUpdate, ProtocolName};
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::ensemble::Ensemble;
use crate::hosts::mpc3;
use crate::scene::Scene;

/// Many more than the rounds that may fail in a row.
const CRASHES: usize = 12;

fn spec(parties: u32, min_parties: u32) -> JobSpec {
    JobSpec {
        protocol: ProtocolName::SecAgg.into(),
        parties,
        min_parties,
        dim: 2,
        rounds: 30,
        model_update: ModelUpdate::Nothing,
        join_deadline: 60.0,
        stage_deadline: 60.0,
        input_deadline: 600.0,
        corrupt: 0.0,
        dropout: 0.0,
        ..JobSpec::default()
    }
}

/// The parties from this number on crash whenever a round has begun, and come back at once; so often.
fn crash(scene: &mut Scene, from: usize, mut times: usize) {
    let all: Vec<usize> = (0..scene.parties.len()).collect();
    let honest = &all[..from];
    while times > 0 {
        scene.play_with(honest);
        let mut is_quiet = true;
        let mut crashed = false;
        for party in from..all.len() {
            for frame in scene.frames_to(party) {
                is_quiet = false;
                match frame {
                    Frame::RoundOffer(offer) => {
                        let ready = scene.parties[party].ready(&scene.job.clone(), offer.round);
                        scene.frame(party, ready);
                    }
                    Frame::RoundStart(_) => crashed = true,
                    _ => {}
                }
            }
        }
        if crashed {
            times -= 1;
            for party in from..all.len() {
                let (link, reason) = (scene.parties[party].link, "killed".into());
                scene.give(Input::Lost {
                    link,
                    reason,
                    returns: true,
                });
                scene.connect(party);
            }
        } else if is_quiet && scene.state() == JobState::Running {
            scene.wait();
        }
        assert_eq!(
            scene.state(),
            JobState::Running,
            "{:?}",
            scene.server.status().reason
        );
    }
}

/// Lets time pass and everybody do its part until the job is over.
fn finish(scene: &mut Scene) {
    while scene.state() == JobState::Running {
        scene.play();
        if scene.state() == JobState::Running {
            scene.wait();
        }
    }
    assert_eq!(scene.state(), JobState::Done);
}

#[test]
fn a_party_that_crashes_in_a_loop_is_waited_for_where_it_is_needed() {
    let mut scene = Scene::new(spec(4, 4), 1);
    scene.connect_all();
    let begun = scene.now.time;
    crash(&mut scene, 3, CRASHES);
    while scene.server.status().blocked.is_empty() {
        scene.play_with(&[0, 1, 2]);
        scene.wait();
    }
    let status = scene.server.status();
    assert!(status.blocked.contains("party-3"), "{}", status.blocked);
    assert!(
        status.warning.contains(&status.blocked),
        "{}",
        status.warning
    );
    assert!(!status.warnings.contains(&status.blocked));
    // Pauses have grown: rounds do not begin one after the other.
    let waited = scene.now.time - begun;
    assert!(waited > Duration::from_secs(300), "{waited:?}");
    let rounds = scene.store.rounds(&scene.job.spec().job, 100).unwrap();
    assert!(rounds.iter().all(|it| it.state == RoundState::Aborted));
    assert!(
        rounds.iter().all(|it| it.reason.contains("party-3 left")),
        "{rounds:?}"
    );
    finish(&mut scene);
    assert_eq!(scene.server.status().blocked, "");
}

#[test]
fn rounds_go_on_without_parties_that_crash_in_a_loop() {
    // Five of six are needed in a round of six.
    let mut scene = Scene::new(spec(6, 4), 1);
    scene.connect_all();
    let begun = scene.now.time;
    crash(&mut scene, 4, 5);
    let status = scene.server.status();
    // They were in rounds 1, 3, 6, 11 and 20.
    assert!(status.rounds_done >= 15, "{status:?}");
    assert!(scene.now.time - begun < Duration::from_secs(300));
    finish(&mut scene);
}

/// The parties from this number on are ready for every round, and leave it as soon as it begins: with this refusal, for the
/// n-th round that they are in. Goes on until so many rounds have a sum.
fn leave(
    scene: &mut Scene,
    from: usize,
    rounds: u64,
    refusal: impl Fn(usize, usize) -> pb::RoundRefused,
) {
    let honest: Vec<usize> = (0..from).collect();
    let mut times = vec![0; scene.parties.len()];
    while scene.state() == JobState::Running && scene.server.status().rounds_done < rounds {
        scene.play_with(&honest);
        let mut is_quiet = true;
        for (party, times) in times.iter_mut().enumerate().skip(from) {
            for frame in scene.frames_to(party) {
                is_quiet = false;
                match frame {
                    Frame::RoundOffer(offer) => {
                        let ready = scene.parties[party].ready(&scene.job.clone(), offer.round);
                        scene.frame(party, ready);
                    }
                    Frame::RoundStart(start) => {
                        scene.parties[party].learn(&start.certificates);
                        let refused = pb::RoundRefused {
                            round: start.round,
                            ..refusal(party, *times)
                        };
                        *times += 1;
                        scene.frame(party, refused);
                    }
                    _ => {}
                }
            }
        }
        if is_quiet && scene.state() == JobState::Running {
            scene.wait();
        }
        let waited = scene.now.time - Time::default();
        assert!(waited < Duration::from_secs(3600), "{waited:?}");
    }
}

fn refused(code: RoundRefusalCode, accused: &str) -> pb::RoundRefused {
    pb::RoundRefused {
        code: code.into(),
        accused: accused.into(),
        ..Default::default()
    }
}

/// How many rounds came to nothing, and in how many the vector of this party counts.
fn outcomes(scene: &Scene, party: &str) -> (usize, usize) {
    let rounds = scene.store.rounds(&scene.job.spec().job, 1000).unwrap();
    let aborted = rounds.iter().filter(|it| it.state == RoundState::Aborted);
    let with = |it: &&RoundReport| it.survivors.iter().any(|name| name == party);
    (aborted.count(), rounds.iter().filter(with).count())
}

/// Case 52: whoever has no update to give costs the others a round at most, and is in the next one as everybody is.
#[test]
fn case_52_who_sits_a_round_out_is_in_the_next_one() {
    for code in [
        RoundRefusalCode::RoundRefusalSitsOut,
        RoundRefusalCode::RoundRefusalInput,
    ] {
        // Five of six are needed in a round of six.
        let mut scene = Scene::new(spec(6, 4), 1);
        scene.connect_all();
        let mut declined = 0;
        while declined < 2 {
            scene.play_with(&[0, 1, 2, 3]);
            let mut is_quiet = true;
            for party in 4..6 {
                for frame in scene.frames_to(party) {
                    is_quiet = false;
                    match frame {
                        Frame::RoundOffer(offer) => {
                            let ready = scene.parties[party].ready(&scene.job.clone(), offer.round);
                            scene.frame(party, ready);
                        }
                        Frame::RoundStart(start) => {
                            declined += 1;
                            scene.parties[party].learn(&start.certificates);
                            let refused = pb::RoundRefused {
                                round: start.round,
                                ..refused(code, "")
                            };
                            scene.frame(party, refused);
                        }
                        _ => {}
                    }
                }
            }
            if is_quiet {
                scene.wait();
            }
        }
        finish(&mut scene);
        let rounds = scene.store.rounds(&scene.job.spec().job, 100).unwrap();
        let round = |number| rounds.iter().find(|it| it.number == number).unwrap();
        assert_eq!(round(1).state, RoundState::Aborted, "{code:?}");
        assert_eq!(round(2).state, RoundState::Done, "{code:?}");
        assert_eq!(round(2).survivors.len(), 6, "{code:?}");
    }
}

/// The reports say that a party sat out, and not that it was lost; so does the reason of a round that came to nothing.
#[test]
fn who_sits_a_round_out_is_named_so() {
    use RoundRefusalCode::{RoundRefusalFault, RoundRefusalInput, RoundRefusalSitsOut};
    for (code, reason, told, cause, verb) in [
        (
            RoundRefusalSitsOut,
            "",
            "its program gave no update",
            LossCause::SatOut,
            "sat out",
        ),
        (
            RoundRefusalInput,
            "it is\nnot finite",
            "its update was not accepted: it is\\u{a}not finite",
            LossCause::NotAccepted,
            "sat out",
        ),
        (
            RoundRefusalFault,
            "",
            "refused by the party",
            LossCause::Refused,
            "left",
        ),
    ] {
        // All three are needed.
        let mut scene = Scene::new(spec(3, 3), 1);
        scene.begin_without_the_last();
        let refusal = pb::RoundRefused {
            round: 1,
            reason: reason.into(),
            ..refused(code, "")
        };
        scene.frame(2, refusal);
        let round = scene.store.round("job", 1).unwrap().unwrap();
        assert_eq!(round.state, RoundState::Aborted);
        let dropped = |stage: &StageReport| stage.dropped.get("party-2").cloned();
        let dropped: Vec<String> = round.stages.iter().filter_map(dropped).collect();
        assert_eq!(dropped, [told]);
        assert_eq!(round.causes()["party-2"], cause);
        let said = format!("party-2 {verb} ({told})");
        assert!(round.reason.contains(&said), "{}", round.reason);
        // A report of before has no kinds.
        let mut json = serde_json::to_value(&round).unwrap();
        for stage in json["stages"].as_array_mut().unwrap() {
            stage.as_object_mut().unwrap().remove("causes");
        }
        let before: RoundReport = serde_json::from_value(json).unwrap();
        assert!(before.causes().is_empty());
    }
}

/// Case 52: parties that give no update to any round that they are in, again and again, sit out longer each time. The job
/// goes on without them as soon as enough others are there.
#[test]
fn case_52_parties_that_give_no_update_again_and_again_stop_no_job() {
    for code in [
        RoundRefusalCode::RoundRefusalSitsOut,
        RoundRefusalCode::RoundRefusalInput,
        RoundRefusalCode::RoundRefusalUnable,
    ] {
        for (parties, min_parties, corrupt, liars) in [
            (4, 3, 0.0, 1),
            (6, 4, 0.0, 2),
            (7, 4, 0.25, 2),
            (10, 5, 0.3, 3),
        ] {
            let spec = JobSpec {
                corrupt,
                ..spec(parties, min_parties)
            };
            let mut scene = Scene::new(spec, 1);
            scene.connect_all();
            leave(&mut scene, (parties - liars) as usize, 30, |_, _| {
                refused(code, "")
            });
            let (aborted, counts) = outcomes(&scene, "party-0");
            let what = format!("{code:?}, {liars} of {parties}: {aborted} came to nothing");
            assert_eq!(scene.server.status().rounds_done, 30, "{what}");
            assert_eq!(counts, 30, "{what}");
            assert!(aborted <= 8, "{what}");
        }
    }
}

/// Case 52: whoever leaves a round without a fault accuses nobody by that. So it does not keep its turns against a party that
/// it has accused.
#[test]
fn case_52_who_gives_no_update_accuses_nobody() {
    use RoundRefusalCode::{RoundRefusalFault, RoundRefusalSitsOut, RoundRefusalUnable};
    for code in [RoundRefusalSitsOut, RoundRefusalUnable] {
        for accuses_first in [false, true] {
            let spec = JobSpec {
                corrupt: 0.25,
                ..spec(7, 5)
            };
            let mut scene = Scene::new(spec, 1);
            scene.connect_all();
            leave(&mut scene, 5, 30, |_, times| match (accuses_first, times) {
                (true, 0) => refused(RoundRefusalFault, "party-0"),
                (true, _) => refused(code, ""),
                (false, _) => refused(code, "party-0"),
            });
            let (aborted, counts) = outcomes(&scene, "party-0");
            let what = format!("{code:?}, {accuses_first}: {aborted} to nothing, {counts} count");
            assert_eq!(scene.server.status().rounds_done, 30, "{what}");
            assert!(aborted <= 9, "{what}");
            assert!(counts >= 15, "{what}");
            let claims = scene.store.faults(&scene.job.spec().job).len();
            assert_eq!(claims > 0, accuses_first, "{what}");
        }
    }
}

/// Where every party crashes sooner or later, with no result between, something else is wrong: the job fails in the end.
#[test]
fn rounds_that_are_lost_with_every_party_in_turn_end_the_job() {
    let mut scene = Scene::new(spec(3, 3), 1);
    scene.connect_all();
    let mut rounds = 0;
    while scene.state() == JobState::Running {
        let mut started = Vec::new();
        for party in 0..3 {
            for frame in scene.frames_to(party) {
                match frame {
                    Frame::RoundOffer(offer) => {
                        let ready = scene.parties[party].ready(&scene.job.clone(), offer.round);
                        scene.frame(party, ready);
                    }
                    Frame::RoundStart(_) => started.push(party),
                    _ => {}
                }
            }
        }
        if let Some(crashes) = started.iter().find(|party| **party == rounds % 3) {
            rounds += 1;
            let (link, reason) = (scene.parties[*crashes].link, "killed".into());
            scene.give(Input::Lost {
                link,
                reason,
                returns: true,
            });
            scene.connect(*crashes);
        } else if started.is_empty() && scene.state() == JobState::Running {
            scene.wait();
        }
    }
    assert_eq!(scene.state(), JobState::Failed);
    // Two were lost with some of the parties alone.
    assert_eq!(rounds, 2 + 3);
}

/// A server of three that crashes in every round ends no job: no round counts as failed, and pauses grow.
#[test]
fn a_server_that_crashes_again_and_again_ends_no_job() {
    for server in [4, 5] {
        let mut job = Ensemble::new(mpc3(Adversary::Active, 4, 2), 1);
        let mut pauses = Vec::new();
        for _ in 0..CRASHES {
            job.play_to_round();
            let begun = job.now.time;
            job.kill(server);
            while job.status().blocked.is_empty() {
                job.advance();
            }
            let blocked = job.status().blocked.clone();
            assert!(blocked.starts_with("waiting for the "), "{blocked}");
            assert!(blocked.contains("server, lost in round"), "{blocked}");
            job.play_to_round();
            pauses.push((job.now.time - begun).as_secs());
        }
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert_eq!(pauses.last(), Some(&60), "{pauses:?}");
        job.play();
    }
}

/// The target and the message of each line of the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(String, String)>>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = String::new();
        event.record(&mut |field: &Field, value: &dyn Debug| {
            if field.name() == "message" {
                message = format!("{value:?}");
            }
        });
        let target = event.metadata().target().to_owned();
        self.0.lock().unwrap().push((target, message));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// `blindsum serve` says itself for whom a job waits, and leaves these lines out by their target.
#[test]
fn lines_of_whom_a_job_waits_for_have_a_target_of_their_own() {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let mut scene = Scene::new(spec(4, 4), 1);
        scene.connect_all();
        crash(&mut scene, 3, 2);
    });
    let lines = log.0.lock().unwrap();
    for said in ["round aborted", "waiting for other parties"] {
        let of: Vec<&(String, String)> = lines.iter().filter(|it| it.1.contains(said)).collect();
        assert!(!of.is_empty(), "{said}: {lines:?}");
        for (target, message) in of {
            assert_eq!(target, "blindsum_job::waits", "{message}");
        }
    }
}
