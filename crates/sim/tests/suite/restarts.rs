//! Clients whose process is killed and that go on from their sealed snapshots.

use blindsum_protocol::JobSpec;
use blindsum_sim::{Event, Happening, Network, Scenario, Stage};

use crate::support::{Transcript, jobs, name, simulate_with, small};

/// Restarted after any answer, a client goes on as if nothing had happened: the same bytes are said.
#[test]
fn case_03_restarted_clients_say_the_same() {
    for job in jobs(&JobSpec {
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
            let stages = 0..job.stages().len() as u8;
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
