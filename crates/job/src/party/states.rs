//! Where a party is: in a round, or before or after one. docs/wire-party.md says what it does there with each frame.

use super::active::Active;
use super::pledge::Pledge;
use super::untaken::Untaken;

/// Where a party is.
#[derive(Default)]
pub(super) enum State {
    /// In no round: *waiting*.
    #[default]
    Waiting,
    /// It has said what it is ready with: *ready*, and *opened* once its nonce was.
    Ready(Box<Pledge>),
    /// *In a round*, until the coordinator has said what became of it: with *result* once it has the sum.
    InRound(Box<Active>),
    /// It has told its caller the result of a round, which the caller has not taken.
    Untaken(Box<Untaken>),
}

impl State {
    /// What it is ready with.
    pub fn ready(&self) -> Option<&Pledge> {
        match self {
            Self::Ready(pledge) => Some(pledge),
            _ => None,
        }
    }

    /// What it is ready with, for a round.
    pub fn ready_for(&mut self, round: u64) -> Option<&mut Pledge> {
        match self {
            Self::Ready(pledge) if pledge.ready.round == round => Some(pledge),
            _ => None,
        }
    }

    /// The round that it is in.
    pub fn active(&self) -> Option<&Active> {
        match self {
            Self::InRound(active) => Some(active),
            _ => None,
        }
    }

    /// The round that it is in, whatever its number.
    pub fn active_mut(&mut self) -> Option<&mut Active> {
        match self {
            Self::InRound(active) => Some(active),
            _ => None,
        }
    }

    /// The round that it is in, if it has this number.
    pub fn in_round(&mut self, round: u64) -> Option<&mut Active> {
        self.active_mut().filter(|active| active.number() == round)
    }

    /// The number of the round that it is in.
    pub fn number(&self) -> Option<u64> {
        self.active().map(|active| active.number())
    }

    /// Whether a result was told and not taken.
    pub fn is_untaken(&self) -> bool {
        matches!(self, Self::Untaken(_))
    }

    /// Leaves the round, if the party is in one.
    pub fn leave_round(&mut self) -> Option<Active> {
        match self.take_if(|state| state.active().is_some()) {
            Self::InRound(active) => Some(*active),
            _ => None,
        }
    }

    /// Takes back what the party is ready with, if it is.
    pub fn take_ready(&mut self) -> Option<Pledge> {
        match self.take_if(|state| state.ready().is_some()) {
            Self::Ready(pledge) => Some(*pledge),
            _ => None,
        }
    }

    /// The caller takes the result, if there is one.
    pub fn take_result(&mut self) -> Option<Untaken> {
        match self.take_if(Self::is_untaken) {
            Self::Untaken(untaken) => Some(*untaken),
            _ => None,
        }
    }

    fn take_if(&mut self, is_it: impl FnOnce(&Self) -> bool) -> Self {
        match is_it(self) {
            true => std::mem::take(self),
            false => Self::Waiting,
        }
    }
}
