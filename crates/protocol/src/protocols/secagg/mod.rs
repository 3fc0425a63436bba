//! `secagg` and `secagg+`: double masking (Bonawitz17 Fig. 4; Bell20 for the sparse graph).
//!
//! Party i uploads y_i = x_i + PRG(b_i) + Σ_{j>i} PRG(s_ij) − Σ_{j<i} PRG(s_ij) mod 2^b over its
//! neighbours j. Pair masks cancel in the sum; the self masks of survivors, and the pair masks of those
//! who dropped, are rebuilt from shares. A holder gives a share of b_j or of s_j^SK, never of both.
//!
//! The client's stages are in `client`, the server's in `server`, one file each, in the order of
//! [`messages`].

mod client;
mod graph;
mod keys;
mod messages;
mod options;
mod parameters;
mod server;
mod tails;

pub use graph::AggregationGraph;
pub use options::{SecAgg, SecAggPlus};
pub use parameters::{GraphParameters, ParameterError};

use options::Sharing;
use parameters::Chosen;

use std::sync::Arc;

use blindsum_sharing::Point;

use crate::core::noise_rule::NoiseRule;
use crate::core::plan::{Stage, small};
use crate::core::protocol::{Parameters, ProtocolInfo, ProtocolTable};
use crate::core::round_parameters::ParameterRules;
use crate::kit::restore::Derived;
use crate::{
    Adversary, FaultKind, Job, JobSpec, Opens, PartyId, Plan, Round, RoundParameters, SpecError,
};

impl ProtocolTable for SecAgg {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }
}

impl ProtocolTable for SecAggPlus {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }
}

static INFO: ProtocolInfo = ProtocolInfo {
    protects: true,
    tolerates_corrupt: true,
    asks_parties: true,
    noise: |_| NoiseRule::OfAll,
    min_parties,
    parameters,
    round_parameters: Some(ParameterRules {
        names: Chosen::NAMES,
        choose,
        check: check_parameters,
    }),
    commits,
    check,
    ..ProtocolInfo::of(plan, |round| {
        Ok(Arc::new(Derived {
            derived: Arc::new(graph_of(round)),
            start: client::start,
            restore: client::restore,
            serve: server::serve,
        }))
    })
};

fn plan(job: &Job, _parties: usize) -> Plan {
    let (spec, small) = (job.spec(), small(job.spec()));
    let vector = small + job.packed_len() as u64;
    let mut stages = vec![
        Stage::new("advertise-keys", small, small),
        Stage::new("share-keys", small, small),
        Stage::new("masked-input", vector, small).input(),
    ];
    if spec.adversary == Adversary::Active {
        stages.push(Stage::new("consistency", small, small));
    }
    stages.push(Stage::new("unmask", small, vector));
    Plan::new(spec, Opens::Coordinator, stages)
}

/// Two thirds of the parties, or half of them if semi-honest, and no fewer than the threshold, unless more parties
/// may drop out.
fn min_parties(spec: &JobSpec) -> usize {
    let n = spec.parties as usize;
    let usual = match spec.adversary {
        Adversary::Active => 2 * n / 3 + 1,
        Adversary::SemiHonest => n / 2 + 1,
    };
    spec.usual_survivors(usual.max(Sharing::of(spec).threshold))
}

fn check(job: &Job) -> Result<(), SpecError> {
    let spec = job.spec();
    spec.check_survivors()?;
    GraphParameters::check_all(spec)
}

fn parameters(job: &Job, parties: usize) -> Result<Parameters, SpecError> {
    let found = GraphParameters::find(job.spec(), parties)?;
    Ok(vec![
        ("neighbours", found.neighbours()),
        ("threshold", found.threshold()),
    ])
}

fn choose(job: &Job, parties: usize) -> Result<RoundParameters, SpecError> {
    let found = GraphParameters::find(job.spec(), parties)?;
    let chosen = Chosen {
        neighbours: found.neighbours() as u32,
        threshold: found.threshold() as u32,
    };
    Ok(chosen.into())
}

fn check_parameters(job: &Job, parties: usize, told: RoundParameters) -> Result<(), FaultKind> {
    GraphParameters::announced(job.spec(), parties, told.into()).map(|_| ())
}

/// A sparse graph must be drawn after everybody has committed to what it is drawn from: the bounds against an active
/// adversary are those of one graph, and not of the best of many.
fn commits(spec: &JobSpec) -> bool {
    spec.adversary == Adversary::Active && !Sharing::of(spec).complete
}

/// The graph of a round, whose numbers were checked when it was bound.
fn graph_of(round: &Round) -> AggregationGraph {
    let parameters = GraphParameters::of_round(round.parties(), round.parameters().into());
    AggregationGraph::draw(parameters, round.context())
}

/// The evaluation point of a party's shares: its rank plus one, since the secret is at zero.
fn point_of(party: PartyId) -> Result<Point, FaultKind> {
    Point::of_rank(party.0).map_err(|e| FaultKind::Parameters(e.to_string()))
}

#[cfg(test)]
mod tests;
