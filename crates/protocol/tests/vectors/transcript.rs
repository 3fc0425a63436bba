//! A whole round in a file, and parties and a server that play it.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::roster::{Member, Roster};
use blindsum_crypto::sign::IdentityKey;
use blindsum_math::words::{TileMut, Words};
use blindsum_protocol::{
    Answer, AnySurvivors, Client, ClientSetup, Closed, Culprit, Fault, FaultKind, Input, JobSpec,
    KnownServers, MemoryVault, Outcome, PartyId, Receipt, Round, Server,
};
use rand_core::CryptoRng;
use serde::Deserialize;

use crate::support::{Hex, Tape};

/// A whole round.
#[derive(Deserialize)]
pub struct Transcript {
    spec: JobSpec,
    job_hash: Hex,
    number: u64,
    model_hash: Hex,
    ca: String,
    now: u64,
    context: Hex,
    /// Integers have no bounds.
    halved_clips_context: Option<Hex>,
    width: u32,
    pub parties: Vec<Party>,
    pub stages: Vec<Stage>,
    pub liars: Vec<u32>,
    pub survivors: Vec<u32>,
    pub sum: Vec<u64>,
}

#[derive(Deserialize)]
pub struct Party {
    pub name: String,
    certificate: Hex,
    nonce: Hex,
    private_key: String,
    pub random: Hex,
    pub words: Vec<u64>,
}

/// By rank: what parties send, and what they get.
#[derive(Deserialize)]
pub struct Stage {
    pub name: String,
    pub up: BTreeMap<u32, Hex>,
    pub down: BTreeMap<u32, Hex>,
}

/// Words that are given as they are.
pub struct Given<'a>(pub &'a [u64]);

impl Input for Given<'_> {
    fn lanes(&self) -> usize {
        self.0.len()
    }

    fn read(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        let words = &self.0[first_lane..];
        match tile {
            TileMut::W32(lanes) => {
                let pairs = lanes.iter_mut().zip(words);
                pairs.for_each(|(lane, &word)| *lane = word.try_into().unwrap());
            }
            TileMut::W64(lanes) => lanes.copy_from_slice(&words[..lanes.len()]),
        }
        Ok(())
    }
}

/// A party with its randomness.
pub type Clients = BTreeMap<u32, (Client, Tape)>;

impl Transcript {
    /// The round, and that it is what the model says.
    pub fn round(&self) -> Arc<Round> {
        let job = Arc::new(self.spec.clone().validate().unwrap());
        assert_eq!(*job.hash(), self.job_hash.array());
        assert_eq!(job.width().bits(), self.width);
        let names: Vec<&str> = self.stages.iter().map(|stage| &*stage.name).collect();
        assert_eq!(job.plan().stages(), names);
        let member = |party: &Party| Member {
            name: party.name.clone(),
            certificate: party.certificate.0.clone(),
            nonce: party.nonce.array(),
        };
        let anchor = self.anchor();
        let roster = Roster(self.parties.iter().map(member).collect());
        let roster = Arc::new(roster.certify(&anchor, self.now).unwrap());
        let round = || {
            let (job, roster) = (job.clone(), roster.clone());
            Round::new(job, self.number, roster, &self.model_hash.array()).unwrap()
        };
        let halved: Vec<f64> = job
            .encoding()
            .tensors()
            .map(|(_, clip)| clip / 2.0)
            .collect();
        assert_eq!(halved.is_empty(), self.halved_clips_context.is_none());
        if let Some(expected) = &self.halved_clips_context {
            let of_halved = round().with_clips(&halved).unwrap();
            assert_eq!(of_halved.context().0, expected.array());
        }
        assert_eq!(round().context().0, self.context.array());
        Arc::new(round())
    }

    fn anchor(&self) -> TrustAnchor {
        TrustAnchor::from_pem(&self.ca, None).unwrap()
    }

    /// Plays the round: everybody says what the model says.
    pub fn play(&self, server_draws: &mut dyn CryptoRng) {
        let round = self.round();
        let mut clients = self.start(&round);
        let mut server = Some(Server::start(round).unwrap());
        for (at, stage) in self.stages.iter().enumerate() {
            let mut collecting = server.take().expect("the round goes on");
            for (rank, message) in &stage.up {
                let receipt = collecting.receive(PartyId(*rank), &message.0);
                assert_eq!(receipt, Ok(Receipt::Taken));
            }
            let messages = match collecting.close(server_draws).unwrap() {
                Closed::Next {
                    server: next,
                    messages,
                    ..
                } => {
                    server = Some(next);
                    messages
                }
                Closed::Done { outcome, messages } => {
                    self.check_outcome(&outcome);
                    messages
                }
            };
            let answer_of = |from: PartyId| stage.up.get(&from.0).map(|answer| &*answer.0);
            let down = messages.into_iter().map(|(seat, outgoing)| {
                let message = outgoing.assemble(answer_of).expect("pieces of answers");
                (seat.party().unwrap().0, Hex(message.to_vec()))
            });
            let down: BTreeMap<u32, Hex> = down.collect();
            assert_eq!(down, stage.down, "end of stage {at}");
            if server.is_some() {
                self.answer(at, &mut clients);
            }
        }
        assert!(server.is_none(), "the round is over");
        self.finish(clients);
    }

