//! Rules for many vectors: how they become one.
//!
//! Each rule works with a few numbers of each vector, its norm or its dot products, computes a weight for it and multiplies
//! vectors with weights once, at the end. Vectors hold signed whole numbers. What vectors may hold is said by [`Bounds`]:
//! where one breaks them a rule gives anything.

mod cosine;
mod fltrust;
mod krum;
mod norm;
mod sorting;

use crate::{FRACTION, MpcError, Shares};

/// How large vectors are, and what follows for the numbers that rules compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// I: norms are below 2^I.
    exponent: u32,
}

/// What a rule comes to, before it is shown.
pub struct Weighed<R> {
    /// The sum of weighted vectors.
    pub sum: Shares<R>,
    /// The sum of weights, with [`FRACTION`] bits behind the point, where it is not known: one number.
    pub total: Option<Shares<R>>,
    /// What the sum is divided by, besides.
    pub divisor: f64,
}

impl Bounds {
    /// Vectors whose Euclidean norm is below 2^exponent.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless the exponent is from 15 to 30.
    pub fn new(exponent: u32) -> Result<Self, MpcError> {
        match exponent {
            15..=30 => Ok(Self { exponent }),
            _ => Err(MpcError::Range {
                name: "exponent",
                value: exponent.into(),
                rule: "15 <= exponent <= 30",
            }),
        }
    }
}

/// Refuses more parties than the sum of `bits` bits for each leaves room for, and none.
fn room(bits: u32, parties: usize) -> Result<(), MpcError> {
    within("n", parties, parties > 0, "n >= 1")?;
    let bits = bits + parties.next_power_of_two().ilog2();
    match bits <= 62 {
        true => Ok(()),
        false => Err(MpcError::Range {
            name: "bits of the largest sum",
            value: bits.into(),
            rule: "bits <= 62",
        }),
    }
}

impl<R> Weighed<R> {
    /// A sum that is divided by something known.
    fn over(sum: Shares<R>, divisor: f64) -> Self {
        Self {
            sum,
            total: None,
            divisor,
        }
    }
}

/// The result in the clear, from the sum and the sum of weights as they were shown.
pub fn finish(sum: &[u64], total: Option<u64>, divisor: f64) -> Vec<f64> {
    // Weights are rounded, so that a sum of zeros may be less.
    let total = total.map_or(1.0, |total| {
        (total as i64).max(1) as f64 / f64::from(1 << FRACTION)
    });
    let mean = |value: &u64| *value as i64 as f64 / divisor / total;
    sum.iter().map(mean).collect()
}

/// Refuses a number that a rule cannot work with.
fn within(
    name: &'static str,
    value: usize,
    good: bool,
    rule: &'static str,
) -> Result<(), MpcError> {
    let value = value as u64;
    match good {
        true => Ok(()),
        false => Err(MpcError::Range { name, value, rule }),
    }
}
