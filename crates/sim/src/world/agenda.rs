//! The events of an episode, by time and then in the order in which they were caused.

use std::collections::BTreeMap;

use blindsum_job::pb::{CoordinatorFrame, PartyFrame};

/// Microseconds since the episode began.
pub(super) type Micros = u64;

/// Whose machine something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    Server,
    Party(usize),
}

/// One thing that happens. `life` counts how often a machine was started: what was meant for an earlier life of it is
/// not for this one.
pub(super) enum Event {
    /// A party's frame reaches the coordinator.
    AtServer { link: u64, frame: PartyFrame },
    /// A frame of the coordinator reaches its party.
    AtParty { link: u64, frame: CoordinatorFrame },
    /// One side learns that a connection has ended.
    Ends { link: u64, at: Who, reason: String },
    /// A party without a connection tries to make one.
    Connect { party: usize },
    /// A task ends.
    TaskEnds { who: Who, life: u32 },
    /// A machine asked to be woken.
    Wake { who: Who, life: u32 },
    /// A machine is started, for the first time or again.
    Start(Who),
    /// The caller of a party begins to wait for rounds.
    Wants { party: usize, life: u32 },
    /// The caller of a party has taken the result of a round.
    Took { party: usize, life: u32, round: u64 },
    /// The caller of a party has made its update of a round.
    Trained { party: usize, life: u32, round: u64 },
}

/// What is still to happen.
#[derive(Default)]
pub(super) struct Agenda {
    events: BTreeMap<(Micros, u64), Event>,
    caused: u64,
}

impl Agenda {
    pub fn push(&mut self, at: Micros, event: Event) {
        self.events.insert((at, self.caused), event);
        self.caused += 1;
    }

    pub fn pop(&mut self) -> Option<(Micros, Event)> {
        let ((at, _), event) = self.events.pop_first()?;
        Some((at, event))
    }
}
