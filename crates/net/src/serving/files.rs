//! The limit on open files, of which each connection needs one: it is raised as far as needed, or a warning says that
//! it is too low.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

use crate::limits::Limits;

/// Files beside connections: the store, logs, spools, the runtime's own.
const OTHERS: u64 = 64;

/// Raises the limit of this process on open files as far as the connections need it and the system allows, and warns
/// where that is not far enough.
pub(crate) fn make_room(limits: &Limits) {
    let needed = needed(limits);
    let current = getrlimit(Resource::Nofile);
    // None is no limit.
    let (soft, hard) = (
        current.current.unwrap_or(u64::MAX),
        current.maximum.unwrap_or(u64::MAX),
    );
    let wanted = needed.min(hard);
    let mut open_files = soft;
    if soft < wanted {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: current.maximum,
        };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => open_files = wanted,
            Err(error) => warn!(%error, wanted, "the limit on open files cannot be raised"),
        }
    }
    match shortage(limits, open_files) {
        Some(advice) => warn!("{advice}"),
        None => info!(
            connections = limits.connections,
            open_files, "room for connections"
        ),
    }
}

/// Those for every connection and handshake that the limits allow.
fn needed(limits: &Limits) -> u64 {
    let peers = limits.connections.saturating_add(limits.handshakes) as u64;
    peers.saturating_add(OTHERS)
}

/// What the operator must know where there are fewer.
fn shortage(limits: &Limits, open_files: u64) -> Option<String> {
    let needed = needed(limits);
    // guard: too-few-files-are-told
    (open_files < needed).then(|| {
        let (connections, handshakes) = (limits.connections, limits.handshakes);
        format!(
            "this process may open {open_files} files, and connections = {connections} with handshakes = {handshakes} \
             need {needed}: raise the limit (ulimit -n, LimitNOFILE=) or lower connections"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_58_too_few_files_are_told_with_what_to_do() {
        let limits = Limits {
            connections: 1000,
            handshakes: 36,
            ..Limits::default()
        };
        assert_eq!(shortage(&limits, 1100), None);
        let advice = shortage(&limits, 1099).unwrap();
        assert!(advice.contains("open 1099 files") && advice.contains("need 1100"));
    }
}
