//! Jobs to try, and runs that check what every run must keep.

use std::ops::ControlFlow;
use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_protocol::{
    Adversary, FaultKind, Job, JobSpec, Message, PartyId, ProtocolName, Step, Who,
    share_paillier_keys,
};
use blindsum_sim::{
    Action, Hooks, Inputs, PartyEnd, Run, Scenario, SimError, Simulation, Synthetic,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

/// Every protocol, against every adversary, for this job.
pub fn jobs(spec: &JobSpec) -> Vec<Arc<Job>> {
    jobs_of(spec, |_| true)
}

/// Some protocols, against every adversary, for this job.
pub fn jobs_of(spec: &JobSpec, is_meant: impl Fn(ProtocolName) -> bool) -> Vec<Arc<Job>> {
    let mut jobs = Vec::new();
    let all = ProtocolName::ALL.iter();
    for protocol in all.filter(|protocol| is_meant(**protocol)) {
        for adversary in Adversary::ALL {
            let spec = JobSpec {
                protocol: (*protocol).into(),
                adversary: *adversary,
                ..spec.clone()
            };
            let job = match spec.validate() {
                // Proofs are of words without weights, and liars must be outvoted.
                Err(_) if *protocol == ProtocolName::PssMalicious => continue,
                job => Arc::new(job.unwrap()),
            };
            // In rings and the like nothing depends on the adversary, and every job costs them a key.
            if !job.needs_everybody() || *adversary == Adversary::Active {
                jobs.push(job);
            }
        }
    }
    assert!(jobs.len() >= 2);
    jobs
}

/// The same without those in which a party that is lost ends the round.
pub fn jobs_that_bear_losses(spec: &JobSpec) -> Vec<Arc<Job>> {
    let mut jobs = jobs(spec);
    jobs.retain(|job| !job.needs_everybody());
    jobs
}

/// A small job that bears the loss of two parties.
pub fn small() -> JobSpec {
    JobSpec {
        parties: 8,
        dim: 20,
        dropout: 0.25,
        ..JobSpec::default()
    }
}

/// How many stages a round has in which nothing is disputed.
pub fn played(job: &Job) -> usize {
    job.plan().answers().filter(|step| !step.optional).count()
}

/// The stages in which all parties answer.
pub fn answered(job: &Job) -> Vec<u8> {
    let all = |step: &&Step| step.speaker == Who::Parties;
    let stages = job.plan().answers().filter(all).map(|step| step.stage);
    stages.collect()
}

/// The stages at whose end all parties are told something.
pub fn told(job: &Job) -> Vec<u8> {
    let all = |step: &&Step| step.hearer == Who::Parties;
    let stages = job.plan().replies().filter(all).map(|step| step.stage);
    stages.collect()
}

/// Of the stages of an all-reduce the first and last two: those between are hops like the second, and each costs a key.
pub fn some(job: &Job, stages: Vec<u8>) -> Vec<u8> {
    match job.needs_everybody() && stages.len() > 4 {
        true => [&stages[..2], &stages[stages.len() - 2..]].concat(),
        false => stages,
    }
}

/// What a job is called in messages of failed tests.
pub fn name(job: &Job) -> String {
    format!("{} {}", job.spec().protocol, job.spec().adversary)
}

/// Runs a scenario with synthetic inputs and checks what must always hold.
pub fn simulate(scenario: Scenario) -> Run {
    simulate_with(scenario, &mut ())
}

/// The same with hooks.
pub fn simulate_with(scenario: Scenario, hooks: &mut dyn Hooks) -> Run {
    let inputs = Synthetic::new(&scenario.job, scenario.seed);
    let run = simulate_inputs(scenario.clone(), &inputs, hooks).unwrap();
    check(&scenario.job, &run);
    run
}

/// The same with any inputs.
pub fn simulate_inputs(
    scenario: Scenario,
    inputs: &dyn Inputs,
    hooks: &mut dyn Hooks,
) -> Result<Run, SimError> {
    share_paillier_keys(|| Box::new(ChaCha20Rng::seed_from_u64(1)));
    Simulation::new(scenario)?.run(inputs, hooks, &mut |_| ControlFlow::Continue(()))
}

/// The law of every run: the exact sum of the declared survivors, or an abort that says why.
pub fn check(job: &Job, run: &Run) {
    let (report, job_name) = (&run.report.last, name(job));
    match &run.last.outcome {
        Ok(outcome) => {
            assert!(report.exact, "{job_name}: the sum is wrong");
            assert_eq!(report.fault, None);
            assert_eq!(report.survivors, outcome.survivors.len());
            assert!(report.survivors >= job.min_parties(), "{job_name}");
            let (error, bound) = (report.max_abs_error.unwrap(), job.encoding().max_error());
            assert!(error <= bound, "{job_name}: error {error}, at most {bound}");
            assert!(!run.last.ends.contains(&PartyEnd::Result { agrees: false }));
        }
        Err(fault) => {
            assert!(!report.exact && report.survivors == 0 && report.max_abs_error.is_none());
            assert!(
                run.last.mean.is_none(),
                "{job_name}: a partial sum came out"
            );
            assert!(report.fault.as_ref().unwrap().contains(&fault.to_string()));
            let took = run
                .last
                .ends
                .iter()
                .any(|end| matches!(end, PartyEnd::Result { .. }));
            assert!(
                !took,
                "{job_name}: a party took a result of an aborted round"
            );
        }
    }
}

/// Whether a run ended because too few were left.
pub fn too_few(run: &Run) -> bool {
    let kind = run.last.outcome.as_ref().err().map(|fault| &fault.kind);
    matches!(kind, Some(FaultKind::TooFewSurvivors { .. }))
}

/// Hashes every message in the order in which it is said.
#[derive(Default)]
pub struct Transcript {
    pub hash: [u8; 32],
    pub messages: usize,
}

impl Transcript {
    fn add(&mut self, direction: &[u8], stage: u8, party: PartyId, message: &Message) {
        let parts: [&[u8]; 5] = [
            &self.hash,
            direction,
            &[stage],
            &party.0.to_be_bytes(),
            message,
        ];
        self.hash = kdf::hash("transcript", &parts);
        self.messages += 1;
    }
}

impl Hooks for Transcript {
    fn client_says(&mut self, stage: u8, from: PartyId, message: &Message) -> Action {
        self.add(b"up", stage, from, message);
        Action::Deliver
    }

    fn server_says(&mut self, stage: u8, to: PartyId, message: &Message) -> Action {
        self.add(b"down", stage, to, message);
        Action::Deliver
    }
}
