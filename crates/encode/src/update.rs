//! An update, and the proof that it was judged.

use std::sync::Arc;

use crate::encoder::Encoder;
use crate::verdict::Verdict;
use crate::{EncodeError, Encoding, MetricLevels, Seeds, Values};

/// The numbers of an update, `[dim]`: real numbers or, where the encoding is of integers, those.
pub enum Update {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Unsigned integers of 32 bits.
    U32(Vec<u32>),
    /// Unsigned integers of 64 bits.
    U64(Vec<u64>),
}

impl From<Vec<f32>> for Update {
    fn from(values: Vec<f32>) -> Self {
        Self::F32(values)
    }
}

impl From<Vec<f64>> for Update {
    fn from(values: Vec<f64>) -> Self {
        Self::F64(values)
    }
}

impl From<Vec<u32>> for Update {
    fn from(values: Vec<u32>) -> Self {
        Self::U32(values)
    }
}

impl From<Vec<u64>> for Update {
    fn from(values: Vec<u64>) -> Self {
        Self::U64(values)
    }
}

impl Update {
    /// The values.
    pub fn values(&self) -> Values<'_> {
        match self {
            Self::F32(values) => Values::F32(values),
            Self::F64(values) => Values::F64(values),
            Self::U32(values) => Values::from(&values[..]),
            Self::U64(values) => Values::from(&values[..]),
        }
    }
}

/// An update that was judged, with its weight: no value in it is out of place, and nothing can change it any more. It
/// is the only way to words without a second look at every value.
pub struct Judged {
    update: Update,
    weight: u32,
    by: Arc<Encoding>,
    verdict: Verdict,
    metrics: MetricLevels,
}

impl Judged {
    /// Judges an update.
    ///
    /// # Errors
    /// Those of [`Encoder::new`].
    pub fn new(encoding: &Arc<Encoding>, update: Update, weight: u32) -> Result<Self, EncodeError> {
        let verdict = Verdict::of(encoding, update.values(), weight)?;
        Ok(Self {
            update,
            weight,
            by: encoding.clone(),
            verdict,
            metrics: MetricLevels::default(),
        })
    }

    /// The same with the metrics that its party reports: [`Encoding::metric_levels`] of this encoding. Without them all are
    /// missing.
    pub fn with_metrics(self, metrics: MetricLevels) -> Self {
        Self { metrics, ..self }
    }

    /// The metrics that its party reports; no levels where it reports none.
    pub fn metrics(&self) -> &MetricLevels {
        &self.metrics
    }

    /// The update.
    pub fn update(&self) -> &Update {
        &self.update
    }

    /// Its weight.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// The update on its way into words. It is judged again where this encoding is another one than it was judged by, as
    /// where the bounds of a round follow from earlier rounds.
    ///
    /// # Errors
    /// Those of [`Encoder::new`], under another encoding.
    pub fn encoder<'a>(
        &'a self,
        encoding: &'a Encoding,
        seeds: impl Into<Seeds>,
    ) -> Result<Encoder<'a>, EncodeError> {
        let values = self.update.values();
        let verdict = match *encoding == *self.by {
            true => self.verdict,
            false => Verdict::of(encoding, values, self.weight)?,
        };
        let encoder = Encoder::after(encoding, values, self.weight, verdict, seeds.into())?;
        Ok(encoder.with_metrics(&self.metrics))
    }
}
