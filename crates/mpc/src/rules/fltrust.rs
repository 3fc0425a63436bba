//! FLTrust (Cao et al. 2021): the closer a vector's direction is to that of a trusted vector, the more it counts, and
//! all vectors are scaled to the length of the trusted one.

use std::sync::Arc;

use super::{Bounds, MIN_TOTAL_BITS, Weighed, places, room};
use crate::double::ceil_log2;
use crate::scalar::{bits_of_inverse, bits_of_inverse_root};
use crate::{
    Bits, DIRECTION_BITS, FRACTION, InverseRoot, Mpc, MpcError, Ring, Shares, Vectors, join3,
};

/// The most even bits that a sum has.
const MAX_EVEN_BITS: u32 = 60;

/// The vector that is trusted.
#[derive(Clone, Copy, Debug)]
pub enum Trusted<'a> {
    /// The servers know it.
    Known(&'a [f64]),
    /// A party has shared its direction, a vector of norm 2^[`DIRECTION_BITS`], and says how long it is.
    Uploaded {
        /// One vector.
        unit: &'a Vectors,
        /// Its norm.
        norm: f64,
    },
}

/// What is computed of each vector.
pub(crate) struct Trust<R> {
    /// T_c = max(0, cos(x_c, g)).
    pub(crate) trust: Shares<R>,
    inverse: InverseRoot<R>,
    /// Whether what a party has shared is no direction: one bit.
    no_direction: Option<Bits>,
}

/// What is known of vectors and the trusted one.
struct Along<R> {
    /// The dot products with the direction.
    along: Shares<R>,
    /// The squares of the norms.
    norms: Shares<R>,
    /// That of the direction, where a party has shared it.
    of_direction: Option<Shares<R>>,
}

impl Bounds {
    /// Bits of a sum that is weighted by trust, for a trusted vector of this norm, that are less than one whole number of
    /// its result.
    pub(crate) fn even_of_trust(self, norm: f64) -> u32 {
        (FRACTION + self.exponent)
            .saturating_sub(ceil_log2(norm))
            .min(MAX_EVEN_BITS)
    }
}

impl Trusted<'_> {
    /// What a party has shared.
    fn shared(&self) -> Option<&Vectors> {
        match self {
            Self::Known(_) => None,
            Self::Uploaded { unit, .. } => Some(unit),
        }
    }

    /// Its norm.
    fn norm(&self) -> Result<f64, MpcError> {
        let norm = match self {
            Self::Known(root) => root.iter().map(|it| it * it).sum::<f64>().sqrt(),
            Self::Uploaded { norm, .. } => *norm,
        };
        match norm.is_finite() && norm > 0.0 {
            true => Ok(norm),
            false => Err(MpcError::Range {
                name: "norm of the trusted vector",
                value: 0,
                rule: "it is above 0 and finite",
            }),
        }
    }
}

/// Refuses what [`Mpc::fltrust`] cannot work with, whatever the trusted vector is.
pub(super) fn check(bounds: Bounds, count: usize) -> Result<(), MpcError> {
    room(FRACTION + bounds.exponent, count)
}

impl<R: Ring> Mpc<R> {
    /// Σ T_c · x_c · ‖g‖ / ‖x_c‖ over Σ T_c, with T_c = max(0, cos(x_c, g)), for a trusted vector g. Σ T_c is shown with the
    /// sum, or hidden: then the servers divide by it, in 23 more rounds.
    ///
    /// # Errors
    /// [`MpcError::Range`] if g is 0 or there is no room for the sum, [`MpcError::Shape`] if g is of another length,
    /// [`MpcError::Direction`] if a party has shared a direction that does not pass the gate.
    pub async fn fltrust(
        &self,
        vectors: &Arc<Vectors>,
        bounds: Bounds,
        trusted: Trusted<'_>,
        hide_total: bool,
    ) -> Result<Weighed<R>, MpcError> {
        let (n, norm) = (vectors.count(), trusted.norm()?);
        check(bounds, n)?;
        // All vectors need the same random bits, whatever is in them.
        let mut bits = bits_of_inverse_root(n, bounds.exponent);
        bits.push((n, 1));
        bits.extend([(n, 64); 3]);
        if hide_total {
            bits.extend(bits_of_inverse(1, bits_of_total(n)));
            bits.extend([(n, 64); 2]);
        }
        let trust = self.trust(vectors, bounds, trusted, norm);
        // guard: directions-go-through-the-gate
        let passed = self.passed(vectors, trusted.shared(), bounds);
        let (trust, passed, ()) = join3(trust, passed, self.make_ahead(bits)).await?;
        let Trust {
            trust,
            inverse,
            no_direction,
        } = trust;
        let kept = |values: &Shares<R>| values.at(places(&passed));
        let (trust, root, scale) = (kept(&trust), kept(&inverse.root), kept(&inverse.scale));
        let each = match hide_total {
            true => self.divided(&trust).await?,
            false => trust.clone(),
        };
        let weights = self.multiply_truncate(&each, &root, FRACTION).await?;
        let weights = self.multiply(&weights, &scale).await?;
        let kept = Arc::new(vectors.only(&passed));
        Ok(Weighed {
            sum: self.weighted(&weights, &kept).await?,
            total: (!hide_total).then(|| trust.sums(kept.count())),
            divisor: 2f64.powi((FRACTION + bounds.exponent) as i32) / norm,
            // guard: last-bits-of-fltrust
            even: bounds.even_of_trust(norm),
            passed,
            no_direction,
        })
    }

