//! What a job may say about sums of proved vectors.

use crate::core::options::{choice, table};
use crate::{JobSpec, ProtocolChoice};

table! {
    /// Packed sharing with a proof that every vector is in bounds: withstands corrupt parties (PSS).
    PssMalicious = "pss-malicious";
    options {
        /// Number of words in one polynomial; 0 chooses.
        packing: u32 = 0;
        /// The bounded quantity of the proof.
        bound: Bound = Bound::Entries;
    }
}

choice! {
    /// The bounded quantity of the proof.
    Bound {
        /// Every coordinate, by the bits of its word; and the L2 norm of the vector if there is a `max_norm`.
        Entries = "entries",
        /// Only the L2 norm, for less upload from about 200 coordinates on; `max_norm` must be set, and be no larger
        /// than `clip`.
        L2 = "l2",
    }
}

impl PssMalicious {
    /// The options of a job. A job of another protocol asks for nothing.
    pub(super) fn of(spec: &JobSpec) -> Self {
        match &spec.protocol {
            ProtocolChoice::PssMalicious(options) => options.clone(),
            _ => Self::default(),
        }
    }
}

/// How many words a job wants in one polynomial; 0 where it leaves that open.
pub(super) fn packing(spec: &JobSpec) -> usize {
    PssMalicious::of(spec).packing as usize
}
