//! The rules of clipping bounds that look at more than one bound.

use crate::kind::Kind;
use crate::spec::FIXED64_UNIT;
use crate::{EncodeError, Encoding};

impl Encoding {
    /// The rules of the bounds.
    pub(crate) fn check_bounds(&self) -> Result<(), EncodeError> {
        match self.kind() {
            // guard: fixed-point-does-not-wrap
            Kind::Fixed64 => self.check_fixed64(),
            Kind::Quantised { .. } | Kind::Noised { .. } => self.check_max_norm(),
            Kind::Integers { .. } => Ok(()),
        }
    }

    /// Every word of weight w is at most round(clip * w * 2^16), and n of those stay below 2^63. A clip that is not above
    /// half of a unit makes every word of weight 1 a 0.
    fn check_fixed64(&self) -> Result<(), EncodeError> {
        let (parties, weight) = (self.parties(), self.max_weight());
        if parties as u128 * u128::from(weight) >= 1 << 63 {
            let rule = format!("parties * max_weight = {parties} * {weight} < 2^63");
            return Err(EncodeError::spec("parties", rule));
        }
        let half = 0.5 / FIXED64_UNIT;
        for run in &self.runs {
            if run.clip <= half {
                let rule = format!(
                    "2^-17 = {half:e} < clip = {:e} must hold: values up to half of the unit 2^-16 become 0; \
                     raise clip, or use encoding = quantised",
                    run.clip
                );
                return Err(EncodeError::spec("clip", rule));
            }
            let largest = run.clip * (FIXED64_UNIT * f64::from(weight));
            // One word of 2^63 is refused with any number of parties; capping keeps the product in u128.
            let word = largest.round_ties_even().min(f64::powi(2.0, 63)) as u128;
            if word * parties as u128 >= 1 << 63 {
                let rule = format!(
                    "clip * max_weight * parties * 2^16 = {:e} * {weight} * {parties} * 2^16 < 2^63",
                    run.clip
                );
                return Err(EncodeError::spec("clip", rule));
            }
        }
        Ok(())
    }
}
