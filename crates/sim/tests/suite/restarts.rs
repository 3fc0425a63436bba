//! Clients whose process is killed and that go on from their sealed snapshots.

use blindsum_protocol::{JobSpec, Message, PartyId};
use blindsum_sim::{Action, Event, Happening, Hooks, Network, Scenario, Stage};

use crate::support::{
    Transcript, answered, jobs, jobs_that_bear_losses, name, simulate_with, small,
};

/// Restarted after its vector is out, a client goes on as if nothing had happened: the same bytes are said.
#[test]
fn case_03_restarted_clients_say_the_same() {
    for job in jobs_that_bear_losses(&JobSpec {
        parties: 6,
        ..small()
    }) {
        let transcript = |events: Vec<Event>, network| {
            let mut transcript = Transcript::default();
            let run = simulate_with(
                Scenario {
                    events,
                    network,
                    ..Scenario::new(job.clone())
                },
                &mut transcript,
            );
            assert_eq!(run.report.last.survivors, 6, "{}", name(&job));
            transcript.hash
        };
        let restarts = |party| {
            let stages = job.plan().input_stage().unwrap()..job.plan().answers().count() as u8;
            stages.map(move |stage| Event {
                round: 0,
                party,
                stage: Stage::Number(stage),
                what: Happening::Restart,
            })
        };
        let repeating = Network {
            latency: 0.01,
            duplication: 0.5,
            loss: 0.1,
            ..Network::default()
        };
        for network in [Network::default(), repeating] {
            let undisturbed = transcript(Vec::new(), network);
            assert_eq!(
                undisturbed,
                transcript(restarts(2).collect(), network),
                "{}",
                name(&job)
            );
            let everybody = (0..6).flat_map(restarts).collect();
            assert_eq!(
                undisturbed,
                transcript(everybody, network),
                "{}",
                name(&job)
            );
        }
    }
}

/// What clients say. What is on its way to one that vanishes depends on when it does.
#[derive(Default)]
struct Said(Vec<(u8, PartyId, Message)>);

impl Hooks for Said {
    fn client_says(&mut self, stage: u8, from: PartyId, message: &Message) -> Action {
        self.0.push((stage, from, message.clone()));
        Action::Deliver
    }
}

/// Restarted before, there is nothing to go on from: the round is one in which the party vanishes before that answer.
#[test]
fn clients_that_are_restarted_too_early_are_lost() {
    for job in jobs(&JobSpec {
        parties: 10,
        dropout: 0.2,
        ..small()
    }) {
        let input = job.plan().input_stage().unwrap();
        for stage in answered(&job).into_iter().filter(|stage| *stage < input) {
            let [restarted, lost] = [Happening::Restart, Happening::Drop].map(|what| {
                let mut said = Said::default();
                let event = Event {
                    round: 0,
                    party: 2,
                    stage: Stage::Number(stage),
                    what,
                };
                let run = simulate_with(
                    Scenario {
                        events: vec![event],
                        ..Scenario::new(job.clone())
                    },
                    &mut said,
                );
                assert_eq!(run.report.last.survivors, 9, "{}", name(&job));
                said.0
            });
            assert_eq!(restarted, lost, "{} {stage}", name(&job));
        }
    }
}
