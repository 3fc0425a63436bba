//! A stage that collects answers, and keeps those that will be passed on.

use blindsum_protocol::{Fault, Message, Receipt, Seat, Server};

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

    /// The answer of a party or another server. May wait for the disk.
    pub fn receive(
        &mut self,
        from: Seat,
        message: Message,
    ) -> Result<Result<Receipt, Fault>, ShelfError> {
        let receipt = self.server.receive(from, &message);
        if let Seat::Party(party) = from
            && receipt == Ok(Receipt::Taken)
            && self.server.relays()
        {
            self.shelf.keep(party, message)?;
        }
        Ok(receipt)
    }
}
