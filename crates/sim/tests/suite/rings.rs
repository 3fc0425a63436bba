//! Rounds that need all of their parties begin again without who was lost.

use std::sync::Arc;

use blindsum_protocol::Job;
use blindsum_sim::{DropAt, Event, Happening, PartyEnd, Scenario, Stage};

use crate::support::{jobs_of, name, simulate, small};

fn rings() -> Vec<Arc<Job>> {
    let mut jobs = jobs_of(&small(), |_| true);
    jobs.retain(|job| job.needs_everybody());
    assert_eq!(jobs.len(), 3);
    jobs
}

/// Abuse case 37: wherever parties are lost, the sum is that of the others, or too few are left.
#[test]
fn case_37_a_round_begins_again_without_who_was_lost() {
    for job in rings() {
        let stages = job.plan().answers().count();
        for stage in 0..stages {
            for count in [1, 7] {
                let drop_at = vec![DropAt {
                    stage: Stage::Number(stage as u8),
                    count,
                }];
                let run = simulate(Scenario {
                    drop_at,
                    seed: stage as u64,
                    ..Scenario::new(job.clone())
                });
                let (what, last) = (
                    format!("{}, {count} at {stage}", name(&job)),
                    run.report.last,
                );
                let gone = run
                    .last
                    .ends
                    .iter()
                    .filter(|end| **end == PartyEnd::Dropped);
                let gone = gone.count();
                if run.last.outcome.is_err() {
                    assert!(8 - gone < job.min_parties(), "{what}: {:?}", last.fault);
                    continue;
                }
                // Who has done its part may be gone.
                let survivors = last.survivors;
                assert!(last.exact && survivors >= job.min_parties(), "{what}");
                assert!(survivors >= 8 - gone, "{what}: {survivors}");
                assert_eq!(last.begun > 1, survivors < 8, "{what}");
            }
        }
    }
}

#[test]
fn case_37_who_is_late_is_lost_for_the_round() {
    for job in rings() {
        let speaks = job
            .plan()
            .input_stage_of(blindsum_protocol::PartyId(2))
            .unwrap();
        let event = |seconds| Event {
            round: 0,
            party: 2,
            stage: Stage::Number(speaks),
            what: Happening::Delay(seconds),
        };
        let deadline = job.spec().input_deadline;
        for (seconds, survivors) in [(deadline - 1.0, 8), (deadline + 1.0, 7)] {
            let run = simulate(Scenario {
                events: vec![event(seconds)],
                ..Scenario::new(job.clone())
            });
            assert_eq!(run.report.last.survivors, survivors, "{}", name(&job));
        }
    }
}
