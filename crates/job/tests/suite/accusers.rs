//! Parties that accuse honest ones falsely, again and again: they cannot shut these out, whatever their names are.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_job::pb::{self, coordinator_frame::Frame};
use blindsum_job::report::RoundState;
use blindsum_job::store::Store;
use blindsum_protocol::{Adversary, JobSpec, ModelUpdate, ProtocolName};

use crate::ensemble::Ensemble;
use crate::hosts::mpc3;
use crate::scene::Scene;

const ROUNDS: u64 = 150;

/// Twelve parties, of whom two may lie and three may be lost.
fn twelve() -> Scene {
    let spec = JobSpec {
        protocol: ProtocolName::SecAgg.into(),
        parties: 12,
        min_parties: 7,
        dim: 2,
        rounds: 0,
        model_update: ModelUpdate::Nothing,
        join_deadline: 10.0,
        stage_deadline: 60.0,
        input_deadline: 600.0,
        corrupt: 0.16,
        dropout: 0.25,
        ..JobSpec::default()
    };
    let mut scene = Scene::new(spec, 1);
    assert_eq!(scene.job.spec().corrupt_parties(), 2);
    scene.connect_all();
    scene
}

/// What a liar does with each frame: it is ready, and accuses one of its victims that is in the round.
fn lie(scene: &mut Scene, liar: usize, victims: &[usize]) -> bool {
    let frames = scene.frames_to(liar);
    let is_quiet = frames.is_empty();
    for frame in frames {
        match frame {
            Frame::RoundOffer(offer) => {
                let ready = scene.parties[liar].ready(&scene.job.clone(), offer.round);
                scene.frame(liar, ready);
            }
            Frame::RoundStart(start) => {
                let round = scene.server.status().round.clone().unwrap();
                let names = victims.iter().map(|of| scene.parties[*of].name.to_string());
                let accused = names.into_iter().find(|name| round.parties.contains(name));
                let refused = pb::RoundRefused {
                    round: start.round,
                    code: pb::RoundRefusalCode::RoundRefusalFault.into(),
                    reason: "it lied".into(),
                    accused: accused.unwrap_or_default(),
                    ..pb::RoundRefused::default()
                };
                scene.frame(liar, refused);
            }
            _ => {}
        }
    }
    is_quiet
}

/// Rounds go on until so many have a sum.
fn play(scene: &mut Scene, liars: &BTreeMap<usize, Vec<usize>>, rounds: u64) {
    let honest: Vec<usize> = (0..12).filter(|party| !liars.contains_key(party)).collect();
    while scene.server.status().rounds_done < rounds {
        scene.play_with(&honest);
        let quiet: Vec<bool> = liars
            .iter()
            .map(|(liar, victims)| lie(scene, *liar, victims))
            .collect();
        if quiet.into_iter().all(|quiet| quiet) {
            scene.wait();
        }
    }
}

/// In how many of the latest rounds each party's vector counted, by its number.
fn counts(scene: &Scene) -> Vec<usize> {
    let reports = scene.store.rounds(&scene.job.spec().job, 100).unwrap();
    let done = reports.iter().filter(|it| it.state == RoundState::Done);
    let mut counts = vec![0; 12];
    for name in done.flat_map(|report| &report.survivors) {
        counts[name.trim_start_matches("party-").parse::<usize>().unwrap()] += 1;
    }
    counts
}

/// Case 52: two liars on either side of an honest party, by name, do not shut it out.
#[test]
fn case_52_two_liars_beside_a_victim_cost_it_at_most_half_of_the_rounds() {
    for (victim, liars) in [(5, [0, 9]), (0, [5, 9]), (9, [0, 5])] {
        let mut scene = twelve();
        let liars = liars.into_iter().map(|liar| (liar, vec![victim])).collect();
        play(&mut scene, &liars, ROUNDS);
        let counts = counts(&scene);
        assert!(counts[victim] >= 50, "{victim}: {counts:?}");
        let liars = liars.keys().map(|liar| counts[*liar]);
        assert!(liars.into_iter().all(|count| count == 0), "{counts:?}");
        let others = (0..12).filter(|party| ![0, 5, 9].contains(party));
        let least = others.map(|party| counts[party]).min().unwrap();
        assert!(least >= 95, "{counts:?}");
    }
}

/// Case 52: as many victims as liars, each of whom accuses all of them.
#[test]
fn case_52_liars_do_not_shut_out_as_many_as_they_are() {
    let mut scene = twelve();
    let liars = BTreeMap::from([(0, vec![5, 7]), (9, vec![7, 5])]);
    play(&mut scene, &liars, ROUNDS);
    let counts = counts(&scene);
    assert!(counts[5] >= 48 && counts[7] >= 48, "{counts:?}");
}

/// Case 52: a coordinator that is started again remembers who sits out, and how often a claim came again.
#[test]
fn case_52_who_sits_out_does_so_after_a_restart() {
    let mut scene = twelve();
    let liars = BTreeMap::from([(0, vec![5]), (9, vec![5])]);
    play(&mut scene, &liars, 60);
    for seed in 2..10 {
        let copy = scene.store.snapshot();
        scene.restart(copy, seed);
        scene.connect_all();
        let done = scene.server.status().rounds_done;
        play(&mut scene, &liars, done + 8);
    }
    let counts = counts(&scene);
    assert!(counts[5] >= 45, "{counts:?}");
    let claims: BTreeSet<_> = scene
        .store
        .faults(&scene.job.spec().job)
        .into_iter()
        .map(|fault| (fault.accuser.unwrap(), fault.culprit))
        .collect();
    assert_eq!(claims.len(), 2, "each claim is kept once: {claims:?}");
}

/// Case 52: the same where three servers compute.
#[test]
fn case_52_two_liars_beside_a_victim_cost_it_at_most_half_of_the_rounds_of_three_servers() {
    let spec = JobSpec {
        min_parties: 6,
        corrupt: 0.2,
        dropout: 0.2,
        ..mpc3(Adversary::Active, 12, 60)
    };
    let mut job = Ensemble::new(spec, 1);
    // In the order of names party-11 comes before party-5.
    job.accuses = BTreeMap::from([(0, "party-5".into()), (9, "party-5".into())]);
    job.play();
    let reports = job.reports();
    let done = reports.iter().filter(|it| it.state == RoundState::Done);
    let of_victim = done.filter(|it| it.survivors.contains(&"party-5".into()));
    let count = of_victim.count();
    assert!(count >= 28, "{count}");
}
