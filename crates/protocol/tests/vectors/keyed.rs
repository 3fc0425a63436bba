//! Whole jobs in a file whose parties share a key: set-ups and rounds, one after the other, with what every party
//! keeps in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::roster::{Member, Roster};
use blindsum_crypto::sign::IdentityKey;
use blindsum_protocol::{
    Answer, AnySurvivors, Client, ClientSetup, Closed, FaultKind, Input, Job, JobSpec,
    KnownServers, MemoryVault, PartyId, Receipt, Round, Server, SparseInput, Vault,
};
use serde::Deserialize;

use crate::support::{Hex, Tape};
use crate::transcript::{Given, Stage};

/// A whole job.
#[derive(Deserialize)]
pub struct KeyedJob {
    spec: JobSpec,
    job_hash: Hex,
    ca: String,
    now: u64,
    width: u32,
    parties: Vec<Party>,
    rounds: Vec<KeyedRound>,
}

#[derive(Deserialize)]
struct Party {
    name: String,
    certificate: Hex,
    private_key: String,
}

/// A key set-up or a round. Parties go by rank but in `roster`, where they are listed by their place in the job,
/// and in `vaults`, which has one for each party of the job.
#[derive(Deserialize)]
struct KeyedRound {
    number: u64,
    context: Hex,
    roster: Vec<usize>,
    nonces: Vec<Hex>,
    lost: BTreeMap<u32, usize>,
    stages: Vec<Stage>,
    survivors: Vec<u32>,
    vaults: Vec<Contents>,
    refused: Vec<Refused>,
    kind: Kind,
    /// Of a key set-up.
    #[serde(default)]
    random: BTreeMap<u32, Hex>,
    /// Of a round.
    model_hash: Option<Hex>,
    #[serde(default)]
    words: BTreeMap<u32, Vec<u64>>,
    #[serde(flatten)]
    outcome: Option<Sums>,
    /// Of a sum: what its key is derived from where every clipping bound is half of the job's.
    halved_clips_key_context: Option<Hex>,
    /// Of a round where parties send some coordinates only: which ones.
    #[serde(default)]
    coordinates: BTreeMap<u32, Vec<u32>>,
}

/// What the parties learn.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Sums {
    /// Of all coordinates.
    Sum(Vec<u64>),
    /// Of those that anybody sent: the coordinate, the sum if it is opened, how many sent it.
    Sums(Vec<(usize, Option<u64>, u32)>),
}

impl Sums {
    /// The sum of every coordinate, and by coordinate how many sent it.
    fn of_all(&self, lanes: usize) -> (Vec<u64>, Option<Vec<u32>>) {
        let rows = match self {
            Self::Sum(words) => return (words.clone(), None),
            Self::Sums(rows) => rows,
        };
        let (mut sum, mut contributors) = (vec![0; lanes], vec![0; lanes]);
        for &(d, word, count) in rows {
            (sum[d], contributors[d]) = (word.unwrap_or(0), count);
        }
        (sum, Some(contributors))
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    KeySetup,
    Sum,
}

#[derive(Deserialize, Debug, PartialEq, Default)]
struct Contents {
    contents: Option<Hex>,
    mark: u64,
}

impl Contents {
    fn of(vault: &MemoryVault) -> Self {
        let kept = vault.read().unwrap();
        let contents = kept.contents.map(|bytes| Hex(bytes.to_vec()));
        let mark = kept.mark;
        Self { contents, mark }
    }

    fn restore(&self) -> Arc<MemoryVault> {
        let vault = MemoryVault::default();
        if let Some(Hex(bytes)) = &self.contents {
            vault.write(bytes, self.mark).unwrap();
        }
        Arc::new(vault)
    }
}

/// Messages of one party, and to it, changed a little: nobody takes them.
#[derive(Deserialize)]
struct Refused {
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

impl KeyedJob {
    /// Plays the job: everybody says and keeps what the model says.
    pub fn play(&self) {
        let job = self.job();
        for at in 0..self.rounds.len() {
            Play::new(self, &job, at).run();
        }
    }

    /// Sends and delivers everything that is to be refused; gives how much that was.
    pub fn refuse(&self) -> usize {
        let (job, mut count) = (self.job(), 0);
        for (at, round) in self.rounds.iter().enumerate() {
            for refused in &round.refused {
                assert_eq!(refused.stages.len(), round.stages.len());
                for (stage, changed) in refused.stages.iter().enumerate() {
                    let party = PartyId(refused.party);
                    for changed in &changed.up {
                        Play::new(self, &job, at).check_server(stage, party, changed);
                    }
                    for changed in &changed.down {
                        Play::new(self, &job, at).check_client(stage, party, changed);
                    }
                    count += changed.up.len() + changed.down.len();
                }
            }
        }
        count
    }

