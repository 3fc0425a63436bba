//! Whole rounds of `mpc3` in a file: what parties upload to each of the three servers, and what these say to each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_math::words::Words;
use blindsum_protocol::{
    Answer, Client, Closed, Culprit, Fault, Follower, FollowerSetup, Message, Outcome, Outgoing,
    PartyId, Receipt, Round, RoundSum, Seat, Server, ServerIndex, ServerRole,
};
use serde::Deserialize;

use crate::support::{Hex, Tape, load};
use crate::transcript::Transcript;

/// Bytes in front of a message, and behind what a letter says.
const HEADER: usize = 34;
const ROUND: usize = 4;

/// The second and the third server.
pub const OTHERS: [ServerRole; 2] = [ServerRole::Second, ServerRole::Third];

/// What a file says of a round beside its transcript.
#[derive(Deserialize)]
struct Between {
    parties: Vec<Drawn>,
    /// What parties have drawn that give some servers another upload than the others.
    again: BTreeMap<u32, Drawn>,
    /// To the servers 1 and 2, by rank.
    uploads: BTreeMap<u8, BTreeMap<u32, Hex>>,
    told: Hex,
    /// What each server tells of the uploads that it has, by rank; none where servers compute.
    #[serde(default)]
    notices: Vec<BTreeMap<u32, Hex>>,
    headers: Vec<BTreeMap<u32, Hex>>,
    survivors_hash: Hex,
    components: Vec<Vec<u64>>,
    letters: Vec<Vec<Letters>>,
    word: BTreeMap<u8, Hex>,
}

/// What a party draws, and what follows of it.
#[derive(Deserialize)]
struct Drawn {
    random: Hex,
    seeds: Vec<Hex>,
    salt: Hex,
    tag_keys: Vec<Hex>,
    components: Vec<Vec<u64>>,
    hashes: Vec<Hex>,
}

/// What a server says in one round of letters.
#[derive(Deserialize)]
pub struct Letters {
    pub next: Hex,
    pub before: Hex,
}

/// A round of three servers.
pub struct ThreeServers {
    pub transcript: Transcript,
    between: Between,
    pub round: Arc<Round>,
}

/// All that a file lists.
pub fn rounds(file: &str) -> Vec<ThreeServers> {
    let transcripts = load::<Transcript>(file, "rounds").into_iter();
    let with_rest = transcripts.zip(load::<Between>(file, "rounds"));
    with_rest
        .map(|(transcript, between)| ThreeServers {
            round: transcript.round(),
            transcript,
            between,
        })
        .collect()
}

/// The three servers of a round under way.
pub struct Servers {
    coordinator: Option<Server>,
    others: [Follower; 2],
}

impl Servers {
    /// Nobody has uploaded anything.
    pub fn start(round: &Arc<Round>) -> Self {
        Self {
            coordinator: Some(Server::start(round.clone()).unwrap()),
            others: OTHERS.map(|role| {
                let setup = FollowerSetup {
                    round: round.clone(),
                    role,
                    memory: Arc::default(),
                    identity: None,
                    now: 0,
                };
                Follower::start(setup).unwrap()
            }),
        }
    }

    /// One of them is given an upload.
    pub fn take(&mut self, place: usize, rank: u32, message: &[u8]) -> Result<Receipt, Fault> {
        match place {
            0 => self.coordinator().receive(PartyId(rank), message),
            _ => self.others[place - 1].take_upload(PartyId(rank), message),
        }
    }

