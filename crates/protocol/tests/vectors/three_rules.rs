//! Rounds of `mpc3` whose servers compute: uploads, letters as far as the model has them, keys, noise and results.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kdf::{Context, hash};
use blindsum_crypto::kex::{KeyPair, SharedSecret, Suite};
use blindsum_crypto::secret::Secret;
use blindsum_math::words::Words;
use blindsum_mpc::{Agreed, Gaussian, NoiseKeys};
use blindsum_protocol::{
    Adversary, Answer, Client, EncodingChoice, ProtocolChoice, Receipt, Round, ServerIndex,
};
use serde::Deserialize;

use crate::support::{Hex, Tape, load};
use crate::three_servers::{Letters, Servers, upload_of};
use crate::three_talk::Recorded;
use crate::transcript::Transcript;

/// Bytes in front of a message.
const HEADER: usize = 34;

/// What a file says of a round beside its transcript.
#[derive(Deserialize)]
struct Rest {
    parties: Vec<Shared>,
    /// To the servers 1 and 2, by rank.
    uploads: BTreeMap<usize, BTreeMap<u32, Hex>>,
    longest: u64,
    /// How far a party moves what is shown; 0 where the job has no table `privacy`.
    moved: u64,
    told: Hex,
    letters: Vec<Vec<Letters>>,
    keys: Keys,
    noise: Vec<Noise>,
    /// Whether servers come to this result and no other.
    is_exact: bool,
    word: BTreeMap<usize, Hex>,
    mean_bits: Vec<u64>,
}

/// What a party shares.
#[derive(Deserialize)]
struct Shared {
    vector: Vec<u64>,
    norm: Hex,
    hashes: Vec<Hex>,
}

/// Keys of the servers, and those that two of them have in common.
#[derive(Deserialize)]
struct Keys {
    secrets: Vec<Hex>,
    public: Vec<Hex>,
    survivors_hash: Hex,
    pair_context: Hex,
    noise_context: Hex,
    pair_keys: Vec<Hex>,
    noise_keys: Vec<Hex>,
}

/// Numbers of one component of the noise.
#[derive(Deserialize)]
struct Noise {
    first: Vec<i64>,
    second: Vec<i64>,
}

/// A round whose servers compute.
pub struct Rules {
    transcript: Transcript,
    rest: Rest,
    round: Arc<Round>,
}

/// All that a file lists.
pub fn rounds(file: &str) -> Vec<Rules> {
    let rest = load::<Rest>(file, "rules").into_iter();
    load::<Transcript>(file, "rules")
        .into_iter()
        .zip(rest)
        .map(|(transcript, rest)| Rules {
            round: transcript.round(),
            transcript,
            rest,
        })
        .collect()
}

impl Rules {
    /// Plays the round: everybody says what the model says, where it says something.
    pub fn play(&self) {
        let clients = self.upload();
        self.check_keys();
        self.check_noise();
        let recorded = self.recorded();
        let mut servers = recorded.servers_in(0);
        let words = recorded.talk(&mut servers);
        if self.rest.is_exact {
            assert_eq!(words, self.rest.word);
        }
        for (place, word) in &words {
            assert_eq!(servers.take_word(*place, &word.0), Ok(Receipt::Taken));
        }
        let (outcome, messages) = servers.end().unwrap();
        assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
        let survivors: Vec<u32> = outcome.survivors.iter().map(|party| party.0).collect();
        assert_eq!(survivors, self.transcript.survivors);
        let down = messages.into_iter().map(|(seat, outgoing)| {
            let message = outgoing.assemble(|_| None).expect("nothing is passed on");
            (seat.party().unwrap().0, Hex(message.to_vec()))
        });
        let down: BTreeMap<u32, Hex> = down.collect();
        let expected = &self.transcript.stages[1].down;
        match self.rest.is_exact {
            true => assert_eq!(&down, expected),
            false => self.check_near(outcome.sum.as_ref().unwrap()),
        }
        self.take(clients);
    }

    /// Parties upload what the model says, to those servers that get something.
    fn upload(&self) -> BTreeMap<u32, Client> {
        let mut clients = BTreeMap::new();
        for (rank, party) in (0..).zip(&self.transcript.parties) {
            let (client, tape) = self.transcript.begin(&self.round, rank, &party.random.0);
            tape.end();
            for place in 0..3 {
                let upload = upload_of(&client, place);
                let what = format!("upload of {rank} to server {place}");
                match self.uploads(place).get(&rank) {
                    Some(expected) => assert_eq!(upload, expected.0, "{what}"),
                    None => assert!(!self.transcript.survivors.contains(&rank), "{what}"),
                }
                self.check_upload(rank, place, upload);
            }
            clients.insert(rank, client);
        }
        clients
    }

