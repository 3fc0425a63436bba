//! Inverse square roots and inverses of a few numbers, as fixed-point numbers with [`FRACTION`] bits behind the point.
//!
//! A number is scaled to a fixed range first: its highest bit is found, and the number is multiplied by a power of two
//! that depends on it. That power of two stays exact; the caller multiplies the result by it last.

use crate::{Bits, Mpc, MpcError, Ring, Shares};

/// Bits behind the point of fixed-point numbers here.
pub const FRACTION: u32 = 28;

/// The straight line A − B·m that is within 0.0224 of 1/√m, relatively, for m from 1 to 2.
const LINE: (f64, f64) = (1.26410, 0.28632);

/// 1/√N for each N = m · 4^i with m from 1 to 4.
pub struct InverseRoot<R> {
    /// 1/√m, with [`FRACTION`] bits behind the point; within 2^-20 of it.
    pub root: Shares<R>,
    /// 2^(I − i), so that 1/√N = root · scale / 2^(I + FRACTION); 0 where N is 0.
    pub scale: Shares<R>,
    /// Whether i is 0, 1, … I: first that for all N, then the next.
    pub exponents: Shares<R>,
}

/// 1/v for each v = d · 2^(j + 1) with d from ½ to 1.
pub struct Inverse<R> {
    /// 1 / (2d), with [`FRACTION`] bits behind the point.
    pub inverse: Shares<R>,
    /// 2^(bits − 1 − j), so that 1/v = inverse · scale / 2^(bits − 1 + FRACTION); 0 where v is 0 or too small to count.
    pub scale: Shares<R>,
}

impl<R: Ring> Mpc<R> {
    /// 1/√N for N from 0 to 4^(I+1) − 1, up to a factor; 0 where N is 0. 22 rounds where I is 30, and two more for each
    /// step whose random bits were not made ahead of time.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless I is from 15 to 30.
    pub async fn inverse_root(
        &self,
        n: &Shares<R>,
        exponent: u32,
    ) -> Result<InverseRoot<R>, MpcError> {
        if !(FRACTION / 2 + 1..=30).contains(&exponent) {
            return Err(MpcError::Range {
                name: "I",
                value: exponent.into(),
                rule: "15 <= I <= 30",
            });
        }
        let count = n.len();
        let pairs = exponent as usize + 1;
        let bits = self.to_bits(n, 2 * pairs).await?;
        let highest = self.highest(&bits).await?;
        // One bit for each i, and whether the higher bit of its pair is the highest of N.
        let upper = highest.select((0..pairs).map(|i| 2 * i + 1));
        let exponents = highest.select((0..pairs).map(|i| 2 * i)).xor(&upper);
        let is_upper = folded(&upper);
        let numbers = self
            .to_numbers(&Bits::stack(&[&exponents, &is_upper])?)
            .await?;
        let (exponents, is_upper) = numbers.split_at(pairs * count);
        let scale = weigh(&exponents, count, |i| R::of(1 << (exponent as usize - i)));
        let squared = weigh(&exponents, count, |i| {
            R::of(1 << (2 * (exponent as usize - i)))
        });
        let m = self
            .multiply_truncate(n, &squared, 2 * exponent - FRACTION)
            .await?;
        let root = self.root_from(&m, &is_upper).await?;
        Ok(InverseRoot {
            root,
            scale,
            exponents,
        })
    }

    /// 1/√m for m from 1 to 4, `is_upper` where it is 2 or more: a straight line, then two steps of Goldschmidt.
    async fn root_from(&self, m: &Shares<R>, is_upper: &Shares<R>) -> Result<Shares<R>, MpcError> {
        let (a, b) = (fixed(LINE.0), fixed(LINE.1));
        // 1/√m = 1/√2 · 1/√(m/2) above 2.
        let upper = (
            fixed(LINE.0 / 2f64.sqrt()) - a,
            fixed(LINE.1 / 8f64.sqrt()) - b,
        );
        let a = is_upper
            .times(R::of_signed(upper.0))
            .plus_public(self.me, R::of_signed(a));
        let b = is_upper
            .times(R::of_signed(upper.1))
            .plus_public(self.me, R::of_signed(b));
        let mut y = a.minus(&self.multiply_truncate(&b, m, FRACTION).await?)?;
        let mut g = self.multiply_truncate(m, &y, FRACTION).await?;
        for _ in 0..2 {
            // g = √m · (1 + e), y = (1 + e)/√m, r = (1 − (1 + e)²)/2.
            let product = self.multiply_truncate(&g, &y, FRACTION + 1).await?;
            let half = R::of(1 << (FRACTION - 1));
            let r = product.times(R::of_signed(-1)).plus_public(self.me, half);
            let both = Shares::concat(&[&g, &y]);
            let steps = self
                .multiply_truncate(&both, &Shares::concat(&[&r, &r]), FRACTION)
                .await?;
            let (of_g, of_y) = steps.split_at(m.len());
            (g, y) = (g.plus(&of_g)?, y.plus(&of_y)?);
        }
        Ok(y)
    }

