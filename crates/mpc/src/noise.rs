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
//! The sampler is the one of Canonne, Kamath and Steinke (2020), on whole numbers throughout: its distribution is exactly
//! the one that it claims. How long it takes depends on what is drawn, and on nothing else.

use blindsum_crypto::kex::SharedSecret;
use blindsum_crypto::mask::{MaskKey, MaskSeed, MaskStream, Sign};

use crate::double::ceil_log2;
use crate::ring::words;
use crate::{Agreed, MpcError, Ring, ServerIndex, Shares};

/// Numbers that are drawn from one stream.
const BLOCK: usize = 1024;

/// Words that are taken from a stream at once.
const BUFFER: usize = 512;

/// Noise of variance σ² = `numerator` / `denominator` in each component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaussian {
    /// a, of σ² = a / b.
    numerator: u128,
    /// b.
    denominator: u128,
    /// ⌊σ⌋ + 1: the scale of the Laplace distribution that is drawn from first.
    scale: u128,
    /// k: steps are 2^k wide, and a number is drawn evenly from within its step.
    shift: u32,
}

/// 2^20: the largest standard deviation, in steps.
const MAX_STEPS_BITS: u32 = 20;
/// 2^56: the largest standard deviation.
const MAX_DEVIATION: f64 = (1u64 << 56) as f64;
/// 2^10: the largest denominator of a variance.
const DENOMINATOR: u64 = 1 << 10;

impl Gaussian {
    /// # Errors
    /// [`MpcError::Range`] unless the denominator is from 1 to 2^10, and σ² from 1/denominator to 2^40.
    pub fn new(numerator: u64, denominator: u64) -> Result<Self, MpcError> {
        let refused = |name, value, rule| Err(MpcError::Range { name, value, rule });
        if !(1..=DENOMINATOR).contains(&denominator) {
            let rule = "1 <= denominator <= 2^10";
            return refused("denominator of the variance", denominator, rule);
        }
        if !(1..=denominator << 40).contains(&numerator) {
            let rule = "0 < variance <= 2^40";
            return refused("numerator of the variance", numerator, rule);
        }
        let scale = u128::from((numerator / denominator).isqrt() + 1);
        let (numerator, denominator) = (numerator.into(), denominator.into());
        Ok(Self {
            numerator,
            denominator,
            scale,
            shift: 0,
        })
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

    /// One number, within its step.
    fn number(&self, source: &mut Source) -> i64 {
        let steps = self.draw(source);
        match self.shift {
            0 => steps,
            k => (steps << k) + (source.word() >> (64 - k)) as i64 - (1 << (k - 1)),
        }
    }

    /// A number of steps.
    fn draw(&self, source: &mut Source) -> i64 {
        let (a, b, t) = (self.numerator, self.denominator, self.scale);
        loop {
            let (size, is_negative) = source.laplace(t);
            // (|y| − σ²/t)² / 2σ² = (|y|bt − a)² / 2abt².
            let distance = size.saturating_mul(b * t).abs_diff(a);
            // It overflows more than 2^9 standard deviations away.
            let Some(square) = distance.checked_mul(distance) else {
                continue;
            };
            if source.exponential(square, 2 * a * b * t * t) {
                let size = size as i64;
                return if is_negative { -size } else { size };
            }
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
        let number = |source: &mut Source| {
            let noise = gaussian.map_or(0, |gaussian| gaussian.number(source));
            match bits {
                0 => noise,
                // guard: the-last-bits-of-a-weighted-sum-are-hidden
                bits => noise + (source.word() >> (64 - bits)) as i64 - (1 << (bits - 1)),
            }
        };
        let component = |key: &MaskKey| {
            let blocks = (0..count).step_by(BLOCK).enumerate();
            let of_block = |(block, first): (usize, usize)| {
                let mut source = Source::of_block(key, block as u64);
                (first..count.min(first + BLOCK)).map(move |_| number(&mut source))
            };
            blocks.flat_map(of_block).map(R::of_signed).collect()
        };
        Shares::of(component(&self.own), component(&self.next))
    }
}

/// Random words, and numbers with exact probabilities made of them.
struct Source {
    stream: MaskStream,
    taken: usize,
    buffer: Vec<u64>,
}

impl Source {
    fn of_block(key: &MaskKey, number: u64) -> Self {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        Self {
            stream: key.stream(nonce, Sign::Add),
            taken: 0,
            buffer: Vec::new(),
        }
    }

    fn word(&mut self) -> u64 {
        if let Some(word) = self.buffer.pop() {
            return word;
        }
        self.buffer = words(&self.stream, self.taken, BUFFER);
        self.taken += BUFFER;
        // They are taken from the end, in the order of the stream.
        self.buffer.reverse();
        self.buffer.pop().unwrap_or_default()
    }

    /// From 0 to `end` − 1, each with the same probability.
    fn below(&mut self, end: u128) -> u128 {
        let bits = 128 - end.saturating_sub(1).leading_zeros();
        loop {
            let drawn = match bits {
                0 => 0,
                1..=64 => u128::from(self.word() >> (64 - bits)),
                _ => {
                    let low = u128::from(self.word());
                    low | u128::from(self.word() >> (128 - bits)) << 64
                }
            };
            if drawn < end.max(1) {
                return drawn;
            }
        }
    }

    /// True with probability e^(−n/d), for n from 0 to d.
    fn fraction(&mut self, n: u128, d: u128) -> bool {
        let mut k = 1;
        while self.below(d.saturating_mul(k)) < n {
            k += 1;
        }
        k % 2 == 1
    }

    /// True with probability e^(−n/d).
    fn exponential(&mut self, n: u128, d: u128) -> bool {
        for _ in 0..n / d {
            if !self.fraction(1, 1) {
                return false;
            }
        }
        self.fraction(n % d, d)
    }

    /// The size of y and whether it is negative, where y has a probability that falls with e^(−|y|/t).
    fn laplace(&mut self, t: u128) -> (u128, bool) {
        loop {
            let rest = self.below(t);
            if !self.fraction(rest, t) {
                continue;
            }
            let mut whole = 0;
            while self.fraction(1, 1) {
                whole += 1;
            }
            let (size, is_negative) = (rest + t * whole, self.word() >> 63 == 1);
            // 0 has one sign.
            if size > 0 || !is_negative {
                return (size, is_negative);
            }
        }
    }
}

#[cfg(test)]
#[path = "tests/noise.rs"]
mod tests;
