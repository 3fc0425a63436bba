//! What the course of a job adds to its totals, where that takes more than a line.

use blindsum_protocol::{Outgoing, Seat};

use super::{Halt, Lead};
use crate::totals::Cause;

impl Lead {
    /// A round ends without a result.
    pub(super) fn count_abort(&self, halt: &Halt) {
        let cause = match halt {
            Halt::Stop => Cause::Stopped,
            Halt::Aborted(_) if self.certificates.cannot_certify(&self.context) => {
                Cause::Certificates
            }
            Halt::Aborted(_) => Cause::Failed,
            Halt::Missed { .. } | Halt::Waits { .. } => Cause::Lost,
            Halt::Unopened(_) => Cause::Withheld,
            Halt::Ended(_) => Cause::Patience,
            Halt::Held(_) => Cause::Operator,
            Halt::Broken(_) => Cause::Broken,
        };
        self.context.count(|totals| totals.aborted(cause, 1));
    }

    /// Messages are about to be sent.
    pub(super) fn count_down(&mut self, messages: &[(Seat, Outgoing)]) {
        let bytes = messages.iter().map(|(_, message)| message.len() as u64);
        let bytes: u64 = bytes.sum();
        self.context.count(|totals| totals.message_bytes.1 += bytes);
        if let Some(running) = &mut self.running {
            running.count_down(messages);
        }
    }

    /// How many parties are ready for the round that is offered, or still in the one under way.
    pub(super) fn ready_now(&self) -> usize {
        match (&self.joining, &self.running) {
            (Some(joining), _) => joining.count(),
            (None, Some(running)) => running.left(),
            (None, None) => 0,
        }
    }
}
