//! Rounds of `mpc3` whose result parties alone or servers alone learn: every message, as far as the model has it, and
//! messages that nobody may accept.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kdf::{derive32, hash};
use blindsum_crypto::kex::{KeyPair, Suite};
use blindsum_crypto::secret::Secret;
use blindsum_math::words::{Width, Words};
use blindsum_protocol::{
    Answer, Client, Culprit, FaultKind, Outcome, PartyId, Receipt, Round, RoundSum,
};
use serde::Deserialize;

use crate::support::{Hex, Tape, load};
use crate::three_servers::{Letters, Servers, upload_of};
use crate::three_talk::Recorded;
use crate::transcript::Transcript;

/// Bytes in front of a message, and of a hash.
const HEADER: usize = 34;
const HASH: usize = 32;

/// What a file says of a round beside its transcript.
#[derive(Deserialize)]
struct Rest {
    /// To the servers 1 and 2, by rank.
    uploads: BTreeMap<usize, BTreeMap<u32, Hex>>,
    told: Hex,
    /// What the servers draw, if they do.
    secrets: Vec<Hex>,
    survivors_hash: Hex,
    letters: Vec<Vec<Letters>>,
    /// The three components, where parties learn the result.
    parts: Vec<Part>,
    /// Whether servers come to these words and this result and no other.
    is_exact: bool,
    word: BTreeMap<usize, Hex>,
}

/// A component of a result for parties alone.
#[derive(Deserialize)]
struct Part {
    key: Hex,
    salt: Hex,
    component: Vec<u64>,
    hash: Hex,
}

/// A round whose result not everybody learns.
pub struct Results {
    transcript: Transcript,
    rest: Rest,
    round: Arc<Round>,
}

/// All that a file lists.
pub fn rounds(file: &str) -> Vec<Results> {
    let rest = load::<Rest>(file, "results").into_iter();
    let transcripts = load::<Transcript>(file, "results").into_iter();
    let both = transcripts.zip(rest);
    both.map(|(transcript, rest)| Results {
        round: transcript.round(),
        transcript,
        rest,
    })
    .collect()
}

impl Results {
    /// Plays the round: everybody says what the model says, where it says something.
    pub fn play(&self) {
        self.check_parts();
        let (mut servers, words) = self.talk();
        match self.rest.is_exact {
            true => assert_eq!(words, self.rest.word),
            false => self.check_keys(&words),
        }
        for (place, word) in &words {
            assert_eq!(servers.take_word(*place, &word.0), Ok(Receipt::Taken));
        }
        let (outcome, messages) = servers.end().unwrap();
        let learnt = [1, 2].map(|place| servers.learnt(place));
        self.check_outcome(&outcome, learnt);
        let down = messages.into_iter().map(|(seat, outgoing)| {
            let message = outgoing.assemble(|_| None).expect("nothing is passed on");
            (seat.party().unwrap().0, Hex(message.to_vec()))
        });
        let down: BTreeMap<u32, Hex> = down.collect();
        let expected = &self.transcript.stages[1].down;
        match self.rest.is_exact {
            true => assert_eq!(&down, expected),
            false => self.check_salts(&down),
        }
        self.take(&down);
        self.take(expected);
    }

