//! Messages of a round on their way: sent, carried by the network, delivered, freed.

use std::collections::BTreeSet;
use std::sync::Arc;

use blindsum_protocol::{Message, Outgoing, PartyId, Receipt, Seat as Place, Server};

use super::{Content, Drive, Letter};
use crate::SimError;
use crate::network::{Time, Transmission};
use crate::queue::{Arrival, Entry};
use crate::relay::Parcel;
use crate::turn::{Seat, planned};

impl Drive<'_> {
    /// Sends an answer; gives the number of the letter.
    pub(super) fn post(&mut self, from: PartyId, stage: u8, content: Content) -> usize {
        let sent = self.now + self.script.delay(from, stage);
        let giving = self.give(from, stage, sent);
        let (rng, until) = (&mut self.network_rng, giving.until);
        let transmission = match giving.complete {
            true => self.network.transmit(rng, until, self.deadline),
            // Nothing goes to the coordinator, but what other servers were given is made and counts.
            false => Transmission {
                attempts: 0,
                arrivals: vec![until],
            },
        };
        let index = self.letters.len();
        let (attempts, copies) = (transmission.attempts, transmission.arrivals.len());
        self.letters.push(Letter {
            from,
            stage,
            content,
            giving,
            attempts,
            copies,
            taken: false,
        });
        for at in transmission.arrivals {
            self.queue.push(at, Arrival::AtServer { letter: index });
        }
        self.charge(index);
        self.release(index);
        index
    }

    /// Counts the bytes of a letter that is made.
    pub(super) fn charge(&mut self, index: usize) {
        let Some(letter) = self.letters.get(index) else {
            return;
        };
        let Content::Made(messages, parts) = &letter.content else {
            return;
        };
        let bytes: usize = messages.iter().map(|message| message.len()).sum();
        let bytes = letter.attempts * bytes as u64 + letter.giving.bytes(parts);
        if let Some(cost) = self
            .seats
            .get_mut(letter.from.rank())
            .and_then(|seat| seat.cost(letter.stage))
        {
            cost.up += bytes;
        }
    }

    /// Frees a letter of which no copy is left, and what the client kept to repeat it where that is a
    /// vector that the server has.
    fn release(&mut self, index: usize) {
        let Some(letter) = self
            .letters
            .get_mut(index)
            .filter(|letter| letter.copies == 0)
        else {
            return;
        };
        if matches!(letter.content, Content::Owed(_)) {
            return;
        }
        letter.content = Content::nothing();
        if letter.taken && Some(letter.stage) == self.setting.round.plan().input_stage() {
            let seat = self.seats.get_mut(letter.from.rank());
            seat.into_iter().for_each(Seat::acknowledged);
        }
    }

    /// Takes the next answers that reach the server, as long as nothing reaches a client between them.
    /// False if there is none.
    pub(super) fn server_run(&mut self, mut server: Option<&mut Server>) -> Result<bool, SimError> {
        let mut owed = BTreeSet::new();
        let mut entries: Vec<(Entry, usize)> = Vec::new();
        let (letters, ahead) = (&self.letters, self.ahead);
        let mut wanted = |arrival: &Arrival| match arrival {
            Arrival::AtServer { letter } if owed.len() < ahead => {
                if letters
                    .get(*letter)
                    .is_some_and(|l| matches!(l.content, Content::Owed(_)))
                {
                    owed.insert(*letter);
                }
                true
            }
            _ => false,
        };
        while let Some(entry) = self.queue.pop_if(self.deadline, &mut wanted) {
            if let Arrival::AtServer { letter } = entry.arrival {
                entries.push((entry, letter));
            }
        }
        if server.is_some() {
            let owed: Vec<usize> = owed.into_iter().collect();
            self.make(&owed)?;
        }
        let happened = !entries.is_empty();
        for (entry, letter) in entries {
            match &mut server {
                Some(_) if self.missing == 0 => self.queue.put_back(entry),
                Some(server) => self.deliver(server, entry.at, letter)?,
                None => self.drop_copy(letter),
            }
        }
        self.tell()?;
        Ok(happened)
    }

    /// A copy of a letter reaches the server.
    fn deliver(&mut self, server: &mut Server, at: Time, index: usize) -> Result<(), SimError> {
        self.now = self.now.max(at);
        let Some(Letter {
            from,
            content: Content::Made(messages, parts),
            giving,
            ..
        }) = self.letters.get_mut(index)
        else {
            return Ok(());
        };
        let (from, messages) = (*from, messages.clone());
        let (parts, giving) = (std::mem::take(parts), std::mem::take(giving));
        self.deliver_parts(from, &parts, &giving);
        let mut taken = false;
        for message in messages {
            self.servers.coordinator.received += message.len() as u64;
            taken |= self.receive(server, from, &message)?;
        }
        if let Some(letter) = self.letters.get_mut(index) {
            letter.taken |= taken;
        }
        self.drop_copy(index);
        self.tell_of_uploads(server)
    }

    fn drop_copy(&mut self, index: usize) {
        if let Some(letter) = self.letters.get_mut(index) {
            letter.copies = letter.copies.saturating_sub(1);
        }
        self.release(index);
    }

    /// The server takes a message, or refuses it: false.
    pub(super) fn receive(
        &mut self,
        server: &mut Server,
        from: PartyId,
        message: &Message,
    ) -> Result<bool, SimError> {
        match self.serve(|_| server.receive(from, message)) {
            Ok(Receipt::Taken) => {
                self.missing = self.missing.saturating_sub(1);
                if server.relays() {
                    self.kept.keep(from, message).map_err(SimError::Spool)?;
                }
                Ok(true)
            }
            Ok(Receipt::Repeated) => Ok(true),
            Err(fault) => {
                self.hooks.refused(self.stage, &fault);
                self.refused.push(fault);
                Ok(false)
            }
        }
    }

    /// What the server says to somebody at the end of a stage is in its plan, and so is that it says nothing.
    pub(super) fn check_reply(
        &self,
        to: Place,
        stage: u8,
        bytes: Option<usize>,
    ) -> Result<(), SimError> {
        let plan = self.setting.round.plan();
        let allowed = plan.allows_reply(to, stage, bytes);
        let who = format!("the server to {to}");
        planned(who, allowed, plan.reply(stage), stage, bytes)
    }

    /// Of those who wait, the server may leave out whom the plan lets it leave out.
    pub(super) fn check_silence(
        &self,
        waiting: impl IntoIterator<Item = PartyId>,
        messages: &[(Place, Outgoing)],
    ) -> Result<(), SimError> {
        let told: BTreeSet<Place> = messages.iter().map(|(to, _)| *to).collect();
        let silent = waiting.into_iter().map(Place::from);
        for place in silent.filter(|place| !told.contains(place)) {
            self.check_reply(place, self.stage.saturating_sub(1), None)?;
        }
        Ok(())
    }

    /// Sends the server's messages that end the stage before this one.
    pub(super) fn send(&mut self, messages: Vec<(Place, Outgoing)>) -> Result<(), SimError> {
        let leads_to = self.stage;
        let kept = Arc::new(std::mem::take(&mut self.kept));
        for (place, outgoing) in messages {
            let to = match place {
                Place::Party(party) => party,
                Place::Server(role) => {
                    self.tell_server(role, Parcel::new(outgoing, &kept))?;
                    continue;
                }
            };
            if self.script.is_gone(to, leads_to) {
                self.seats
                    .get_mut(to.rank())
                    .into_iter()
                    .for_each(Seat::leave);
                continue;
            }
            let (parcel, stage) = (Parcel::new(outgoing, &kept), leads_to - 1);
            let message = parcel.open().map_err(SimError::Spool)?;
            let message = message.ok_or(SimError::Relay { to: place, stage })?;
            self.check_reply(place, stage, Some(message.len()))?;
            let action = self.hooks.server_says(stage, to, &message);
            for parcel in parcel.apply(action, message) {
                let transmission =
                    self.network
                        .transmit(&mut self.network_rng, self.now, self.deadline);
                let sent = transmission.attempts * parcel.len() as u64;
                if let Some(cost) = self
                    .seats
                    .get_mut(to.rank())
                    .and_then(|seat| seat.cost(leads_to))
                {
                    cost.down += sent;
                }
                self.servers.coordinator.sent += sent;
                for at in transmission.arrivals {
                    self.queue.push(
                        at,
                        Arrival::AtClient {
                            to,
                            leads_to,
                            message: Some(parcel.clone()),
                        },
                    );
                }
            }
        }
        Ok(())
    }
}