    fn job(&self) -> Arc<Job> {
        let job = self.spec.clone().validate().unwrap();
        assert_eq!(*job.hash(), self.job_hash.array());
        assert_eq!(job.width().bits(), self.width);
        Arc::new(job)
    }
}

/// A round under way.
struct Play<'a> {
    job: &'a KeyedJob,
    record: &'a KeyedRound,
    round: Arc<Round>,
    /// One for each party of the job, as the round before left it.
    vaults: Vec<Arc<MemoryVault>>,
    clients: BTreeMap<u32, (Client, Tape)>,
}

impl<'a> Play<'a> {
    fn new(job: &'a KeyedJob, checked: &Arc<Job>, at: usize) -> Self {
        let record = &job.rounds[at];
        let vaults = match at.checked_sub(1) {
            Some(before) => job.rounds[before]
                .vaults
                .iter()
                .map(Contents::restore)
                .collect(),
            None => job.parties.iter().map(|_| Arc::default()).collect(),
        };
        let mut play = Self {
            round: record.round(job, checked),
            job,
            record,
            vaults,
            clients: BTreeMap::new(),
        };
        play.start();
        play
    }

    fn run(mut self) {
        let mut server = Some(Server::start(self.round.clone()).unwrap());
        for (at, stage) in self.record.stages.iter().enumerate() {
            let mut collecting = server.take().expect("the round goes on");
            for (rank, message) in &stage.up {
                let receipt = collecting.receive(PartyId(*rank), &message.0);
                assert_eq!(receipt, Ok(Receipt::Taken));
            }
            let messages = match collecting.close(&mut Tape::new(&[])).unwrap() {
                Closed::Next {
                    server: next,
                    messages,
                    ..
                } => {
                    server = Some(next);
                    messages
                }
                Closed::Done { outcome, messages } => {
                    assert_eq!(outcome.sum, None, "the coordinator learns no sum");
                    assert_eq!(outcome.faults, []);
                    self.check_survivors(outcome.survivors.iter());
                    messages
                }
            };
            let down = messages.into_iter().map(|(seat, outgoing)| {
                let message = outgoing.assemble(|_| None).expect("nothing is passed on");
                (seat.party().unwrap().0, Hex(message.to_vec()))
            });
            let down: BTreeMap<u32, Hex> = down.collect();
            assert_eq!(down, stage.down, "end of stage {at}");
            if server.is_some() {
                self.answer(at);
            }
        }
        assert!(server.is_none(), "the round is over");
        self.finish();
    }

    /// Everybody's first message.
    fn start(&mut self) {
        for (rank, expected) in &self.record.stages[0].up {
            let place = self.record.roster[*rank as usize];
            let setup = ClientSetup {
                round: self.round.clone(),
                me: PartyId(*rank),
                identity: Arc::new(
                    IdentityKey::from_pem(&self.job.parties[place].private_key).unwrap(),
                ),
                vault: self.vaults[place].clone(),
                servers: KnownServers::default(),
                memory: Arc::default(),
                prepared: Arc::default(),
                guard: Arc::new(AnySurvivors),
            };
            let random = self.record.random.get(rank);
            let mut tape = Tape::new(random.map_or(&[], |bytes| &bytes.0));
            let input = self.record.input(*rank);
            let input = input.as_ref().map(|input| &**input as &dyn Input);
            let (client, answer) = Client::start(setup, input, &mut tape).unwrap();
            let message = answer.message().unwrap();
            assert_eq!(message, expected.0, "first message of {rank}");
            self.clients.insert(*rank, (client, tape));
        }
    }

    /// What those who are left say, or that they wait, when they get the messages that end a stage.
    fn answer(&mut self, stage: usize) {
        let (down, next) = (
            &self.record.stages[stage].down,
            &self.record.stages[stage + 1].up,
        );
        for (rank, (client, tape)) in &mut self.clients {
            if self
                .record
                .lost
                .get(rank)
                .is_some_and(|at| *at <= stage + 1)
            {
                assert!(!next.contains_key(rank));
                continue;
            }
            let answer = match client.answer(&down[rank].0, None, tape).unwrap() {
                Answer::Send(answer) => Some(Hex(answer.to_vec())),
                Answer::Wait => None,
                other => panic!("{rank} ends after stage {stage}: {other:?}"),
            };
            assert_eq!(
                answer.as_ref(),
                next.get(rank),
                "answer of {rank} to stage {stage}"
            );
        }
    }

