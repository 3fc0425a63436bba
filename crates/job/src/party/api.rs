//! The interface of a party to the program that drives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::event_loop::EventLoop;
use super::exchange::{Effect, Identity, Input, Settings};
use super::store::{Marks, Store};
use crate::machine::{Machine, Now};
use crate::records::Records;

/// The mark of the state that was suspended last.
pub struct Mark(Arc<AtomicU64>);

/// A party of a job as a machine.
pub type PartyMachine = Machine<Input, Effect, Mark>;

impl PartyMachine {
    /// Starts a party, or goes on with one from its records. Without records the party forgets everything when the
    /// process ends. All its randomness comes from `entropy`: 32 bytes that nobody else knows and that are used once.
    pub fn open(
        settings: Settings,
        identity: Identity,
        records: Option<Arc<dyn Records>>,
        now: Now,
        entropy: [u8; 32],
    ) -> Self {
        Self::start(entropy, now, Mark(Arc::default()), |hand| {
            EventLoop::new(settings, identity, Store::new(records, None, hand)).run()
        })
    }

    /// A party that goes on from where another process [suspended](Input::Suspend) it, even in the middle of a round.
    /// If the records have no suspended state, the party begins, or goes on as after a kill. The caller is told again
    /// what it may not have heard: the job, the round under way, a result that it has not taken. If there was a
    /// connection, its number is 0 now.
    ///
    /// `mark` is the latest [`mark`](Self::mark) that the host knows; 0 if there is none yet. Keep it where no backup
    /// brings back an earlier one: a suspended state with a lower mark is an old copy, and its round is given up. After
    /// this call, send nothing that the party says before two things are durable: a suspended state that was made after
    /// it, and then that state's mark. Never let two processes go on from one state. Otherwise one key could be used
    /// for two things.
    pub fn resume(
        settings: Settings,
        identity: Identity,
        records: Arc<dyn Records>,
        mark: u64,
        now: Now,
        entropy: [u8; 32],
    ) -> Self {
        let shown = Arc::new(AtomicU64::new(mark));
        let marks = Marks {
            latest: mark,
            shown: shown.clone(),
        };
        Self::start(entropy, now, Mark(shown), |hand| {
            EventLoop::new(
                settings,
                identity,
                Store::new(Some(records), Some(marks), hand),
            )
            .run()
        })
    }

    /// The mark of the state that was suspended last.
    pub fn mark(&self) -> u64 {
        self.shown.0.load(Ordering::Relaxed)
    }
}
