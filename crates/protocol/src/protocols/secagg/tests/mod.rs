//! The protocol driven by hand: rounds with dropouts, and the abuse cases (docs/security/cases.md).

mod dropouts;
mod isolation;
mod keys;
mod laws;
mod replay;
mod rollback;
mod secrets;
mod strangers;
mod survivors;

use crate::testing::{Rig, assert_ended, body, parties, restart, storage_key, with_body};
use crate::{Adversary, Client, FaultKind, JobSpec, Message, PartyId, ProtocolName};

/// Stage numbers of the active variant.
const SHARE_KEYS: u8 = 1;
const MASKED_INPUT: u8 = 2;
const CONSISTENCY: u8 = 3;
const UNMASK: u8 = 4;

fn spec(protocol: ProtocolName, adversary: Adversary, parties: u32) -> JobSpec {
    JobSpec {
        protocol: protocol.into(),
        adversary,
        parties,
        dim: 100,
        ..JobSpec::default()
    }
}

fn active(parties: u32) -> JobSpec {
    spec(ProtocolName::SecAgg, Adversary::Active, parties)
}
