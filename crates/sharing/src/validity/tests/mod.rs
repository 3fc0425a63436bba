//! What the tests of a proof accept and what they refuse, and that they show nothing else.

mod lies;
mod privacy;
mod projections;
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
    Statement {
        words: WORDS,
        largest: (1 << BITS) - 1,
        norm: Some(bound(MOST)),
        range: RangeProof::Bits,
    }
}

/// The same without bits of words. No word out of range has a square below the bound.
fn by_projections() -> Statement {
    Statement {
        norm: Some(bound(16_000)),
        range: RangeProof::Projections,
        ..statement()
    }
}

/// What the coefficients of projections follow from.
const SEED: [u8; 32] = [6; 32];

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
        // Liars go on with what is nearest to it.
        let _ = witness.project(SEED);
        Self::with(sharing, witness)
    }

    fn with(sharing: ValiditySharing, witness: Witness) -> Self {
        let columns = deal(&sharing, &seeds(1), &witness);
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
                    .answer(&challenge, j, &self.columns[j], SEED)
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

/// The columns of all verifiers.
fn deal(sharing: &ValiditySharing, seeds: &ProofSeeds, witness: &Witness) -> Vec<Vec<u8>> {
    let mut columns = vec![vec![0; sharing.column_len()]; sharing.parameters().parties()];
    let mut places: Vec<_> = columns
        .iter_mut()
        .map(|column| Some(&mut column[..]))
        .collect();
    sharing.deal_words(seeds, witness, &mut places).unwrap();
    sharing.deal_proof(seeds, witness, &mut places).unwrap();
    columns
}

fn seeds(seed: u64) -> ProofSeeds {
    let mut draws = rng(seed);
    ProofSeeds {
        words: Secret::generate(&mut draws),
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
