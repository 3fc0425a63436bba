//! Whose noise hides a party in a protocol, and how far a party moves a sum that servers add noise to.

use crate::{JobSpec, SpecError};

/// Whose noise hides a party in a protocol.
#[derive(Clone, Debug)]
pub(crate) enum NoiseRule {
    /// That of all honest survivors: nobody sees less than the sum of all.
    OfAll,
    /// That of the party itself: others may see its update, or the sum of a few, if they work together.
    OfOne,
    /// That of the servers, who add it to each component of the sum. One server knows all components but one.
    OfServers(fn(&JobSpec) -> Result<Sensitivity, SpecError>),
    /// The protocol can have none, for this reason.
    Refused(String),
}

impl NoiseRule {
    /// Whether servers add the noise, and not the parties.
    pub fn is_of_servers(&self) -> bool {
        matches!(self, Self::OfServers(_))
    }
}

/// How far a party moves a sum that servers add noise to, and what its units are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sensitivity {
    /// S: no party moves the sum by a larger norm, in units of the sum.
    pub norm: u64,
    /// By what factor rounding has lifted S.
    pub growth: f64,
    /// The norm that updates are clipped to.
    pub clip: f64,
    /// A unit of the sum as a coordinate of updates.
    pub unit: f64,
    /// The last bits of each component that are drawn evenly.
    pub even: u32,
    /// Whether the servers open whether each vector is short enough, which they find with random numbers.
    pub is_gated: bool,
}

/// The chance that a gate takes a vector that is short enough for one that is too long, in one round.
const GATE_FAILS: f64 = 1.0 / (1_u64 << 44) as f64;

impl Sensitivity {
    /// The chance that a release shows something of a party beside the sum with its noise.
    pub fn fails(self) -> f64 {
        match self.is_gated {
            true => GATE_FAILS,
            false => 0.0,
        }
    }
}