    /// The coordinator ends the uploads and says so; each server draws these bytes.
    pub fn tell(&mut self, expected: &Hex, draws: [&[u8]; 3]) {
        let mut tapes = draws.map(Tape::new);
        let coordinator = self.coordinator.take().expect("the round goes on");
        let Closed::Next {
            server, messages, ..
        } = coordinator.close(&mut tapes[0]).unwrap()
        else {
            panic!("there are two stages");
        };
        self.coordinator = Some(server);
        let told = messages.into_iter().map(|(seat, outgoing)| {
            let message = outgoing.assemble(|_| None).expect("nothing is passed on");
            (seat, Hex(message.to_vec()))
        });
        let told: Vec<(Seat, Hex)> = told.collect();
        assert_eq!(
            told,
            OTHERS.map(|role| (Seat::Server(role), expected.clone()))
        );
        for (follower, tape) in self.others.iter_mut().zip(&mut tapes[1..]) {
            assert_eq!(follower.answer(&expected.0, tape), Ok(None));
        }
        tapes.iter().for_each(Tape::end);
    }

    /// One of them hears another; the second and the third may have come to their word.
    pub fn receive_letter(
        &mut self,
        place: usize,
        from: usize,
        letter: &[u8],
    ) -> Result<Option<Message>, Fault> {
        let from = ServerIndex::ALL[from];
        match place {
            0 => self
                .coordinator()
                .receive_letter(from, letter)
                .map(|()| None),
            _ => self.others[place - 1].receive_letter(from, letter),
        }
    }

    /// What one of them tells of uploads.
    pub fn notices(&mut self, place: usize) -> Vec<(ServerIndex, Message)> {
        match place {
            0 => self.coordinator().notices(),
            _ => self.others[place - 1].notices(),
        }
    }

    /// What one of them has to say.
    pub fn letters(&mut self, place: usize) -> Vec<(ServerIndex, Message)> {
        match place {
            0 => self.coordinator().letters(),
            _ => self.others[place - 1].letters(),
        }
    }

    /// The coordinator is told a word.
    pub fn take_word(&mut self, place: usize, message: &[u8]) -> Result<Receipt, Fault> {
        self.coordinator().receive(OTHERS[place - 1], message)
    }

    /// The coordinator ends the last stage.
    pub fn end(&mut self) -> Result<(Outcome, Vec<(Seat, Outgoing)>), Fault> {
        let coordinator = self.coordinator.take().expect("the round goes on");
        match coordinator.close(&mut Tape::new(&[]))? {
            Closed::Done { outcome, messages } => Ok((outcome, messages)),
            Closed::Next { .. } => panic!("there are two stages"),
        }
    }

    /// What the second or the third server has learnt.
    pub fn learnt(&mut self, place: usize) -> Option<RoundSum> {
        self.others[place - 1].learnt()
    }

    fn coordinator(&mut self) -> &mut Server {
        self.coordinator.as_mut().expect("the round goes on")
    }
}

impl ThreeServers {
    /// Plays the round: everybody says what the model says.
    pub fn play(&self) {
        let mut clients = self.upload();
        let mut servers = self.servers_in(3);
        for place in 1..3 {
            let word = self.word(place);
            assert_eq!(servers.take_word(place, word), Ok(Receipt::Taken));
        }
        let (outcome, messages) = servers.end().unwrap();
        self.check_outcome(&outcome);
        let down = messages.into_iter().map(|(seat, outgoing)| {
            let message = outgoing.assemble(|_| None).expect("nothing is passed on");
            (seat.party().unwrap().0, Hex(message.to_vec()))
        });
        let down: BTreeMap<u32, Hex> = down.collect();
        assert_eq!(down, self.transcript.stages[1].down);
        for (rank, message) in down {
            let client = clients.get_mut(&rank).unwrap();
            match client.answer(&message.0, None, &mut Tape::new(&[])) {
                Ok(Answer::Done(result)) => self
                    .transcript
                    .check_sum(&result.sum, result.survivors.iter()),
                other => panic!("{rank} does not take the result: {other:?}"),
            }
        }
    }

