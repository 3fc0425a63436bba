//! What a round over real connections comes to is what the simulator says: the same sum of the same survivors, the
//! same bytes of each message, the same word on why there is no sum.

use std::ops::ControlFlow;
use std::sync::Arc;

use blindsum_encode::Reals;
use blindsum_net::party::PartyConfig;
use blindsum_net::report::{JobStatus, RoundReport, RoundState};
use blindsum_protocol::{Adversary, FaultKind, JobSpec, ProtocolName};
use blindsum_sim::{Event, Given, Happening, Run, Scenario, Simulation, Stage};

use crate::common::raw::Raw;
use crate::common::*;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const VALUES: [f32; 5] = [1.0, 2.5, -0.5, 0.25, 4.0];

/// The protocols with an adversary that they resist. One of five parties may be lost.
const JOBS: [(ProtocolName, Adversary); 8] = [
    (ProtocolName::Plain, Adversary::SemiHonest),
    (ProtocolName::SecAgg, Adversary::Active),
    (ProtocolName::SecAgg, Adversary::SemiHonest),
    (ProtocolName::SecAggPlus, Adversary::Active),
    (ProtocolName::Fssa, Adversary::Active),
    (ProtocolName::Fssa, Adversary::SemiHonest),
    (ProtocolName::Pss, Adversary::SemiHonest),
    (ProtocolName::Flashe, Adversary::SemiHonest),
];

fn job(protocol: ProtocolName, adversary: Adversary) -> JobSpec {
    JobSpec {
        adversary,
        min_parties: 4,
        corrupt: 0.2,
        dropout: 0.2,
        join_deadline: 5.0,
        stage_deadline: 10.0,
        input_deadline: 10.0,
        ..spec(protocol, 5)
    }
}

/// A round in which the last `leaving` parties vanish instead of answering a stage, over the network: what the
/// coordinator says of it, and the mean that a survivor has.
fn over_the_network(spec: &JobSpec, stage: u8, leaving: usize) -> (RoundReport, Option<Reals>) {
    let pki = Pki::new(1);
    let coordinator = Running::start(&pki, vec![spec.clone()], None);
    let url = coordinator.url();
    let staying = NAMES.len() - leaving;
    let honest: Vec<_> = (NAMES.iter().zip(VALUES).take(staying))
        .map(|(name, value)| {
            let config = PartyConfig {
                give_up_after: 1.0,
                ..party_config(&url, pki.party(name))
            };
            run_party(config, constant(value))
        })
        .collect();
    let leavers: Vec<_> = (NAMES.iter().zip(VALUES).skip(staying))
        .map(|(name, value)| {
            let (url, credentials) = (url.clone(), pki.party(name));
            std::thread::spawn(move || {
                let mut raw = Raw::join(&url, credentials, name);
                let start = raw.begin();
                let _ = raw.play(&start, value, stage);
                raw.leave();
            })
        })
        .collect();
    for leaver in leavers {
        leaver.join().unwrap();
    }
    let over = |status: &JobStatus| {
        let ends = [RoundState::Done, RoundState::Aborted];
        let mut round = status.round.iter();
        round.any(|round| ends.contains(&round.state))
    };
    let report = coordinator.wait("test", over).round.unwrap();
    if report.state == RoundState::Aborted {
        // The job waits for those that have left.
        coordinator.stop().unwrap();
    }
    let mut means: Vec<_> = honest
        .into_iter()
        .filter_map(|party| {
            let rounds = party.join().unwrap().ok()?;
            Some(rounds.into_iter().next()?.ok()?.mean)
        })
        .collect();
    means.dedup();
    assert!(means.len() <= 1, "parties have different means: {means:?}");
    (report, means.pop())
}

/// The same in the simulator.
fn simulated(spec: &JobSpec, stage: u8, leaving: usize) -> Run {
    let mut scenario = Scenario::new(Arc::new(spec.clone().validate().unwrap()));
    scenario.events = (NAMES.len() - leaving..NAMES.len())
        .map(|party| Event {
            round: 0,
            party: party as u32,
            stage: Stage::Number(stage),
            what: Happening::Drop,
        })
        .collect();
    let vectors = VALUES.map(|value| vec![value; spec.dim as usize]);
    let inputs = Given::new(vectors.iter().map(|vector| &vector[..]), Vec::new());
    let simulation = Simulation::new(scenario).unwrap();
    simulation
        .run(&inputs, &mut (), &mut |_| ControlFlow::Continue(()))
        .unwrap()
}

/// What party `a` sent and was sent in the stages of a round, in the simulator: each stage's answer, and the message
/// that ended it.
fn bytes(run: &Run) -> Vec<(u64, u64)> {
    let stages = &run.report.last.stages;
    let ends = stages.iter().skip(1).map(|stage| stage.down_bytes.max);
    let answers = stages.iter().map(|stage| stage.up_bytes.max);
    answers.zip(ends).collect()
}

fn is_as_simulated(spec: &JobSpec, stage: u8, leaving: usize) -> RoundState {
    let scene = format!(
        "{} {}, {leaving} leave before stage {stage}",
        spec.protocol, spec.adversary
    );
    let (report, mean) = over_the_network(spec, stage, leaving);
    let run = simulated(spec, stage, leaving);
    assert_eq!(report.parties, NAMES, "{scene}");
    match &run.last.outcome {
        Ok(outcome) => {
            assert_eq!(report.state, RoundState::Done, "{scene}: {report:?}");
            let survivors = outcome.survivors.iter().map(|party| NAMES[party.rank()]);
            assert_eq!(report.survivors, survivors.collect::<Vec<_>>(), "{scene}");
            let simulated = run.last.mean.clone().unwrap();
            assert_eq!(mean, Some(Reals::Double(simulated)), "{scene}");
            let measured = report.stages.iter().map(|stage| stage.bytes["a"]);
            let measured: Vec<_> = measured.map(|bytes| (bytes.up, bytes.down)).collect();
            assert_eq!(measured, bytes(&run), "{scene}");
        }
        Err(fault) => {
            assert_eq!(report.state, RoundState::Aborted, "{scene}");
            assert_eq!(mean, None, "{scene}");
            let reason = &report.reason;
            let is_same = match fault.kind {
                // The coordinator also knows who has left.
                FaultKind::TooFewSurvivors { need, .. } => {
                    reason.starts_with("too few parties are left")
                        && reason.contains(&format!("{need} are needed"))
                }
                ref kind => reason.contains(&kind.to_string()),
            };
            assert!(is_same, "{scene}: {reason} is not {fault}");
        }
    }
    report.state
}

/// Every stage of every protocol, with one party fewer, which each of them bears, and with two fewer.
#[test]
fn rounds_over_the_network_are_as_simulated() {
    for (protocol, adversary) in JOBS {
        let spec = job(protocol, adversary);
        let stages = spec.clone().validate().unwrap().plan().answers().count() as u8;
        let mut ended = Vec::new();
        for stage in 0..stages {
            ended.extend([1, 2].map(|leaving| is_as_simulated(&spec, stage, leaving)));
        }
        assert_eq!(ended[..2], [RoundState::Done, RoundState::Aborted]);
    }
}
