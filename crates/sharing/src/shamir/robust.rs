//! Rebuilding a secret although some holders hand in wrong shares, and finding out who.

use std::collections::BTreeSet;

use blindsum_math::field::Field;
use blindsum_math::field61::Field61;
use blindsum_math::reed_solomon::ReedSolomon;
use zeroize::Zeroizing;

use super::limbs::{LIMBS, SECRET_LEN, join};
use super::point::field_points;
use super::{Point, Share, check_enough};
use crate::SharingError;

/// Rebuilds one secret from all m = `shares.len()` shares of a sharing with threshold t, of which up to ⌊(m − t)/2⌋
/// may be wrong; returns it with the points of the wrong ones, ascending as given.
///
/// # Errors
/// [`SharingError::Threshold`] if t = 0, [`SharingError::TooFewShares`] if m < t, [`SharingError::DuplicatePoint`],
/// [`SharingError::Undecodable`] if more shares are wrong, [`SharingError::NotASecret`] if the holders agree on
/// what was never a secret.
pub fn robust_reconstruct(
    threshold: usize,
    shares: &[(Point, &Share)],
) -> Result<(Zeroizing<[u8; SECRET_LEN]>, Vec<Point>), SharingError> {
    let got = shares.len();
    check_enough(threshold, got)?;
    let points: Vec<Point> = shares.iter().map(|(point, _)| *point).collect();
    let correctable = (got - threshold) / 2;
    let undecodable = SharingError::Undecodable {
        got,
        threshold,
        correctable,
    };
    let code = ReedSolomon::new(threshold, field_points(&points)?).map_err(|_| undecodable)?;

    let mut limbs = Zeroizing::new([Field61::ZERO; LIMBS]);
    let mut wrong = BTreeSet::new();
    for (i, limb) in limbs.iter_mut().enumerate() {
        let received: Zeroizing<Vec<Field61>> =
            Zeroizing::new(shares.iter().map(|(_, share)| share.0[i]).collect());
        let decoded = code.decode(&received).map_err(|_| undecodable)?;
        *limb = decoded.polynomial.evaluate(Field61::ZERO);
        wrong.extend(decoded.errors);
    }
    // Each limb may have been explained by other liars; only all of them together say how many there are.
    if wrong.len() > correctable {
        return Err(undecodable);
    }
    let secret = join(&limbs)?;
    Ok((
        secret,
        wrong.into_iter().map(|position| points[position]).collect(),
    ))
}
