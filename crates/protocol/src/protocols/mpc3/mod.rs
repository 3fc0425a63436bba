//! `mpc3`: three servers, of which any two must keep apart. Each party splits its vector in three components and gives
//! every server two of them ([replicated sharing](blindsum_sharing::replicated)); the servers agree on whose uploads all of
//! them hold, and open the sum of these together.
//!
//! A round has two stages. In `upload` each party gives the two other servers their part of its vector directly, and once
//! both have taken it gives the coordinator its own part: whoever vanishes before that is in no sum. In `open` the three
//! servers talk with each other ([`open`]), the other two give the coordinator their word on the sum, and the coordinator
//! tells the parties.
//!
//! * [`options`]: what a job may say, and [`weighing`] what follows from it. [`lengths`]: how long vectors are;
//!   [`noise`]: what hides a party in a result.
//! * [`upload`]: what a party sends, and what every server checks of it.
//! * [`client`]: a party.
//! * [`holding`]: what a server holds of the uploads.
//! * [`open`]: what the three servers do, as sequential code: they [agree](agree) on the survivors, and add or
//!   [compute](compute).
//! * [`parts`]: how parties alone get a result.
//! * [`talk`]: how that code is driven by letters.
//! * [`lead`], [`follow`]: the coordinator's stages, and those of the other two.

mod adding;
mod agree;
mod blame;
mod client;
mod compute;
mod follow;
mod holding;
mod lead;
mod lengths;
mod noise;
mod open;
mod options;
mod parts;
mod shapes;
mod talk;
#[cfg(test)]
mod tests;
mod upload;
mod weighing;

pub use options::{Mpc3, ResultName, RuleName, TruncationName, TrustName};

use std::sync::Arc;

use shapes::{Shape, result_shape, upload_shape};
use weighing::Weighing;

use crate::core::plan::{Stage, small};
use crate::core::protocol::{ProtocolInfo, ProtocolTable, Results};
use crate::core::round::OtherServer;
use crate::kit::restore::Stateless;
use crate::protocols::flashe::KEY_SETUP;
use crate::{Adversary, Job, JobSpec, Opens, Plan, ServerIndex, ServerRole, SpecError, Who};

impl ProtocolTable for Mpc3 {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }
}

static INFO: ProtocolInfo = ProtocolInfo {
    protects: true,
    tolerates_corrupt: true,
    min_parties: least_survivors,
    parameters: |job, _| Ok(options::chosen(job)),
    check,
    noise: noise::rule,
    key_setup: |spec| is_for_parties(spec).then_some(&KEY_SETUP),
    results: Some(&Results {
        is_sum: weighing::is_sum,
        signed: weighing::signed,
        in_the_clear: weighing::in_the_clear,
    }),
    servers: &[
        OtherServer {
            role: ServerRole::Second,
            follow: |setup| follow::start(&setup.round, ServerRole::Second),
        },
        OtherServer {
            role: ServerRole::Third,
            follow: |setup| follow::start(&setup.round, ServerRole::Third),
        },
    ],
    ..ProtocolInfo::of(plan, |_| {
        Ok(Arc::new(Stateless {
            start: client::start,
            restore: client::restore,
            serve: lead::serve,
        }))
    })
};

/// The coordinator's place among the three.
const COORDINATOR: ServerIndex = ServerIndex::ALL[0];
/// The servers beside the coordinator, in order.
const OTHERS: [ServerRole; 2] = [ServerRole::Second, ServerRole::Third];
/// Bytes of a tag by which a server vouches for a sum towards one party.
const TAG: usize = 32;

/// The result of fewer parties shows too much of one of them, or is none.
fn least_survivors(spec: &JobSpec) -> usize {
    let options = Mpc3::of(spec);
    let (least, bad) = (spec.floor_of_survivors().max(3), options.bad(spec));
    match options.rule {
        RuleName::Krum => least.max(bad + 3),
        // Those that are kept are as many as the sum of few must have.
        _ => least + spec.left_out(),
    }
}

fn check(job: &Job) -> Result<(), SpecError> {
    job.spec().check_survivors()?;
    if job.new_history().is_some() {
        let rule = "clipping must not be aciq with mpc3: the other two servers have no model to find bounds from";
        return Err(SpecError::new("clipping", rule));
    }
    options::check(job)?;
    options::check_number(job, least_survivors(job.spec()))?;
    match Weighing::of(job) {
        Some(weighing) => weighing.check(job),
        None => Ok(()),
    }
}

/// Whether no server learns the result.
fn is_for_parties(spec: &JobSpec) -> bool {
    Mpc3::of(spec).result == ResultName::Parties
}

/// Whether no party learns the result.
fn is_for_servers(spec: &JobSpec) -> bool {
    Mpc3::of(spec).result == ResultName::Servers
}

/// Whether a party gives the other two servers a key each, which the coordinator does not have.
fn has_keys(job: &Job) -> bool {
    is_active(job) || is_for_parties(job.spec())
}

fn is_active(job: &Job) -> bool {
    job.spec().adversary == Adversary::Active
}

fn plan(job: &Job, parties: usize) -> Plan {
    let small = small(job.spec());
    let of = |shape: Shape| shape.packed_len() as u64;
    let (upload, result) = (small + of(upload_shape(job)), of(result_shape(job)));
    let (keys, tags) = ((TAG * parties) as u64, (2 * TAG * parties) as u64);
    // Component 2 comes from another server; the coordinator has the others.
    let (opens, word, told) = match Mpc3::of(job.spec()).result {
        ResultName::Parties => (Opens::Parties, result + keys, 3 * result + keys),
        ResultName::Both => (Opens::Servers, 0, result),
        ResultName::Servers => (Opens::ServersAlone, 0, 0),
    };
    let stages = [
        Stage::new("upload", upload, small)
            .input()
            .heard_by(Who::Servers),
        Stage::new("open", small + word + tags, small + told + tags)
            .answered_by(Who::Servers)
            .enough(2),
    ];
    // The list of uploads with a key, and the component of a sum.
    let list = small + (32 * (parties + 1)) as u64;
    let computed = Weighing::of(job).map_or(0, |weighing| weighing.largest_letter(parties));
    // Two sums; and where no server hears of the others' uploads before they agree, of each vector two servers hold the
    // explicit component until then.
    let sums =
        (job.lanes() as u64).saturating_mul(if job.width().fits_u32() { 2 * 4 } else { 2 * 8 });
    let explicit = of(upload_shape(job)).saturating_mul(2 * (parties as u64).div_ceil(3));
    let held = explicit.saturating_add(sums);
    let memory = Weighing::of(job).map_or(held, |weighing| weighing.memory(parties));
    Plan::new(job.spec(), opens, stages)
        .with_letters(list.max(small + result).max(computed.saturating_add(small)))
        .with_memory(memory)
}
