//! Whole rounds of `paillier-ring`, `paillier-broadcast` and `paillier-allreduce` in a file, and messages that nobody may
//! accept.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::sign::IdentityKey;
use blindsum_protocol::{
    Answer, Client, Closed, Fault, FaultKind, Follower, FollowerSetup, Outgoing, PartyId, Receipt,
    Round, Seat, Server, ServerIdentity, ServerRole,
};
use serde::Deserialize;

use crate::support::{Hex, Tape, load};
use crate::transcript::{Given, Transcript};

const SERVICE: Seat = Seat::Server(ServerRole::Decryptor);
/// Bases to which a number is tested for being prime, and the bytes of each.
const TESTS: usize = 8;
const BASE: usize = 128;

/// What a file says of a round beside its transcript.
#[derive(Deserialize)]
struct Beside {
    service: Drawn,
    stages: Vec<Words>,
}

#[derive(Deserialize)]
struct Drawn {
    random: Hex,
    identity: Option<Shown>,
}

/// Certificate and key of a key service elsewhere.
#[derive(Deserialize)]
struct Shown {
    chain: Vec<Hex>,
    private_key: String,
}

impl Shown {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity {
            chain: self.chain.iter().map(|der| der.0.clone()).collect(),
            key: Arc::new(IdentityKey::from_pem(&self.private_key).unwrap()),
        }
    }
}

/// What the key service says in a stage, and is told at its end.
#[derive(Deserialize)]
struct Words {
    asked: Option<Hex>,
    said: Option<Hex>,
}

/// What the key of the job is drawn from.
#[derive(Deserialize)]
struct Key {
    p: Hex,
    q: Hex,
    x: Hex,
}

/// A round with a key service.
pub struct KeyServiceRound {
    transcript: Transcript,
    words: Vec<Words>,
    round: Arc<Round>,
    /// What the key service draws.
    draws: Vec<u8>,
    /// Where it is elsewhere.
    identity: Option<Arc<ServerIdentity>>,
}

/// All that a file lists.
pub fn rounds(file: &str) -> Vec<KeyServiceRound> {
    let key = load::<Key>(file, "key").swap_remove(0);
    // It is always 2.
    let mut base = [0; BASE];
    base[0] = 2;
    let bases = base.repeat(TESTS);
    let transcripts = load::<Transcript>(file, "rounds").into_iter();
    let with_rest = transcripts.zip(load::<Beside>(file, "rounds"));
    let round = |(transcript, beside): (Transcript, Beside)| {
        let own = &beside.service.random.0;
        let parts: [&[u8]; 6] = [own, &key.p.0, &bases, &key.q.0, &bases, &key.x.0];
        KeyServiceRound {
            round: transcript.round(),
            words: beside.stages,
            draws: parts.concat(),
            identity: beside
                .service
                .identity
                .map(|shown| Arc::new(shown.identity())),
            transcript,
        }
    };
    with_rest.map(round).collect()
}

impl KeyServiceRound {
    /// Plays the round: everybody says what the model says.
    pub fn play(&self) {
        let mut server = Some(Server::start(self.round.clone()).unwrap());
        for (at, stage) in self.transcript.stages.iter().enumerate() {
            let mut collecting = server.take().expect("the round goes on");
            self.take(at, &mut collecting, |_| true);
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
                    let sum = outcome.sum.as_ref().unwrap();
                    self.transcript.check_sum(sum, outcome.survivors.iter());
                    assert!(outcome.faults.is_empty());
                    messages
                }
            };
            let answer_of = |from: PartyId| stage.up.get(&from.0).map(|answer| &*answer.0);
            let told = messages
                .into_iter()
                .map(|(seat, outgoing): (Seat, Outgoing)| {
                    let message = outgoing.assemble(answer_of).expect("pieces of answers");
                    (seat, Hex(message.to_vec()))
                });
            let (down, asked): (Vec<_>, Vec<_>) = told.partition(|(seat, _)| *seat != SERVICE);
            let down = down.into_iter();
            let down: BTreeMap<u32, Hex> = down
                .map(|(seat, message)| (seat.party().unwrap().0, message))
                .collect();
            assert_eq!(down, stage.down, "end of stage {at}");
            let asked = asked.into_iter().map(|(_, message)| message).next();
            assert_eq!(asked, self.words[at].asked, "end of stage {at}");
        }
        assert!(server.is_none(), "the round is over");
        let last = self.transcript.stages.len();
        for rank in 0..self.round.parties() as u32 {
            let (_, tape) = self.client(rank, last);
            tape.end();
        }
        let (_, tape) = self.service(last);
        tape.end();
    }

    /// A server takes what those say in a stage who are to.
    fn take(&self, stage: usize, server: &mut Server, who: impl Fn(u32) -> bool) {
        for (rank, message) in &self.transcript.stages[stage].up {
            if who(*rank) {
                let taken = server.receive(PartyId(*rank), &message.0);
                assert_eq!(taken, Ok(Receipt::Taken), "{rank} in stage {stage}");
            }
        }
        if let Some(said) = &self.words[stage].said {
            let taken = server.receive(SERVICE, &said.0);
            assert_eq!(taken, Ok(Receipt::Taken), "key service in stage {stage}");
        }
    }

    /// The coordinator when a stage begins.
    fn server(&self, stage: usize) -> Server {
        let mut server = Server::start(self.round.clone()).unwrap();
        for before in 0..stage {
            self.take(before, &mut server, |_| true);
            server = match server.close(&mut Tape::new(&[])).unwrap() {
                Closed::Next { server, .. } => server,
                Closed::Done { .. } => panic!("the round ends before stage {stage}"),
            };
        }
        server
    }

    /// A party that has answered all before a stage, as the model says.
    fn client(&self, rank: u32, stage: usize) -> (Client, Tape) {
        let party = &self.transcript.parties[rank as usize];
        let stages = &self.transcript.stages;
        let (mut client, mut tape) = self.transcript.begin(&self.round, rank, &party.random.0);
        assert_eq!(client.latest(), &stages[0].up[&rank].0);
        for (at, of_stage) in stages[..stage].iter().enumerate() {
            let Some(message) = of_stage.down.get(&rank) else {
                continue;
            };
            let answer = self.answer(&mut client, rank, &message.0, &mut tape);
            let expected = stages.get(at + 1).and_then(|next| next.up.get(&rank));
            match (answer.unwrap(), expected) {
                (Answer::Send(said), Some(expected)) => {
                    assert_eq!(said, expected.0, "{rank} after stage {at}");
                }
                (Answer::Wait, None) => {}
                (Answer::Done(result), None) => {
                    let survivors = result.survivors.iter();
                    self.transcript.check_sum(&result.sum, survivors);
                    assert_eq!(at + 1, stages.len());
                }
                (other, _) => panic!("{rank} after stage {at}: {other:?}"),
            }
        }
        (client, tape)
    }

    fn answer(
        &self,
        client: &mut Client,
        rank: u32,
        message: &[u8],
        tape: &mut Tape,
    ) -> Result<Answer, Fault> {
        let words = Given(&self.transcript.parties[rank as usize].words);
        let input = client.takes_input_with(message);
        let input = input.then_some(&words as &dyn blindsum_protocol::Input);
        client.answer(message, input, tape)
    }

    /// The key service when it has answered all before the end of a stage, as the model says.
    fn service(&self, stage: usize) -> (Follower, Tape) {
        let setup = FollowerSetup {
            round: self.round.clone(),
            role: ServerRole::Decryptor,
            memory: Arc::default(),
            identity: self.identity.clone(),
            now: 0,
        };
        let (mut service, mut tape) = (Follower::start(setup).unwrap(), Tape::new(&self.draws));
        for (at, of_stage) in self.words[..stage].iter().enumerate() {
            let Some(asked) = &of_stage.asked else {
                continue;
            };
            let said = service.answer(&asked.0, &mut tape).unwrap();
            let said = said.map(|message| Hex(message.to_vec()));
            assert_eq!(said, self.words[at + 1].said, "after stage {at}");
        }
        (service, tape)
    }
}

