//! Rules that make one vector of many.
//!
//! Each rule computes a few numbers for each vector, such as its norm or its dot products, and from them a weight. It
//! multiplies vectors by weights once, at the end. Vectors hold signed whole numbers. [`Bounds`] says how large they
//! may be: if a vector breaks the bounds, the result means nothing.

mod clear;
mod cosine;
mod fltrust;
mod krum;
mod norm;
mod rule;
mod sorting;

pub use clear::Clear;
pub use fltrust::Trusted;
pub use norm::clipped_norm;
pub use rule::Rule;

use crate::{Bits, FRACTION, Gate, Mpc, MpcError, Ring, Shares, Vectors};

/// How large vectors are, and what follows for the numbers that rules compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// I: norms are below 2^I.
    exponent: u32,
    /// What makes sure of it.
    gate: Option<Gate>,
}

/// The result of a rule, before it is shown.
pub struct Weighed<R> {
    /// The sum of weighted vectors, before its last bits are hidden.
    pub sum: Shares<R>,
    /// The shared sum of the weights: one number with [`FRACTION`] bits behind the point. `None` if the weights are
    /// known.
    pub total: Option<Shares<R>>,
    /// A known number by which the sum is divided as well.
    pub divisor: f64,
    /// How many of the last bits of the sum say nothing but how weights were rounded: they must not be shown. Who weighs
    /// few vectors by numbers of 28 bits shows these vectors in the bits behind the point.
    pub even: u32,
    /// Whether each vector was short enough to count. All do where there is no gate.
    pub passed: Vec<bool>,
    /// One bit, which is 0 unless a party has shared something else than a direction. `None` if it had not to share any.
    pub(crate) no_direction: Option<Bits>,
}

impl<R: Ring> Weighed<R> {
    /// Makes sure that the result may be shown: everything that it was computed from is verified, where servers do so, and
    /// was what it should be.
    ///
    /// # Errors
    /// [`MpcError::Differs`]: a server cheats. [`MpcError::Direction`]: a party has shared something else than a direction.
    pub async fn verify(&self, mpc: &Mpc<R>) -> Result<(), MpcError> {
        mpc.verify().await?;
        // guard: directions-have-a-norm
        let Some(bit) = &self.no_direction else {
            return Ok(());
        };
        match mpc.reveal_bits(bit).await?.iter().all(|word| *word == 0) {
            true => Ok(()),
            false => Err(MpcError::Direction),
        }
    }

    /// The opened values: the sum, and after it the sum of the weights if they are not known.
    pub fn shown(&self) -> Shares<R> {
        let total = self.total.iter();
        Shares::concat(&[&self.sum].into_iter().chain(total).collect::<Vec<_>>())
    }
}

impl Bounds {
    /// Vectors whose Euclidean norm is below 2^exponent.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless the exponent is from 15 to 30.
    pub fn new(exponent: u32) -> Result<Self, MpcError> {
        match exponent {
            15..=30 => Ok(Self {
                exponent,
                gate: None,
            }),
            _ => Err(MpcError::Range {
                name: "exponent",
                value: exponent.into(),
                rule: "15 <= exponent <= 30",
            }),
        }
    }
}

impl Bounds {
    /// Vectors that must pass a gate. It is beside what else is computed first, and takes no rounds of its own as long as all
    /// pass; who does not is left out.
    pub fn gated(gate: Gate) -> Self {
        Self {
            exponent: gate.exponent().max(15),
            gate: Some(gate),
        }
    }
}

impl<R: Ring> Mpc<R> {
    /// Who passes the gate, if there is one, as must a direction that a party has shared.
    async fn passed(
        &self,
        vectors: &Vectors,
        direction: Option<&Vectors>,
        bounds: Bounds,
    ) -> Result<Vec<bool>, MpcError> {
        match bounds.gate {
            // guard: long-vectors-are-thrown-out
            Some(gate) => self.gate(vectors, direction, gate).await,
            None => Ok(vec![true; vectors.count()]),
        }
    }
}

/// The places of those that passed.
fn places(passed: &[bool]) -> impl Iterator<Item = usize> + Clone {
    let numbered = passed.iter().enumerate();
    numbered
        .filter(|(_, passed)| **passed)
        .map(|(place, _)| place)
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

/// Where the sum of weights is below 2^-6, no vector counts, and the result is 0. Hidden bits would be more than what is left.
const MIN_TOTAL_BITS: u32 = 6;
const MIN_TOTAL: f64 = 1.0 / (1u64 << MIN_TOTAL_BITS) as f64;

/// The divisor that follows from an opened sum of weights if the last bits of the sum are hidden; `None` if no vector
/// counts.
pub fn total_of(shown: u64) -> Option<f64> {
    let total = shown as i64 as f64 / f64::from(1 << FRACTION);
    (total >= MIN_TOTAL).then_some(total)
}

/// The result in the clear, from the sum and the sum of weights as they were shown with all of their bits.
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