    /// Everybody's first message.
    pub fn start(&self, round: &Arc<Round>) -> Clients {
        let start = |(&rank, expected): (&u32, &Hex)| {
            let random = &self.parties[rank as usize].random.0;
            let (client, tape) = self.begin(round, rank, random);
            assert_eq!(client.latest(), &expected.0, "first message of {rank}");
            (rank, (client, tape))
        };
        self.stages[0].up.iter().map(start).collect()
    }

    /// A party that has begun, with this randomness.
    pub fn begin(&self, round: &Arc<Round>, rank: u32, random: &[u8]) -> (Client, Tape) {
        let party = &self.parties[rank as usize];
        let setup = ClientSetup {
            round: round.clone(),
            me: PartyId(rank),
            identity: Arc::new(IdentityKey::from_pem(&party.private_key).unwrap()),
            vault: Arc::new(MemoryVault::default()),
            servers: KnownServers::certified_by(Arc::new(self.anchor()), self.now),
            memory: Arc::default(),
            prepared: Arc::default(),
            guard: Arc::new(AnySurvivors),
        };
        let mut tape = Tape::new(random);
        let at_once = round.plan().input_stage_of(PartyId(rank)) == Some(0);
        let words = Given(&party.words);
        let input = at_once.then_some(&words as &dyn Input);
        let (client, answer) = Client::start(setup, input, &mut tape).unwrap();
        assert_eq!(answer.message().as_ref(), Some(client.latest()));
        (client, tape)
    }

    /// The answers to the messages that end a stage, of those who still answer.
    pub fn answer(&self, stage: usize, clients: &mut Clients) {
        let is_last = stage + 2 == self.stages.len();
        for (rank, expected) in &self.stages[stage + 1].up {
            let (client, tape) = clients.get_mut(rank).unwrap();
            let words = Given(&self.parties[*rank as usize].words);
            let input = client.needs_input().then_some(&words as &dyn Input);
            let message = &self.stages[stage].down[rank].0;
            match client.answer(message, input, tape).unwrap() {
                Answer::Send(answer) if is_last && self.liars.contains(rank) => {
                    assert_ne!(answer, expected.0, "{rank} tells the truth");
                }
                Answer::Send(answer) => {
                    assert_eq!(answer, expected.0, "answer of {rank} to stage {stage}");
                }
                other => panic!("{rank} has nothing to say to stage {stage}: {other:?}"),
            }
        }
    }

    /// Those who answered to the end take the result, and nobody took other bytes than the model.
    fn finish(&self, mut clients: Clients) {
        let last = &self.stages[self.stages.len() - 1];
        for rank in last.up.keys() {
            let (client, tape) = clients.get_mut(rank).unwrap();
            match client.answer(&last.down[rank].0, None, tape).unwrap() {
                Answer::Done(result) => self.check_sum(&result.sum, result.survivors.iter()),
                other => panic!("{rank} does not take the result: {other:?}"),
            }
        }
        clients.values().for_each(|(_, tape)| tape.end());
    }

    /// The server when a stage begins.
    pub fn server_in(&self, round: &Arc<Round>, stage: usize) -> Server {
        let mut server = Server::start(round.clone()).unwrap();
        for before in &self.stages[..stage] {
            for (rank, message) in &before.up {
                server.receive(PartyId(*rank), &message.0).unwrap();
            }
            server = match server.close(&mut Tape::new(&[])).unwrap() {
                Closed::Next { server, .. } => server,
                Closed::Done { .. } => panic!("the round ends before stage {stage}"),
            };
        }
        server
    }

    pub fn check_sum(&self, sum: &Words, survivors: impl Iterator<Item = PartyId>) {
        assert_eq!(sum.iter().collect::<Vec<u64>>(), self.sum);
        let survivors: Vec<u32> = survivors.map(|party| party.0).collect();
        assert_eq!(survivors, self.survivors);
    }

    fn check_outcome(&self, outcome: &Outcome) {
        self.check_sum(outcome.sum.as_ref().unwrap(), outcome.survivors.iter());
        let liar = |fault: &Fault| match (fault.culprit, &fault.kind) {
            (Culprit::Party(party), FaultKind::WrongShare { .. }) => party.0,
            (Culprit::Nobody, FaultKind::WrongColumn { holder }) => holder.0,
            (Culprit::OneOf(holder, _), FaultKind::WrongShare { .. }) => holder.0,
            _ => panic!("{fault}"),
        };
        let mut liars: Vec<u32> = outcome.faults.iter().map(liar).collect();
        liars.sort_unstable();
        liars.dedup();
        assert_eq!(liars, self.liars);
    }
}
