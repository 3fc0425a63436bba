//! Division by powers of two: what fixed-point numbers need after a product.
//!
//! The value is opened under a random mask r whose bits are known to be bits, so that what wraps around can be taken
//! back. The result is ⌊x / 2^f⌋ or one more; on average it is x / 2^f. Whether it is one more is known by a comparison of
//! the mask with what was opened: who asks for exact truncation gets ⌊x / 2^f⌋, for ⌈log2 f⌉ + 1 rounds more. Values must be from −2^62 to 2^62 − 1; outside
//! anything may come out.

use crate::arithmetic::products;
use crate::bits::{ones, transposed};
use crate::ledger::Relation;
use crate::line::Say;
use crate::shares::same;
use crate::stock::DoubleBits;
use crate::{Bits, Mpc, MpcError, Ring, Shares};

/// What makes numbers that are below 0 as well into numbers from 0 to 2^63 − 1.
const OFFSET: u32 = 62;

/// A random mask for each value, and what is taken off when it is gone.
struct Mask<R> {
    /// r.
    whole: Shares<R>,
    /// ⌊r / 2^f⌋.
    shifted: Shares<R>,
    /// Bit 63 of r.
    top: Shares<R>,
    /// All bits of r.
    bits: Bits,
}

impl<R: Ring> Mpc<R> {
    /// The same server, whose truncations all round down.
    pub fn exact(mut self) -> Self {
        self.is_exact = true;
        self
    }

    /// x / 2^f, rounded up or down at random. One round, and two more if no random bits were
    /// made ahead.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless f is from 1 to 61.
    pub async fn truncate(&self, x: &Shares<R>, f: u32) -> Result<Shares<R>, MpcError> {
        let mask = self.mask(x.len(), f).await?;
        let shifted = x.plus_public(self.me, R::of(1 << OFFSET));
        let opened = self.open_low(&shifted.plus(&mask.whole)?).await?;
        self.rounded(&opened, &mask, f).await
    }

    /// x · y / 2^f for each pair of values, rounded up or down at random. One round, and two more if no random bits were
    /// made ahead.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if there are not as many of both, [`MpcError::Range`] unless f is from 1 to 61.
    pub async fn multiply_truncate(
        &self,
        x: &Shares<R>,
        y: &Shares<R>,
        f: u32,
    ) -> Result<Shares<R>, MpcError> {
        same(x.len(), y.len())?;
        let mask = self.mask(x.len(), f).await?;
        // The parts of the product are masked and opened at once, each of them to both others.
        let offset = match self.me.number() {
            0 => R::of(1 << OFFSET),
            _ => R::ZERO,
        };
        let masked = products(x, y).zip(mask.whole.own.iter());
        let mut parts: Vec<R> = masked
            .map(|(part, mask)| part.plus(*mask).plus(offset))
            .collect();
        self.blind(&mut parts);
        let mut said = Vec::new();
        R::write(&parts, &mut said);
        let say = Say {
            from_next: said.len(),
            from_previous: said.len(),
            to_next: said.clone(),
            to_previous: said,
        };
        let heard = self.exchange(say).await?;
        let others = R::read(&heard.from_next)
            .into_iter()
            .zip(R::read(&heard.from_previous));
        let sum = |(part, (next, previous)): (R, (R, R))| part.plus(next).plus(previous);
        let opened: Vec<R> = parts.into_iter().zip(others).map(sum).collect();
        self.see(&opened);
        let offset = Shares::public(self.me, &vec![R::of(1 << OFFSET); x.len()]);
        let z = Shares::public(self.me, &opened)
            .minus(&mask.whole)?
            .minus(&offset)?;
        let (x, y, length) = (x.clone(), y.clone(), 1);
        // guard: truncated-products-are-verified
        self.ledger.add(|| Relation::Dots { x, y, length, z });
        let low: Vec<u64> = opened.into_iter().map(R::low).collect();
        self.rounded(&low, &mask, f).await
    }

    /// From c to x / 2^f, rounded as this server rounds.
    async fn rounded(&self, c: &[u64], mask: &Mask<R>, f: u32) -> Result<Shares<R>, MpcError> {
        let x = self.unmask(c, mask, f)?;
        if !self.is_exact || c.is_empty() {
            return Ok(x);
        }
        // One too much where r is above c, of their lowest bits.
        let low = mask.bits.select(0..f as usize);
        let (c, ones) = (transposed(c, f as usize), ones(c.len()));
        let pairs = c.iter().zip(ones.iter().cycle());
        let zeros: Vec<u64> = pairs.map(|(c, ones)| c ^ ones).collect();
        let differ = low.xor_public(self.me, &c);
        let above = self.carry(low.and_public(&zeros), differ.not(self.me));
        let above = above.await?;
        x.minus(&self.to_numbers(&above).await?)
    }

    /// Masks of 64 random bits.
    async fn mask(&self, count: usize, f: u32) -> Result<Mask<R>, MpcError> {
        if !(1..=61).contains(&f) {
            return Err(MpcError::Range {
                name: "f",
                value: f.into(),
                rule: "1 <= f <= 61",
            });
        }
        let DoubleBits { numbers, bits } = self.double_bits(count, 64).await?;
        let from = |low: u32| {
            numbers.linear(|bits| {
                let mut sums = vec![R::ZERO; count];
                for (row, bits) in (0..64).zip(bits.chunks(count.max(1))) {
                    if row >= low {
                        let weight = R::of(1 << (row - low));
                        for (sum, bit) in sums.iter_mut().zip(bits) {
                            *sum = sum.plus(bit.times(weight));
                        }
                    }
                }
                sums
            })
        };
        let top = numbers.at(63 * count..64 * count);
        let (whole, shifted) = (from(0), from(f));
        // Bits above the 64th of a larger ring carry nothing, and must not show anything either.
        // guard: nothing-shows-above-a-value
        let whole = match R::BYTES > 8 {
            true => whole.plus(&self.random(count).times(above()))?,
            false => whole,
        };
        Ok(Mask {
            whole,
            shifted,
            top,
            bits,
        })
    }

    /// From c = x + 2^62 + r modulo 2^64 to x / 2^f: ⌊c / 2^f⌋ − ⌊r / 2^f⌋, and 2^(64−f) more where c has wrapped around,
    /// which it has if bit 63 is set in r and not in c.
    fn unmask(&self, c: &[u64], mask: &Mask<R>, f: u32) -> Result<Shares<R>, MpcError> {
        let shifted: Vec<R> = c.iter().map(|c| R::of(c >> f)).collect();
        let wrapped = R::of(1 << (64 - f));
        let back = mask.top.linear(|top| {
            let one = top.iter().zip(c);
            one.map(|(top, c)| {
                if c >> 63 == 0 {
                    top.times(wrapped)
                } else {
                    R::ZERO
                }
            })
            .collect()
        });
        let x = Shares::public(self.me, &shifted)
            .plus(&back)?
            .minus(&mask.shifted)?;
        Ok(x.plus_public(self.me, R::of_signed(-(1 << (OFFSET - f)))))
    }
}

/// 2^64 in a ring that has it.
fn above<R: Ring>() -> R {
    R::of(1 << 32).times(R::of(1 << 32))
}

#[cfg(test)]
#[path = "tests/leaks.rs"]
mod leaks;
