//! `paillier-ring`, `paillier-broadcast`, `paillier-allreduce`: sums under Paillier's scheme, whose key a key service has
//! (MYSTIKO).
//!
//! Whoever has the key could read every vector, so the service never sees one: what parties send each other is sealed
//! under keys that it does not have. It gets the sum of all, and nothing else. A party that shows the service what it got
//! from others breaks that: the service and one party must keep apart.
//!
//! A round begins with fresh keys of all and the key of the service ([`circle`]), goes on in the steps of one of three
//! [ways](way), and ends with the service's word on the sum. Nobody may be lost on the way: another round begins without
//! whoever was.
//!
//! * [`options`]: what a job may say. [`messages`]: what is sent.
//! * [`cipher`]: vectors under encryption, and their roll call.
//! * [`hops`], [`broadcast`]: a party. [`serve`]: the coordinator. [`follow`]: the key service in a round, and
//!   [`service`] beyond rounds.

mod broadcast;
mod cipher;
mod circle;
mod follow;
mod hops;
mod messages;
mod options;
mod serve;
mod service;
#[cfg(test)]
mod tests;
mod way;

pub use options::{
    ExponentName, KeyBits, PaillierAllReduce, PaillierBroadcast, PaillierRing, RingOrder,
};

use std::sync::Arc;

use cipher::Layout;
use options::Options;
use way::{BEFORE, Way};

use crate::core::noise_rule::NoiseRule;
use crate::core::plan::{Stage, small};
use crate::core::protocol::{ProtocolInfo, ProtocolTable};
use crate::core::round::OtherServer;
use crate::kit::restore::Stateless;
use crate::kit::result::AwaitResult;
use crate::{Adversary, Job, JobSpec, Opens, Plan, ServerRole, SpecError, Who};

/// Stages have numbers of one byte, and a ring has one for each party.
const MAX_PARTIES: u32 = 250;

macro_rules! ways {
    ($($table:ident, $info:ident, $way:ident, $begin:path;)+) => {
        $(impl ProtocolTable for $table {
            fn info(&self) -> &'static ProtocolInfo {
                &$info
            }
        }

        static $info: ProtocolInfo = ProtocolInfo {
            protects: true,
            parameters,
            check,
            ring: Some(&options::RING_RULES),
            // Words of one number are side by side.
            wraps: false,
            // A key service with one learner, or a learner that lies, may see less than the sum of all.
            noise: |spec| match spec.adversary {
                Adversary::SemiHonest => NoiseRule::OfAll,
                // guard: who-may-be-alone-has-its-own-noise
                Adversary::Active => NoiseRule::OfOne,
            },
            servers: &[OtherServer {
                role: ServerRole::Decryptor,
                follow: |setup| follow::start(setup, Way::$way),
            }],
            ..ProtocolInfo::of(
                |job, parties| plan(job, parties, Way::$way),
                |_| {
                    Ok(Arc::new(Stateless {
                        start: |setup, _, rng| circle::start(setup, $begin, rng),
                        restore: |setup, _, reader| {
                            Ok(Some(Box::new(AwaitResult::load(setup.clone(), reader)?)))
                        },
                        serve: |round| serve::serve(round, Way::$way),
                    }))
                },
            )
        };)+
    };
}

ways! {
    PaillierRing, RING, Ring, hops::begin_ring;
    PaillierBroadcast, BROADCAST, Broadcast, broadcast::begin;
    PaillierAllReduce, ALL_REDUCE, AllReduce, hops::begin_all_reduce;
}

fn plan(job: &Job, parties: usize, way: Way) -> Plan {
    let small = small(job.spec());
    let layout =
        Options::of(job.spec()).and_then(|options| Layout::of(job, &options, parties).ok());
    let vector = small + job.packed_len() as u64;
    let service = Who::Server(ServerRole::Decryptor);
    let mut stages = vec![
        Stage::new("keys", small, small)
            .enough(parties)
            .heard_by(service),
        Stage::new("open", small, 2 * small).answered_by(service),
    ];
    debug_assert_eq!(stages.len(), BEFORE);
    stages.extend(layout.iter().flat_map(|layout| way.stages(job, layout)));
    stages.push(Stage::new("decrypt", vector, vector).answered_by(service));
    Plan::new(job.spec(), Opens::Server(ServerRole::Decryptor), stages)
}

/// The ciphertexts of a vector.
fn parameters(job: &Job, parties: usize) -> Result<Vec<(&'static str, usize)>, SpecError> {
    let options = Options::of(job.spec());
    let layout = options.and_then(|options| Layout::of(job, &options, parties).ok());
    let of = |layout: Layout| vec![("ciphertexts", layout.ciphertexts(job.lanes()))];
    Ok(layout.map_or_else(Vec::new, of))
}

fn check(job: &Job) -> Result<(), SpecError> {
    let spec: &JobSpec = job.spec();
    let name = spec.protocol.name();
    let parties = spec.parties;
    // guard: a-ring-has-2-to-250-parties
    if !(2..=MAX_PARTIES).contains(&parties) {
        let rule = format!("2 <= parties = {parties} <= {MAX_PARTIES} for {name}");
        return Err(SpecError::new("parties", rule));
    }
    // guard: key-services-know-no-means
    if job.new_history().is_some() {
        let rule = format!(
            "clipping must not be aciq with {name}: the key service has no model to find bounds from"
        );
        return Err(SpecError::new("clipping", rule));
    }
    // guard: a-sum-is-of-two-at-least
    if job.min_parties() < 2 {
        let rule = format!("2 <= min_parties = 1 for {name}: the sum of one update is the update");
        return Err(SpecError::new("min_parties", rule));
    }
    Ok(())
}
