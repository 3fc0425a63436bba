//! What a coordinator must not forget, in a file: [`Store`] on SQLite.

mod conducts;
#[cfg(test)]
mod copies;
mod endings;
mod errors;
mod faults;
mod firsts;
mod lock;
mod opening;
mod orders;
mod read;
mod reader;
mod releases;
mod rounds;
mod sqlite;

pub use blindsum_job::orders::OrderRecord;
pub use blindsum_job::released::Release;
pub use blindsum_job::store::{Ending, ShownFault, Store, StoredJob};
pub use reader::{StoreReader, StoredMetrics, StoredStatus};
pub use sqlite::SqliteStore;

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use blindsum_job::orders::Command;
    use blindsum_job::store::{FAULTS_KEPT, MAX_CLAIM_BYTES, MemoryStore, ORDERS_KEPT};
    use blindsum_protocol::{Evidence, Job, JobSpec, ProtocolName};

    use super::*;
    use crate::report::{JobState, RoundReport, RoundState};
    use crate::{Model, StoreError};

    fn job(dim: u64) -> Job {
        let spec = JobSpec {
            protocol: ProtocolName::Plain.into(),
            dim,
            ..JobSpec::default()
        };
        spec.validate().unwrap()
    }

    /// What a store answers, without its words for what it refuses.
    #[derive(Default)]
    struct Answers(Vec<String>);

    impl Answers {
        fn note(&mut self, answer: Result<impl Debug, StoreError>) {
            let answer = answer.map(|answer| format!("{answer:?}"));
            self.0.push(answer.unwrap_or_else(|_| "refused".into()));
        }
    }

    fn report(number: u64, state: RoundState) -> RoundReport {
        RoundReport {
            state,
            key_setup: number == 2,
            ..RoundReport::offered(number, 0, 0)
        }
    }

    /// Three rounds that are done, the second a key set-up, which changes no model, and one under way.
    fn four_rounds(store: &dyn Store, answers: &mut Answers) {
        let models =
            [Some(1), None, Some(2), None].map(|v| v.map(|v| Model::new(v, vec![0.5_f32])));
        for (number, model) in (1..).zip(&models) {
            let joining = report(number, RoundState::Joining);
            answers.note(store.begin_round("job", &joining));
            answers.note(store.round_began("job", &report(number, RoundState::Running)));
            if number < 4 {
                let (done, ending) = (
                    report(number, RoundState::Done),
                    endings::tests::ending(number),
                );
                answers.note(store.end_round("job", &done, model.as_ref(), Some(&ending)));
            }
        }
    }

    fn fault(round: u64) -> ShownFault {
        ShownFault {
            round,
            culprit: "a".into(),
            accuser: (round == 1).then(|| "b".into()),
            what: "lied".into(),
            evidence: Evidence::kept(vec![7; round as usize % 9].into(), round),
            times: 1,
        }
    }

    fn ordered(reason: &str) -> OrderRecord {
        OrderRecord {
            at_ms: 7,
            by: "olga".into(),
            command: Command::Pause {},
            reason: reason.into(),
            outcome: "paused".into(),
            refused: false,
        }
    }

    #[test]
    fn the_latest_orders_of_a_job_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let (file, memory) = (SqliteStore::open(&path, 1).unwrap(), MemoryStore::new(1));
        for store in [&file as &dyn Store, &memory] {
            let first = Model::new(0, vec![0.0_f32]);
            store.open_job(&job(1), &first).unwrap();
            for number in 0..ORDERS_KEPT + 3 {
                let record = ordered(&number.to_string());
                store.order("job", b"", &record).unwrap();
            }
        }
        let orders = memory.orders("job", u32::MAX).unwrap();
        let oldest = orders.last().map(|order| &*order.reason);
        assert_eq!((orders.len(), oldest), (ORDERS_KEPT, Some("3")));
        assert_eq!(file.orders("job", u32::MAX).unwrap(), orders);
        let reader = StoreReader::open(&path).unwrap();
        assert_eq!(reader.orders("job", 2).unwrap(), orders[..2]);
        assert_eq!(reader.orders("other", 2).unwrap(), []);
    }

    /// Who did it, who says so if not the coordinator, and how often.
    fn kept(faults: &[ShownFault]) -> Vec<(&str, Option<&str>, u64)> {
        let faults = faults.iter();
        let kept = faults.map(|it| (&*it.culprit, it.accuser.as_deref(), it.times));
        kept.collect()
    }

    #[test]
    fn the_latest_faults_of_a_job_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let (file, memory) = (SqliteStore::open(&path, 1).unwrap(), MemoryStore::new(1));
        for store in [&file as &dyn Store, &memory] {
            store
                .open_job(&job(1), &Model::new(0, vec![0.0_f32]))
                .unwrap();
            for round in 2..FAULTS_KEPT as u64 + 5 {
                store.fault("job", &fault(round)).unwrap();
            }
        }
        let kept: Vec<_> = (5..FAULTS_KEPT as u64 + 5).map(fault).collect();
        assert_eq!(memory.faults("job"), kept);
        let bytes = memory.to_bytes("job").unwrap().unwrap();
        let again = MemoryStore::from_bytes(&job(1), &bytes, 1).unwrap();
        assert_eq!(again.faults("job"), kept);
        let reader = StoreReader::open(&path).unwrap();
        assert_eq!(reader.faults("job").unwrap(), kept);
        assert_eq!(reader.faults("other").unwrap(), []);
    }

    /// Case 52: a party floods the coordinator with accusations, another one with garbage: neither pushes out what shows
    /// what the others did.
    #[test]
    fn case_52_what_shows_a_lie_is_not_pushed_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let (file, memory) = (SqliteStore::open(&path, 1).unwrap(), MemoryStore::new(1));
        let said = |by: &str, about: &str, round| ShownFault {
            culprit: about.into(),
            accuser: Some(by.into()),
            evidence: Evidence::of(&[7; 2 * MAX_CLAIM_BYTES]),
            ..fault(round)
        };
        let garbage = |by: &str, round| ShownFault {
            culprit: by.into(),
            evidence: Evidence::of(&[7; 2 * MAX_CLAIM_BYTES]),
            ..fault(round)
        };
        for store in [&file as &dyn Store, &memory] {
            store
                .open_job(&job(1), &Model::new(0, vec![0.0_f32]))
                .unwrap();
            store.fault("job", &garbage("y", 2)).unwrap();
            store.fault("job", &said("h", "y", 2)).unwrap();
            for round in 3..3 + 3 * FAULTS_KEPT as u64 {
                store.fault("job", &said("z", "a", round)).unwrap();
                let another = format!("p{round}");
                store.fault("job", &said("z", &another, round)).unwrap();
                store.fault("job", &garbage("x", round)).unwrap();
            }
        }
        let faults = memory.faults("job");
        let shown = kept(&faults);
        assert_eq!(shown[..2], [("y", None, 1), ("y", Some("h"), 1)]);
        let of_z = |about| shown.iter().find(|it| (it.0, it.1) == (about, Some("z")));
        assert_eq!(of_z("a"), Some(&("a", Some("z"), 3 * FAULTS_KEPT as u64)));
        let (claims, proven): (Vec<_>, Vec<_>) = faults.iter().partition(|it| it.accuser.is_some());
        assert_eq!((claims.len(), proven.len()), (FAULTS_KEPT, FAULTS_KEPT));
        assert!(
            claims
                .iter()
                .all(|it| it.evidence.bytes().len() == MAX_CLAIM_BYTES)
        );
        assert!(
            proven
                .iter()
                .all(|it| it.evidence.bytes().len() == 2 * MAX_CLAIM_BYTES)
        );
        assert_eq!(
            StoreReader::open(&path).unwrap().faults("job").unwrap(),
            faults
        );
        let bytes = memory.to_bytes("job").unwrap().unwrap();
        let again = MemoryStore::from_bytes(&job(1), &bytes, 1).unwrap();
        assert_eq!(again.faults("job"), faults);
    }

    fn answers(store: &dyn Store) -> Vec<String> {
        let (mut answers, first) = (Answers::default(), Model::new(0, vec![0.0_f32]));
        answers.note(store.open_job(&job(1), &first));
        four_rounds(store, &mut answers);
        // No round and no version of the model comes twice, and nothing of what is refused is kept.
        let (joining, aborted) = (
            report(1, RoundState::Joining),
            report(3, RoundState::Aborted),
        );
        let twice = Model::new(2, vec![0.5_f32]);
        answers.note(store.begin_round("job", &joining));
        answers.note(store.begin_round("other", &joining));
        answers.note(store.end_round("job", &aborted, Some(&twice), None));
        for (round, name) in [(1, "a"), (3, "b"), (3, "nobody")] {
            answers.note(store.confirm("job", round, &[name.into()]));
        }
        answers.note(store.set_job_state("job", JobState::Failed, "why"));
        answers.note(store.event("job", 1, "model", "differs"));
        answers.note(store.fault("job", &fault(1)));
        answers.note(store.set_conduct("job", b"first"));
        answers.note(store.set_conduct("job", b"second"));
        answers.note(store.order("job", b"ordered", &ordered("first")));
        answers.note(store.order("job", b"ordered again", &ordered("second")));
        answers.note(store.orders("job", 1));
        answers.note(store.orders("other", 1));
        for number in 0..=5 {
            answers.note(store.round("job", number));
            answers.note(store.model("job", number));
        }
        answers.note(store.rounds("job", 2));
        answers.note(store.rounds("other", 2));
        answers.note(store.open_job(&job(1), &first));
        answers.note(store.rounds("job", 9));
        answers.note(store.open_job(&job(2), &first));
        answers.0
    }

    #[test]
    fn stores_in_a_file_and_in_memory_answer_alike() {
        for kept in 1..=3 {
            let file = answers(&SqliteStore::in_memory(kept).unwrap());
            let memory = answers(&MemoryStore::new(kept));
            assert!(file.iter().any(|answer| answer == "refused"));
            for (number, (file, memory)) in file.iter().zip(&memory).enumerate() {
                assert_eq!(file, memory, "answer {number}, {kept} models kept");
            }
        }
    }
}
