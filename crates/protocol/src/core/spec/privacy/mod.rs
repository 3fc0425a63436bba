//! What hides a party in the sum itself. Each mechanism has its own table of options.

mod mechanisms;
mod none;

use blindsum_privacy::Mechanism;

use crate::core::options::choice;
use crate::core::spec::choose_table;

choose_table! {
    /// What hides a party in the sum itself, with its options.
    PrivacyChoice,
    /// What hides a party in the sum itself.
    PrivacyName, PrivacyTable;
    none::NoPrivacy,
    mechanisms::DiscreteGaussian,
    mechanisms::Skellam,
}

choice! {
    /// Which two jobs must not be told apart.
    AdjacencyName {
        /// In one of them the update of a party is 0. The party takes part in both.
        ZeroOut = "zero-out",
        /// The update of a party is any other one: twice as far from it.
        Replace = "replace",
    }
}

impl From<AdjacencyName> for blindsum_privacy::Adjacency {
    fn from(name: AdjacencyName) -> Self {
        match name {
            AdjacencyName::ZeroOut => Self::ZeroOut,
            AdjacencyName::Replace => Self::Replace,
        }
    }
}

/// What the rest of this crate asks a mechanism.
pub(crate) trait PrivacyTable {
    /// What the job asks of its noise; `None` where it has none.
    fn noise(&self) -> Option<NoiseOptions>;

    /// Sets the noise multiplier, where there is noise.
    fn set_multiplier(&mut self, multiplier: f64);
}

/// What a job asks of its noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NoiseOptions {
    pub mechanism: Mechanism,
    /// z; 0 where it follows from `epsilon`.
    pub multiplier: f64,
    /// The target; 0 where there is none.
    pub epsilon: f64,
    pub delta: f64,
    pub adjacency: AdjacencyName,
    /// Rounds without a result, by the rounds of the job, that the target has room for.
    pub spare: f64,
}

impl PrivacyChoice {
    pub(crate) fn noise(&self) -> Option<NoiseOptions> {
        self.view().noise()
    }

    pub(crate) fn set_multiplier(&mut self, multiplier: f64) {
        match self {
            Self::NoPrivacy(table) => table.set_multiplier(multiplier),
            Self::DiscreteGaussian(table) => table.set_multiplier(multiplier),
            Self::Skellam(table) => table.set_multiplier(multiplier),
        }
    }
}
