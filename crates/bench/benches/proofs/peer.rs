//! Prio3SumVec: one client, two aggregators, chunks as long as the crate recommends.
//!
//! As the VDAF draft registers it, with a field of 128 bits and TurboSHAKE128; and as the servers of Divvi Up also offer it, with
//! three proofs in a field of 64 bits, and AES and HMAC, for which processors have instructions.

use std::hint::black_box;

use prio::codec::Encode;
use prio::field::{Field64, Field128, NttFriendlyFieldElement};
use prio::flp::gadgets::{Mul, ParallelSum};
use prio::flp::types::SumVec;
use prio::vdaf::prio3::{Prio3, Prio3InputShare, Prio3PublicShare, optimal_chunk_length};
use prio::vdaf::xof::{Xof, XofHmacSha256Aes128, XofTurboShake128};
use prio::vdaf::{Aggregator, Client, VdafError, VerifyTransition};

use crate::{BITS, Report, word};

const SEED: usize = 32;
const AGGREGATORS: u8 = 2;
const CONTEXT: &[u8] = b"bench";
const NONCE: [u8; 16] = [5; 16];

type Statement<F> = SumVec<F, ParallelSum<F, Mul>>;
type Scheme<F, X> = Prio3<Statement<F>, X, SEED>;

/// Prints what one client, and both aggregators together, cost.
pub fn measure(dim: usize, report: &Report) {
    let chunk = optimal_chunk_length(dim * BITS as usize);
    let largest = (1_u64 << BITS) - 1;
    let scheme = || {
        let statement = Statement::<Field128>::new(largest.into(), dim, chunk)?;
        Scheme::<_, XofTurboShake128>::new(AGGREGATORS, 1, 3, statement)
    };
    with(
        "prio, 128 bits",
        &scheme().expect("a size"),
        dim,
        report,
        u128::from,
    );
    let scheme = || {
        let statement = Statement::<Field64>::new(largest, dim, chunk)?;
        Scheme::<_, XofHmacSha256Aes128>::new(AGGREGATORS, 3, 0xffff_1003, statement)
    };
    with(
        "prio, 3 × 64 bits",
        &scheme().expect("a size"),
        dim,
        report,
        |word| word,
    );
}

fn with<F, X>(
    name: &str,
    scheme: &Scheme<F, X>,
    dim: usize,
    report: &Report,
    integer: impl Fn(u64) -> F::Integer,
) where
    F: NttFriendlyFieldElement,
    X: Xof<SEED>,
{
    let vector: Vec<F::Integer> = (0..dim).map(|place| integer(word(place))).collect();
    let shard = || scheme.shard(CONTEXT, &vector, &NONCE).expect("a vector");
    let (public, inputs) = shard();
    let encoded = |share: Option<usize>| share.expect("shares know their lengths");
    let shares = inputs.iter().map(|input| encoded(input.encoded_len()));
    let upload = encoded(public.encoded_len()) + shares.sum::<usize>();
    report.measure(name, dim, "client", 1, upload, || {
        drop(black_box(shard()));
    });
    let exchanged = verify(scheme, &public, &inputs).expect("an honest client");
    report.measure(name, dim, "verify", 1, exchanged, || {
        black_box(verify(scheme, &public, &inputs).expect("an honest client"));
    });
}

/// What both aggregators do, and the bytes that they tell each other.
fn verify<F, X>(
    scheme: &Scheme<F, X>,
    public: &Prio3PublicShare<SEED>,
    inputs: &[Prio3InputShare<F, SEED>],
) -> Result<usize, VdafError>
where
    F: NttFriendlyFieldElement,
    X: Xof<SEED>,
{
    let (mut states, mut shares) = (Vec::new(), Vec::new());
    for (rank, input) in inputs.iter().enumerate() {
        let (state, share) =
            scheme.verify_init(&[6; SEED], CONTEXT, rank, &(), &NONCE, public, input)?;
        states.push(state);
        shares.push(share);
    }
    let lengths = shares.iter().map(|share| share.encoded_len().unwrap_or(0));
    let told = lengths.sum::<usize>();
    let message = scheme.verifier_shares_to_message(CONTEXT, &(), shares)?;
    for state in states {
        let VerifyTransition::Finish(share) =
            scheme.verify_next(CONTEXT, state, message.clone())?
        else {
            return Err(VdafError::Uncategorized("one round was enough".into()));
        };
        black_box(share);
    }
    Ok(told + message.encoded_len().unwrap_or(0))
}
