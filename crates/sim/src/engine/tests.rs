//! Whole jobs under conditions in which nothing goes wrong and only frames take time.

use std::fmt::Arguments;
use std::sync::Arc;
use std::time::Duration;

use blindsum_job::JobError;
use blindsum_job::coordinator::{
    Choice, CoordinatorMachine, MemoryShelves, Parts, Peer, Settings as Waits,
};
use blindsum_job::follower::ServerMachine;
use blindsum_job::party::{
    Identity, Input, Metrics, Over, PartyMachine, Policy, Settings, Told, Update, check_update,
};
use blindsum_job::session::Count;
use blindsum_job::store::MemoryStore;
use blindsum_protocol::{Integers, Job, JobSpec, ModelUpdate, ProtocolName, ServerRole};

use super::{Answer, Conditions, Engine, Errand, Micros, Who};
use crate::cohort::Cohort;
use crate::seeds::seed_bytes;

/// What surrounds machines where nothing goes wrong.
struct Calm {
    job: Arc<Job>,
    identities: Vec<Identity>,
    way: Micros,
    /// The sums that parties were told, by party and round.
    sums: Vec<(usize, u64, Vec<u128>)>,
    /// What happened, and when.
    story: Vec<(Micros, String)>,
}

/// A job of parties that give their number in every coordinate, and have not started yet.
fn calm(spec: JobSpec, way: Micros) -> (Engine, Calm) {
    let job = Arc::new(spec.validate().unwrap());
    let cohort = Cohort::of(job.spec(), job.spec().parties as usize, 1).unwrap();
    let (mut identities, mut peers) = (Vec::new(), Vec::new());
    for (name, certificate, key) in cohort.members() {
        identities.push(Identity {
            name: name.into(),
            key: key.clone(),
            anchor: cohort.anchor().clone(),
            ca: [0; 32],
        });
        peers.push(Peer {
            name: name.into(),
            role: None,
            address: String::new(),
            certificate: certificate.into(),
            key: key.verifying_key().clone(),
            traffic: Arc::<Count>::default(),
        });
    }
    let mut engine = Engine::new(job.clone(), peers, []);
    engine.transit.start_after(0, Who::Server);
    for number in 0..identities.len() {
        engine.transit.start_after(0, Who::Party(number));
    }
    let calm = Calm {
        job,
        identities,
        way,
        sums: Vec::new(),
        story: Vec::new(),
    };
    (engine, calm)
}

impl Conditions for Calm {
    type Broken = String;

    fn fails(&self, _: &Engine, what: String) -> String {
        what
    }

    fn event(&mut self, engine: &Engine, what: Arguments<'_>) {
        self.story.push((engine.time(), what.to_string()));
    }

    fn way(&mut self) -> Micros {
        self.way
    }

    fn work(&mut self, _: Who) -> Micros {
        0
    }

    fn pause(&mut self) -> Micros {
        0
    }

    fn notice(&mut self) -> Micros {
        0
    }

    fn caller_comes(&mut self) -> Micros {
        0
    }

    fn open_party(&mut self, engine: &Engine, number: usize) -> Option<PartyMachine> {
        let settings = Settings {
            job: self.job.spec().job.clone(),
            policy: Policy {
                allowed_protocols: ProtocolName::ALL.to_vec(),
                require_adversary: None,
                min_corrupt: 0.0,
                min_honest: 1,
                min_cohort: 2,
                ..Policy::default()
            },
            mask_memory: 0,
            ledger: None,
            location: String::new(),
            initial: None,
            job_memory: Arc::default(),
        };
        let identity = self.identities[number].clone();
        let entropy = seed_bytes("party", &[number as u64]);
        let machine = PartyMachine::open(settings, identity, None, engine.now(), entropy);
        Some(machine)
    }

    fn open_coordinator(&mut self, engine: &Engine) -> Result<CoordinatorMachine, String> {
        let parts = Parts {
            job: self.job.clone(),
            initial: None,
            store: Arc::new(MemoryStore::new(3)),
            anchor: self.identities[0].anchor.clone(),
            own: None,
            results: None,
            shelves: Arc::new(MemoryShelves),
            settings: Waits {
                patience: Duration::from_secs(60),
                reconnect_grace: Duration::from_secs(2),
                chunk_timeout: Duration::from_secs(5),
                failed_rounds: 1,
                choice: Choice::First,
                change: 1,
            },
            hosted: false,
        };
        let machine = CoordinatorMachine::open(parts, engine.now(), [7; 32]);
        machine.map_err(|error| error.to_string())
    }

