//! Noise that no server knows and none can leave out: discrete Gaussian noise in each component of a shared result.
//!
//! Component j of the noise is drawn from a key of server j and server j − 1, who both add it to their component j. Each
//! server knows two of three components; if each has variance σ², what it does not know has variance σ², and the result
//! has noise of variance 3σ². A server that adds other noise is found like one that changes its component of the result in
//! any other way: the second holder's hash differs.
//!
//! Keys depend on the round, on the survivors and on the servers' keys of this round. A round is computed once: where it
//! fails, another one has another number, other vectors and other noise, and counts as a result of its own for whoever
//! accounts for privacy.
//!
//! Numbers are those of [`blindsum_privacy::Sampler`]: whole numbers from tables, in a time that does not depend on them, each
//! less than 2^-116 off its distribution in total variation.

use blindsum_crypto::Zeroizing;
use blindsum_crypto::kex::SharedSecret;
use blindsum_crypto::mask::{MaskKey, MaskSeed, Sign};
use blindsum_privacy::noise::MAX_DENOMINATOR;
use blindsum_privacy::{PrivacyError, Sampler, ServerNoise, Variance};

use crate::double::ceil_log2;
use crate::ring::words;
use crate::{Agreed, MpcError, Ring, ServerIndex, Shares};

/// Numbers that are drawn from one stream.
const BLOCK: usize = 1024;

/// Purposes of streams beside those of the sampler: even numbers within a step, and even last bits.
const WITHIN_STEPS: u32 = 1;
const LAST_BITS: u32 = 2;

/// Noise of variance σ² = `numerator` / `denominator` in each component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaussian {
    /// σ², in steps².
    variance: Variance,
    /// k: steps are 2^k wide, and a number is drawn evenly from within its step.
    shift: u32,
}

/// 2^20: the largest standard deviation, in steps.
const MAX_STEPS_BITS: u32 = 20;
/// 2^56: the largest standard deviation.
const MAX_DEVIATION: f64 = (1u64 << 56) as f64;
/// 2^10: the denominator of a variance that follows from a deviation.
const DENOMINATOR: u64 = MAX_DENOMINATOR;

impl Gaussian {
    /// # Errors
    /// [`MpcError::Range`] unless the denominator is from 1 to 2^10, and σ² from 1/denominator to 2^40.
    pub fn new(numerator: u64, denominator: u64) -> Result<Self, MpcError> {
        let variance = Variance::new(numerator, denominator).map_err(|error| match error {
            PrivacyError::Range { name, value, rule } => MpcError::Range { name, value, rule },
            other => unreachable!("a variance has only ranges: {other}"),
        })?;
        Ok(Self { variance, shift: 0 })
    }

    /// Noise of any standard deviation from 1 to 2^56. Above 2^20 it has steps of 2^k, where 2^k is the least power of two
    /// with which 2^20 steps are enough: a multiple of 2^k, and behind it k bits that are drawn evenly. A number to which
    /// it is added is thereby rounded to a multiple of 2^k up or down; nothing of what lies behind shows. To whoever
    /// accounts for it, vectors are 2^k longer in each coordinate.
    ///
    /// # Errors
    /// [`MpcError::Range`] for another one.
    pub fn of_deviation(deviation: f64) -> Result<Self, MpcError> {
        if !(1.0..=MAX_DEVIATION).contains(&deviation) {
            return Err(MpcError::Range {
                name: "standard deviation",
                value: deviation as u64,
                rule: "1 <= standard deviation <= 2^56",
            });
        }
        let shift = ceil_log2(deviation).saturating_sub(MAX_STEPS_BITS);
        // Exact, and at most 2^20.
        let steps = deviation / (1u64 << shift) as f64;
        let numerator = (steps * steps * DENOMINATOR as f64).round() as u64;
        Ok(Self {
            shift,
            ..Self::new(numerator, DENOMINATOR)?
        })
    }

    /// Noise whose steps and variance were chosen such that it has a known guarantee.
    pub fn accounted(noise: &ServerNoise) -> Self {
        Self {
            variance: noise.variance(),
            shift: noise.shift(),
        }
    }
}

/// The keys of one round's noise: key j is known to server j and server j − 1. They are used up by drawing.
pub struct NoiseKeys {
    own: MaskKey,
    next: MaskKey,
}

impl NoiseKeys {
    /// The keys of server `me`, from the secrets that it shares with the server before and with the next one.
    pub fn derive(
        me: ServerIndex,
        with_previous: &SharedSecret,
        with_next: &SharedSecret,
        agreed: &Agreed,
    ) -> Self {
        let context = agreed.context(0);
        let key = |secret: &SharedSecret, j: ServerIndex| {
            let seed = secret.derive(&context, "mpc3/noise", &[&[j.number()]]);
            MaskKey::new(MaskSeed::from(seed))
        };
        Self {
            own: key(with_previous, me),
            next: key(with_next, me.next()),
        }
    }

    /// Shares of noise for so many numbers, to be added to what is shown: Gaussian noise, where there is some, and in each
    /// component a number that is drawn evenly from 2^bits that follow each other, about 0. No round.
    ///
    /// Whoever lacks a component learns nothing of the last `bits` bits of what is shown: it is rounded to a multiple of
    /// 2^bits, up or down.
    pub fn draw<R: Ring>(self, gaussian: Option<&Gaussian>, bits: u32, count: usize) -> Shares<R> {
        let sampler =
            gaussian.map(|gaussian| (Sampler::gaussian(gaussian.variance), gaussian.shift));
        let component = |key: &MaskKey| {
            let blocks = (0..count).step_by(BLOCK);
            let of_block = |first: usize| {
                let mut numbers = vec![0; count.min(first + BLOCK) - first];
                if let Some((sampler, shift)) = &sampler {
                    let mut steps = Zeroizing::new(vec![0; numbers.len()]);
                    sampler.draw(key, first as u64, &mut steps);
                    for (number, step) in numbers.iter_mut().zip(&*steps) {
                        *number = i64::from(*step) << shift;
                    }
                    add_even(key, (WITHIN_STEPS, first), *shift, &mut numbers);
                }
                add_even(key, (LAST_BITS, first), bits, &mut numbers);
                numbers.into_iter().map(R::of_signed)
            };
            blocks.flat_map(of_block).collect()
        };
        Shares::of(component(&self.own), component(&self.next))
    }
}

/// Adds to each number one of 2^bits that follow each other about 0, drawn evenly: the upper bits of word i of the stream of
/// a block with the number `first` in front, whose nonce is the purpose and the block's number.
fn add_even(key: &MaskKey, (purpose, first): (u32, usize), bits: u32, numbers: &mut [i64]) {
    if bits == 0 {
        return;
    }
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&purpose.to_be_bytes());
    nonce[4..].copy_from_slice(&((first / BLOCK) as u64).to_be_bytes());
    let stream = key.stream(nonce, Sign::Add);
    let words = Zeroizing::new(words(&stream, 0, numbers.len()));
    for (number, word) in numbers.iter_mut().zip(&*words) {
        // guard: the-last-bits-of-a-weighted-sum-are-hidden
        *number += (word >> (64 - bits)) as i64 - (1 << (bits - 1));
    }
}

#[cfg(test)]
#[path = "tests/noise.rs"]
mod tests;
