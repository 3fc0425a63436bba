//! Rounds of `mpc3`: exact sums over the survivors, and what becomes of servers and parties that do not keep to the
//! protocol.

mod honest;
mod lies;
mod noise;
mod notices;
mod parts;
mod releases;
mod rules;
mod servers;
mod servers_alone;
mod uploads;

use crate::{Adversary, JobSpec, ProtocolName};

fn spec(adversary: Adversary) -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Mpc3.into(),
        adversary,
        parties: 6,
        dim: 9,
        ..JobSpec::default()
    }
}
