//! Shamir's sharing of 32-byte secrets (Shamir 1979), as used for keys and seeds in Bonawitz17 Fig. 4.
//!
//! A secret is cut into five limbs of at most 52 bits. Each limb is the constant term of its own random polynomial of
//! degree < t over the field modulo 2^61 − 1, and the share of the holder at point x is the five values at x. Points
//! are public; everything else is treated as secret: no branch and no index depends on it, except in [`Locator`]
//! and [`robust_reconstruct`], whose time depends on how many shares are wrong.
//!
//! ```
//! # use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};
//! # let rng = &mut ChaCha20Rng::from_seed([1; 32]);
//! use blindsum_sharing::{Point, reconstruct, share};
//!
//! let points = [Point::of_rank(0)?, Point::of_rank(1)?, Point::of_rank(2)?];
//! let shares = share(&[7; 32], 2, &points, rng)?;
//! let secret = reconstruct(2, &[(points[2], &shares[2]), (points[0], &shares[0])])?;
//! assert_eq!(*secret, [7; 32]);
//! # Ok::<(), blindsum_sharing::SharingError>(())
//! ```

mod limbs;
mod point;
mod polynomials;
mod robust;

#[cfg(test)]
mod tests;

use blindsum_math::field::Field;
use blindsum_math::field61::Field61;
use rand_core::CryptoRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

pub use self::limbs::SECRET_LEN;
use self::limbs::{LIMBS, join, split};
pub use self::point::Point;
use self::point::field_points;
use self::polynomials::{Polynomials, combine, weights_at_zero};
pub use self::robust::{Locator, robust_reconstruct};
use crate::SharingError;

/// Bytes of an encoded [`Share`].
pub const SHARE_LEN: usize = LIMBS * Field61::ENCODED_LEN;

/// The share of one holder: the values of the five polynomials at the holder's point. Wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Share([Field61; LIMBS]);

impl Share {
    /// The encoding: the five values, each 8 bytes, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; SHARE_LEN]> {
        let mut bytes = Zeroizing::new([0; SHARE_LEN]);
        for (value, out) in self
            .0
            .iter()
            .zip(bytes.chunks_exact_mut(Field61::ENCODED_LEN))
        {
            value.write_to(out);
        }
        bytes
    }

    /// Reads an encoded share.
    ///
    /// # Errors
    /// [`SharingError::ShareLength`]; [`SharingError::NonCanonical`] for a value ≥ 2^61 − 1.
    pub fn parse(bytes: &[u8]) -> Result<Self, SharingError> {
        let (got, need) = (bytes.len(), SHARE_LEN);
        if got != need {
            return Err(SharingError::ShareLength { got, need });
        }
        let mut share = Self([Field61::ZERO; LIMBS]);
        let encoded = bytes.chunks_exact(Field61::ENCODED_LEN);
        for (element, (value, bytes)) in share.0.iter_mut().zip(encoded).enumerate() {
            *value =
                Field61::read_from(bytes).map_err(|_| SharingError::NonCanonical { element })?;
        }
        Ok(share)
    }
}

/// Splits `secret` so that any `threshold` = t of the shares rebuild it. Gives one share for each of `points`, in
/// order.
///
/// # Errors
/// [`SharingError::Threshold`] unless 1 ≤ t ≤ n = `points.len()`; [`SharingError::DuplicatePoint`].
pub fn share(
    secret: &[u8; SECRET_LEN],
    threshold: usize,
    points: &[Point],
    rng: &mut dyn CryptoRng,
) -> Result<Vec<Share>, SharingError> {
    check_threshold(threshold, points.len())?;
    let points = field_points(points)?;
    let polynomials = Polynomials::random(&split(secret), threshold, rng);
    Ok(deal(&polynomials, &points))
}

/// The share at every point.
fn deal(polynomials: &Polynomials<Field61, LIMBS>, points: &[Field61]) -> Vec<Share> {
    points
        .iter()
        .map(|&point| Share(polynomials.evaluate(point)))
        .collect()
}

/// Rebuilds secrets from the shares of one set of holders, whose Lagrange coefficients it has computed once.
pub struct Reconstructor {
    weights: Vec<Field61>,
}

impl Reconstructor {
    /// Prepares for shares of the first `threshold` = t holders of `points`.
    ///
    /// # Errors
    /// [`SharingError::Threshold`] if t = 0, [`SharingError::TooFewShares`] if there are fewer than t points,
    /// [`SharingError::DuplicatePoint`].
    pub fn new(threshold: usize, points: &[Point]) -> Result<Self, SharingError> {
        check_enough(threshold, points.len())?;
        let mut points = field_points(points)?;
        points.truncate(threshold);
        // The points are distinct, so that only a zero among them could be refused.
        let weights = weights_at_zero(&points).map_err(|_| SharingError::ZeroPoint)?;
        Ok(Self { weights })
    }

    /// Rebuilds one secret from exactly t shares, in the order of the points.
    ///
    /// A single wrong share changes the result at will: check it against a commitment, or use [`robust_reconstruct`].
    ///
    /// # Errors
    /// [`SharingError::ShareCount`] unless there are t shares, [`SharingError::NotASecret`] if a rebuilt limb is
    /// out of range.
    pub fn reconstruct(
        &self,
        shares: &[&Share],
    ) -> Result<Zeroizing<[u8; SECRET_LEN]>, SharingError> {
        let (got, points) = (shares.len(), self.weights.len());
        if got != points {
            return Err(SharingError::ShareCount { got, points });
        }
        let values = shares.iter().map(|share| &share.0);
        join(&Zeroizing::new(combine(&self.weights, values)))
    }
}

/// Rebuilds one secret from the first `threshold` = t shares; the others are not looked at.
///
/// # Errors
/// As [`Reconstructor::new`] and [`Reconstructor::reconstruct`].
pub fn reconstruct(
    threshold: usize,
    shares: &[(Point, &Share)],
) -> Result<Zeroizing<[u8; SECRET_LEN]>, SharingError> {
    let points: Vec<Point> = shares.iter().map(|(point, _)| *point).collect();
    let reconstructor = Reconstructor::new(threshold, &points)?;
    let used: Vec<&Share> = shares
        .iter()
        .take(threshold)
        .map(|(_, share)| *share)
        .collect();
    reconstructor.reconstruct(&used)
}

fn check_threshold(threshold: usize, holders: usize) -> Result<(), SharingError> {
    // guard: thresholds-in-range
    if threshold == 0 || threshold > holders {
        return Err(SharingError::Threshold { threshold, holders });
    }
    Ok(())
}

/// The same rule on the side of those who rebuild: what is missing there are shares.
fn check_enough(threshold: usize, got: usize) -> Result<(), SharingError> {
    check_threshold(threshold, got.max(threshold))?;
    if got < threshold {
        return Err(SharingError::TooFewShares { got, threshold });
    }
    Ok(())
}
