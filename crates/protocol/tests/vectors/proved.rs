//! Whole rounds of `pss-malicious` in a file, with parties that lie; messages that nobody may accept; proofs and verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blindsum_crypto::secret::Secret;
use blindsum_math::field::Field;
use blindsum_math::prime_field::Field47;
use blindsum_protocol::{
    Answer, Client, Closed, Culprit, Fault, FaultKind, Input, JobSpec, PartyId, Receipt, Round,
    Server,
};
use blindsum_sharing::validity::{
    Layout, NormBound, ProofSeeds, RangeProof, Statement, ValidityParameters, ValiditySharing,
    Verdict, Witness,
};
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use serde::Deserialize;

use crate::support::{Hex, Tape, load};
use crate::transcript::{Given, Transcript};

/// What a file says of a round beside its transcript.
#[derive(Deserialize)]
struct Beside {
    /// What the coordinator draws when keys are there.
    nonce: Hex,
    /// By party, the stage from which on it says something else than an honest one.
    lies: BTreeMap<u32, usize>,
    /// What the coordinator finds out.
    faults: BTreeMap<u32, String>,
}

/// A round with proofs.
pub struct ProvedRound {
    transcript: Transcript,
    beside: Beside,
    round: Arc<Round>,
}

/// All that a file lists.
pub fn rounds(file: &str) -> Vec<ProvedRound> {
    let transcripts = load::<Transcript>(file, "rounds").into_iter();
    let with_rest = transcripts.zip(load::<Beside>(file, "rounds"));
    let round = |(transcript, beside): (Transcript, Beside)| ProvedRound {
        round: transcript.round(),
        transcript,
        beside,
    };
    with_rest.map(round).collect()
}

