//! What a job may say about sums of proved vectors.

use crate::core::options::table;
use crate::{JobSpec, ProtocolChoice};

table! {
    /// Packed sharing with a proof that every vector is in bounds: withstands parties that lie (PSS).
    PssMalicious = "pss-malicious";
    options {
        /// How many words share one polynomial; 0 chooses.
        packing: u32 = 0;
    }
}

/// How many words a job wants in one polynomial; 0 where it leaves that open.
pub(super) fn packing(spec: &JobSpec) -> usize {
    match spec.protocol {
        ProtocolChoice::PssMalicious(PssMalicious { packing }) => packing as usize,
        _ => 0,
    }
}