    /// 1/v for v from 2^least to 2^bits − 1, up to a factor; 0 for smaller ones.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless `bits` is from 30 to 61.
    pub async fn inverse(
        &self,
        v: &Shares<R>,
        bits: u32,
        least: u32,
    ) -> Result<Inverse<R>, MpcError> {
        if !(FRACTION + 2..=61).contains(&bits) {
            return Err(MpcError::Range {
                name: "bits",
                value: bits.into(),
                rule: "30 <= bits <= 61",
            });
        }
        let rows = self.to_bits(v, bits as usize).await?;
        let places = self.to_numbers(&self.highest(&rows).await?).await?;
        let scale = weigh(&places, v.len(), |j| match j < least as usize {
            true => R::ZERO,
            false => R::of(1 << (bits as usize - 1 - j)),
        });
        // From 1 to 2.
        let d = self
            .multiply_truncate(v, &scale, bits - 1 - FRACTION)
            .await?;
        let line = d.times(R::of_signed(-fixed(8.0 / 17.0)));
        let line = self.truncate(&line, FRACTION).await?;
        let mut y = line.plus_public(self.me, R::of_signed(fixed(24.0 / 17.0)));
        let product = self.multiply_truncate(&d, &y, FRACTION).await?;
        let one = R::of(1 << FRACTION);
        let mut e = product.times(R::of_signed(-1)).plus_public(self.me, one);
        for _ in 0..3 {
            // y·d = 1 − e; y·(1 + e)·d = 1 − e².
            let both = Shares::concat(&[&y, &e]);
            let steps = self
                .multiply_truncate(&both, &Shares::concat(&[&e, &e]), FRACTION)
                .await?;
            let (of_y, squared) = steps.split_at(v.len());
            (y, e) = (y.plus(&of_y)?, squared);
        }
        Ok(Inverse { inverse: y, scale })
    }
}

/// The random bits that [`Mpc::inverse_root`] takes for so many numbers.
pub(crate) fn bits_of_inverse_root(count: usize, exponent: u32) -> Vec<(usize, usize)> {
    let mut shapes = vec![(count, exponent as usize + 2)];
    // m, the straight line, g; then twice the product, and a step for g and y.
    shapes.extend([(count, 64); 5]);
    shapes.extend([(2 * count, 64); 2]);
    shapes
}

/// The random bits that [`Mpc::inverse`] takes for so many numbers.
pub(crate) fn bits_of_inverse(count: usize, bits: u32) -> Vec<(usize, usize)> {
    let mut shapes = vec![(count, bits as usize)];
    // d, the straight line, the product; then three steps for y and e.
    shapes.extend([(count, 64); 3]);
    shapes.extend([(2 * count, 64); 3]);
    shapes
}

/// Exclusive or of all rows.
fn folded(bits: &Bits) -> Bits {
    let none = Bits::zeros(bits.width(), 1);
    (0..bits.rows()).fold(none, |sum, row| sum.xor(&bits.select(row..row + 1)))
}

/// Σ weight(row) · value, over the rows of `count` values each.
fn weigh<R: Ring>(rows: &Shares<R>, count: usize, weight: impl Fn(usize) -> R) -> Shares<R> {
    rows.linear(|values| {
        let mut sums = vec![R::ZERO; count];
        for (row, values) in values.chunks(count.max(1)).enumerate() {
            let weight = weight(row);
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = sum.plus(value.times(weight));
            }
        }
        sums
    })
}

/// A fixed-point number.
fn fixed(value: f64) -> i64 {
    (value * f64::from(1 << FRACTION)).round() as i64
}
