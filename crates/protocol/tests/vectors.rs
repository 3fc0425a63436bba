//! Agreement with the slow models in `vectors/model`, through the public interface only: hashes of
//! jobs, graphs and their parameters, and whole rounds byte by byte.

#[path = "../../../vectors/support.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::kdf::Context;
use blindsum_crypto::roster::{Member, Roster};
use blindsum_crypto::sign::IdentityKey;
use blindsum_math::words::{TileMut, Words};
use blindsum_protocol::{
    AggregationGraph, Answer, Client, ClientSetup, Closed, Culprit, Fault, FaultKind,
    GraphParameters, Input, JobSpec, Outcome, PartyId, Receipt, Round, Server,
};
use serde::Deserialize;
use serde_json::Value;
use support::{Hex, Tape, load};

#[test]
fn jobs_have_the_same_hash() {
    #[derive(Deserialize)]
    struct Vector {
        spec: JobSpec,
        hash: Hex,
    }
    for Vector { spec, hash } in load(include_str!("../../../vectors/round.json"), "jobs") {
        let shown = format!("{spec:?}");
        assert_eq!(*spec.validate().unwrap().hash(), hash.array(), "{shown}");
    }
}

const GRAPHS: &str = include_str!("../../../vectors/graph.json");

#[test]
fn parameters_are_those_of_exact_probabilities() {
    /// Neighbours and threshold, or the field of the job to change.
    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(untagged)]
    enum Verdict {
        Found(usize, usize),
        Refused(String),
    }
    type Row = (usize, bool, String, f64, f64, u32, u32, Verdict);
    for row in load::<Row>(GRAPHS, "parameters") {
        let shown = format!("{row:?}");
        let (n, complete, adversary, corrupt, dropout, neighbours, threshold, expected) = row;
        let spec = JobSpec {
            adversary: serde_json::from_value(Value::String(adversary)).unwrap(),
            corrupt,
            dropout,
            neighbours,
            threshold,
            ..JobSpec::default()
        };
        let verdict = match GraphParameters::find(&spec, n, complete) {
            Ok(found) => Verdict::Found(found.neighbours(), found.threshold()),
            Err(error) => Verdict::Refused(error.field.into()),
        };
        assert_eq!(verdict, expected, "{shown}");
    }
}

#[test]
fn graphs_are_drawn_alike() {
    #[derive(Deserialize)]
    struct Vector {
        parties: u32,
        neighbours: u32,
        context: Hex,
        lists: Vec<Vec<u32>>,
        witnesses: Vec<u32>,
    }
    for vector in load::<Vector>(GRAPHS, "graphs") {
        let spec = JobSpec {
            neighbours: vector.neighbours,
            corrupt: 0.0,
            dropout: 0.0,
            ..JobSpec::default()
        };
        let parameters = GraphParameters::find(&spec, vector.parties as usize, false).unwrap();
        let graph = AggregationGraph::draw(parameters, &Context(vector.context.array()));
        assert_eq!(neighbours(&graph, vector.parties), vector.lists);
        assert_eq!(ranks(&graph.witnesses()), vector.witnesses);
    }
}

fn neighbours(graph: &AggregationGraph, parties: u32) -> Vec<Vec<u32>> {
    let of = |party| ranks(&graph.neighbours(PartyId(party)));
    (0..parties).map(of).collect()
}

fn ranks(parties: &[PartyId]) -> Vec<u32> {
    parties.iter().map(|party| party.0).collect()
}

/// A whole round of `secagg.json`.
#[derive(Deserialize)]
struct Transcript {
    spec: JobSpec,
    job_hash: Hex,
    number: u64,
    model_hash: Hex,
    ca: String,
    now: u64,
    context: Hex,
    width: u32,
    neighbours: Vec<Vec<u32>>,
    witnesses: Vec<u32>,
    threshold: usize,
    parties: Vec<Party>,
    stages: Vec<Stage>,
    liars: Vec<u32>,
    survivors: Vec<u32>,
    sum: Vec<u64>,
}

