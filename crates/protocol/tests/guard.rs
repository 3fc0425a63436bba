//! A party's own rules on survivors: it is asked before it signs, reveals or adds up, and its no is the last thing it
//! says in the round.

use std::sync::{Arc, Mutex};

use blindsum_protocol::{
    Adversary, Answer, AnySurvivors, Client, ClientSetup, Closed, Culprit, Excuse, Fault,
    FaultKind, Follower, FollowerSetup, Input, Job, JobMemory, JobSpec, KnownServers, MemoryVault,
    Message, Outcome, Outgoing, PartyId, PartySet, ProtocolName, Round, RoundSum, Seat, Server,
    ServerIdentity, ServerIndex, ServerRole, SparseInput, SurvivorGuard,
};

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use testing::{Rig, parties, storage_key};

/// Allows sets of some size only, and remembers what it was asked.
struct AtLeast {
    need: usize,
    asked: Mutex<Vec<PartySet>>,
}

impl SurvivorGuard for AtLeast {
    fn allow(&self, survivors: &PartySet) -> Result<(), String> {
        self.asked.lock().unwrap().push(survivors.clone());
        match survivors.len() < self.need {
            true => Err(format!("{} are too few", survivors.len())),
            false => Ok(()),
        }
    }
}

const ME: PartyId = PartyId(0);

/// Protocols in which parties have a say, and the stage of the vector.
fn variants() -> impl Iterator<Item = JobSpec> {
    let each = |protocol: ProtocolName| {
        [Adversary::SemiHonest, Adversary::Active].map(|adversary| JobSpec {
            protocol: protocol.into(),
            adversary,
            parties: 10,
            dim: 20,
            ..JobSpec::default()
        })
    };
    let all = ProtocolName::ALL.iter().copied();
    all.filter(|protocol| protocol.asks_parties())
        .flat_map(each)
}

/// One of ten is lost with its vector; party 0, which wants so many, is told who survived.
fn told(spec: JobSpec, need: usize) -> (Rig, Arc<AtLeast>) {
    let input = spec
        .clone()
        .validate()
        .unwrap()
        .plan()
        .input_stage()
        .unwrap();
    let mut rig = Rig::at(spec, input);
    let guard = Arc::new(AtLeast {
        need,
        asked: Mutex::default(),
    });
    let sealed = rig.clients[&ME].seal(&storage_key(), &mut rig.rng);
    let setup = ClientSetup {
        memory: Arc::default(),
        guard: guard.clone(),
        ..rig.cohort.setup(ME)
    };
    let client = Client::unseal(setup, &storage_key(), &sealed.unwrap().unwrap());
    rig.clients.insert(ME, client.unwrap());
    rig.drop_out([PartyId(9)]);
    rig.serve().unwrap();
    (rig, guard)
}

#[test]
fn case_49_survivors_that_a_party_does_not_allow_get_nothing_from_it() {
    for spec in variants() {
        let (mut rig, guard) = told(spec, 10);
        // Where vectors are proved, they are judged before anybody is asked.
        let fault = loop {
            match rig.answer(ME) {
                Err(fault) => break fault,
                Ok(_) => {
                    rig.answer_all_but(ME);
                    rig.serve().unwrap();
                }
            }
        };
        assert_eq!(fault.culprit, Culprit::Caller);
        let reason = "9 are too few".into();
        assert_eq!(fault.kind, FaultKind::Refused { reason });
        assert_eq!(
            *guard.asked.lock().unwrap(),
            [PartySet::of(10, parties(0..9))]
        );
        testing::assert_ended(&mut rig, ME);
        assert!(!rig.up.contains_key(&ME));
    }
}

#[test]
fn survivors_that_a_party_allows_are_answered_and_asked_about_once() {
    for spec in variants() {
        let (mut rig, guard) = told(spec, 9);
        rig.answer_all().unwrap();
        let outcome = rig.finish().unwrap();
        assert_eq!(*guard.asked.lock().unwrap(), [outcome.survivors]);
    }
}
