//! Rebuilding a secret although some holders hand in wrong shares, and finding out who.

use blindsum_crypto::kdf;
use blindsum_math::field::Field;
use blindsum_math::field61::Field61;
use blindsum_math::reed_solomon::ReedSolomon;
use zeroize::Zeroizing;

use super::limbs::SECRET_LEN;
use super::point::field_points;
use super::{Point, Share, check_enough, reconstruct};
use crate::SharingError;

/// Label of the hash that the limbs of shares are combined by.
const COMBINE: &str = "blindsum combine limbs";

/// Finds wrong shares among those of one set of m holders of sharings with threshold t, which it has prepared for
/// once.
pub struct Locator {
    threshold: usize,
    code: ReedSolomon<Field61>,
}

impl Locator {
    /// Prepares for shares of all holders of `points`. Takes m² multiplications.
    ///
    /// # Errors
    /// [`SharingError::Threshold`] if t = 0, [`SharingError::TooFewShares`] if m < t, [`SharingError::DuplicatePoint`].
    pub fn new(threshold: usize, points: &[Point]) -> Result<Self, SharingError> {
        check_enough(threshold, points.len())?;
        // The points are distinct, and a threshold from 1 to m is a dimension.
        let code = ReedSolomon::new(threshold, field_points(points)?)
            .map_err(|_| undecodable(points.len(), threshold))?;
        Ok(Self { threshold, code })
    }

    /// The positions of the wrong ones of these shares, which come in the order of the points: all of them, as long
    /// as they are at most ⌊(m − t)/2⌋. The others lie on one sharing. Takes about m · (m − t) multiplications.
    ///
    /// Looked at is one combination of the five limbs, by powers of a factor that depends on all shares. Whoever
    /// chooses wrong shares can only hope that one of them passes for right, with a chance of 2^-59; a secret that is
    /// checked against a commitment cannot come out wrong by it.
    ///
    /// # Errors
    /// [`SharingError::ShareCount`], and [`SharingError::Undecodable`] if more shares are wrong.
    pub fn locate(&self, shares: &[&Share]) -> Result<Vec<usize>, SharingError> {
        let (got, points) = (shares.len(), self.code.length());
        if got != points {
            return Err(SharingError::ShareCount { got, points });
        }
        let factor = combining_factor(shares);
        let combine = |share: &&Share| {
            let limbs = share.0.iter().rev();
            limbs.fold(Field61::ZERO, |sum, &limb| sum * factor + limb)
        };
        let combined: Zeroizing<Vec<Field61>> =
            Zeroizing::new(shares.iter().map(combine).collect());
        self.code
            .locate(&combined)
            .map_err(|_| undecodable(got, self.threshold))
    }
}

/// A field element that nobody knows before all shares are fixed.
fn combining_factor(shares: &[&Share]) -> Field61 {
    let bytes: Vec<_> = shares.iter().map(|share| share.to_bytes()).collect();
    let parts: Vec<&[u8]> = bytes.iter().map(|bytes| &bytes[..]).collect();
    let hash = kdf::hash(COMBINE, &parts);
    // Eight bytes with the top three bits cleared are canonical, but for p itself.
    let mut draw = [0; Field61::ENCODED_LEN];
    draw.copy_from_slice(&hash[..Field61::ENCODED_LEN]);
    draw[Field61::ENCODED_LEN - 1] &= 0x1f;
    Field61::read_from(&draw).unwrap_or(Field61::ZERO)
}

fn undecodable(got: usize, threshold: usize) -> SharingError {
    SharingError::Undecodable {
        got,
        threshold,
        correctable: (got - threshold) / 2,
    }
}

/// Rebuilds one secret from all m = `shares.len()` shares of a sharing with threshold t, of which up to ⌊(m − t)/2⌋
/// may be wrong; returns it with the points of the wrong ones, in the order in which they were given.
///
/// # Errors
/// [`SharingError::Threshold`] if t = 0, [`SharingError::TooFewShares`] if m < t, [`SharingError::DuplicatePoint`],
/// [`SharingError::Undecodable`] if more shares are wrong, [`SharingError::NotASecret`] if the holders agree on
/// what was never a secret.
pub fn robust_reconstruct(
    threshold: usize,
    shares: &[(Point, &Share)],
) -> Result<(Zeroizing<[u8; SECRET_LEN]>, Vec<Point>), SharingError> {
    let (points, values): (Vec<Point>, Vec<&Share>) = shares.iter().copied().unzip();
    let wrong = Locator::new(threshold, &points)?.locate(&values)?;
    let right: Vec<(Point, &Share)> = (0..)
        .zip(shares)
        .filter(|(position, _)| wrong.binary_search(position).is_err())
        .map(|(_, &share)| share)
        .collect();
    let secret = reconstruct(threshold, &right)?;
    let wrong = wrong.into_iter().map(|position| points[position]);
    Ok((secret, wrong.collect()))
}
