//! What a party has sent in a round, until it knows whether it arrived.

use blindsum_crypto::Zeroizing;

use super::LeftoverSize;
use super::saved::{Reader, Saved, refused};
use crate::{EncodeError, Encoding};

/// What a party has sent in a round, and the residual if all of it arrives. If the party is among the survivors, give
/// it to [`Sparsifier::commit`](crate::Sparsifier::commit). If not, or if the round fails, drop it: the residual is
/// unchanged.
pub struct Sent {
    /// Ascending.
    pub(super) indices: Vec<u32>,
    pub(super) values: Zeroizing<Vec<f64>>,
    /// The residual if all of it arrives, `[dim]`.
    pub(super) left: Zeroizing<Vec<f64>>,
}

/// What the errors of [`Sent::from_bytes`] are about.
const WHAT: &str = "sent coordinates";

impl Sent {
    /// The size of the residual once the round is over with these coordinates opened, as
    /// [`Sparsifier::commit`](crate::Sparsifier::commit) leaves it.
    pub fn leftover(&self, opened: impl Fn(u32) -> bool) -> LeftoverSize {
        LeftoverSize::of(&self.residual(opened))
    }

    /// The residual once the round is over: what was not opened stays in it.
    pub(super) fn residual(&self, opened: impl Fn(u32) -> bool) -> Zeroizing<Vec<f64>> {
        let mut residual = self.left.clone();
        for (&d, &value) in self.indices.iter().zip(self.values.iter()) {
            if !opened(d) {
                residual[d as usize] = value;
            }
        }
        residual
    }

    /// The encoded form: a version byte (2), the number of coordinates (8 bytes, big-endian) and what is left of each
    /// (IEEE 754 double precision, little-endian), the number of coordinates sent (8 bytes, big-endian), their indices
    /// (4 bytes each, little-endian) and their values (as above).
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut saved = Saved::begin(8 * self.left.len() + 12 * self.indices.len());
        saved.values(&self.left);
        saved.count(self.indices.len());
        saved.words(self.indices.iter().map(|index| index.to_le_bytes()));
        saved.words(self.values.iter().map(|value| value.to_le_bytes()));
        saved.bytes()
    }

    /// Reads what [`Sent::to_bytes`] wrote; `encoding` is that of the job.
    ///
    /// # Errors
    /// [`EncodeError::State`] for bytes that are not the sent coordinates of such vectors.
    pub fn from_bytes(encoding: &Encoding, bytes: &[u8]) -> Result<Self, EncodeError> {
        let dim = encoding.dim();
        let mut reader = Reader::begin(WHAT, bytes)?;
        let left = reader.values(dim)?;
        let sent = reader.count()?;
        if sent > dim {
            return Err(refused(WHAT, format!("{sent} of {dim} coordinates")));
        }
        let indices: Vec<u32> = reader.words(sent)?.map(u32::from_le_bytes).collect();
        let values = reader.finite(sent)?;
        reader.end()?;
        let below = |index: &u32| (*index as usize) < dim;
        if !indices.is_sorted_by(|a, b| a < b) || !indices.last().is_none_or(below) {
            let rule = format!("indices must ascend and be below {dim}");
            return Err(refused(WHAT, rule));
        }
        Ok(Self {
            indices,
            values,
            left,
        })
    }
}
