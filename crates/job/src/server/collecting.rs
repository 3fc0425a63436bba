//! A stage that collects answers, and keeps those that it will pass on.

use blindsum_protocol::{Fault, Message, PartyId, Receipt, Server};

use super::shelf::{Shelf, ShelfError, Shelves};

/// The server's machine in one stage, with the answers that it does not keep itself.
pub(super) struct Collecting {
    pub server: Server,
    pub shelf: Box<dyn Shelf>,
}

impl Collecting {
    pub fn new(server: Server, shelves: &dyn Shelves) -> Self {
        let shelf = shelves.shelf();
        Self { server, shelf }
    }

    /// One party's answer. May wait for the disk.
    pub fn receive(
        &mut self,
        party: PartyId,
        message: Message,
    ) -> Result<Result<Receipt, Fault>, ShelfError> {
        let receipt = self.server.receive(party, &message);
        if receipt == Ok(Receipt::Taken) && self.server.relays() {
            self.shelf.keep(party, message)?;
        }
        Ok(receipt)
    }
}