    /// Hashes and norm are those of the model, and the vector has as many words as there are coordinates.
    fn check_upload(&self, rank: u32, place: usize, upload: &[u8]) {
        let shared = &self.rest.parties[rank as usize];
        let head: Vec<u8> = shared
            .hashes
            .iter()
            .chain([&shared.norm])
            .flat_map(|it| it.0.clone())
            .collect();
        assert!(
            upload[HEADER..].starts_with(&head),
            "{rank}, server {place}"
        );
        let is_root = self.transcript.parties[rank as usize].name == self.root();
        assert_eq!(shared.norm.0.len(), if is_root { 8 } else { 0 });
        assert_eq!(shared.vector.len(), self.round.job().spec().dim as usize);
        if let Ok(norm) = shared.norm.0.as_slice().try_into() {
            let norm = f64::from_be_bytes(norm);
            assert!(norm > 0.0 && norm <= self.rest.longest as f64, "{norm}");
        }
    }

    /// The name of the root, where there is one.
    fn root(&self) -> &str {
        self.round.job().spec().root().unwrap_or_default()
    }

    /// What a server is given, by rank.
    fn uploads(&self, place: usize) -> &BTreeMap<u32, Hex> {
        match place {
            0 => &self.transcript.stages[0].up,
            _ => &self.rest.uploads[&place],
        }
    }

    /// What the servers are given and say.
    fn recorded(&self) -> Recorded<'_> {
        Recorded {
            round: &self.round,
            uploads: [0, 1, 2].map(|place| self.uploads(place)),
            told: &self.rest.told,
            draws: [0, 1, 2].map(|place| &*self.rest.keys.secrets[place].0),
            letters: &self.rest.letters,
        }
    }

    /// What two servers share, from the secret of the first of them.
    fn secret_of(&self, place: usize, with: usize) -> SharedSecret {
        let pair = |place: usize| {
            let secret = Secret::from(self.rest.keys.secrets[place].array());
            KeyPair::from_secret(Suite::X25519, secret).unwrap()
        };
        assert_eq!(
            pair(place).public().as_bytes(),
            self.rest.keys.public[place].0
        );
        pair(place).agree(pair(with).public()).unwrap()
    }

    /// Contexts and keys follow from what the page of the wire says.
    fn check_keys(&self) {
        let keys = &self.rest.keys;
        let context = |bits: u32| {
            let parts: [&[u8]; 3] = [
                &self.round.context().0,
                &keys.survivors_hash.0,
                &bits.to_be_bytes(),
            ];
            Context(hash("mpc3/context", &parts))
        };
        let is_active = self.round.job().spec().adversary == Adversary::Active;
        let of_pairs = context(if is_active { 128 } else { 64 });
        assert_eq!(of_pairs.0, keys.pair_context.array());
        assert_eq!(context(0).0, keys.noise_context.array());
        for j in 0..3 {
            let shared = self.secret_of(j, (j + 2) % 3);
            let key = |context, label| *shared.derive(context, label, &[&[j as u8]]).expose();
            assert_eq!(key(&of_pairs, "mpc3/K"), keys.pair_keys[j].array());
            assert_eq!(key(&context(0), "mpc3/noise"), keys.noise_keys[j].array());
        }
    }

    /// Noise of the first block and of the second one.
    fn check_noise(&self) {
        let ProtocolChoice::Mpc3(options) = &self.round.job().spec().protocol else {
            panic!("the file has rounds of mpc3");
        };
        let accounted = self.round.job().privacy();
        let accounted = accounted.and_then(|privacy| privacy.of_servers());
        let moved = accounted.map_or(0, |noise| noise.spec().sensitivity);
        assert_eq!(moved, self.rest.moved);
        let is_silent = options.noise == 0.0 && accounted.is_none();
        assert_eq!(self.rest.noise.is_empty(), is_silent);
        for (place, noise) in self.rest.noise.iter().enumerate() {
            let agreed = Agreed {
                round: self.round.context().0,
                begun: self.rest.keys.survivors_hash.array(),
            };
            let [previous, next] = [2, 1].map(|by| self.secret_of(place, (place + by) % 3));
            let keys = NoiseKeys::derive(ServerIndex::ALL[place], &previous, &next, &agreed);
            let deviation = options.noise * self.rest.longest as f64;
            let gaussian = match accounted {
                Some(noise) => Gaussian::accounted(noise),
                None => Gaussian::of_deviation(deviation).unwrap(),
            };
            let drawn = keys.draw::<u64>(Some(&gaussian), 0, 1024 + noise.second.len());
            let own: Vec<i64> = drawn.components()[0]
                .iter()
                .map(|it| it.cast_signed())
                .collect();
            assert_eq!(own[..noise.first.len()], noise.first);
            assert_eq!(own[1024..], noise.second);
        }
    }

    /// What servers came to is the mean that the model says, as far as they round.
    fn check_near(&self, sum: &Words) {
        let mut mean = vec![0.0f64; self.rest.mean_bits.len()];
        let survivors = self.transcript.survivors.len();
        self.round.decode_mean(sum, survivors, &mut mean).unwrap();
        let EncodingChoice::Quantised(encoding) = &self.round.job().spec().encoding else {
            panic!("rules take levels only");
        };
        let level = encoding.clip / f64::from((1u32 << encoding.bits) - 1);
        // Hidden bits are as much as one and a half of what is 1 in the result.
        let total = sum.get(mean.len()) as f64 / f64::from(1 << 28);
        let most = level * (0.1 + 1.5 / total);
        for (mean, bits) in mean.iter().zip(&self.rest.mean_bits) {
            let expected = f64::from_bits(*bits);
            assert!((mean - expected).abs() < most, "{mean}, not {expected}");
        }
    }

    /// Parties take the result that the model tells, and make the same mean of it.
    fn take(&self, mut clients: BTreeMap<u32, Client>) {
        for (rank, message) in &self.transcript.stages[1].down {
            let client = clients.get_mut(rank).unwrap();
            let result = match client.answer(&message.0, None, &mut Tape::new(&[])) {
                Ok(Answer::Done(result)) => result,
                other => panic!("{rank} does not take the result: {other:?}"),
            };
            self.transcript
                .check_sum(&result.sum, result.survivors.iter());
            let mut mean = vec![0.0f64; self.rest.mean_bits.len()];
            let survivors = result.survivors.len();
            self.round
                .decode_mean(&result.sum, survivors, &mut mean)
                .unwrap();
            let bits: Vec<u64> = mean.into_iter().map(f64::to_bits).collect();
            assert_eq!(bits, self.rest.mean_bits);
        }
    }
}

