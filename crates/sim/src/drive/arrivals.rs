//! Answers reach the server.

use std::collections::BTreeSet;

use blindsum_protocol::Server;

use super::{Arrival, Content, Drive, Letter};
use crate::SimError;
use crate::agenda::Time;

impl Drive<'_> {
    /// Takes the next answers that reach the server, as long as nothing reaches a client between them.
    /// False if there is none.
    pub(super) fn server_run(&mut self, mut server: Option<&mut Server>) -> Result<bool, SimError> {
        let (mut owed, mut comes) = (BTreeSet::new(), 0);
        for arrival in self.agenda.until(self.deadline) {
            let Arrival::AtServer { letter } = arrival else {
                break;
            };
            if owed.len() == self.ahead {
                break;
            }
            comes += 1;
            let content = self.letters.get(*letter).map(|it| &it.content);
            if matches!(content, Some(Content::Owed(_))) {
                owed.insert(*letter);
            }
        }
        if server.is_some() {
            let owed: Vec<usize> = owed.into_iter().collect();
            self.make(&owed)?;
        }
        for _ in 0..comes {
            if server.is_some() && self.missing == 0 {
                break;
            }
            let next = self.agenda.pop_if(self.deadline, |_| true);
            if let Some((at, Arrival::AtServer { letter })) = next {
                match &mut server {
                    Some(server) => self.deliver(server, at, letter)?,
                    None => self.drop_copy(letter),
                }
            }
        }
        self.tell()?;
        Ok(comes > 0)
    }

    /// A copy of a letter reaches the server.
    fn deliver(&mut self, server: &mut Server, at: Time, index: usize) -> Result<(), SimError> {
        self.agenda.passes(at);
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
}
