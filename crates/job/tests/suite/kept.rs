//! Results that the servers of a job learn and keep.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use blindsum_job::JobError;
use blindsum_job::records::{MemoryRecords, Records};
use blindsum_job::report::RoundState;
use blindsum_job::results::{LearntResult, Results};
use blindsum_protocol::{Adversary, JobSpec, Mpc3, ProtocolName, ResultName};

use crate::ensemble::Ensemble;
use crate::hosts::{DIM, mpc3, toy, update};

/// What one server keeps, in memory.
#[derive(Default)]
pub struct Kept {
    pub rounds: Mutex<BTreeMap<u64, LearntResult>>,
    /// Whether it takes nothing more.
    pub full: AtomicBool,
}

impl Results for Kept {
    fn place(&self) -> &Path {
        Path::new("memory")
    }

    fn keep(&self, round: u64, result: &LearntResult) -> io::Result<()> {
        if self.full.load(Ordering::Relaxed) {
            return Err(io::Error::other("it is full"));
        }
        self.rounds.lock().unwrap().insert(round, result.clone());
        Ok(())
    }
}

/// Records that are full once this is said.
pub struct Filling(pub Arc<MemoryRecords>, pub Arc<AtomicBool>);

impl Records for Filling {
    fn place(&self) -> &Path {
        self.0.place()
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.read(name)
    }