    /// How much each vector is trusted.
    pub(crate) async fn trust(
        &self,
        vectors: &Arc<Vectors>,
        bounds: Bounds,
        trusted: Trusted<'_>,
        norm: f64,
    ) -> Result<Trust<R>, MpcError> {
        let exponent = bounds.exponent;
        let Along {
            along,
            norms,
            of_direction,
        } = self.along(vectors, trusted, norm).await?;
        let forward = async {
            let is_forward = self.sign(&along, 64).await?.not(self.me);
            let is_forward = self.to_numbers(&is_forward).await?;
            self.multiply(&is_forward, &along).await
        };
        let no_direction = async {
            match &of_direction {
                Some(squared) => {
                    // guard: what-is-no-direction-is-verified
                    let bit = self.is_no_direction(squared, vectors.length());
                    bit.await.map(Some)
                }
                None => Ok(None),
            }
        };
        let inverse = self.inverse_root(&norms, exponent);
        let (forward, inverse, no_direction) = join3(forward, inverse, no_direction).await?;
        // 1/‖x‖ is root · scale: by the one the numbers stay in range, the other is exact and comes in last.
        let shift = exponent + DIRECTION_BITS - FRACTION;
        let scaled = self.multiply_truncate(&forward, &inverse.scale, shift);
        let scaled = scaled.await?;
        let trust = self.multiply_truncate(&scaled, &inverse.root, FRACTION);
        let trust = trust.await?;
        Ok(Trust {
            trust,
            inverse,
            no_direction,
        })
    }

    /// The dot products of all vectors with a direction, and of each with itself. One round.
    async fn along(
        &self,
        vectors: &Arc<Vectors>,
        trusted: Trusted<'_>,
        norm: f64,
    ) -> Result<Along<R>, MpcError> {
        let n = vectors.count();
        match trusted {
            Trusted::Known(root) => {
                let scale = f64::from(1 << DIRECTION_BITS) / norm;
                let unit = root
                    .iter()
                    .map(|it| R::of_signed((it * scale).round() as i64));
                Ok(Along {
                    along: vectors.dot_public(&unit.collect::<Vec<R>>())?,
                    norms: self.norms(vectors).await?,
                    of_direction: None,
                })
            }
            Trusted::Uploaded { unit, .. } => {
                let all = Arc::new(vectors.and(unit)?);
                let with_direction = (0..n).map(|row| (row, n));
                let with_themselves = (0..=n).map(|row| (row, row));
                let pairs = with_direction.chain(with_themselves).collect();
                let (along, norms) = self.gram_at(&all, pairs).await?.split_at(n);
                let (norms, of_direction) = norms.split_at(n);
                Ok(Along {
                    along,
                    norms,
                    of_direction: Some(of_direction),
                })
            }
        }
    }

    /// T_c / Σ T_c; 0 where Σ T_c is so small that no vector counts.
    async fn divided(&self, trust: &Shares<R>) -> Result<Shares<R>, MpcError> {
        let n = trust.len();
        let bits = bits_of_total(n);
        // guard: hidden-totals-have-a-least
        let least = FRACTION - MIN_TOTAL_BITS;
        let inverse = self.inverse(&trust.sums(n), bits, least).await?;
        let every = |one: &Shares<R>| one.at(std::iter::repeat_n(0, n));
        let (scale, inverse) = (every(&inverse.scale), every(&inverse.inverse));
        let scaled = self.multiply_truncate(trust, &scale, bits - 1 - FRACTION);
        let scaled = scaled.await?;
        self.multiply_truncate(&scaled, &inverse, FRACTION).await
    }
}

/// Bits of Σ T_c: each is hardly more than 1.
fn bits_of_total(parties: usize) -> u32 {
    FRACTION + 2 + parties.next_power_of_two().ilog2()
}
