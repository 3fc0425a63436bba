//! A party as who drives it sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::exchange::{Effect, Identity, Input, Settings};
use super::marks::Marks;
use super::member::Member;
use crate::actor::{Actor, Now, Ticket, Time};
use crate::records::Records;

/// A party of a job as a machine.
pub struct JobParty {
    actor: Actor<Input, Effect>,
    mark: Arc<AtomicU64>,
}

impl JobParty {
    /// A party that begins, or goes on from its records. Without records it remembers nothing beyond itself. All
    /// randomness comes from `entropy`, 32 bytes that nobody else knows and that are used once.
    pub fn open(
        settings: Settings,
        identity: Identity,
        records: Option<Arc<dyn Records>>,
        now: Now,
        entropy: [u8; 32],
    ) -> Self {
        Self {
            actor: Actor::start(entropy, now, |hand| {
                Member::new(settings, identity, records, None, hand).run()
            }),
            mark: Arc::default(),
        }
    }

    /// A party that goes on where another process [suspended](Input::Suspend) it, also in the middle of a round; with
    /// records in which none did, one that begins, or goes on as after a kill. The caller is told once more what it
    /// may not have heard: the job, the round that is under way, a result that it has not taken. A connection that
    /// there was has the number 0 now.
    ///
    /// `mark` is the latest [`mark`](Self::mark) that the host knows of; 0 where there is none yet. It must be kept where
    /// no backup brings an earlier one back: a suspended state with a lower one is an old copy, and the round that it
    /// was in is given up. Nothing that the party says after this may leave before a suspended state that has it behind
    /// it is durable, and after that its mark; and no two processes may go on from one state at once. Otherwise one key
    /// could be used for two things.
    pub fn resume(
        settings: Settings,
        identity: Identity,
        records: Arc<dyn Records>,
        mark: u64,
        now: Now,
        entropy: [u8; 32],
    ) -> Self {
        let shown = Arc::new(AtomicU64::new(mark));
        let marks = Marks::new(mark, shown.clone());
        let actor = Actor::start(entropy, now, |hand| {
            Member::new(settings, identity, Some(records), Some(marks), hand).run()
        });
        let mark = shown;
        Self { actor, mark }
    }

    /// The mark of the state that was suspended last.
    pub fn mark(&self) -> u64 {
        self.mark.load(Ordering::Relaxed)
    }

    /// Something has come.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.actor.handle(now, input);
    }

    /// A task is done.
    pub fn worked(&mut self, now: Now, ticket: Ticket) {
        self.actor.worked(now, ticket);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        self.actor.tick(now);
    }

    /// What is to be done next; none where nothing is.
    pub fn poll(&mut self) -> Option<Effect> {
        self.actor.poll()
    }

    /// When to [`tick`](Self::tick), unless something comes before.
    pub fn wake(&self) -> Option<Time> {
        self.actor.wake()
    }

    /// Whether a task is under way. What comes meanwhile waits, so that it is best left with its sender.
    pub fn is_busy(&self) -> bool {
        self.actor.is_busy()
    }

    /// Whether nothing more will come of it.
    pub fn is_over(&self) -> bool {
        self.actor.is_over()
    }
}