    /// What the servers are given and say.
    fn recorded(&self) -> Recorded<'_> {
        let draws = |place: usize| self.rest.secrets.get(place).map_or(&[][..], |it| &it.0);
        Recorded {
            round: &self.round,
            uploads: [0, 1, 2].map(|place| self.uploads(place)),
            told: &self.rest.told,
            draws: [0, 1, 2].map(draws),
            letters: &self.rest.letters,
        }
    }

    /// The servers, having said everything, and the words of two of them.
    fn talk(&self) -> (Servers, BTreeMap<usize, Hex>) {
        let recorded = self.recorded();
        let mut servers = recorded.servers_in(0);
        let words = recorded.talk(&mut servers);
        (servers, words)
    }

    /// Whether parties learn the result, and not servers.
    fn is_for_parties(&self) -> bool {
        self.round.job().hides_sum()
    }

    /// What a server is given, by rank.
    fn uploads(&self, place: usize) -> &BTreeMap<u32, Hex> {
        match place {
            0 => &self.transcript.stages[0].up,
            _ => &self.rest.uploads[&place],
        }
    }

    /// Parties upload what the model says, to those servers that get something.
    fn upload(&self) -> BTreeMap<u32, Client> {
        let mut clients = BTreeMap::new();
        for (rank, party) in (0..).zip(&self.transcript.parties) {
            let (client, tape) = self.transcript.begin(&self.round, rank, &party.random.0);
            tape.end();
            for place in 0..3 {
                if let Some(expected) = self.uploads(place).get(&rank) {
                    let what = format!("upload of {rank} to server {place}");
                    // No client says what liars say.
                    let is_same = upload_of(&client, place) == expected.0;
                    assert_ne!(is_same, self.transcript.liars.contains(&rank), "{what}");
                }
            }
            clients.insert(rank, client);
        }
        clients
    }

    /// Keys, salts and hashes of the components follow from what the page of the wire says, and these add up to the sum.
    fn check_parts(&self) {
        let (context, begun) = (self.round.context(), &self.rest.survivors_hash.0);
        let letter = &self.rest.letters[1][0].next.0;
        assert_eq!(&letter[HEADER..HEADER + HASH], begun);
        assert_eq!(
            self.rest.parts.len(),
            3 * usize::from(self.is_for_parties())
        );
        let Some(first) = self.rest.parts.first() else {
            return;
        };
        // A rule's result has two words more than there are coordinates, all of 64 bits.
        let job = self.round.job();
        let width = match first.component.len() == job.lanes() {
            true => job.width(),
            false => Width::new(64).unwrap(),
        };
        let mut sum = Words::zeros(width, first.component.len());
        for (j, part) in self.rest.parts.iter().enumerate() {
            let pair = |place: usize| {
                let secret = Secret::from(self.rest.secrets[place].array());
                KeyPair::from_secret(Suite::X25519, secret).unwrap()
            };
            let shared = pair(j).agree(pair((j + 2) % 3).public()).unwrap();
            let key = shared.derive(context, "mpc3/part", &[begun, &[j as u8]]);
            assert_eq!(key.expose(), &part.key.array());
            let salt = derive32(&key, context, "mpc3/salt", &[]);
            assert_eq!(salt.expose(), &part.salt.array());
            let packed = Words::from_values(width, &part.component).unwrap().pack();
            let parts: [&[u8]; 3] = [&context.0, salt.expose(), &packed];
            assert_eq!(hash("blindsum mpc3 part", &parts), part.hash.array());
            sum.add_packed(&packed).unwrap();
        }
        assert_eq!(sum.iter().collect::<Vec<u64>>(), self.transcript.sum);
    }

    /// What the servers 1 and 2 say has the right lengths, and the keys for the survivors are those of the model.
    fn check_keys(&self, words: &BTreeMap<usize, Hex>) {
        let lengths = |words: &BTreeMap<usize, Hex>| words.values().map(|it| it.0.len()).collect();
        let found: Vec<usize> = lengths(words);
        assert_eq!(found, lengths(&self.rest.word));
        let keys = |words: &BTreeMap<usize, Hex>| {
            let word = &words[&1].0;
            word[word.len() - HASH * self.transcript.survivors.len()..].to_vec()
        };
        assert_eq!(keys(words), keys(&self.rest.word));
    }

    /// Parties are told the survivors and the salts of the model.
    fn check_salts(&self, down: &BTreeMap<u32, Hex>) {
        let expected = &self.transcript.stages[1].down;
        let seats = |down: &BTreeMap<u32, Hex>| down.keys().copied().collect::<Vec<u32>>();
        assert_eq!(seats(down), seats(expected));
        let end = HEADER + self.round.parties().div_ceil(8) + 2 * HASH;
        for (rank, message) in down {
            assert_eq!(message.0[..end], expected[rank].0[..end]);
        }
    }

    /// Servers have the sum if it is for them, and name those whose vectors are too long.
    fn check_outcome(&self, outcome: &Outcome, learnt: [Option<RoundSum>; 2]) {
        let survivors: Vec<u32> = outcome.survivors.iter().map(|party| party.0).collect();
        assert_eq!(survivors, self.transcript.survivors);
        let named: Vec<Culprit> = outcome.faults.iter().map(|it| it.culprit).collect();
        let liars = self.transcript.liars.iter();
        let expected: Vec<Culprit> = liars.map(|rank| Culprit::Party(PartyId(*rank))).collect();
        assert_eq!(named, expected);
        let of_others = learnt.map(|it| it.map(|it| (it.sum, it.survivors)));
        let own = outcome
            .sum
            .clone()
            .map(|sum| (sum, outcome.survivors.clone()));
        for learnt in of_others.into_iter().chain([own]) {
            assert_eq!(learnt.is_none(), self.is_for_parties());
            if let Some((sum, survivors)) = learnt {
                self.transcript.check_sum(&sum, survivors.iter());
            }
        }
    }

    /// Survivors take a result; the sum, if it is for them.
    fn take(&self, down: &BTreeMap<u32, Hex>) {
        let mut clients = self.upload();
        for (rank, message) in down {
            let client = clients.get_mut(rank).unwrap();
            let result = match client.answer(&message.0, None, &mut Tape::new(&[])) {
                Ok(Answer::Done(result)) => result,
                other => panic!("{rank} does not take the result: {other:?}"),
            };
            match self.is_for_parties() {
                true => self
                    .transcript
                    .check_sum(&result.sum, result.survivors.iter()),
                false => {
                    let survivors: Vec<u32> = result.survivors.iter().map(|it| it.0).collect();
                    assert_eq!(
                        (result.sum.len(), survivors),
                        (0, self.transcript.survivors.clone())
                    );
                }
            }
        }
    }
}

