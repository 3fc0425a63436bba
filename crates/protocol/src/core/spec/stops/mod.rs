//! When a job ends before its rounds are done, and which of its models is the best one. Each rule has its own table of
//! options.

mod never;
mod plateau;

use crate::core::spec::choose_table;
pub use plateau::{Best, Better};

choose_table! {
    /// When a job ends before its rounds are done, with its options.
    StopChoice,
    /// When a job ends before its rounds are done.
    StopName, StopTable;
    never::NoStop,
    plateau::Plateau,
}

/// What the rest of this crate asks a rule.
pub(crate) trait StopTable {
    /// The rule about a metric, where it is one.
    fn plateau(&self) -> Option<&Plateau>;
}

impl StopChoice {
    /// The rule about a metric; `None` where no metric counts.
    pub fn plateau(&self) -> Option<&Plateau> {
        self.view().plateau()
    }
}
