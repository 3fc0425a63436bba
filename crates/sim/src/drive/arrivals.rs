//! Answers reach the server.

use std::collections::BTreeSet;

use blindsum_protocol::Server;

use super::{Content, Drive, Letter};
use crate::SimError;
use crate::network::Time;
use crate::queue::{Arrival, Entry};

impl Drive<'_> {
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
}