/// Messages of one round, changed a little.
#[derive(Deserialize)]
struct Refused {
    round: usize,
    letters: Vec<Letter>,
    words: Vec<Word>,
    results: Vec<Told>,
}

/// What makes the right message a wrong one: so many bytes go, and others come in their place.
#[derive(Deserialize)]
struct Change {
    why: String,
    at: usize,
    cut: usize,
    put: Hex,
}

impl Change {
    fn of(&self, right: &[u8]) -> Vec<u8> {
        let mut wrong = right.to_vec();
        wrong.splice(self.at..self.at + self.cut, self.put.0.iter().copied());
        assert_ne!(wrong, right, "{}", self.why);
        wrong
    }
}

/// What a server refuses from another one, in the place of a letter of this round of letters.
#[derive(Deserialize)]
struct Letter {
    server: usize,
    sender: usize,
    letter: usize,
    #[serde(flatten)]
    change: Change,
}

/// What the coordinator refuses from another server.
#[derive(Deserialize)]
struct Word {
    server: usize,
    #[serde(flatten)]
    change: Change,
}

/// What a party refuses of the coordinator.
#[derive(Deserialize)]
struct Told {
    party: u32,
    #[serde(flatten)]
    change: Change,
}

/// Checks all of them in a file; gives how many they are.
pub fn check_refused(file: &str) -> usize {
    let all = rounds(file);
    let check = |refused: &Refused| {
        let results = &all[refused.round];
        let recorded = results.recorded();
        for Letter {
            server,
            sender,
            letter,
            change,
        } in &refused.letters
        {
            let wrong = change.of(recorded.letter(*letter, *sender, *server));
            recorded.refuse_letter(*letter, (*sender, *server), &change.why, &wrong);
        }
        refused.words.iter().for_each(|it| word(results, it));
        refused.results.iter().for_each(|it| result(results, it));
        refused.letters.len() + refused.words.len() + refused.results.len()
    };
    load::<Refused>(file, "refused_results")
        .iter()
        .map(check)
        .sum()
}

/// What is no message of this round and stage is refused at once; otherwise the round ends without a result.
fn word(results: &Results, Word { server, change }: &Word) {
    let (mut servers, words) = results.talk();
    let wrong = change.of(&words[server].0);
    if servers.take_word(*server, &wrong).is_err() {
        let right = servers.take_word(*server, &words[server].0);
        assert_eq!(right, Ok(Receipt::Taken), "{}", change.why);
        return;
    }
    let other = 3 - server;
    servers.take_word(other, &words[&other].0).unwrap();
    let ended = servers.end();
    assert!(ended.is_err(), "word of server {server}: {}", change.why);
}

/// It ends the party's round.
fn result(results: &Results, Told { party, change }: &Told) {
    let mut clients = results.upload();
    let client = clients.get_mut(party).unwrap();
    let right = &results.transcript.stages[1].down[party].0;
    let refused = client.answer(&change.of(right), None, &mut Tape::new(&[]));
    assert!(refused.is_err(), "result: {}", change.why);
    let ended = client.answer(right, None, &mut Tape::new(&[])).unwrap_err();
    assert_eq!(ended.kind, FaultKind::Ended, "{}", change.why);
}
