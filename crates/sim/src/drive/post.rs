//! Messages of a round are sent: answers to the server, and its messages to everybody.

use std::sync::Arc;

use blindsum_protocol::{Outgoing, PartyId, Seat as Place};

use super::{Arrival, Content, Drive, Letter};
use crate::SimError;
use crate::network::Transmission;
use crate::relay::Parcel;

impl Drive<'_> {
    /// Sends an answer; gives the number of the letter.
    pub(super) fn post(&mut self, from: PartyId, stage: u8, content: Content) -> usize {
        let sent = self.agenda.time() + self.script.delay(from, stage);
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
            self.agenda.at(at, Arrival::AtServer { letter: index });
        }
        self.charge(index);
        self.release(index);
        index
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
                self.leaves(to);
                continue;
            }
            let (parcel, stage) = (Parcel::new(outgoing, &kept), leads_to - 1);
            let message = parcel.open().map_err(SimError::Spool)?;
            let message = message.ok_or(SimError::Relay { to: place, stage })?;
            self.check_reply(place, stage, Some(message.len()))?;
            let action = self.hooks.server_says(stage, to, &message);
            for parcel in parcel.apply(action, message) {
                let (rng, now) = (&mut self.network_rng, self.agenda.time());
                let transmission = self.network.transmit(rng, now, self.deadline);
                let sent = transmission.attempts * parcel.len() as u64;
                if let Some(cost) = self.cost(to, leads_to) {
                    cost.down += sent;
                }
                self.servers.coordinator.sent += sent;
                for at in transmission.arrivals {
                    self.turn_comes(at, to, leads_to, Some(parcel.clone()));
                }
            }
        }
        Ok(())
    }
}