impl ProvedRound {
    /// Plays the round: everybody says what the model says.
    pub fn play(&self) {
        let stages = &self.transcript.stages;
        let mut server = Some(Server::start(self.round.clone()).unwrap());
        let mut at = 0;
        while let Some(mut collecting) = server.take() {
            self.take(at, &mut collecting, |_| true);
            let messages = match self.close(at, collecting) {
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
                    self.check_faults(outcome.faults);
                    messages
                }
            };
            // Where nobody is accused the verdict comes at once.
            let told = at + usize::from(self.skips(at));
            let answer_of = |from: PartyId| stages[at].up.get(&from.0).map(|answer| &*answer.0);
            let down = messages.into_iter().map(|(seat, outgoing)| {
                let message = outgoing.assemble(answer_of).expect("pieces of answers");
                (seat.party().unwrap().0, Hex(message.to_vec()))
            });
            let down: BTreeMap<u32, Hex> = down.collect();
            assert_eq!(down, stages[told].down, "end of stage {at}");
            at = told + 1;
        }
        assert_eq!(at, stages.len(), "the round is over");
        for rank in stages[0].up.keys() {
            if let (_, Some(tape)) = self.client(*rank, at) {
                tape.end();
            }
        }
    }

    /// Who has lied is found out, and how.
    fn check_faults(&self, faults: Vec<Fault>) {
        let lie = |Fault { culprit, kind, .. }: Fault| match (culprit, kind.lie()) {
            (Culprit::Party(party), Some(lie)) => (party.0, lie.to_string()),
            _ => panic!("{kind}"),
        };
        let found: BTreeMap<u32, String> = faults.into_iter().map(lie).collect();
        assert_eq!(found, self.beside.faults);
    }

    /// Whether the stage behind this one is left out.
    fn skips(&self, stage: usize) -> bool {
        let stages = &self.transcript.stages;
        stages[stage].name == "respond" && stages[stage].down.is_empty()
    }

    /// Its nonce is all that one sees of what a coordinator draws.
    fn close(&self, stage: usize, server: Server) -> Closed {
        let mut tape = Tape::new(&self.beside.nonce.0);
        let mut other = ChaCha20Rng::seed_from_u64(1);
        let rng: &mut dyn CryptoRng = match stage {
            0 => &mut tape,
            _ => &mut other,
        };
        let closed = server.close(rng).unwrap();
        if stage == 0 {
            tape.end();
        }
        closed
    }

    /// A server takes what those say in a stage who are to.
    fn take(&self, stage: usize, server: &mut Server, who: impl Fn(u32) -> bool) {
        for (rank, message) in &self.transcript.stages[stage].up {
            if who(*rank) {
                let taken = server.receive(PartyId(*rank), &message.0);
                assert_eq!(taken, Ok(Receipt::Taken), "{rank} in stage {stage}");
            }
        }
    }

    /// The coordinator when a stage begins.
    fn server(&self, stage: usize) -> Server {
        let mut server = Server::start(self.round.clone()).unwrap();
        let mut before = 0;
        while before < stage {
            self.take(before, &mut server, |_| true);
            server = match self.close(before, server) {
                Closed::Next { server, .. } => server,
                Closed::Done { .. } => panic!("the round ends before stage {stage}"),
            };
            before += 1 + usize::from(self.skips(before));
        }
        server
    }

    /// A party that has answered all before a stage, as the model says; without its randomness where it has begun to lie.
    fn client(&self, rank: u32, stage: usize) -> (Client, Option<Tape>) {
        let party = &self.transcript.parties[rank as usize];
        let stages = &self.transcript.stages;
        let (mut client, mut tape) = self.transcript.begin(&self.round, rank, &party.random.0);
        assert_eq!(client.latest(), &stages[0].up[&rank].0);
        let lies = self.beside.lies.get(&rank).copied();
        for (at, of_stage) in stages[..stage].iter().enumerate() {
            let Some(message) = of_stage.down.get(&rank) else {
                continue;
            };
            let expected = stages.get(at + 1).and_then(|next| next.up.get(&rank));
            // A party that is lost hears nothing more.
            if expected.is_none() && at + 1 < stages.len() {
                break;
            }
            let answer = self.answer(&mut client, rank, &message.0, &mut tape);
            // An honest party says something else than a liar, or refuses such words.
            if answer.is_err() && lies == Some(at + 1) {
                return (client, None);
            }
            match (answer.unwrap(), expected) {
                (Answer::Send(said), Some(expected)) if lies == Some(at + 1) => {
                    assert_ne!(said, expected.0, "{rank} tells the truth after stage {at}");
                    return (client, None);
                }
                (Answer::Send(said), Some(expected)) => {
                    assert_eq!(said, expected.0, "{rank} after stage {at}");
                }
                (Answer::Done(result), None) => {
                    let survivors = result.survivors.iter();
                    self.transcript.check_sum(&result.sum, survivors);
                    assert_eq!(at + 1, stages.len());
                }
                (other, _) => panic!("{rank} after stage {at}: {other:?}"),
            }
        }
        (client, Some(tape))
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
        let input = input.then_some(&words as &dyn Input);
        client.answer(message, input, tape)
    }
}

/// A message that somebody refuses at some stage: the right one, of which `cut` bytes from `at` on are others.
#[derive(Deserialize)]
struct Refused {
    round: usize,
    stage: usize,
    to: String,
    party: u32,
    why: String,
    at: usize,
    cut: usize,
    put: Hex,
    /// It comes behind the right one.
    after: bool,
}

impl Refused {
    fn message(&self, right: &[u8]) -> Vec<u8> {
        let mut message = right.to_vec();
        message.splice(self.at..self.at + self.cut, self.put.0.iter().copied());
        message
    }
}

/// Checks all of them in a file; gives how many they are, and what was not refused.
pub fn check_refused(file: &str) -> (usize, Vec<String>) {
    let all = rounds(file);
    let refused = load::<Refused>(file, "refused");
    let taken = refused.iter().filter(|wrong| {
        let round = &all[wrong.round];
        !match wrong.to.as_str() {
            "coordinator" => round.coordinator_refuses(wrong),
            _ => round.party_refuses(wrong),
        }
    });
    let shown = |wrong: &Refused| {
        let Refused {
            round,
            stage,
            to,
            why,
            ..
        } = wrong;
        format!("round {round}, stage {stage}, to {to}: {why}")
    };
    (refused.len(), taken.map(shown).collect())
}

