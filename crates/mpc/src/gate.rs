//! The range gate: parties whose vectors are too long are left out, before anything is computed with their norms.
//!
//! Numbers wrap around at 2^64: a part of 2^33 · u that is orthogonal to the rest of a vector does not show in the square of
//! its norm, and a vector that looks like others is a thousand times as long. So each vector is multiplied with 80 public
//! random rows of −1, 0 and 1, and all products w must be from −β to β, where β is the power of two that is 6B or next
//! above. They are drawn when vectors can not change any more.
//!
//! * An honest vector, of norm at most B, fails with probability 2e^-36 in a row. w has variance at most B²/2.
//! * Where a coordinate is above 2β, modulo 2^64 and without its sign, a row passes with probability ½ at most: of the
//!   three signs that it may have two can not both pass that follow each other, and 0 has probability ½.
//! * Where none is and the norm is 6.4β, w is above β with probability 0.3 at least (Paley and Zygmund, as its fourth moment
//!   is at most three times the square of its second one). 0.7^80 is 2^-41.
//!
//! What passes has a norm below 6.4β, which is below 2^(log2 β + 3).
//!
//! A direction that a party has shared is a vector of norm 2^26, but for how its coordinates are rounded. It goes through the
//! gate with a β of its own. Then the square of its norm is below 2^64 and tells what the norm is.

use crate::project::project;
use crate::{Bits, Mpc, MpcError, Ring, Shares, Vectors};

/// Bits of the norm that a direction is shared with. With one more the square of the norm might wrap around.
pub const DIRECTION_BITS: u32 = 26;

/// β for a direction, which is at least 6 times as long as an honest one.
// guard: the-norm-of-a-direction-is-below-2-32
const BETA_OF_DIRECTION: u64 = 1 << (DIRECTION_BITS + 3);

/// How long vectors may be, and the public coin that the rows are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    bound: u64,
    coin: [u8; 32],
}

impl Gate {
    /// A gate for honest vectors of a norm of at most `bound`. The coin is drawn when no vector can change any more.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless the bound is from 1 to 2^24.
    pub fn new(bound: u64, coin: [u8; 32]) -> Result<Self, MpcError> {
        match (1..=1 << 24).contains(&bound) {
            true => Ok(Self { bound, coin }),
            false => Err(MpcError::Range {
                name: "B",
                value: bound,
                rule: "1 <= B <= 2^24",
            }),
        }
    }

    /// β: the power of two that is 6B or next above.
    pub fn beta(&self) -> u64 {
        (6 * self.bound).next_power_of_two()
    }

    /// Refuses vectors that are so long that sums of numbers within bounds may wrap around.
    pub(crate) fn check(&self, length: usize, has_direction: bool) -> Result<(), MpcError> {
        let beta = match has_direction {
            true => BETA_OF_DIRECTION,
            false => self.beta(),
        };
        let most = beta.checked_mul(2 * length as u64);
        match most.is_some_and(|most| most >> 63 == 0) {
            true => Ok(()),
            false => Err(MpcError::Range {
                name: "D",
                value: length as u64,
                rule: "2 * beta * D < 2^63",
            }),
        }
    }

    /// I: what passes has a norm below 2^I.
    pub fn exponent(&self) -> u32 {
        self.beta().ilog2() + 3
    }
}

impl<R: Ring> Mpc<R> {
    /// Whether each vector passes: all servers get to know that, and nothing else. 17 rounds; where servers verify, 7 more,
    /// for this alone and beside what else is computed.
    ///
    /// # Errors
    /// [`MpcError::Direction`] if the direction, where there is one, does not pass; [`MpcError::Range`] if vectors are so long
    /// that sums of numbers within bounds may wrap around.
    pub async fn gate(
        &self,
        vectors: &Vectors,
        direction: Option<&Vectors>,
        gate: Gate,
    ) -> Result<Vec<bool>, MpcError> {
        gate.check(vectors.length(), direction.is_some())?;
        let all = match direction {
            Some(direction) => &vectors.and(direction)?,
            None => vectors,
        };
        let count = all.count();
        if count == 0 {
            return Ok(Vec::new());
        }
        let beside = self.branch();
        let w = project::<R>(all, gate.coin);
        // guard: both-ends-of-a-range-are-compared
        let both = Shares::concat(&[&w, &w.times(R::of_signed(-1))]);
        let mut betas = vec![R::of(gate.beta()); vectors.count()];
        betas.resize(count, R::of(BETA_OF_DIRECTION));
        let betas: Vec<R> = betas.iter().copied().cycle().take(both.len()).collect();
        let room = both.plus(&Shares::public(self.me, &betas))?;
        let outside = beside.sign(&room, 64).await?.in_rows(count);
        let outside = beside.any(outside).await?;
        // guard: gates-are-verified
        beside.verify().await?;
        let outside = beside.reveal_bits(&outside).await?;
        let passes = |place: usize| {
            outside
                .get(place / 64)
                .is_some_and(|it| it >> (place % 64) & 1 == 0)
        };
        match (vectors.count()..count).all(passes) {
            true => Ok((0..vectors.count()).map(passes).collect()),
            false => Err(MpcError::Direction),
        }
    }

    /// Whether a direction that has passed is of another norm than an honest one: one bit. `squared` is the square of its
    /// norm, below 2^64. 9 rounds.
    pub(crate) async fn is_no_direction(
        &self,
        squared: &Shares<R>,
        length: usize,
    ) -> Result<Bits, MpcError> {
        let [least, most] = norms_of_directions(length).map(|norm| norm * norm);
        // guard: directions-are-not-too-short
        let above = squared.plus_public(self.me, R::of(least.wrapping_neg()));
        let below = squared.times(R::of_signed(-1));
        // guard: directions-are-not-too-long
        let below = below.plus_public(self.me, R::of(most));
        let outside = self.sign(&Shares::concat(&[&above, &below]), 64).await?;
        self.any(outside.in_rows(1)).await
    }

    /// Whether any row has a 1: one row. ⌈log2 rows⌉ rounds.
    async fn any(&self, mut rows: Bits) -> Result<Bits, MpcError> {
        while rows.rows() > 1 {
            let half = rows.rows() / 2;
            let (a, b) = (rows.select(0..half), rows.select(half..2 * half));
            let both = self.and(&a, &b).await?;
            let either = a.xor(&b).xor(&both);
            let rest = rows.select(2 * half..rows.rows());
            rows = Bits::stack(&[&either, &rest])?;
        }
        Ok(rows)
    }
}

/// The least and the largest norm of a direction with so many coordinates, each rounded by ½ at most.
fn norms_of_directions(length: usize) -> [u64; 2] {
    let rounded = (length as u64).isqrt() / 2 + 2;
    let norm = 1u64 << DIRECTION_BITS;
    [norm.saturating_sub(rounded), norm + rounded]
}
