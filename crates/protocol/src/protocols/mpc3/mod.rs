//! `mpc3`: three servers, of which any two must keep apart. Each party splits its vector in three components and gives
//! every server two of them ([replicated sharing](blindsum_sharing::replicated)); the servers agree on whose uploads all of
//! them hold, and open the sum of these together.
//!
//! A round has two stages. In `upload` each party gives the two other servers their part of its vector directly, and once
//! both have taken it gives the coordinator its own part: whoever vanishes before that is in no sum. In `open` the three
//! servers talk with each other ([`open`]), the other two give the coordinator their word on the sum, and the coordinator
//! tells the parties.
//!
//! * [`upload`]: what a party sends, and what every server checks of it.
//! * [`client`]: a party.
//! * [`holding`]: what a server holds of the uploads.
//! * [`open`]: what the three servers do, as sequential code.
//! * [`talk`]: how that code is driven by letters.
//! * [`lead`], [`follow`]: the coordinator's stages, and those of the other two.

mod client;
mod follow;
mod holding;
mod lead;
mod open;
mod talk;
#[cfg(test)]
mod tests;
mod upload;

use std::sync::Arc;

use crate::core::options::table;
use crate::core::plan::{Stage, small};
use crate::core::protocol::{ProtocolInfo, ProtocolTable};
use crate::core::round::{OtherServer, Stateless};
use crate::{Adversary, Job, JobSpec, Opens, Plan, ServerIndex, ServerRole, SpecError, Who};

table! {
    /// Three servers of three organisations: any two learn every vector, one alone nothing but the sum.
    Mpc3 = "mpc3";
    options {}
}

impl ProtocolTable for Mpc3 {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }
}

static INFO: ProtocolInfo = ProtocolInfo {
    protects: true,
    tolerates_corrupt: true,
    asks_parties: false,
    plan,
    min_parties: least_survivors,
    sparsity: |_| None,
    parameters: |_, _| Ok(Vec::new()),
    check,
    machines: |_| {
        Ok(Arc::new(Stateless {
            start: client::start,
            restore: client::restore,
            serve: lead::serve,
        }))
    },
    key_setup: None,
    numbers: None,
    commits: |_| false,
    servers: &[
        OtherServer {
            role: ServerRole::Second,
            follow: |round| follow::start(round, ServerRole::Second),
        },
        OtherServer {
            role: ServerRole::Third,
            follow: |round| follow::start(round, ServerRole::Third),
        },
    ],
};

/// The coordinator's place among the three.
const COORDINATOR: ServerIndex = ServerIndex::ALL[0];
/// The servers beside the coordinator, in order.
const OTHERS: [ServerRole; 2] = [ServerRole::Second, ServerRole::Third];
/// Bytes of a tag by which a server vouches for a sum towards one party.
const TAG: usize = 32;

/// The sum of fewer parties shows too much of one of them.
fn least_survivors(spec: &JobSpec) -> usize {
    spec.floor_of_survivors().max(3)
}

fn check(job: &Job) -> Result<(), SpecError> {
    job.spec().check_survivors()?;
    if job.new_history().is_some() {
        let rule = "clipping must not be aciq with mpc3: the other two servers have no model to find bounds from";
        return Err(SpecError::new("clipping", rule));
    }
    let (chosen, least) = (job.min_parties(), least_survivors(job.spec()));
    if chosen < least {
        let rule = format!("min_parties = {chosen} must be at least {least} with mpc3");
        return Err(SpecError::new("min_parties", rule));
    }
    Ok(())
}

fn is_active(job: &Job) -> bool {
    job.spec().adversary == Adversary::Active
}

fn plan(job: &Job, parties: usize) -> Plan {
    let small = small(job.spec());
    let vector = small + job.packed_len() as u64;
    let tags = (2 * TAG * parties) as u64;
    let stages = [
        Stage::new("upload", vector, small)
            .input()
            .heard_by(Who::Servers),
        Stage::new("open", small + tags, vector + tags)
            .answered_by(Who::Servers)
            .enough(2),
    ];
    Plan::new(job.spec(), Opens::Servers, stages)
}
