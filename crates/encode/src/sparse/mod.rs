//! Sparse updates: a party sends the largest coordinates of every tensor and keeps the others for later
//! (FLASHE Alg. 1, client side).
//!
//! What a [`Sparsifier`] chooses becomes words by an [`Encoder`](crate::Encoder) of its own, smaller
//! [`Encoding`]; [`Encoding::decode_sparse_mean`] gives the mean of each coordinate, over all or over those who sent it.

mod density;
mod divisor;
mod largest;
mod leftover;
mod mean;
mod saved;
mod sent;

use blindsum_crypto::Zeroizing;

pub use density::DensitySchedule;
pub use divisor::Divisor;
pub use leftover::LeftoverSize;
pub use mean::SparseMean;
pub use sent::Sent;

use saved::{Reader, Saved};

use crate::quantise::clamp;
use crate::values::{Real, Values, judge};
use crate::{EncodeError, EncodeReport, Encoder, Encoding, Reach, Seeds};

/// Chooses what a party sends, and keeps what it did not send: the residual, which is added to the next update
/// (error feedback).
///
/// Of a round with update u and residual r:
///
/// ```text
/// t  =  clip(u) + r                     one rounding to f64; clip with the bounds of the job
/// sent  =  clip(t_d) for the k_l largest |t_d| of every tensor l, the first ones where some are equal; clip with
///          the bounds of the round
/// r'  =  t - sent
/// ```
///
/// All of this is in double precision, so that an update of doubles loses nothing that a dense round would have kept.
///
/// So a party never adds more to the model than dense rounds would have let it, and all that it adds arrives
/// in the end: what the bound of one round cuts off is kept too, of several rounds' worth of updates or of one. The
/// error of quantisation is not. With stochastic rounding it has mean 0 and there is nothing to make up for;
/// and it is known only once the words exist, whose random bits nobody should have to keep.
pub struct Sparsifier {
    schedule: DensitySchedule,
    /// The encoding of the job. Rounds may have narrower bounds.
    job: Encoding,
    residual: Zeroizing<Vec<f64>>,
}

/// The coordinates that a party sends in a round.
pub struct Selection {
    sent: Sent,
    encoding: Encoding,
    report: EncodeReport,
    /// How far the tensors of the update went, before it was clipped.
    reach: Vec<Reach>,
    /// The words that are sent, of those of a vector.
    places: Vec<u32>,
}

impl Sparsifier {
    /// A sparsifier for vectors of this encoding, which is that of the job, with a residual of zeros.
    ///
    /// # Errors
    /// [`EncodeError::Spec`] for encodings that sparse rounds cannot use: integers; weights, because the
    /// weights behind a single coordinate stay unknown; more than 2^32 coordinates.
    pub fn new(encoding: &Encoding, schedule: DensitySchedule) -> Result<Self, EncodeError> {
        encoding.check_sparse()?;
        Ok(Self {
            schedule,
            job: encoding.clone(),
            residual: Zeroizing::new(vec![0.0; encoding.dim()]),
        })
    }

