//! The mean of each coordinate over the parties that sent it.

use blindsum_math::words::{Tile, Words};

use crate::decode::{Levels, fixed64_limit};
use crate::spec::{FIXED64_UNIT, Kind};
use crate::values::Real;
use crate::{EncodeError, Encoding};

/// How many coordinates a sparse round has means of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SparseMean {
    /// Coordinates that enough parties sent.
    pub opened: u64,
    /// Coordinates that some parties sent, but fewer than the minimum. Their mean is given as 0.
    pub withheld: u64,
    /// Coordinates that nobody sent. Their mean is given as 0.
    pub absent: u64,
}

impl Encoding {
    /// Whether sparse rounds can use this encoding.
    pub(super) fn check_sparse(&self) -> Result<(), EncodeError> {
        if matches!(self.kind(), Kind::Integers { .. }) {
            let rule = "sparse updates are real numbers";
            return Err(EncodeError::spec("encoding", rule));
        }
        if self.has_weight_word() {
            let rule = format!(
                "max_weight = {} must be 1 for sparse updates: nobody learns the weights behind a coordinate",
                self.max_weight()
            );
            return Err(EncodeError::spec("max_weight", rule));
        }
        if self.dim() as u64 > 1 << 32 {
            let rule = format!("dim = {} <= 2^32 for sparse updates", self.dim());
            return Err(EncodeError::spec("dim", rule));
        }
        Ok(())
    }

    /// Writes the mean of every coordinate over the parties that sent it over `mean`: word d of `sum` is the
    /// sum of `counts[d]` parties' words. Where fewer than `minimum` parties sent a coordinate, and where
    /// nobody did, the mean is 0 and the word is not looked at.
    ///
    /// Where all counts are n, this is [`Encoding::decode_mean`] with n survivors.
    ///
    /// # Errors
    /// [`EncodeError::Spec`] as for [`Sparsifier::new`](crate::Sparsifier::new); [`EncodeError::Dim`] if `mean`
    /// or `counts` has another length than `dim`, [`EncodeError::SumShape`], [`EncodeError::Survivors`] for a
    /// count above the number of parties, [`EncodeError::Sum`]. What `mean` holds after an error is unspecified.
    pub fn decode_sparse_mean<R: Real>(
        &self,
        sum: &Words,
        counts: &[u32],
        minimum: u32,
        mean: &mut [R],
    ) -> Result<SparseMean, EncodeError> {
        self.check_sparse()?;
        let dim = self.dim();
        for got in [mean.len(), counts.len()] {
            if got != dim {
                return Err(EncodeError::Dim { got, dim });
            }
        }
        self.check_sum_shape(sum)?;
        let parties = self.parties();
        if let Some(&count) = counts.iter().find(|&&count| count as usize > parties) {
            let survivors = count as usize;
            return Err(EncodeError::Survivors { survivors, parties });
        }
        match sum.tile(0..dim) {
            Tile::W32(lanes) => self.decode_counted(lanes, counts, minimum, mean),
            Tile::W64(lanes) => self.decode_counted(lanes, counts, minimum, mean),
        }
    }

    fn decode_counted<R: Real, L: Copy + Into<u64>>(
        &self,
        lanes: &[L],
        counts: &[u32],
        minimum: u32,
        mean: &mut [R],
    ) -> Result<SparseMean, EncodeError> {
        let mut found = SparseMean::default();
        for (run, clip) in self.tensors() {
            for lane in run {
                let count = counts[lane];
                if count == 0 || count < minimum {
                    found.absent += u64::from(count == 0);
                    found.withheld += u64::from(count > 0);
                    mean[lane] = R::from_f64(0.0);
                    continue;
                }
                found.opened += 1;
                let value = self.counted(lanes[lane].into(), count.into(), clip);
                let total_weight = count.into();
                mean[lane] = R::from_f64(value.ok_or(EncodeError::Sum { lane, total_weight })?);
            }
        }
        Ok(found)
    }

    /// The mean of `count` words that add up to this one, if words can.
    fn counted(&self, word: u64, count: u64, clip: f64) -> Option<f64> {
        let word = word & self.width().mask();
        match self.kind() {
            Kind::Quantised { bits, .. } => {
                let top = count * ((1 << bits) - 1);
                let levels = Levels::new(self.width().mask(), top, clip);
                (word <= top).then(|| levels.coordinate_of(word))
            }
            Kind::Fixed64 => {
                let unit = FIXED64_UNIT * count as f64;
                let signed = word.cast_signed();
                (signed.unsigned_abs() <= fixed64_limit(clip, unit, count))
                    .then(|| signed as f64 / unit)
            }
            Kind::Integers { .. } => None,
        }
    }
}
