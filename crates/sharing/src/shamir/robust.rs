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

/// Finds the wrong ones among the shares of a set of m holders. Prepared once for these holders and the threshold t, it
/// serves for any number of secrets.
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

    /// The positions of the wrong shares among `shares`, which are in the order of the points. It finds all of them if
    /// they are at most ⌊(m − t)/2⌋; the others then belong to one sharing. Takes about m · (m − t) multiplications.
    ///
    /// Only one combination of the five limbs is checked, by powers of a factor that depends on all shares. A wrong
    /// share passes as right with probability at most 2^-59, however it is chosen. To exclude even that, check the
    /// rebuilt secret against a commitment.
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

/// Rebuilds one secret from all m = `shares.len()` shares of a sharing with threshold t, of which up to ⌊(m − t)/2⌋ may
/// be wrong. Returns the secret and the points of the wrong shares, in the order in which they were given.
///
/// # Errors
/// [`SharingError::Threshold`] if t = 0, [`SharingError::TooFewShares`] if m < t, [`SharingError::DuplicatePoint`],
/// [`SharingError::Undecodable`] if more shares are wrong, [`SharingError::NotASecret`] if the shares rebuild something
/// that is no 32-byte secret.
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
