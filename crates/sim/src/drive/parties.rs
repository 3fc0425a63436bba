//! The parties' side of a round: which party acts next, and what happens with its messages.

use std::collections::BTreeSet;

use blindsum_protocol::{Message, PartyId};

use super::{Arrival, Content, Drive};
use crate::SimError;
use crate::progress::look;
use crate::turn::{Parts, PartyEnd, Said, Seat, Turn};

/// Turns of a thread between two looks at whether the run is to stop.
const TURNS: usize = 8;

impl Drive<'_> {
    /// Takes the next messages that reach clients, one per party, as long as nothing reaches the server
    /// between them. False if there is none.
    pub(super) fn client_run(&mut self) -> Result<bool, SimError> {
        let mut reached = BTreeSet::new();
        let mut ready = Vec::new();
        let mut first = |arrival: &Arrival| match arrival {
            Arrival::AtClient { to, .. } => reached.insert(*to),
            Arrival::AtServer { .. } => false,
        };
        while let Some((at, Arrival::AtClient { to, turn })) =
            self.agenda.pop_if(self.deadline, &mut first)
        {
            self.agenda.passes(at);
            ready.extend(self.reach(to, turn)?);
        }
        let said = self.take_turns(&ready)?;
        for ((party, turn), said) in ready.iter().zip(said) {
            let (messages, parts) = self.settle(*party, turn.leads_to, said);
            if !messages.is_empty() {
                self.post(*party, turn.leads_to, Content::Made(messages, parts));
            }
        }
        Ok(!reached.is_empty())
    }

    /// A message reaches a party. Gives its turn, unless it is gone or its answer can wait until it
    /// arrives at the server.
    fn reach(&mut self, to: PartyId, turn: Turn) -> Result<Option<(PartyId, Turn)>, SimError> {
        let gone = self.script.is_gone(to, turn.leads_to);
        let Some(seat) = self.seat(to) else {
            return Ok(None);
        };
        if gone || seat.is_gone() {
            seat.leave();
            return Ok(None);
        }
        if let Some(letter) = seat.owes.take() {
            self.make(&[letter])?;
        }
        if !self.seats.get(to.rank()).is_some_and(Seat::needs_input) {
            return Ok(Some((to, turn)));
        }
        let letter = self.post(to, turn.leads_to, Content::Owed(turn));
        if let Some(seat) = self.seat(to) {
            seat.owes = Some(letter);
        }
        Ok(None)
    }

    /// Makes letters that are owed, in parallel.
    pub(super) fn make(&mut self, letters: &[usize]) -> Result<(), SimError> {
        let mut owed = Vec::new();
        let mut turns = Vec::new();
        for &index in letters {
            let Some(letter) = self.letters.get_mut(index) else {
                continue;
            };
            if let Content::Owed(turn) = std::mem::replace(&mut letter.content, Content::nothing())
            {
                owed.push(index);
                turns.push((letter.from, turn));
            }
        }
        let said = self.take_turns(&turns)?;
        for ((index, (party, turn)), said) in owed.into_iter().zip(&turns).zip(said) {
            let (mut messages, mut parts) = self.settle(*party, turn.leads_to, said);
            if let Some(letter) = self.letters.get_mut(index) {
                letter.giving.keep(&mut parts);
                if !letter.giving.complete {
                    messages.clear();
                }
                letter.content = Content::Made(messages, parts);
            }
            if self.script.uploads(*party, turn.leads_to).is_some() {
                self.leaves(*party);
            }
            self.charge(index);
        }
        Ok(())
    }

    /// Takes turns of different parties, in parallel; gives what they said, in order. Between some of them the run may
    /// be stopped: a stage of many parties can take long.
    fn take_turns(&mut self, turns: &[(PartyId, Turn)]) -> Result<Vec<Said>, SimError> {
        let so_far = self.so_far();
        let mut order: Vec<usize> = (0..turns.len()).collect();
        order.sort_by_key(|index| turns[*index].0);
        let parties = order.iter().map(|index| turns[*index].0.rank());
        let seats = pick(&mut self.seats, parties);
        let mut work: Vec<_> = order
            .into_iter()
            .zip(seats)
            .map(|(index, seat)| (index, seat, None))
            .collect();
        let (setting, outcome) = (&self.setting, self.outcome.as_ref());
        for (number, some) in work.chunks_mut(self.workers.threads() * TURNS).enumerate() {
            if number > 0 {
                look(self.progress, &so_far)?;
            }
            self.workers.each(some, |scratch, (index, seat, said)| {
                seat.owes = None;
                *said = Some(seat.take(setting, outcome, scratch, &turns[*index].1));
            });
        }
        work.sort_by_key(|(index, ..)| *index);
        work.into_iter().filter_map(|(.., said)| said).collect()
    }

    /// What becomes of what a party said: the messages that go out, and the parts that go before.
    fn settle(&mut self, party: PartyId, stage: u8, said: Said) -> (Vec<Message>, Parts) {
        let Some(seat) = self.seats.get_mut(party.rank()) else {
            return Default::default();
        };
        match said {
            Said::Message(message, parts) => {
                let action = self.hooks.client_says(stage, party, &message);
                return (action.apply(message), parts);
            }
            Said::Nothing => {}
            Said::Result { agrees } => seat.end = PartyEnd::Result { agrees },
            Said::Fault(fault) if seat.end == PartyEnd::Waiting => {
                self.hooks.client_ended(stage, party, &fault);
                seat.end = PartyEnd::Fault { stage, fault };
            }
            Said::Fault(_) => {}
        }
        Default::default()
    }
}

/// The seats of some parties, whose ranks ascend.
fn pick(seats: &mut [Seat], ranks: impl Iterator<Item = usize>) -> Vec<&mut Seat> {
    let mut picked = Vec::new();
    let (mut rest, mut first) = (seats, 0);
    for rank in ranks {
        let Some((_, from)) = std::mem::take(&mut rest).split_at_mut_checked(rank - first) else {
            break;
        };
        let Some((seat, after)) = from.split_first_mut() else {
            break;
        };
        picked.push(seat);
        (rest, first) = (after, rank + 1);
    }
    picked
}
