//! What servers remember of results that they have opened decides whether they open another one.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::Adversary;
use super::rules::{BOTH, shorten, with};
use crate::testing::{Cohort, Rig, body};
use crate::{
    Culprit, Fault, FaultKind, JobSpec, ModelUpdate, Mpc3, NotOpened, Outcome, PartySet,
    ReleaseGuard, ResultName, Round, RuleName, ServerIndex,
};

/// A memory of a test.
#[derive(Default)]
struct Memory {
    /// Whether it allows the servers to agree.
    refuses: AtomicBool,
    /// Whether records can be written.
    is_full: AtomicBool,
    checked: AtomicUsize,
    recorded: Mutex<Vec<PartySet>>,
}

fn no(reason: &str) -> Result<(), NotOpened> {
    let reason = reason.into();
    Err(NotOpened { round: 7, reason })
}

impl ReleaseGuard for Memory {
    fn check(&self, _: &PartySet) -> Result<(), NotOpened> {
        self.checked.fetch_add(1, Ordering::Relaxed);
        match self.refuses.load(Ordering::Relaxed) {
            true => no("too near"),
            false => Ok(()),
        }
    }

    fn record(&self, survivors: &PartySet) -> Result<(), NotOpened> {
        if self.is_full.load(Ordering::Relaxed) {
            return no("full");
        }
        self.recorded.lock().unwrap().push(survivors.clone());
        Ok(())
    }
}

type Sent = (u32, ServerIndex, usize);

/// Plays a round whose servers have this memory; gives how it ends, and for each letter its round, who sent it, and how often
/// the memory had recorded something by then.
fn play(spec: JobSpec, memory: &Arc<Memory>) -> (Result<Outcome, Fault>, Vec<Sent>) {
    let mut cohort = Cohort::new(spec, 3);
    shorten(&mut cohort.inputs);
    let (job, roster) = (cohort.round.job().clone(), cohort.round.roster().clone());
    let round = Round::new(job, 3, roster, &[9; 32]).unwrap();
    let everyone: Vec<u32> = round.everyone().map(|party| party.0).collect();
    let cohort = cohort.begin(round.with_releases(memory.clone()));
    let mut rig = Rig::of_parties(cohort, ChaCha20Rng::seed_from_u64(4), &everyone);
    let said = Arc::new(Mutex::new(Vec::new()));
    let (keep, known) = (said.clone(), memory.clone());
    rig.on_letter = Box::new(move |from, _, letter| {
        let number = body(&letter)
            .last_chunk::<4>()
            .map(|it| u32::from_be_bytes(*it));
        let recorded = known.recorded.lock().unwrap().len();
        keep.lock().unwrap().push((number.unwrap(), from, recorded));
        Some(letter)
    });
    let outcome = rig.finish();
    let said = said.lock().unwrap().clone();
    (outcome, said)
}

/// Jobs of all kinds that open something.
fn jobs() -> Vec<JobSpec> {
    let of = |(result, rule)| Mpc3 {
        result,
        rule,
        ..Mpc3::default()
    };
    let kinds = [
        (ResultName::Both, RuleName::FedAvg),
        (ResultName::Servers, RuleName::FedAvg),
        (ResultName::Both, RuleName::Clipped),
        (ResultName::Both, RuleName::Median),
    ];
    let jobs = kinds.map(of).into_iter().flat_map(|options| {
        BOTH.map(|adversary| JobSpec {
            model_update: ModelUpdate::Nothing,
            ..with(options.clone(), adversary)
        })
    });
    jobs.collect()
}

fn not_opened(outcome: Result<Outcome, Fault>, what: &str) {
    let fault = outcome.unwrap_err();
    let reason = format!("the result is not opened: {what}");
    assert_eq!(
        (fault.culprit, fault.kind.to_string()),
        (Culprit::Nobody, reason)
    );
    assert!(
        matches!(fault.kind, FaultKind::NotOpened { round: 7, .. }),
        "{fault}"
    );
}

/// Abuse case 67: each server records whose result is opened before it sends the first byte of it, once.
#[test]
fn case_67_survivors_are_recorded_before_their_result_is_opened() {
    for spec in jobs() {
        let memory = Arc::new(Memory::default());
        let (outcome, said) = play(spec, &memory);
        let survivors = outcome.unwrap().survivors;
        assert_eq!(*memory.recorded.lock().unwrap(), vec![survivors; 3]);
        let last = said.iter().map(|(number, ..)| *number).max().unwrap();
        let mut senders = BTreeSet::new();
        for (_, from, recorded) in said.into_iter().filter(|(number, ..)| *number == last) {
            senders.insert(from);
            assert!(recorded >= senders.len(), "{recorded} of {senders:?}");
        }
        assert_eq!(senders.len(), 3);
    }
}

/// Abuse case 67: a server whose memory refuses does not agree on the survivors: no other server opens their result then,
/// whatever its own memory says. Nothing is recorded, so that another round may have any survivors.
#[test]
fn case_67_a_server_that_must_not_open_a_result_does_not_agree() {
    for spec in jobs() {
        let memory = Arc::new(Memory::default());
        memory.refuses.store(true, Ordering::Relaxed);
        let (outcome, said) = play(spec, &memory);
        not_opened(outcome, "too near");
        assert!(said.iter().all(|(number, ..)| *number == 0), "{said:?}");
        assert!(memory.recorded.lock().unwrap().is_empty());
    }
}

/// Abuse case 67: what cannot be recorded is not opened.
#[test]
fn case_67_a_result_that_cannot_be_recorded_is_not_opened() {
    for spec in jobs() {
        let memory = Arc::new(Memory::default());
        let last = play(spec.clone(), &memory)
            .1
            .iter()
            .map(|it| it.0)
            .max()
            .unwrap();
        let memory = Arc::new(Memory::default());
        memory.is_full.store(true, Ordering::Relaxed);
        let (outcome, said) = play(spec, &memory);
        not_opened(outcome, "full");
        assert!(said.iter().all(|(number, ..)| *number < last), "{said:?}");
    }
}

/// Where a rule leaves vectors out, the memory is asked once more, for those that are left.
#[test]
fn case_67_who_a_gate_leaves_is_asked_about() {
    for (options, asked) in [(RuleName::FedAvg, 3), (RuleName::Clipped, 6)] {
        let rule = Mpc3 {
            rule: options,
            ..Mpc3::default()
        };
        let memory = Arc::new(Memory::default());
        play(with(rule, Adversary::Active), &memory).0.unwrap();
        assert_eq!(memory.checked.load(Ordering::Relaxed), asked);
    }
}