/// Messages of one round, changed a little.
#[derive(Deserialize)]
struct Refused {
    round: usize,
    uploads: Vec<Upload>,
    letters: Vec<Letter>,
    results: Vec<Told>,
}

/// What a server refuses from a party.
#[derive(Deserialize)]
struct Upload {
    server: usize,
    party: u32,
    why: String,
    message: Hex,
}

/// What a server refuses from another one, in the place of a letter of this round of letters.
#[derive(Deserialize)]
struct Letter {
    server: usize,
    sender: usize,
    letter: usize,
    why: String,
    message: Hex,
}

/// What a party refuses of the coordinator.
#[derive(Deserialize)]
struct Told {
    party: u32,
    why: String,
    message: Hex,
}

/// Checks all of them in a file; gives how many they are.
pub fn check_refused(file: &str) -> usize {
    let all = rounds(file);
    let check = |refused: &Refused| {
        let rules = &all[refused.round];
        for it in &refused.uploads {
            let mut servers = Servers::start(&rules.round);
            let taken = servers.take(it.server, it.party, &it.message.0);
            assert!(taken.is_err(), "upload to server {}: {}", it.server, it.why);
            let right = &rules.uploads(it.server)[&it.party].0;
            assert_eq!(servers.take(it.server, it.party, right), Ok(Receipt::Taken));
        }
        for it in &refused.letters {
            let between = (it.sender, it.server);
            let recorded = rules.recorded();
            recorded.refuse_letter(it.letter, between, &it.why, &it.message.0);
        }
        for it in &refused.results {
            let mut clients = rules.upload();
            let client = clients.get_mut(&it.party).unwrap();
            let taken = client.answer(&it.message.0, None, &mut Tape::new(&[]));
            assert!(taken.is_err(), "result: {}", it.why);
        }
        refused.uploads.len() + refused.letters.len() + refused.results.len()
    };
    load::<Refused>(file, "refused_rules")
        .iter()
        .map(check)
        .sum()
}