    /// Parties upload what the model says, to those servers that get something.
    pub fn upload(&self) -> BTreeMap<u32, Client> {
        let mut clients = BTreeMap::new();
        for (rank, drawn) in (0..).zip(&self.between.parties) {
            let client = self.begin(rank, drawn);
            let again = self.between.again.get(&rank);
            let again = again.map(|drawn| self.begin(rank, drawn));
            for place in 0..3 {
                let Some(expected) = self.uploads(place).get(&rank) else {
                    continue;
                };
                let tellers = [Some(&client), again.as_ref()].into_iter().flatten();
                let mut said = tellers.map(|teller| upload_of(teller, place));
                let what = format!("upload of {rank} to server {place}");
                assert!(said.any(|it| *it == expected.0), "{what}");
            }
            clients.insert(rank, client);
        }
        clients
    }

    /// A party begins and has this drawn.
    fn begin(&self, rank: u32, drawn: &Drawn) -> Client {
        let parts = drawn
            .seeds
            .iter()
            .chain([&drawn.salt])
            .chain(&drawn.tag_keys);
        let parts: Vec<u8> = parts.flat_map(|it| it.0.clone()).collect();
        assert_eq!(parts, drawn.random.0);
        let (client, tape) = self.transcript.begin(&self.round, rank, &parts);
        tape.end();
        self.check_components(rank, drawn, &client);
        client
    }

    /// Components add up to the vector; the explicit one and the hashes are what servers are sent.
    fn check_components(&self, rank: u32, drawn: &Drawn, client: &Client) {
        let width = self.round.job().width();
        let mut sum = Words::zeros(width, self.round.job().lanes());
        for component in &drawn.components {
            sum.add_packed(&packed(&self.round, component)).unwrap();
        }
        let words = &self.transcript.parties[rank as usize].words;
        assert_eq!(&sum.iter().collect::<Vec<u64>>(), words);
        let hashes: Vec<u8> = drawn.hashes.iter().flat_map(|it| it.0.clone()).collect();
        let explicit = rank as usize % 3;
        for place in 0..3 {
            let upload = upload_of(client, place);
            assert_eq!(upload[HEADER..HEADER + 96], hashes);
            if place != (explicit + 1) % 3 {
                let packed = packed(&self.round, &drawn.components[explicit]);
                assert!(upload.ends_with(&packed), "{rank}, server {place}");
            }
        }
    }

    /// What a server is given, by rank.
    pub fn uploads(&self, place: usize) -> &BTreeMap<u32, Hex> {
        match place {
            0 => &self.transcript.stages[0].up,
            _ => &self.between.uploads[&(place as u8)],
        }
    }

    /// The word of the second or the third server.
    pub fn word(&self, place: usize) -> &[u8] {
        &self.between.word[&(place as u8)].0
    }

    /// What a server says to another one in one round of letters.
    pub fn letter(&self, number: usize, from: usize, to: usize) -> &[u8] {
        let letters = &self.between.letters[number][from];
        match to == (from + 1) % 3 {
            true => &letters.next.0,
            false => &letters.before.0,
        }
    }

    /// The servers, having heard all letters of so many rounds, all as the model says; with three of them they have
    /// come to their words.
    pub fn servers_in(&self, heard: usize) -> Servers {
        let mut servers = self.with_uploads(|servers| {
            // Where they go on to the end none of their notices is lost.
            for place in (0..3).filter(|_| heard == 3) {
                for others in [1, 2].map(|by| (place + by) % 3) {
                    for notice in self.between.notices[others].values() {
                        assert_eq!(servers.receive_letter(place, others, &notice.0), Ok(None));
                    }
                }
            }
        });
        let mut words = BTreeMap::new();
        for number in 0..heard {
            for place in 0..3 {
                self.check_letters(number, place, servers.letters(place));
            }
            for (place, from) in (0..3).flat_map(|to| [1, 2].map(|by| (to, (to + by) % 3))) {
                let letter = self.letter(number, from, place);
                if let Some(word) = servers.receive_letter(place, from, letter).unwrap() {
                    words.insert(place as u8, Hex(word.to_vec()));
                }
            }
        }
        if heard == 3 {
            assert_eq!(words, self.between.word);
        }
        servers
    }