    /// Chooses what to send of `update`, `[dim]`, and of the residual. `encoding` is that of the round; `rounds_done`
    /// is the number of finished rounds of the job, which decides the density.
    ///
    /// # Errors
    /// [`EncodeError::Integers`], [`EncodeError::Dim`], [`EncodeError::NotFinite`] for NaN and infinities and where a sum
    /// with the residual is not finite, [`EncodeError::Norm`].
    pub fn select<'a>(
        &self,
        encoding: &Encoding,
        rounds_done: u64,
        update: impl Into<Values<'a>>,
    ) -> Result<Selection, EncodeError> {
        let update = update.into();
        let (got, dim) = (encoding.dim(), self.residual.len());
        if got != dim {
            return Err(EncodeError::Dim { got, dim });
        }
        let (report, factor) = judge(&self.job, update)?;
        let (total, lost) = match update {
            Values::F32(update) => self.total(update, factor),
            Values::F64(update) => self.total(update, factor),
            Values::Integers(_) => return Err(EncodeError::Integers),
        };
        if let Some(index) = total.iter().position(|sum| !sum.is_finite()) {
            return Err(EncodeError::NotFinite { index });
        }
        let mut indices = Vec::new();
        for (run, _) in encoding.tensors() {
            let kept = self.schedule.kept(rounds_done, run.len());
            largest::largest(&total[run.clone()], kept, run.start, &mut indices);
        }
        let reach = encoding.reach_of(update);
        Self::selection(encoding, indices, total, &lost, (report, reach))
    }

    /// The clipped update and the residual together, and the coordinates of the update that the bound of the job cuts off.
    fn total<R: Real>(&self, update: &[R], factor: f64) -> (Zeroizing<Vec<f64>>, Vec<u32>) {
        let mut total = Zeroizing::new(Vec::with_capacity(self.residual.len()));
        let mut lost = Vec::new();
        for (run, clip) in self.job.tensors() {
            for d in run {
                let value = update[d].to_f64() * factor;
                let clipped = clamp(value, clip);
                if clipped != value {
                    lost.push(d as u32);
                }
                total.push(clipped + self.residual[d]);
            }
        }
        (total, lost)
    }

    /// Finds what arrives of the chosen coordinates, and what is left. Those of which the bounds of the round leave something
    /// count as clipped, but for those that count already (`lost`, ascending).
    fn selection(
        encoding: &Encoding,
        indices: Vec<u32>,
        total: Zeroizing<Vec<f64>>,
        lost: &[u32],
        (mut report, reach): (EncodeReport, Vec<Reach>),
    ) -> Result<Selection, EncodeError> {
        let values: Zeroizing<Vec<f64>> =
            Zeroizing::new(indices.iter().map(|&d| total[d as usize]).collect());
        let compact = encoding.compact(&indices);
        let (_, factor) = judge(&compact, Values::F64(&values))?;
        let mut left = total;
        for (run, clip) in compact.tensors() {
            for (&d, &value) in indices[run.clone()].iter().zip(&values[run]) {
                let rest = value - clamp(value * factor, clip);
                left[d as usize] = rest;
                report.clipped += u64::from(rest != 0.0 && lost.binary_search(&d).is_err());
            }
        }
        let behind = (encoding.dim()..encoding.lanes()).map(|place| place as u32);
        let places = indices.iter().copied().chain(behind).collect();
        let sent = Sent {
            indices,
            values,
            left,
        };
        Ok(Selection {
            sent,
            encoding: compact,
            report,
            reach,
            places,
        })
    }

    /// Takes what was sent out of the residual, once the round is over and this party is among its survivors.
    /// Coordinates whose sum was not opened (`opened(d)` is false), because too few parties sent them, stay in the
    /// residual.
    pub fn commit(&mut self, sent: Sent, opened: impl Fn(u32) -> bool) {
        self.residual = sent.residual(opened);
    }

    /// The residual: what is left to send, `[dim]`. As private as the updates.
    pub fn residual(&self) -> &[f64] {
        &self.residual
    }

    /// The size of the residual.
    pub fn leftover(&self) -> LeftoverSize {
        LeftoverSize::of(&self.residual)
    }

    /// The encoded residual: a version byte (2), the number of coordinates (8 bytes, big-endian),
    /// and each of them (IEEE 754 double precision, little-endian).
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut saved = Saved::begin(8 * self.residual.len());
        saved.values(&self.residual);
        saved.bytes()
    }

    /// Restores a sparsifier with a residual from [`Sparsifier::to_bytes`].
    ///
    /// # Errors
    /// [`EncodeError::Spec`] as for [`Sparsifier::new`]; [`EncodeError::State`] for bytes that are no residual
    /// of such vectors.
    pub fn from_bytes(
        encoding: &Encoding,
        schedule: DensitySchedule,
        bytes: &[u8],
    ) -> Result<Self, EncodeError> {
        encoding.check_sparse()?;
        let mut reader = Reader::begin("residual", bytes)?;
        let residual = reader.values(encoding.dim())?;
        reader.end()?;
        Ok(Self {
            schedule,
            job: encoding.clone(),
            residual,
        })
    }
}

impl Selection {
    /// The coordinates to send, ascending.
    pub fn indices(&self) -> &[u32] {
        &self.sent.indices
    }

    /// The places of the words to send in a vector, ascending: those of the coordinates, and those behind them.
    pub fn places(&self) -> &[u32] {
        &self.places
    }

    /// Their words, in the order of the places; see [`Encoder::new`].
    ///
    /// # Errors
    /// Those of [`Encoder::new`].
    pub fn encoder(&self, seeds: impl Into<Seeds>) -> Result<Encoder<'_>, EncodeError> {
        let values = Values::F64(self.values());
        Ok(Encoder::new(&self.encoding, values, 1, seeds)?.reaching(&self.reach))
    }

    /// The values, in the order of the indices. Not clipped yet: their encoding does that.
    pub fn values(&self) -> &[f64] {
        &self.sent.values
    }

    /// The encoding of the values: a vector of just these coordinates, each with the bound of its tensor.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// What clipping did: to the update itself, before the residual was added, of which what the bound of the job cuts off is
    /// lost; and to the chosen coordinates of the sum, of which the residual keeps what the bounds of the round, on a coordinate
    /// or on the norm, do not let through. A coordinate counts once. The factor is that of the update itself.
    pub fn report(&self) -> EncodeReport {
        self.report
    }

    /// What [`Sparsifier::commit`] needs once the round is over.
    pub fn into_sent(self) -> Sent {
        self.sent
    }
}
