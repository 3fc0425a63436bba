//! The protocols driven by hand: rounds with dropouts, and the abuse cases (docs/security/cases.md).

mod columns;
mod dropouts;
mod keys;
mod parameters;
mod survivors;

use crate::testing::{Rig, assert_ended, body, parties, restart, with_body};
use crate::{Adversary, FaultKind, Fssa, JobSpec, PartyId, ProtocolName, Pss};

const SHARE_VECTOR: u8 = 1;
const CONSISTENCY: u8 = 2;

/// The stage in which sums of columns are sent.
fn aggregate(adversary: Adversary) -> u8 {
    match adversary {
        Adversary::SemiHonest => 2,
        Adversary::Active => 3,
    }
}

const VARIANTS: [(ProtocolName, Adversary); 4] = [
    (ProtocolName::Fssa, Adversary::SemiHonest),
    (ProtocolName::Fssa, Adversary::Active),
    (ProtocolName::Pss, Adversary::SemiHonest),
    (ProtocolName::Pss, Adversary::Active),
];

fn spec((protocol, adversary): (ProtocolName, Adversary), parties: u32) -> JobSpec {
    JobSpec {
        protocol: protocol.into(),
        adversary,
        parties,
        dim: 101,
        corrupt: 0.2,
        dropout: 0.2,
        ..JobSpec::default()
    }
}

/// The job with other options of its protocol.
fn with(spec: JobSpec, threshold: u32, packing: u32) -> JobSpec {
    let protocol = match spec.protocol.name() {
        ProtocolName::Fssa => Fssa { threshold, packing }.into(),
        _ => Pss { threshold, packing }.into(),
    };
    JobSpec { protocol, ..spec }
}

fn active(parties: u32) -> JobSpec {
    spec((ProtocolName::Pss, Adversary::Active), parties)
}