    /// The servers with all uploads, of which they tell as the model says, once the coordinator has ended these; and before
    /// that this was done with them.
    pub fn with_uploads(&self, then: impl FnOnce(&mut Servers)) -> Servers {
        let mut servers = Servers::start(&self.round);
        for place in 0..3 {
            for (rank, message) in self.uploads(place) {
                let taken = servers.take(place, *rank, &message.0);
                assert_eq!(taken, Ok(Receipt::Taken), "{rank} at server {place}");
                let told = servers.notices(place).into_iter();
                let told: Vec<_> = told
                    .map(|(to, notice)| (to, Hex(notice.to_vec())))
                    .collect();
                let notice = &self.between.notices[place][rank];
                let others = [1, 2].map(|by| ServerIndex::ALL[(place + by) % 3]);
                assert_eq!(told, others.map(|to| (to, notice.clone())), "{rank}");
            }
        }
        then(&mut servers);
        servers.tell(&self.between.told, [&[]; 3]);
        servers
    }

    /// A server says this in a round of letters, and it is made of what the file says besides.
    fn check_letters(&self, number: usize, place: usize, said: Vec<(ServerIndex, Message)>) {
        let said: BTreeMap<usize, Vec<u8>> = said
            .into_iter()
            .map(|(to, letter)| (to.number().into(), letter.to_vec()))
            .collect();
        let others = [(place + 1) % 3, (place + 2) % 3];
        let expected = others.map(|to| (to, self.letter(number, place, to).to_vec()));
        let what = format!("letters {number} of server {place}");
        assert_eq!(said, expected.into_iter().collect(), "{what}");
        let letter = &said[&others[0]];
        let told = &letter[HEADER..letter.len() - ROUND];
        match number {
            0 => {
                let none = Hex(vec![0; 32]);
                let headers = &self.between.headers[place];
                let all = (0..self.round.parties() as u32).map(|rank| headers.get(&rank));
                let all: Vec<u8> = all
                    .flat_map(|header| header.unwrap_or(&none).0.clone())
                    .collect();
                assert!(told.ends_with(&all), "{what}");
            }
            1 => assert_eq!(told, self.between.survivors_hash.0, "{what}"),
            _ => assert_eq!(told, packed(&self.round, &self.between.components[place])),
        }
    }

    /// The sum, and as faults the parties that gave servers different uploads.
    fn check_outcome(&self, outcome: &Outcome) {
        let sum = outcome.sum.as_ref().unwrap();
        self.transcript.check_sum(sum, outcome.survivors.iter());
        let named: Vec<Culprit> = outcome.faults.iter().map(|it| it.culprit).collect();
        let held_by_all = |rank: &&u32| (0..3).all(|place| self.uploads(place).contains_key(rank));
        let twofold = self.between.again.keys().filter(held_by_all);
        let expected: Vec<Culprit> = twofold
            .map(|rank| Culprit::ServerOr(PartyId(*rank)))
            .collect();
        assert_eq!(named, expected);
    }
}

/// What a party gives a server.
pub fn upload_of(client: &Client, place: usize) -> &[u8] {
    if place == 0 {
        return client.latest();
    }
    let mut parts = client.parts().iter();
    let (_, part) = parts.find(|(role, _)| *role == OTHERS[place - 1]).unwrap();
    part
}

fn packed(round: &Round, words: &[u64]) -> Vec<u8> {
    let (width, lanes) = (round.job().width(), round.job().lanes());
    assert_eq!(words.len(), lanes);
    let number: Vec<bool> = words
        .iter()
        .flat_map(|word| (0..width.bits()).map(move |bit| word >> bit & 1 == 1))
        .collect();
    let byte = |bits: &[bool]| (0..).zip(bits).map(|(at, bit)| u8::from(*bit) << at).sum();
    number.chunks(8).map(byte).collect()
}
