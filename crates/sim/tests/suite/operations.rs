//! Random sequences of what happens to a job: parties join, leave, are lost, late and restarted, rounds
//! run over bad networks. Whatever happens, a round gives the exact sum of the survivors it declares or
//! aborts with a name.

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use blindsum_protocol::{
    Adversary, EncodingName, Fixed64, Job, JobSpec, ProtocolName, Quantised, floor_of_fraction,
};
use blindsum_sim::{Cohort, Event, Happening, Network, Scenario, Simulation, Stage, Synthetic};
use proptest::prelude::*;

use crate::support::{check, simulate};

/// Parties that exist; some of them are in the job at a time.
const EVERYBODY: usize = 12;
static COHORT: LazyLock<Cohort> = LazyLock::new(|| Cohort::new(EVERYBODY, 1).unwrap());

#[derive(Clone, Debug)]
enum Operation {
    Join(usize),
    Leave(usize),
    /// Something happens to the n-th party present in the next round.
    Happen {
        party: usize,
        stage: u8,
        what: Happening,
    },
    /// The network is like this from now on.
    Network(Network),
    /// A round.
    Round {
        drop: f64,
        seed: u64,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let what = prop_oneof![
        Just(Happening::Drop),
        Just(Happening::Restart),
        (0.0..60.0).prop_map(Happening::Delay),
    ];
    let happen = (0..EVERYBODY, 0u8..6, what).prop_map(|(party, stage, what)| Operation::Happen {
        party,
        stage,
        what,
    });
    prop_oneof![
        2 => (0..EVERYBODY).prop_map(Operation::Join),
        1 => (0..EVERYBODY).prop_map(Operation::Leave),
        4 => happen,
        2 => network().prop_map(Operation::Network),
        4 => (0.0..0.4, any::<u64>()).prop_map(|(drop, seed)| Operation::Round { drop, seed }),
    ]
}

fn network() -> impl Strategy<Value = Network> {
    (
        0.0..1.0,
        0.0..1.0,
        prop_oneof![Just(0.0), 0.0..0.6],
        0.0..0.5,
        0.0..0.5,
    )
        .prop_map(|(latency, jitter, loss, duplication, reordering)| Network {
            latency,
            jitter,
            loss,
            duplication,
            reordering,
        })
}

fn spec() -> impl Strategy<Value = JobSpec> {
    let encoding =
        prop_oneof![3 => Just(EncodingName::Quantised), 1 => Just(EncodingName::Fixed64)];
    let protocol = proptest::sample::select(ProtocolName::ALL);
    let adversary = prop_oneof![Just(Adversary::SemiHonest), Just(Adversary::Active)];
    (
        protocol,
        adversary,
        encoding,
        1u64..40,
        2u32..=32,
        1u32..100,
    )
        .prop_map(
            |(protocol, adversary, encoding, dim, bits, max_weight)| JobSpec {
                protocol: protocol.into(),
                adversary,
                encoding: match encoding {
                    // Proofs are of words without weights.
                    _ if protocol == ProtocolName::PssMalicious => Quantised {
                        bits,
                        ..Default::default()
                    }
                    .into(),
                    EncodingName::Fixed64 => Fixed64 {
                        max_weight,
                        ..Default::default()
                    }
                    .into(),
                    _ => Quantised {
                        bits,
                        max_weight,
                        ..Default::default()
                    }
                    .into(),
                },
                dim,
                parties: EVERYBODY as u32,
                dropout: match protocol {
                    ProtocolName::PssMalicious => 0.1,
                    _ => 0.3,
                },
                stage_deadline: 20.0,
                input_deadline: 40.0,
                ..JobSpec::default()
            },
        )
}

/// A job as its coordinator sees it over time.
struct World {
    job: Arc<Job>,
    present: Vec<usize>,
    events: Vec<Event>,
    network: Network,
    next_round: u64,
    sums: usize,
}

impl World {
    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Join(party) if !self.present.contains(party) => self.present.push(*party),
            Operation::Join(_) => {}
            Operation::Leave(party) => self.present.retain(|present| present != party),
            Operation::Happen { party, stage, what } => {
                let last = self.job.plan().answers().count() as u8 - 1;
                let stage = Stage::Number((*stage).min(last));
                self.events.push(Event {
                    round: 0,
                    party: *party as u32,
                    stage,
                    what: *what,
                });
            }
            Operation::Network(network) => self.network = *network,
            Operation::Round { drop, seed } => self.round(*drop, *seed),
        }
    }

    fn round(&mut self, drop: f64, seed: u64) {
        let cohort = Arc::new(COHORT.subset(&self.present));
        let mut events = std::mem::take(&mut self.events);
        events.retain(|event| (event.party as usize) < cohort.len());
        let scenario = Scenario {
            drop,
            seed,
            events,
            network: self.network,
            first_round: self.next_round,
            ..Scenario::new(self.job.clone())
        };
        self.next_round += 1;
        let simulation = Simulation::with_cohort(scenario, cohort.clone()).unwrap();
        let inputs = Synthetic::new(&self.job, seed);
        match simulation.run(&inputs, &mut (), &mut |_| ControlFlow::Continue(())) {
            Ok(run) => {
                check(&self.job, &run);
                self.sums += usize::from(run.last.outcome.is_ok());
                let seconds = run.report.last.virtual_seconds;
                let stages = self.job.plan().answers().count() as f64;
                assert!(
                    seconds <= f64::from(run.report.last.begun) * (stages * 20.0 + 40.0),
                    "{seconds} s: a deadline was not kept"
                );
            }
            // A cohort that is too small for the job's thresholds does not start.
            Err(error) => assert!(cohort.len() < EVERYBODY, "{error}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn case_29_random_operations(spec in spec(), operations in prop::collection::vec(operation(), 1..25)) {
        let job = Arc::new(spec.validate().unwrap());
        let mut world = World {
            job,
            present: (0..EVERYBODY).collect(),
            events: Vec::new(),
            network: Network::default(),
            next_round: 1,
            sums: 0,
        };
        operations.iter().for_each(|operation| world.apply(operation));
        // In the end all is well again.
        world.present = (0..EVERYBODY).collect();
        (world.events, world.network) = (Vec::new(), Network::default());
        let before = world.sums;
        world.round(0.0, 0);
        prop_assert_eq!(world.sums, before + 1);
    }

    #[test]
    fn case_29_random_scenarios(
        spec in spec(),
        drop in 0.0f64..0.5,
        counts in prop::collection::vec(0u32..3, 6),
        seed in any::<u64>(),
        threads in 1usize..4,
        network in prop_oneof![Just(Network::default()), network()],
    ) {
        let job = Arc::new(spec.validate().unwrap());
        let stages = 0..=job.plan().answers().count() as u8;
        let drop_at = stages.zip(counts).map(|(stage, count)| blindsum_sim::DropAt { stage: Stage::Number(stage), count });
        let mut drop_at: Vec<_> = drop_at.collect();
        let mut left = EVERYBODY - floor_of_fraction(drop, EVERYBODY);
        drop_at.iter_mut().for_each(|drop| {
            drop.count = drop.count.min(left as u32);
            left -= drop.count as usize;
        });
        simulate(Scenario { drop, drop_at, seed, threads, network, ..Scenario::new(job) });
    }
}
