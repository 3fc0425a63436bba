//! What the tests of a proof accept and what they refuse, and that they show nothing else.

mod lies;
mod privacy;
mod statements;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;
use blindsum_crypto::secret::Secret;

/// 24 parties, of which 3 may lie and 2 may be lost: rows of 7 words and 10 coefficients at most, here of 4 and 7.
const REQUEST: ValidityRequest = ValidityRequest {
    parties: 24,
    corrupt: 3,
    dropouts: 2,
    words: WORDS,
    packing: 4,
    active: false,
};
const WORDS: usize = 10;
const BITS: u32 = 8;
/// Words are from -128 to 127, and stand for numbers half a unit higher.
const OFFSET: u64 = 128;
const MOST: u64 = 30_000;

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn bound(most: u64) -> NormBound {
    let (offset, slope) = (OFFSET, 1);
    NormBound {
        offset,
        slope,
        most,
    }
}

fn statement() -> Statement {
    let (words, bits, norm) = (WORDS, BITS, Some(bound(MOST)));
    Statement { words, bits, norm }
}

/// A proof among [`REQUEST`]'s parties, and what is done to it.
struct Play {
    sharing: ValiditySharing,
    witness: Witness,
    /// What was dealt, and changed since.
    columns: Vec<Vec<u8>>,
}

impl Play {
    fn new(statement: Statement, words: &[u64], change: impl FnOnce(&mut Witness)) -> Self {
        let parameters = ValidityParameters::choose(&REQUEST).unwrap();
        let sharing = ValiditySharing::new(parameters, statement).unwrap();
        let mut witness = Witness::new(*sharing.layout(), words).unwrap();
        change(&mut witness);
        let mut columns = vec![vec![0; sharing.column_len()]; REQUEST.parties];
        let mut places: Vec<_> = columns
            .iter_mut()
            .map(|column| Some(&mut column[..]))
            .collect();
        sharing.deal(&seeds(1), &witness, &mut places).unwrap();
        Self {
            sharing,
            witness,
            columns,
        }
    }

    /// The verdict where these verifiers answer, these of them wrongly.
    fn verdict(&self, verifiers: &[usize], liars: &[usize]) -> Verdict {
        let challenge = self.sharing.challenge([7; 32]);
        let answers: Vec<Answer> = verifiers
            .iter()
            .map(|&j| {
                let mut answer = self
                    .sharing
                    .answer(&challenge, j, &self.columns[j])
                    .unwrap();
                if liars.contains(&j) {
                    let mut draws = rng(j as u64);
                    answer.0.iter_mut().for_each(|element| {
                        *element = blindsum_math::field::Field::random(&mut draws)
                    });
                }
                answer
            })
            .collect();
        let about = vec![answers.iter().map(Some).collect()];
        self.sharing.judge(verifiers, &about, &mut rng(5)).remove(0)
    }

    fn verdict_of_all(&self) -> Verdict {
        self.verdict(&(0..REQUEST.parties).collect::<Vec<_>>(), &[])
    }
}

fn seeds(seed: u64) -> ProofSeeds {
    let mut draws = rng(seed);
    ProofSeeds {
        rows: Secret::generate(&mut draws),
        masks: Secret::generate(&mut draws),
    }
}

/// Words around zero, with a small norm.
fn words(seed: u64) -> Vec<u64> {
    let mut draws = rng(seed);
    (0..WORDS)
        .map(|_| OFFSET - 30 + draws.next_u64() % 60)
        .collect()
}

fn fits(wrong: &[usize]) -> Verdict {
    Verdict::Fits(wrong.iter().copied().collect())
}
