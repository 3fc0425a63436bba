//! Where a job stands: between rounds, in one of the steps of a round, or at its end.

use std::sync::Arc;

use super::calls::Calls;
use super::connections::Connections;
use super::fixed::Fixed;
use super::lost::Lost;
use super::offered::Offered;
use super::running::Running;
use crate::machine::Time;
use crate::report::{JobState, RoundReport};

/// Where a job stands.
pub(super) enum Phase {
    /// The job waits for parties, for a call, or for the end of a pause.
    Gathering,
    /// A round is offered.
    Offered(Offered),
    /// The roster is fixed, while its members open their nonces.
    Fixed(Box<Fixed>),
    /// A round is under way.
    Running(Box<Running>),
    /// The job has ended, at least here.
    Finished(End),
}

/// How a job has ended.
pub(super) struct End {
    pub state: JobState,
    /// Why it failed, or was done before its rounds were.
    pub reason: String,
}

impl Phase {
    /// What people, the store and parties are told of it.
    pub fn state(&self) -> JobState {
        match self {
            Self::Finished(end) => end.state,
            Self::Gathering | Self::Offered(_) | Self::Fixed(_) | Self::Running(_) => {
                JobState::Running
            }
        }
    }

    /// Why the job failed, or was done before its rounds were; empty otherwise.
    pub fn reason(&self) -> &str {
        match self {
            Self::Finished(end) => &end.reason,
            _ => "",
        }
    }

    /// The round that is offered.
    pub fn offered(&self) -> Option<&Offered> {
        match self {
            Self::Offered(joining) => Some(joining),
            _ => None,
        }
    }

    pub fn offered_mut(&mut self) -> Option<&mut Offered> {
        match self {
            Self::Offered(joining) => Some(joining),
            _ => None,
        }
    }

    /// The roster that is fixed.
    pub fn fixed(&self) -> Option<&Fixed> {
        match self {
            Self::Fixed(opening) => Some(opening),
            _ => None,
        }
    }

    pub fn fixed_mut(&mut self) -> Option<&mut Fixed> {
        match self {
            Self::Fixed(opening) => Some(opening),
            _ => None,
        }
    }

    /// The round under way.
    pub fn running(&self) -> Option<&Running> {
        match self {
            Self::Running(running) => Some(running),
            _ => None,
        }
    }

    pub fn running_mut(&mut self) -> Option<&mut Running> {
        match self {
            Self::Running(running) => Some(running),
            _ => None,
        }
    }

    /// A step of a round is over, and gives what it had.
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Gathering)
    }

    /// The report of the round under way.
    pub fn report(&self) -> Option<RoundReport> {
        self.running().map(|running| running.report.clone())
    }

    /// How many parties are ready for the round that is offered, or still in the one under way.
    pub fn count(&self) -> usize {
        match self {
            Self::Offered(joining) => joining.count(),
            Self::Running(running) => running.left(),
            Self::Gathering | Self::Fixed(_) | Self::Finished(_) => 0,
        }
    }

    /// Who is ready for the round that is offered.
    pub fn ready(&self) -> Vec<String> {
        let ready = self.offered().into_iter().flat_map(Offered::names);
        ready.map(|name| name.to_string()).collect()
    }

    /// Who is waited for.
    pub fn waiting_for(&self, members: &Connections, calls: &Calls) -> Vec<String> {
        let named = |name: &Arc<str>| name.to_string();
        match self {
            Self::Gathering | Self::Finished(_) => Vec::new(),
            Self::Offered(joining) => {
                let absent = |name: &&Arc<str>| !joining.has(name) && calls.is_called(name);
                members.names().filter(absent).map(named).collect()
            }
            Self::Fixed(opening) => opening.missing().map(named).collect(),
            Self::Running(running) => running.waiting_for(),
        }
    }

    /// Whether a party is in the round under way.
    pub fn is_in_round(&self, name: &str) -> bool {
        self.running()
            .is_some_and(|running| running.has_place(name))
    }

    /// Whether a round for a sum has its parties, and this is none of them.
    pub fn began_without(&self, name: &str, is_key_setup: bool) -> bool {
        match self {
            Self::Fixed(opening) => !opening.has(name),
            Self::Running(running) => !is_key_setup && running.id(name).is_none(),
            Self::Gathering | Self::Offered(_) | Self::Finished(_) => false,
        }
    }

    /// The connection of a party was lost.
    pub fn lost(&mut self, name: &str, now: Time) {
        match self {
            Self::Offered(joining) => joining.forget(name),
            Self::Fixed(opening) => opening.lost(name, now),
            Self::Running(running) => running.lost(name, now),
            Self::Gathering | Self::Finished(_) => {}
        }
    }

    /// A party is not waited for any more.
    pub fn failed(&mut self, name: &str, lost: Lost) {
        match self {
            Self::Fixed(opening) => opening.member_failed(name, lost),
            Self::Running(running) => running.failed(name, lost),
            Self::Gathering | Self::Offered(_) | Self::Finished(_) => {}
        }
    }
}