impl ProvedRound {
    /// It costs nobody anything: the right message is taken still.
    fn coordinator_refuses(&self, wrong: &Refused) -> bool {
        let Refused {
            stage, party, why, ..
        } = wrong;
        let mut server = self.server(*stage);
        self.take(*stage, &mut server, |other| other < *party);
        let right = &self.transcript.stages[*stage].up[party].0;
        if server
            .receive(PartyId(*party), &wrong.message(right))
            .is_ok()
        {
            return false;
        }
        let right = server.receive(PartyId(*party), right);
        assert_eq!(right, Ok(Receipt::Taken), "after: {why}");
        true
    }

    /// It ends the party's round: nothing more is said.
    fn party_refuses(&self, wrong: &Refused) -> bool {
        let (rank, why) = (wrong.party, &wrong.why);
        let stage = wrong.stage + usize::from(wrong.after);
        let (mut client, tape) = self.client(rank, stage);
        let mut tape = tape.expect("an honest party");
        let right = &self.transcript.stages[wrong.stage].down[&rank].0;
        let refused = self.answer(&mut client, rank, &wrong.message(right), &mut tape);
        if refused.is_ok() {
            return false;
        }
        let ended = self.answer(&mut client, rank, right, &mut tape);
        assert_eq!(ended.unwrap_err().kind, FaultKind::Ended, "after: {why}");
        true
    }
}

/// Checks the largest norms that a file lists.
pub fn check_largest_norms(file: &str) {
    #[derive(Deserialize)]
    struct Vector {
        spec: JobSpec,
        most: String,
    }
    for Vector { spec, most } in load(file, "largest_norms") {
        let shown = format!("{spec:?}");
        let job = spec.validate().unwrap();
        let found = job.encoding().squared_norm().unwrap().most;
        assert_eq!(found.to_string(), most, "{shown}");
    }
}

/// Checks the largest projections that a file lists, for the bound of a norm and a count of numbers.
pub fn check_largest_projections(file: &str) {
    #[derive(Deserialize)]
    struct Vector {
        most: String,
        numbers: usize,
        largest: String,
        fits: bool,
    }
    for of in load::<Vector>(file, "largest_projections") {
        let norm = NormBound {
            offset: 1 << 31,
            slope: 1,
            most: of.most.parse().unwrap(),
        };
        let statement = Statement {
            words: of.numbers,
            largest: (1 << 32) - 1,
            norm: Some(norm),
            range: RangeProof::Projections,
        };
        let largest = Layout::new(statement, 1, Field47::MODULUS)
            .ok()
            .and_then(|layout| layout.largest_projection());
        let shown = format!("{} and {}", of.most, of.numbers);
        let expected = of.fits.then(|| of.largest.parse().unwrap());
        assert_eq!(largest, expected, "{shown}");
    }
}

/// A statement and how it is shared.
#[derive(Deserialize)]
struct Shared {
    bound: String,
    bits: u32,
    rounding: String,
    most: Option<String>,
    n: usize,
    k: usize,
    l: usize,
}

impl Shared {
    fn sharing(&self, corrupt: usize, words: usize) -> ValiditySharing {
        let parameters = ValidityParameters::announced(self.n, corrupt, self.k, self.l).unwrap();
        let (largest, slope) = match self.rounding.as_str() {
            "nearest" => ((1 << self.bits) - 2, 0),
            _ => ((1 << self.bits) - 1, 1),
        };
        let norm = self.most.as_ref().map(|most| NormBound {
            offset: (largest + slope) / 2,
            slope,
            most: most.parse().unwrap(),
        });
        let statement = Statement {
            words,
            largest,
            norm,
            range: match self.bound.as_str() {
                "entries" => RangeProof::Bits,
                _ => RangeProof::Projections,
            },
        };
        ValiditySharing::new(parameters, statement).unwrap()
    }
}

