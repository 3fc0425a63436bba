//! Who is to blame where servers do not come to a result.

use blindsum_mpc::MpcError;

use crate::{Fault, FaultKind, ServerIndex, ServerRole};

/// Says who does not follow the protocol: a server that said something wrong.
pub(super) fn blame(from: ServerIndex, field: &'static str, rule: &str) -> Fault {
    let kind = FaultKind::malformed(field, rule);
    match ServerRole::at(from) {
        Some(role) => Fault::of(role.into(), kind),
        None => Fault::server(kind),
    }
}

/// The computation cannot go on.
pub(super) fn broken(error: MpcError) -> Fault {
    let text = error.to_string();
    match error {
        MpcError::Length { from, .. } | MpcError::Round { from, .. } => {
            blame(from, "letter", &text)
        }
        // One of two, or of three: the text says which. The one that noticed it need not be right.
        _ => Fault::nobody(FaultKind::malformed("computation", text)),
    }
}
