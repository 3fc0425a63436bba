//! A stage that collects answers, and keeps those that it will pass on.

use std::sync::Arc;

use blindsum_protocol::{Fault, Message, PartyId, Receipt, Server};

use crate::relay::{Spool, SpoolError, Spools};

/// The server's machine in one stage, with the answers that it does not keep itself.
pub(super) struct Collecting {
    pub server: Server,
    pub spool: Spool,
}

impl Collecting {
    pub fn new(server: Server, spools: &Arc<Spools>) -> Self {
        let spool = Spool::new(spools);
        Self { server, spool }
    }

    /// One party's answer. May wait for the disk.
    pub fn receive(
        &mut self,
        party: PartyId,
        message: Message,
    ) -> Result<Result<Receipt, Fault>, SpoolError> {
        let receipt = self.server.receive(party, &message);
        if receipt == Ok(Receipt::Taken) && self.server.relays() {
            self.spool.keep(party, message)?;
        }
        Ok(receipt)
    }
}
