//! How far a run is, and the callback that is told so.

use std::ops::ControlFlow;

use crate::SimError;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of the round.
    pub round: u64,
    /// The stage under way.
    pub stage: u8,
    /// Its name.
    pub name: &'static str,
    /// Parties that have answered.
    pub answered: usize,
    /// Parties that may answer.
    pub expected: usize,
}

/// What is called with the progress of a run; it may stop it.
pub(crate) type ProgressFn<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + Send + 'a;

/// Tells how far the run is, and ends it where it is to stop.
pub(crate) fn look(told: &mut ProgressFn<'_>, so_far: &Progress) -> Result<(), SimError> {
    match told(so_far) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(SimError::Cancelled),
    }
}
