//! Parties that vanish.

use std::sync::Arc;

use blindsum_protocol::{Job, JobSpec};
use blindsum_sim::{DropAt, Event, Happening, PartyEnd, Run, Scenario, Stage};

use crate::support::{answered, jobs_that_bear_losses, name, simulate, small, too_few};

fn with_drops(job: &Arc<Job>, stage: usize, count: usize) -> Run {
    let drop_at = vec![DropAt {
        stage: Stage::Number(stage as u8),
        count: count as u32,
    }];
    simulate(Scenario {
        drop_at,
        seed: (stage * 100 + count) as u64,
        ..Scenario::new(job.clone())
    })
}

/// However many vanish, wherever: the exact sum of the others, or an abort. More losses never help, and an
/// abort says that too few are left.
#[test]
fn case_05_dropout_at_every_stage() {
    for job in jobs_that_bear_losses(&small()) {
        for stage in 0..=job.plan().answers().count() {
            let mut aborted = false;
            for count in 0..=8 {
                let run = with_drops(&job, stage, count);
                let what = format!("{}, {count} lost at stage {stage}", name(&job));
                let dropped = run
                    .last
                    .ends
                    .iter()
                    .filter(|end| **end == PartyEnd::Dropped)
                    .count();
                if run.last.outcome.is_ok() {
                    assert!(!aborted, "{what}: fewer losses aborted");
                    assert_eq!(dropped, count, "{what}");
                    let before_input = stage <= usize::from(job.plan().input_stage().unwrap());
                    let survivors = if before_input { 8 - count } else { 8 };
                    assert_eq!(run.report.last.survivors, survivors, "{what}");
                } else {
                    assert!(too_few(&run), "{what}: {:?}", run.report.last.fault);
                    aborted = true;
                }
            }
            // Losing everybody ends the round, unless everybody had done all there is to do. A sum that only
            // parties learn needs one to take it.
            let last = usize::from(*answered(&job).last().unwrap());
            assert_eq!(
                aborted,
                stage <= last || job.hides_sum(),
                "{} at stage {stage}",
                name(&job)
            );
        }
    }
}

/// The most losses that are borne, and one more, at the stage whose answers are counted last.
#[test]
fn case_04_one_loss_too_many() {
    for job in jobs_that_bear_losses(&JobSpec {
        parties: 12,
        ..small()
    }) {
        let last = usize::from(*answered(&job).last().unwrap());
        let most = (0..12)
            .rev()
            .find(|count| with_drops(&job, last, *count).last.outcome.is_ok())
            .unwrap();
        let run = with_drops(&job, last, most + 1);
        assert!(too_few(&run), "{}", name(&job));
        assert_eq!(run.report.last.survivors, 0);
    }
}

#[test]
fn case_05_losses_at_several_stages_of_one_round() {
    for job in jobs_that_bear_losses(&JobSpec {
        parties: 20,
        dropout: 0.3,
        ..small()
    }) {
        let stages = answered(&job).into_iter();
        let drop_at: Vec<DropAt> = stages
            .map(|stage| DropAt {
                stage: Stage::Number(stage),
                count: 1,
            })
            .collect();
        let lost_before_input = usize::from(job.plan().input_stage().unwrap()) + 1;
        let run = simulate(Scenario {
            drop_at,
            ..Scenario::new(job.clone())
        });
        assert!(
            run.last.outcome.is_ok(),
            "{}: {:?}",
            name(&job),
            run.report.last.fault
        );
        assert_eq!(
            run.report.last.survivors,
            20 - lost_before_input,
            "{}",
            name(&job)
        );
    }
}