    fn open_follower(&mut self, _: &Engine, _: ServerRole) -> Option<ServerMachine> {
        None
    }

    fn coordinator_over(&mut self, _: &Engine, end: Result<(), JobError>) -> Result<(), String> {
        end.map_err(|error| error.to_string())
    }

    fn follower_over(
        &mut self,
        _: &Engine,
        _: ServerRole,
        _: Result<(), JobError>,
    ) -> Result<Option<Micros>, String> {
        Ok(None)
    }

    fn party_over(
        &mut self,
        _: &Engine,
        number: usize,
        over: Over,
    ) -> Result<Option<Micros>, String> {
        match over {
            Over::JobDone { .. } => Ok(None),
            Over::Left => Err(format!("party {number} leaves")),
            Over::Failed(error) => Err(format!("party {number} fails: {error}")),
        }
    }

    fn told(&mut self, _: &Engine, number: usize, told: Told) -> Result<Answer, String> {
        match told {
            Told::Round(begun) => Ok(Answer::Later(0, Errand::Trained(begun.number))),
            Told::Ended(round, Ok(result)) => {
                self.sums.push((number, round, result.sums.unwrap()));
                Ok(Answer::Later(0, Errand::Took(round)))
            }
            Told::Refused(error) | Told::Ended(_, Err(error)) | Told::Dropped(error) => {
                Err(format!("party {number} is told: {error}"))
            }
            Told::Joined(_) | Told::Held(_) | Told::Over(_) => Ok(Answer::Nothing),
        }
    }

    fn runs_errand(
        &mut self,
        _: &Engine,
        number: usize,
        errand: Errand,
    ) -> Result<Vec<Input>, String> {
        Ok(match errand {
            Errand::Wants => vec![Input::WantRound],
            Errand::Took(round) => vec![Input::Took(round), Input::WantRound],
            Errand::Trained(round) => {
                let values = vec![number as u32; self.job.spec().dim as usize];
                let update = check_update(&self.job, Update::U32(values), 1, &Metrics::default());
                let update = update.map_err(|error| error.to_string())?;
                vec![Input::Submit { round, update }]
            }
        })
    }
}

fn spec(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        protocol: protocol.into(),
        parties: 5,
        min_parties: 3,
        rounds: 2,
        dim: 3,
        encoding: Integers {
            bits: 8,
            ..Integers::default()
        }
        .into(),
        model_update: ModelUpdate::Nothing,
        ..JobSpec::default()
    }
}

/// Runs until the last party has left; gives when that was.
fn run(engine: &mut Engine, calm: &mut Calm) -> Micros {
    while !engine.parties.iter().all(|party| party.over) {
        assert!(engine.step(calm).unwrap(), "{:?}", engine.standing());
    }
    engine.time()
}

#[test]
fn a_job_takes_as_long_as_its_frames() {
    for protocol in [ProtocolName::Plain, ProtocolName::SecAggPlus] {
        let took = |way| {
            let (mut engine, mut calm) = calm(spec(protocol), way);
            let took = run(&mut engine, &mut calm);
            assert!(calm.story.is_empty(), "{:?}", calm.story);
            calm.sums.sort_unstable();
            let expected = [1, 2]
                .into_iter()
                .flat_map(|round| (0..5).map(move |party| (party, round, vec![10; 3])));
            let mut expected: Vec<_> = expected.collect();
            expected.sort_unstable();
            assert_eq!(calm.sums, expected, "{protocol}");
            took
        };
        let ways = took(1_000) / 1_000;
        assert!(ways > 8, "{protocol}: {ways} frames one after the other");
        assert_eq!(took(1_000), ways * 1_000, "{protocol}");
        assert_eq!(took(50_000), ways * 50_000, "{protocol}");
    }
}

#[test]
fn a_connection_that_breaks_is_made_again() {
    let (mut engine, mut calm) = calm(spec(ProtocolName::SecAggPlus), 1_000);
    let mut cuts = 0;
    while !engine.parties.iter().all(|party| party.over) {
        assert!(engine.step(&mut calm).unwrap(), "{:?}", engine.standing());
        // Now and then, so that rounds begin and end in between.
        if engine.steps % 40 == 0
            && let Some(link) = engine.whole_links().first().copied()
        {
            engine.transit.cut(&mut calm, link, "cut");
            assert!(!engine.whole_links().contains(&link));
            cuts += 1;
        }
    }
    assert!(cuts > 2, "{cuts} connections");
    assert_eq!(calm.sums.len(), 10);
    assert!(calm.sums.iter().all(|(.., sums)| *sums == [10; 3]));
}
