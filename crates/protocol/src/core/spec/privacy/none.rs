//! `none`: sums are exact.

use super::{NoiseOptions, PrivacyTable};
use crate::core::options::table;

table! {
    /// No noise: sums are exact, and what they tell of a party is not bounded.
    NoPrivacy = "none";
    options {
    }
}

impl PrivacyTable for NoPrivacy {
    fn noise(&self) -> Option<NoiseOptions> {
        None
    }

    fn set_multiplier(&mut self, _multiplier: f64) {}
}
