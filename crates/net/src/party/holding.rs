//! Why operators let no round begin, shared between the party's own threads and its caller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Says at any time, and from any thread, why operators of the coordinator let no round begin.
#[derive(Clone, Default)]
pub struct Holding(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    reason: String,
    /// Whether a notice of it is on its way to the caller: there is one at most, however often the reason changes.
    is_announced: bool,
}

impl Holding {
    /// By whom the job is paused and why, in the coordinator's words; empty where nothing is known to hold the job. The
    /// latest word of the coordinator counts, also while there is no connection.
    pub fn reason(&self) -> String {
        self.state().reason.clone()
    }

    /// Another reason. True where the caller must be given a notice.
    pub(super) fn set(&self, reason: String) -> bool {
        let mut state = self.state();
        state.reason = reason;
        !std::mem::replace(&mut state.is_announced, true)
    }

    /// The reason for the caller, which has got the notice.
    pub(super) fn announced(&self) -> String {
        let mut state = self.state();
        state.is_announced = false;
        state.reason.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_notice_stands_for_all_reasons_that_came_before_it_was_read() {
        let holding = Holding::default();
        assert!(holding.set("paused by alice: a move".into()));
        for number in 0..1000 {
            assert!(!holding.set(format!("paused by bob: {number}")));
        }
        assert_eq!(holding.reason(), "paused by bob: 999");
        assert_eq!(holding.announced(), "paused by bob: 999");
        assert!(holding.set(String::new()));
        assert_eq!(holding.announced(), "");
    }
}
