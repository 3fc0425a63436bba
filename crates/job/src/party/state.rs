//! Where a party is: in a round, or before or after one. docs/wire-party.md says what it does there with each frame.

use blindsum_protocol::Round;

use super::computed::Computed;
use super::context::Context;
use super::left::Left;
use super::opened::Opened;
use super::participation::Participation;
use super::pledge::Pledge;
use super::sent::Sent;
use super::stepping::Event;
use super::untaken::Untaken;
use super::working::{Next, Working};
use crate::pb;

/// Where a party is.
#[derive(Default)]
pub(super) enum State {
    /// In no round: *waiting*.
    #[default]
    Waiting,
    /// It has said what it is ready with: *ready*.
    Ready(Box<Pledge>),
    /// It has opened its nonce: *opened*.
    Opened(Box<Opened>),
    /// *In a round*, its vector not out.
    Working(Box<Working>),
    /// *In a round*, its vector out.
    Sent(Box<Sent>),
    /// It has the *result*, until the coordinator has said what became of the round.
    Computed(Box<Computed>),
    /// It has told its caller the result of a round, which the caller has not taken.
    Untaken(Box<Untaken>),
}

impl State {
    /// A party that takes a round up, with the machine that it had in it, if any.
    pub fn enter(of: Participation) -> Self {
        match of.has_vector() {
            true => Self::Sent(Box::new(Sent::new(of, true))),
            false => Self::Working(Box::new(Working::new(of))),
        }
    }

    /// What it is ready with, whether its nonce was opened or not.
    pub fn ready(&self) -> Option<&Pledge> {
        match self {
            Self::Ready(pledge) => Some(pledge),
            Self::Opened(opened) => Some(&opened.pledge),
            _ => None,
        }
    }

    /// What it is ready with, to be changed.
    pub fn ready_mut(&mut self) -> Option<&mut Pledge> {
        match self {
            Self::Ready(pledge) => Some(pledge),
            Self::Opened(opened) => Some(&mut opened.pledge),
            _ => None,
        }
    }

    /// What it is ready with, for a round.
    pub fn ready_for(&mut self, round: u64) -> Option<&mut Pledge> {
        self.ready_mut()
            .filter(|pledge| pledge.ready.round == round)
    }

    /// The round that it is in.
    pub fn participation(&self) -> Option<&Participation> {
        match self {
            Self::Working(working) => Some(&working.of),
            Self::Sent(sent) => Some(&sent.of),
            Self::Computed(computed) => Some(&computed.of),
            _ => None,
        }
    }

    /// The round that it is in.
    pub fn participation_mut(&mut self) -> Option<&mut Participation> {
        match self {
            Self::Working(working) => Some(&mut working.of),
            Self::Sent(sent) => Some(&mut sent.of),
            Self::Computed(computed) => Some(&mut computed.of),
            _ => None,
        }
    }

    /// The number of the round that it is in.
    pub fn number(&self) -> Option<u64> {
        self.participation().map(Participation::number)
    }

    /// The round that it is in, if it has this number and the caller's update is not here.
    pub fn lacks_update(&mut self, round: u64) -> Option<&mut Participation> {
        match self {
            Self::Working(working) if working.update.is_none() => Some(&mut working.of),
            _ => None,
        }
        .filter(|of| of.number() == round)
    }

    /// Whether its update is on its way: the coordinator may count it, and knows the result then.
    pub fn may_count(&self) -> bool {
        match self {
            Self::Sent(_) => true,
            // A key set-up counts no update.
            Self::Computed(computed) => computed.of.input_stage().is_some(),
            _ => false,
        }
    }

    /// Whether its update has left this party.
    pub fn is_out(&self) -> bool {
        match self {
            // guard: a-part-that-is-refused-before-the-answer-leaves-keeps-the-party-out
            Self::Sent(sent) => sent.out,
            Self::Computed(_) => self.may_count(),
            // guard: what-stays-here-does-not-count
            _ => false,
        }
    }

    /// Whether a result was told and not taken.
    pub fn is_untaken(&self) -> bool {
        matches!(self, Self::Untaken(_))
    }

    /// The caller gets the round that begins, if it is one for it. True where it was told.
    pub fn tell_begun(&self, ctx: &Context) -> bool {
        let needs = matches!(self, Self::Working(working) if working.update.is_none());
        let of = self.participation();
        of.is_some_and(|of| of.tell_begun(ctx, needs))
    }

    /// A round begins as it was offered and, where nonces are committed to, as it was fixed.
    pub fn check_beginning(&self, start: &pb::RoundStart, round: &Round) -> Result<(), String> {
        match self {
            Self::Ready(pledge) => pledge.check(start, round),
            Self::Opened(opened) => opened.check(start, round),
            _ => Ok(()),
        }
    }

    /// Its nonce is opened for this roster.
    pub fn open(&mut self, fixed: pb::RosterFixed) {
        *self = match std::mem::take(self) {
            Self::Ready(pledge) => Self::Opened(Box::new(Opened::new(*pledge, fixed))),
            state => state,
        };
    }

    /// What happens in the round that the party is in.
    pub async fn on(&mut self, event: Event, ctx: &mut Context) -> Result<(), Left> {
        let mut event = Some(event);
        while let Some(now) = event.take() {
            let next = match self {
                Self::Working(working) => working.on(now, ctx).await?,
                Self::Sent(sent) => sent.on(now, ctx).await?,
                Self::Computed(computed) => computed.on(now, ctx).await.map(|()| Next::Stays)?,
                _ => Next::Stays,
            };
            event = self.go(next, ctx);
        }
        Ok(())
    }

    /// Goes to the next state; gives the message that waited for that.
    fn go(&mut self, next: Next, ctx: &mut Context) -> Option<Event> {
        match (next, std::mem::take(self)) {
            (Next::Sent, Self::Working(working)) => {
                let mut sent = Sent::new(working.of, false);
                sent.say(ctx);
                *self = Self::Sent(Box::new(sent));
                return working.held.map(Event::Message);
            }
            (Next::Computed(outcome), Self::Working(working)) => {
                *self = Self::Computed(Box::new(Computed::new(working.of, outcome)));
            }
            (Next::Computed(outcome), Self::Sent(sent)) => {
                *self = Self::Computed(Box::new(Computed::new(sent.of, outcome)));
            }
            (_, state) => *self = state,
        }
        None
    }

    /// Leaves the round, if the party is in one; gives its number.
    pub fn leave_round(&mut self) -> Option<u64> {
        let round = self.number()?;
        *self = Self::Waiting;
        Some(round)
    }

    /// Leaves a round that it has computed.
    pub fn take_computed(&mut self, round: u64) -> Option<Computed> {
        match self.take_if(|state| state.has_computed(round)) {
            Self::Computed(computed) => Some(*computed),
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

    fn has_computed(&self, round: u64) -> bool {
        matches!(self, Self::Computed(computed) if computed.of.number() == round)
    }

    fn take_if(&mut self, is_it: impl FnOnce(&Self) -> bool) -> Self {
        match is_it(self) {
            true => std::mem::take(self),
            false => Self::Waiting,
        }
    }
}