/// A message that somebody refuses at some stage.
#[derive(Deserialize)]
struct Refused {
    round: usize,
    stage: usize,
    to: String,
    from: Option<String>,
    party: Option<u32>,
    why: String,
    /// What the fault says.
    fault: String,
    message: Hex,
}

/// Checks all of them in a file; gives how many they are.
pub fn check_refused(file: &str) -> usize {
    let all = rounds(file);
    let refused = load::<Refused>(file, "refused");
    for wrong in &refused {
        let round = &all[wrong.round];
        match wrong.to.as_str() {
            "coordinator" => round.coordinator_refuses(wrong),
            "service" => round.service_refuses(wrong),
            _ => round.party_refuses(wrong),
        }
    }
    refused.len()
}

impl Refused {
    fn check(&self, fault: &Fault) {
        let Self {
            round, stage, why, ..
        } = self;
        let (said, what) = (fault.kind.to_string(), &self.fault);
        assert!(
            said.contains(what),
            "round {round}, stage {stage}, to {}: {why}: {said}, not {what}",
            self.to
        );
    }
}

impl KeyServiceRound {
    /// It costs nobody anything: the right message is taken still.
    fn coordinator_refuses(&self, wrong: &Refused) {
        let Refused { stage, why, .. } = wrong;
        let mut server = self.server(*stage);
        let (from, right) = match (wrong.from.as_deref(), wrong.party) {
            (Some("party"), Some(rank)) => {
                self.take(*stage, &mut server, |other| other < rank);
                let right = &self.transcript.stages[*stage].up[&rank];
                (Seat::Party(PartyId(rank)), right)
            }
            _ => (SERVICE, self.words[*stage].said.as_ref().unwrap()),
        };
        let refused = server.receive(from, &wrong.message.0);
        wrong.check(&refused.expect_err(why));
        let right = server.receive(from, &right.0);
        assert_eq!(right, Ok(Receipt::Taken), "after: {why}");
    }

    /// It ends the party's round: nothing more is said.
    fn party_refuses(&self, wrong: &Refused) {
        let (rank, why) = (wrong.party.unwrap(), &wrong.why);
        let (mut client, mut tape) = self.client(rank, wrong.stage);
        let refused = self.answer(&mut client, rank, &wrong.message.0, &mut tape);
        wrong.check(&refused.expect_err(why));
        let right = &self.transcript.stages[wrong.stage].down[&rank].0;
        let ended = self.answer(&mut client, rank, right, &mut tape);
        assert_eq!(ended.unwrap_err().kind, FaultKind::Ended, "after: {why}");
    }

    /// It ends the key service's part in the round.
    fn service_refuses(&self, wrong: &Refused) {
        let (mut service, mut tape) = self.service(wrong.stage);
        let refused = service.answer(&wrong.message.0, &mut tape);
        wrong.check(&refused.expect_err(&wrong.why));
        let right = self.words[wrong.stage].asked.as_ref().unwrap();
        let ended = service.answer(&right.0, &mut tape).unwrap_err();
        assert_eq!(ended.kind, FaultKind::Ended, "after: {}", wrong.why);
    }
}