    /// Those who answered to the end take the result; everybody keeps what the model says.
    fn finish(mut self) {
        let last = &self.record.stages[self.record.stages.len() - 1];
        for rank in last.up.keys() {
            let (mut client, mut tape) = self.clients.remove(rank).unwrap();
            let result = client.answer(&last.down[rank].0, None, &mut tape).unwrap();
            match (result, self.record.kind) {
                (Answer::KeyHeld(holders), Kind::KeySetup) => {
                    self.check_survivors(holders.iter());
                }
                (Answer::Done(result), Kind::Sum) => {
                    let sum: Vec<u64> = result.sum.iter().collect();
                    let expected = self.record.outcome.as_ref().unwrap().of_all(sum.len());
                    assert_eq!((sum, result.contributors), expected);
                    self.check_survivors(result.survivors.iter());
                }
                (other, _) => panic!("{rank} does not take the result: {other:?}"),
            }
            tape.end();
        }
        self.clients.values().for_each(|(_, tape)| tape.end());
        for (place, vault) in self.vaults.iter().enumerate() {
            let kept = Contents::of(vault);
            assert_eq!(kept, self.record.vaults[place], "kept by party {place}");
        }
    }

    fn check_survivors(&self, survivors: impl Iterator<Item = PartyId>) {
        let survivors: Vec<u32> = survivors.map(|party| party.0).collect();
        assert_eq!(survivors, self.record.survivors);
    }

    /// It costs nobody anything: the right message is taken still.
    fn check_server(self, stage: usize, party: PartyId, Changed { why, message }: &Changed) {
        let mut server = Server::start(self.round.clone()).unwrap();
        for before in &self.record.stages[..stage] {
            for (rank, message) in &before.up {
                server.receive(PartyId(*rank), &message.0).unwrap();
            }
            server = match server.close(&mut Tape::new(&[])).unwrap() {
                Closed::Next { server, .. } => server,
                Closed::Done { .. } => panic!("the round ends before stage {stage}"),
            };
        }
        let refused = server.receive(party, &message.0);
        assert!(refused.is_err(), "stage {stage}, up: {why}");
        let right = server.receive(party, &self.record.stages[stage].up[&party.0].0);
        assert_eq!(right, Ok(Receipt::Taken), "stage {stage}, up, after: {why}");
    }

    /// It ends the party's round: nothing more is said, and nothing that was kept is lost.
    fn check_client(mut self, stage: usize, party: PartyId, Changed { why, message }: &Changed) {
        (0..stage).for_each(|before| self.answer(before));
        let vault = &self.vaults[self.record.roster[party.rank()]];
        let before = Contents::of(vault);
        let (client, tape) = self.clients.get_mut(&party.0).unwrap();
        let refused = client.answer(&message.0, None, tape);
        assert!(refused.is_err(), "stage {stage}, down: {why}");
        assert_eq!(
            Contents::of(vault),
            before,
            "stage {stage}, down, after: {why}"
        );
        let right = &self.record.stages[stage].down[&party.0].0;
        let ended = client.answer(right, None, tape).unwrap_err();
        assert_eq!(
            ended.kind,
            FaultKind::Ended,
            "stage {stage}, down, after: {why}"
        );
    }
}

impl KeyedRound {
    /// What a party adds.
    fn input(&self, rank: u32) -> Option<Box<dyn Input + '_>> {
        let words = Given(self.words.get(&rank)?);
        Some(match self.coordinates.get(&rank) {
            Some(coordinates) => Box::new(SparseInput::new(coordinates, words)),
            None => Box::new(words),
        })
    }

    /// The round, and that it is what the model says.
    fn round(&self, job: &KeyedJob, checked: &Arc<Job>) -> Arc<Round> {
        let member = |(&place, nonce): (&usize, &Hex)| Member {
            name: job.parties[place].name.clone(),
            certificate: job.parties[place].certificate.0.clone(),
            nonce: nonce.array(),
        };
        let roster = Roster(self.roster.iter().zip(&self.nonces).map(member).collect());
        let anchor = TrustAnchor::from_pem(&job.ca, None).unwrap();
        let roster = Arc::new(roster.certify(&anchor, job.now).unwrap());
        let round = || {
            let (checked, number, roster) = (checked.clone(), self.number, roster.clone());
            let round = match (self.kind, &self.model_hash) {
                (Kind::KeySetup, None) => Round::key_setup(checked, number, roster),
                (Kind::Sum, Some(hash)) => Round::new(checked, number, roster, &hash.array()),
                _ => panic!("rounds have a model, key set-ups have none"),
            };
            round.unwrap()
        };
        if let Some(expected) = &self.halved_clips_key_context {
            let tensors = checked.encoding().tensors();
            let halved: Vec<f64> = tensors.map(|(_, clip)| clip / 2.0).collect();
            let halved = round().with_clips(&halved).unwrap();
            assert_eq!(halved.key_context().0, expected.array());
            assert_eq!(halved.context().0, self.context.array());
        }
        let round = round();
        assert_eq!(round.context().0, self.context.array());
        assert_eq!(round.key_context(), round.context());
        let names: Vec<&str> = self.stages.iter().map(|stage| &*stage.name).collect();
        assert_eq!(round.plan().stages(), names);
        Arc::new(round)
    }
}
