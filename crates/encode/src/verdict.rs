//! The proof that a vector was judged.

use crate::kind::Kind;
use crate::lanes;
use crate::values::judge;
use crate::{EncodeError, EncodeReport, Encoding, IntegerWords, Values};

/// The result of judging a vector, value by value, by an encoding. Only judging makes one.
#[derive(Clone, Copy)]
pub(crate) struct Verdict {
    report: EncodeReport,
    /// What the vector is scaled with before anything else.
    factor: f64,
}

impl Verdict {
    /// What clipping changes in the vector.
    pub(crate) fn report(&self) -> EncodeReport {
        self.report
    }

    /// What the vector is scaled with before anything else.
    pub(crate) fn factor(&self) -> f64 {
        self.factor
    }

    /// Judges a vector and its weight.
    pub fn of(encoding: &Encoding, values: Values<'_>, weight: u32) -> Result<Self, EncodeError> {
        #[cfg(test)]
        JUDGED.with(|times| times.set(times.get() + 1));
        lanes::check_weight(encoding, weight)?;
        if matches!(encoding.kind(), Kind::Integers { .. }) {
            let Values::Integers(values) = values else {
                return Err(EncodeError::Reals);
            };
            IntegerWords::new(encoding, values, weight)?;
            let report = EncodeReport::default();
            return Ok(Self {
                report,
                factor: 1.0,
            });
        }
        let (report, factor) = judge(encoding, values)?;
        Ok(Self { report, factor })
    }
}

#[cfg(test)]
thread_local! {
    /// How often a vector was judged, for tests.
    pub(crate) static JUDGED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}