#[derive(Deserialize)]
struct Party {
    name: String,
    certificate: Hex,
    nonce: Hex,
    private_key: String,
    random: Hex,
    words: Vec<u64>,
}

/// By rank: what parties send, and what they get.
#[derive(Deserialize)]
struct Stage {
    name: String,
    up: BTreeMap<u32, Hex>,
    down: BTreeMap<u32, Hex>,
}

/// Words that are given as they are.
struct Given<'a>(&'a [u64]);

impl Input for Given<'_> {
    fn lanes(&self) -> usize {
        self.0.len()
    }

    fn read(&mut self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
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
type Clients = BTreeMap<u32, (Client, Tape)>;

impl Transcript {
    /// The round, and that it is what the model says.
    fn round(&self) -> Arc<Round> {
        let job = Arc::new(self.spec.clone().validate().unwrap());
        assert_eq!(*job.hash(), self.job_hash.array());
        assert_eq!(job.width().bits(), self.width);
        let names: Vec<&str> = self.stages.iter().map(|stage| &*stage.name).collect();
        assert_eq!(job.stages(), names);
        let member = |party: &Party| Member {
            name: party.name.clone(),
            certificate: party.certificate.0.clone(),
            nonce: party.nonce.array(),
        };
        let anchor = TrustAnchor::from_pem(&self.ca, None).unwrap();
        let roster = Roster(self.parties.iter().map(member).collect());
        let roster = Arc::new(roster.certify(&anchor, self.now).unwrap());
        let round = Round::new(job, self.number, roster, &self.model_hash.array()).unwrap();
        assert_eq!(round.context().0, self.context.array());
        Arc::new(round)
    }

    fn check_graph(&self, round: &Round) {
        let complete = self.spec.protocol.as_str() == "secagg";
        let parameters = GraphParameters::find(&self.spec, round.parties(), complete).unwrap();
        assert_eq!(parameters.threshold(), self.threshold);
        let graph = AggregationGraph::draw(parameters, round.context());
        assert_eq!(neighbours(&graph, round.parties() as u32), self.neighbours);
        assert_eq!(ranks(&graph.witnesses()), self.witnesses);
    }

    /// Everybody's first message.
    fn start(&self, round: &Arc<Round>) -> Clients {
        let start = |(&rank, expected): (&u32, &Hex)| {
            let party = &self.parties[rank as usize];
            let setup = ClientSetup {
                round: round.clone(),
                me: PartyId(rank),
                identity: Arc::new(IdentityKey::from_pem(&party.private_key).unwrap()),
            };
            let mut tape = Tape::new(&party.random.0);
            let (client, message) = Client::start(setup, None, &mut tape).unwrap();
            assert_eq!(message, expected.0, "first message of {rank}");
            (rank, (client, tape))
        };
        self.stages[0].up.iter().map(start).collect()
    }

    /// The answers to the messages that end a stage, of those who still answer.
    fn answer(&self, stage: usize, clients: &mut Clients) {
        let is_unmask = stage + 2 == self.stages.len();
        for (rank, expected) in &self.stages[stage + 1].up {
            let (client, tape) = clients.get_mut(rank).unwrap();
            let mut words = Given(&self.parties[*rank as usize].words);
            let input = client.needs_input().then_some(&mut words as &mut dyn Input);
            let message = &self.stages[stage].down[rank].0;
            match client.answer(message, input, tape).unwrap() {
                Answer::Send(answer) if is_unmask && self.liars.contains(rank) => {
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
    fn server_in(&self, round: &Arc<Round>, stage: usize) -> Server {
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

    fn check_sum(&self, sum: &Words, survivors: impl Iterator<Item = PartyId>) {
        assert_eq!(sum.iter().collect::<Vec<u64>>(), self.sum);
        let survivors: Vec<u32> = survivors.map(|party| party.0).collect();
        assert_eq!(survivors, self.survivors);
    }

    fn check_outcome(&self, outcome: &Outcome) {
        self.check_sum(&outcome.sum, outcome.survivors.iter());
        let liar = |fault: &Fault| match (fault.culprit, &fault.kind) {
            (Culprit::Party(party), FaultKind::WrongShare { .. }) => party.0,
            (Culprit::OneOf(holder, _), FaultKind::WrongShare { .. }) => holder.0,
            _ => panic!("{fault}"),
        };
        let mut liars: Vec<u32> = outcome.faults.iter().map(liar).collect();
        liars.sort_unstable();
        liars.dedup();
        assert_eq!(liars, self.liars);
    }
}

const SECAGG: &str = include_str!("../../../vectors/secagg.json");

#[test]
fn rounds_are_the_same_byte_by_byte() {
    for transcript in load::<Transcript>(SECAGG, "rounds") {
        let round = transcript.round();
        transcript.check_graph(&round);
        let mut clients = transcript.start(&round);
        let mut server = Some(Server::start(round).unwrap());
        for (at, stage) in transcript.stages.iter().enumerate() {
            let mut collecting = server.take().expect("the round goes on");
            for (rank, message) in &stage.up {
                let receipt = collecting.receive(PartyId(*rank), &message.0);
                assert_eq!(receipt, Ok(Receipt::Taken));
            }
            let messages = match collecting.close(&mut Tape::new(&[])).unwrap() {
                Closed::Next {
                    server: next,
                    messages,
                } => {
                    server = Some(next);
                    messages
                }
                Closed::Done { outcome, messages } => {
                    transcript.check_outcome(&outcome);
                    messages
                }
            };
            let answer_of = |from: PartyId| stage.up.get(&from.0).map(|answer| &*answer.0);
            let down = messages.into_iter().map(|(party, outgoing)| {
                let message = outgoing.assemble(answer_of).expect("pieces of answers");
                (party.0, Hex(message.to_vec()))
            });
            assert_eq!(
                down.collect::<BTreeMap<_, _>>(),
                stage.down,
                "end of stage {at}"
            );
            if server.is_some() {
                transcript.answer(at, &mut clients);
            }
        }
        assert!(server.is_none(), "the round is over");
        transcript.finish(clients);
    }
}

/// Messages of one round, changed a little: nobody takes them.
#[derive(Deserialize)]
struct Refused {
    round: usize,
    party: u32,
    stages: Vec<RefusedStage>,
}

#[derive(Deserialize)]
struct RefusedStage {
    up: Vec<Changed>,
    down: Vec<Changed>,
}

#[derive(Deserialize)]
struct Changed {
    why: String,
    message: Hex,
}

#[test]
fn changed_messages_are_refused() {
    let file: Value = serde_json::from_str(SECAGG).unwrap();
    let Refused {
        round,
        party,
        stages,
    } = serde_json::from_value(file["refused"].clone()).unwrap();
    let transcript = load::<Transcript>(SECAGG, "rounds").swap_remove(round);
    let round = transcript.round();
    assert_eq!(stages.len(), transcript.stages.len());
    for (at, stage) in stages.iter().enumerate() {
        for Changed { why, message } in &stage.up {
            let mut server = transcript.server_in(&round, at);
            let refused = server.receive(PartyId(party), &message.0);
            assert!(refused.is_err(), "stage {at}, up: {why}");
            // It costs nobody anything: the right message is taken still.
            let right = server.receive(PartyId(party), &transcript.stages[at].up[&party].0);
            assert_eq!(right, Ok(Receipt::Taken), "stage {at}, up, after: {why}");
        }
        for Changed { why, message } in &stage.down {
            let mut clients = transcript.start(&round);
            (0..at).for_each(|before| transcript.answer(before, &mut clients));
            let (client, tape) = clients.get_mut(&party).unwrap();
            let mut words = Given(&transcript.parties[party as usize].words);
            let refused = client.answer(&message.0, Some(&mut words), tape);
            assert!(refused.is_err(), "stage {at}, down: {why}");
            // It ends the party's round: nothing more is said.
            let right = &transcript.stages[at].down[&party].0;
            let ended = client.answer(right, Some(&mut words), tape).unwrap_err();
            assert_eq!(
                ended.kind,
                FaultKind::Ended,
                "stage {at}, down, after: {why}"
            );
        }
    }
}
