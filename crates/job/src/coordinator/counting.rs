//! What the course of a job adds to its totals, where that takes more than a line.

use blindsum_protocol::{Outgoing, Seat};

use super::Halt;
use super::certificates::CertificateWatch;
use super::context::Context;
use super::running::Running;
use crate::totals::Cause;

/// A round ends without a result.
pub(super) fn count_abort(context: &Context, certificates: &CertificateWatch, halt: &Halt) {
    let cause = match halt {
        Halt::Stop => Cause::Stopped,
        Halt::Aborted(_) if certificates.cannot_certify(context) => Cause::Certificates,
        Halt::Aborted(_) => Cause::Failed,
        Halt::Missed { .. } | Halt::Waits { .. } => Cause::Lost,
        Halt::Unopened(_) => Cause::Withheld,
        Halt::Ended(_) => Cause::Patience,
        Halt::Held(_) => Cause::Operator,
        Halt::Broken(_) => Cause::Broken,
    };
    context.count(|totals| totals.aborted(cause, 1));
}

/// Messages are about to be sent.
pub(super) fn count_down(
    context: &Context,
    running: Option<&mut Running>,
    messages: &[(Seat, Outgoing)],
) {
    let bytes = messages.iter().map(|(_, message)| message.len() as u64);
    let bytes: u64 = bytes.sum();
    context.count(|totals| totals.message_bytes.1 += bytes);
    if let Some(running) = running {
        running.count_down(messages);
    }
}
