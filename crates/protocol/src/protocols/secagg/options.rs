//! What a job may say about double masking.

use crate::core::options::table;
use crate::{JobSpec, ProtocolChoice};

table! {
    /// Double masking on the complete graph (Bonawitz et al. 2017).
    SecAgg = "secagg";
    options {
        /// Number of shares that reconstruct a party's secret; 0 chooses a safe number.
        threshold: u32 = 0;
    }
}

table! {
    /// Double masking on a random sparse graph (Bell et al. 2020).
    SecAggPlus = "secagg+";
    options {
        /// Neighbours of a party in the graph; 0 chooses the smallest safe number.
        neighbours: u32 = 0;
        /// Number of shares that reconstruct a party's secret; 0 chooses a safe number.
        threshold: u32 = 0;
    }
}

/// What a job asks of the graph and the sharing, whichever of the two protocols it has.
pub(super) struct Sharing {
    /// Whether everybody is everybody's neighbour.
    pub complete: bool,
    /// 0 where the job leaves it open.
    pub neighbours: usize,
    /// 0 where the job leaves it open.
    pub threshold: usize,
}

impl Sharing {
    pub fn of(spec: &JobSpec) -> Self {
        match &spec.protocol {
            ProtocolChoice::SecAgg(options) => Self {
                complete: true,
                neighbours: 0,
                threshold: options.threshold as usize,
            },
            ProtocolChoice::SecAggPlus(options) => Self {
                complete: false,
                neighbours: options.neighbours as usize,
                threshold: options.threshold as usize,
            },
            // A job of another protocol asks for nothing.
            _ => Self {
                complete: false,
                neighbours: 0,
                threshold: 0,
            },
        }
    }
}