/// `drop` means: they answer all stages before the input stage and never upload.
#[test]
fn fraction_vanishes_before_upload() {
    for job in jobs_that_bear_losses(&JobSpec {
        parties: 20,
        ..small()
    }) {
        let run = simulate(Scenario {
            drop: 0.1,
            seed: 3,
            ..Scenario::new(job.clone())
        });
        assert_eq!(run.report.last.survivors, 18, "{}", name(&job));
        let outcome = run.last.outcome.unwrap();
        for (rank, end) in (0..).zip(&run.last.ends) {
            let survives = outcome.survivors.contains(blindsum_protocol::PartyId(rank));
            assert_eq!(*end == PartyEnd::Dropped, !survives, "party {rank}");
        }
        // The server waited for them.
        assert_eq!(run.report.last.virtual_seconds, job.spec().input_deadline);
        let early = &run.report.last.stages[..usize::from(job.plan().input_stage().unwrap())];
        assert!(early.iter().all(|stage| stage.up_bytes.median > 0));
        let other = simulate(Scenario {
            drop: 0.1,
            seed: 4,
            ..Scenario::new(job)
        });
        assert_ne!(other.last.ends, run.last.ends, "the seed chooses who drops");
    }
}

/// A fraction of nine parties below a ninth is nobody: so the job that it is compared with counts.
#[test]
fn fraction_is_that_of_a_job_with_this_dropout() {
    for (parties, drop, lost) in [(9, 0.1, 0), (10, 0.1, 1), (19, 0.1, 1), (25, 0.28, 7)] {
        let job = JobSpec {
            protocol: blindsum_protocol::ProtocolName::Plain.into(),
            parties,
            dropout: drop,
            ..small()
        };
        let job = Arc::new(job.validate().unwrap());
        assert_eq!(job.spec().dropouts_among(parties as usize), lost);
        let run = simulate(Scenario {
            drop,
            ..Scenario::new(job)
        });
        assert_eq!(
            run.report.last.survivors,
            parties as usize - lost,
            "{drop} of {parties}"
        );
    }
}

/// Who was asked to vanish did, and nobody else; in the round that was named only.
#[test]
fn scripted_drop_of_one_party() {
    for job in jobs_that_bear_losses(&small()) {
        let event = |round, party| Event {
            round,
            party,
            stage: Stage::Number(job.plan().input_stage().unwrap()),
            what: Happening::Drop,
        };
        let scenario = Scenario {
            rounds: 2,
            events: vec![event(0, 3), event(1, 5)],
            ..Scenario::new(job.clone())
        };
        let run = simulate(scenario);
        let gone = run
            .last
            .ends
            .iter()
            .position(|end| *end == PartyEnd::Dropped);
        assert_eq!(gone, Some(5));
        assert_eq!(
            run.report
                .rounds
                .iter()
                .map(|round| round.survivors)
                .collect::<Vec<_>>(),
            [7, 7]
        );
    }
}

/// A party that is late is lost, and its late answer costs nobody anything.
#[test]
fn case_28_late_answers() {
    for job in jobs_that_bear_losses(&small()) {
        for stage in answered(&job) {
            let input = stage == job.plan().input_stage().unwrap();
            let deadline = if input {
                job.spec().input_deadline
            } else {
                job.spec().stage_deadline
            };
            let run = |seconds| {
                let what = Happening::Delay(seconds);
                let event = Event {
                    round: 0,
                    party: 2,
                    stage: Stage::Number(stage),
                    what,
                };
                simulate(Scenario {
                    events: vec![event],
                    ..Scenario::new(job.clone())
                })
            };
            let (patient, late) = (run(deadline - 1.0), run(deadline + 1.0));
            let what = format!("{} at stage {stage}", name(&job));
            assert_eq!(patient.report.last.survivors, 8, "{what}");
            assert_eq!(
                patient.report.last.virtual_seconds,
                deadline - 1.0,
                "{what}"
            );
            let survivors = if stage <= job.plan().input_stage().unwrap() {
                7
            } else {
                8
            };
            assert_eq!(
                late.report.last.survivors, survivors,
                "{what}: {:?}",
                late.report.last.fault
            );
            assert!(late.report.last.virtual_seconds >= deadline, "{what}");
        }
    }
}
