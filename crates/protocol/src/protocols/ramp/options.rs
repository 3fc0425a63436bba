//! What a job may say about ramp sharing.

use crate::core::options::table;
use crate::{JobSpec, ProtocolChoice};

table! {
    /// Ramp sharing, words in the coefficients (FSSA).
    Fssa = "fssa";
    /// Ramp sharing, words in the values (PSS).
    Pss = "pss";
    options {
        /// Number of sums of shares that reconstruct the sum; 0 chooses.
        threshold: u32 = 0;
        /// Number of words in one polynomial; 0 chooses.
        packing: u32 = 0;
    }
}

/// What a job asks of the sharing, whichever of the two protocols it has; 0 where it leaves a number open.
pub(super) struct Asked {
    pub threshold: usize,
    pub packing: usize,
}

impl Asked {
    pub fn of(spec: &JobSpec) -> Self {
        let (threshold, packing) = match spec.protocol {
            ProtocolChoice::Fssa(Fssa { threshold, packing })
            | ProtocolChoice::Pss(Pss { threshold, packing }) => (threshold, packing),
            // A job of another protocol asks for nothing.
            _ => (0, 0),
        };
        Self {
            threshold: threshold as usize,
            packing: packing as usize,
        }
    }
}