    fn replace(&self, name: &str, pieces: &[&[u8]]) -> io::Result<()> {
        match self.1.load(Ordering::Relaxed) {
            true => Err(io::Error::other("no room")),
            false => self.0.replace(name, pieces),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
}

fn for_servers(adversary: Adversary) -> JobSpec {
    let options = Mpc3 {
        result: ResultName::Servers,
        ..Mpc3::default()
    };
    JobSpec {
        protocol: options.into(),
        ..mpc3(adversary, 4, 2)
    }
}

/// Each of the three: the coordinator first.
fn kept(job: &Ensemble) -> [Arc<Kept>; 3] {
    [&job.kept, &job.hosts[4].kept, &job.hosts[5].kept].map(Arc::clone)
}

/// Every round that counts has its result at all three servers, and parties have heard whose vectors are in it.
fn check(job: &Ensemble) {
    let done = job.reports().into_iter();
    let done: Vec<_> = done.filter(|it| it.state == RoundState::Done).collect();
    assert_eq!(done.len(), 2);
    for report in done {
        let gave = report.survivors.iter().map(|name| {
            let party = job.hosts.iter().position(|host| host.name == *name);
            update(party.unwrap(), report.number)
        });
        let gave: Vec<_> = gave.collect();
        let sum = |d: usize| gave.iter().map(|update| u128::from(update[d])).sum();
        let sums: Vec<u128> = (0..DIM as usize).map(sum).collect();
        let mean: Vec<f64> = sums
            .iter()
            .map(|sum| *sum as f64 / gave.len() as f64)
            .collect();
        let expected = LearntResult {
            mean,
            sums: Some(sums),
            metrics: BTreeMap::new(),
        };
        for kept in kept(job) {
            assert_eq!(kept.rounds.lock().unwrap()[&report.number], expected);
        }
        for host in &job.hosts[..4] {
            let told = host.results.get(&report.number);
            assert!(told.is_none_or(|told| told.mean.is_empty() && told.sums.is_none()));
        }
    }
}

#[test]
fn all_three_servers_keep_what_they_alone_learn() {
    for adversary in [Adversary::SemiHonest, Adversary::Active] {
        let mut job = Ensemble::new(for_servers(adversary), 1);
        job.play();
        check(&job);
        let told = job.hosts[..4].iter().map(|host| host.results.len());
        assert!(told.into_iter().all(|rounds| rounds == 2), "{adversary}");
    }
}

/// Abuse case 3: whoever is killed, at whatever step, comes back, and no round counts whose result a server lacks.
#[test]
fn case_03_no_round_counts_before_its_result_is_kept() {
    let new = || Ensemble::new(for_servers(Adversary::Active), 1);
    let undisturbed = new().play();
    for step in 1..undisturbed {
        for host in 4..7 {
            let mut job = new();
            (0..step).for_each(|_| job.advance());
            match host {
                6 => job.restart_server(),
                host => job.kill(host),
            }
            job.play();
            check(&job);
        }
    }
}

/// A coordinator that cannot keep a result does not end the round before it can: nothing is lost, and it says for what it
/// waits.
#[test]
fn case_03_a_result_that_cannot_be_kept_yet_holds_its_round() {
    let mut job = Ensemble::new(for_servers(Adversary::Active), 1);
    let kept = kept(&job)[0].clone();
    kept.full.store(true, Ordering::Relaxed);
    let begun = job.now.time;
    while (job.now.time - begun).as_secs() < 4000 {
        job.advance();
    }
    let status = job.status();
    assert!(status.blocked.contains("it is full"), "{}", status.blocked);
    assert!(
        status
            .warning
            .contains("in the coordinator's results folder (see to it"),
        "{}",
        status.warning
    );
    // Nobody else is meant, and no path of it is told.
    assert!(
        !status.warning.contains("one of the servers") && !status.warning.contains("memory"),
        "{}",
        status.warning
    );
    assert_eq!((status.rounds_done, job.reports().len()), (0, 1));
    kept.full.store(false, Ordering::Relaxed);
    job.play();
    check(&job);
    assert_eq!(
        (job.status().blocked.as_str(), job.reports().len()),
        ("", 2)
    );
}

/// Another server that cannot keep a result ends the round, and says why; the next one counts once it can.
#[test]
fn case_03_a_result_that_cannot_be_kept_ends_its_round() {
    for server in 1..3 {
        let mut job = Ensemble::new(for_servers(Adversary::Active), 1);
        let kept = kept(&job)[server].clone();
        kept.full.store(true, Ordering::Relaxed);
        let (mut steps, mut blocked) = (0, String::new());
        while job.reports().len() < 3 {
            job.advance();
            // While a round is offered nothing blocks it.
            if !job.status().blocked.is_empty() {
                blocked.clone_from(&job.status().blocked);
            }
            steps += 1;
            assert!(steps < 5000, "rounds count whose results are lost");
        }
        assert!(blocked.contains("cannot be kept"), "{blocked}");
        kept.full.store(false, Ordering::Relaxed);
        job.play();
        check(&job);
        let first = job.reports().into_iter().min_by_key(|report| report.number);
        let first = first.unwrap();
        assert_eq!(first.state, RoundState::Aborted);
        assert!(
            first
                .reason
                .contains("its result cannot be kept at one of the servers: it is full"),
            "{}",
            first.reason
        );
    }
}

/// The records of a party cannot be written from when it has been asked for its update on. It sends nothing, is told what
/// failed, and does not count.
#[test]
fn case_54_whose_records_are_full_before_its_update_is_out_is_told_so() {
    let spec = JobSpec {
        protocol: ProtocolName::Plain.into(),
        adversary: Adversary::SemiHonest,
        corrupt: 0.0,
        dropout: 0.4,
        min_parties: 3,
        ..toy("full", 5, 1)
    };
    let mut job = Ensemble::new(spec, 1);
    job.hosts[0].trouble.waits = true;
    while job.hosts[0].trouble.owes.is_none() {
        job.advance();
    }
    job.full.store(true, Ordering::Relaxed);
    job.submit(0);
    while job.failures.is_empty() {
        job.advance();
    }
    for (party, error) in &job.failures {
        assert_eq!(party, "party-0");
        assert!(matches!(error, JobError::State { .. }), "{error:?}");
    }
    assert!(!job.vectors.contains(&(0, 1)));
    job.play();
    let [done] = &job.reports()[..] else {
        panic!("{:?}", job.reports());
    };
    assert_eq!((done.state, done.survivors.len()), (RoundState::Done, 4));
}