/// Checks the rows, columns and answers that a file lists.
pub fn check_proofs(file: &str) {
    #[derive(Deserialize)]
    struct Proof {
        largest: Option<String>,
        projections_seed: Hex,
        words: Vec<u64>,
        content: Vec<Vec<u64>>,
        words_seed: Hex,
        rows_seed: Hex,
        masks_seed: Hex,
        columns: Vec<Hex>,
        challenge: Hex,
        answers: Vec<Hex>,
    }
    let proofs = load::<Proof>(file, "proofs").into_iter();
    for (proof, shared) in proofs.zip(load::<Shared>(file, "proofs")) {
        let sharing = shared.sharing(shared.k - shared.l, proof.words.len());
        let mut witness = Witness::new(*sharing.layout(), &proof.words).unwrap();
        let largest = proof.largest.map(|largest| largest.parse().unwrap());
        let seed = match largest {
            Some(_) => proof.projections_seed.array(),
            None => [0; 32],
        };
        witness.project(seed).unwrap();
        assert_eq!(sharing.layout().largest_projection(), largest);
        assert_eq!(sharing.layout().rows(), proof.content.len());
        for (row, expected) in proof.content.iter().enumerate() {
            let numbers = (0..shared.l).map(|slot| *witness.at(row, slot));
            assert_eq!(numbers.collect::<Vec<_>>(), *expected, "row {row}");
        }
        let seeds = ProofSeeds {
            words: Secret::from(proof.words_seed.array()),
            rows: Secret::from(proof.rows_seed.array()),
            masks: Secret::from(proof.masks_seed.array()),
        };
        let mut columns = vec![vec![0; sharing.column_len()]; shared.n];
        let mut places: Vec<Option<&mut [u8]>> = columns
            .iter_mut()
            .map(|column| Some(column.as_mut_slice()))
            .collect();
        sharing.deal_words(&seeds, &witness, &mut places).unwrap();
        sharing.deal_proof(&seeds, &witness, &mut places).unwrap();
        let challenge = sharing.challenge(proof.challenge.array());
        for (rank, column) in columns.into_iter().enumerate() {
            let answer = sharing.answer(&challenge, rank, &column, seed).unwrap();
            assert_eq!(Hex(column), proof.columns[rank], "column of {rank}");
            let written = Hex(sharing.write_answer(&answer));
            assert_eq!(written, proof.answers[rank], "answer of {rank}");
        }
    }
}

/// Checks the verdicts that a file lists.
pub fn check_verdicts(file: &str) {
    #[derive(Deserialize)]
    struct Judging {
        words: usize,
        corrupt: usize,
        answers: BTreeMap<usize, Hex>,
        unusable: BTreeSet<usize>,
        fault: String,
        accusers: BTreeSet<usize>,
    }
    let judgings = load::<Judging>(file, "judgings").into_iter();
    for (at, (of, shared)) in judgings.zip(load::<Shared>(file, "judgings")).enumerate() {
        let sharing = shared.sharing(of.corrupt, of.words);
        let mut verifiers: Vec<usize> = of.answers.keys().chain(&of.unusable).copied().collect();
        verifiers.sort_unstable();
        let answers: Vec<_> = verifiers
            .iter()
            .map(|rank| {
                let answer = of.answers.get(rank)?;
                Some(sharing.read_answer(&answer.0).unwrap())
            })
            .collect();
        let about = vec![answers.iter().map(Option::as_ref).collect()];
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        match sharing.judge(&verifiers, &about, &mut rng).pop().unwrap() {
            Verdict::Fails(test) => assert_eq!(test.name(), of.fault, "verdict {at}"),
            Verdict::Fits(mut wrong) => {
                wrong.extend(&of.unusable);
                let convicted = wrong.len() > of.corrupt;
                assert_eq!(convicted, of.fault == "wrong-share", "verdict {at}");
                assert!(convicted || of.fault.is_empty(), "verdict {at}");
                assert!(convicted || wrong == of.accusers, "verdict {at}");
            }
        }
    }
}
