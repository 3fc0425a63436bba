//! A prover, a verifier and the judge of `pss-malicious`, without sealing, signatures and messages.

use std::hint::black_box;

use blindsum_crypto::kdf;
use blindsum_crypto::secret::Secret;
use blindsum_sharing::validity::{
    Answer, ProofSeeds, RangeProof, Statement, ValidityParameters, ValidityRequest,
    ValiditySharing, Verdict, Witness,
};
use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};

use crate::{BITS, Report, word};

const SCHEME: &str = "blindsum";
/// Parties, each of them a prover and a verifier.
const PARTIES: usize = 100;
/// Parties that may lie, and that may be lost.
const CORRUPT: usize = 10;
/// Words have bits, and no projections.
const NO_PROJECTIONS: [u8; 32] = [0; 32];

/// Prints what one prover, one verifier of one vector, and judging one vector cost.
pub fn measure(dim: usize, report: &Report) {
    let sharing = sharing(dim);
    let words: Vec<u64> = (0..dim).map(word).collect();
    let seeds = ProofSeeds {
        words: Secret::from([6; 32]),
        rows: Secret::from([7; 32]),
        masks: Secret::from([8; 32]),
    };
    let length = sharing.column_len();
    let mut packed = vec![0; PARTIES * length];
    let upload = packed.len();
    report.measure(SCHEME, dim, "client", 1, upload, || {
        deal(&sharing, &seeds, &words, &mut packed);
        packed.chunks_exact(length).for_each(hash);
    });
    report.measure(SCHEME, dim, "deal", 1, upload, || {
        deal(&sharing, &seeds, &words, &mut packed);
    });
    report.measure(SCHEME, dim, "hash", 1, 32 * PARTIES, || {
        packed.chunks_exact(length).for_each(hash);
    });

    let challenge = sharing.challenge([9; 32]);
    let columns = packed.chunks_exact(length).enumerate();
    let answers: Vec<Answer> = columns
        .map(|(rank, column)| sharing.answer(&challenge, rank, column, NO_PROJECTIONS))
        .collect::<Result<_, _>>()
        .expect("a column of this sharing");
    let column = &packed[..length];
    report.measure(SCHEME, dim, "verify", 1, sharing.answer_len(), || {
        hash(column);
        drop(black_box(sharing.answer(
            &challenge,
            0,
            column,
            NO_PROJECTIONS,
        )));
    });
    judge(&sharing, &answers, dim, report);
}

fn sharing(dim: usize) -> ValiditySharing {
    let parameters = ValidityParameters::choose(&ValidityRequest {
        parties: PARTIES,
        corrupt: CORRUPT,
        dropouts: CORRUPT,
        words: dim,
        packing: 0,
        active: true,
    });
    let statement = Statement {
        words: dim,
        largest: (1 << BITS) - 1,
        norm: None,
        range: RangeProof::Bits,
    };
    ValiditySharing::new(parameters.expect("feasible"), statement).expect("the field has room")
}

/// Words in, columns of all parties out.
fn deal(sharing: &ValiditySharing, seeds: &ProofSeeds, words: &[u64], packed: &mut [u8]) {
    let witness = Witness::new(*sharing.layout(), words).expect("of 16 bits");
    let mut columns: Vec<Option<&mut [u8]>> = packed
        .chunks_exact_mut(sharing.column_len())
        .map(Some)
        .collect();
    let words = sharing.deal_words(seeds, &witness, &mut columns);
    let proof = words.and_then(|()| sharing.deal_proof(seeds, &witness, &mut columns));
    proof.expect("the shapes fit");
    black_box(&columns);
}

/// What a prover commits to for a verifier, which looks whether that is the column it got.
fn hash(column: &[u8]) {
    black_box(kdf::hash("bench column", &[&[0; 32], column]));
}

/// All parties were dealt the same vector, which costs the judge what different ones do.
fn judge(sharing: &ValiditySharing, answers: &[Answer], dim: usize, report: &Report) {
    let about: Vec<Vec<Option<&Answer>>> = vec![answers.iter().map(Some).collect(); PARTIES];
    let verifiers: Vec<usize> = (0..PARTIES).collect();
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    report.measure(SCHEME, dim, "judge", PARTIES, 0, || {
        let verdicts = sharing.judge(&verifiers, &about, &mut rng);
        let honest = Verdict::Fits(std::collections::BTreeSet::new());
        assert!(verdicts.iter().all(|verdict| *verdict == honest));
    });
}
