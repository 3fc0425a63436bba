//! `fssa` and `pss`: every party shares its vector among all parties by ramp sharing, adds up the shares
//! it holds, and the server rebuilds the sum from k of these (FSSA §V; the semi-honest protocol of the
//! PSS thesis). They differ in where the words sit in a polynomial: in its coefficients (`fssa`) or in its
//! values (`pss`).
//!
//! | stage | up | down |
//! |---|---|---|
//! | 0 advertise-keys | a fresh key | everybody's |
//! | 1 share-vector | a sealed column for each other party | who shared, and their columns for the receiver |
//! | 2 consistency (active) | a signature over the set of those who shared | enough of the signatures |
//! | 3 aggregate (2 if semi-honest) | the sum of the columns | result |
//!
//! The active mode confirms the set, as FSSA §VI suggests: sums of columns over two sets, from two groups of
//! parties, would leak linear equations of single vectors however large k is, because a ramp begins to
//! leak long before k shares are known. With more than (n + c)/2 signatures only one set can be confirmed.

mod client;
mod messages;
mod options;
mod server;

pub use options::{Fssa, Pss};

use messages::Keys;
use options::Asked;

use std::sync::Arc;

use blindsum_sharing::SharingError;
use blindsum_sharing::ramp::{
    AnnouncedRamp, Embedding, ParameterError, RampParameters, RampRequest, RampSharing, Residues,
};

use crate::core::noise_rule::NoiseRule;
use crate::core::plan::Stage;
use crate::core::protocol::{Parameters, ProtocolInfo, ProtocolTable};
use crate::core::round_parameters::{ParameterRules, as_asked};
use crate::kit::advertise::{Advert, AwaitKeys};
use crate::kit::consistency::{Signatures, Signed};
use crate::kit::packed::Chosen;
use crate::kit::restore::Derived;
use crate::kit::wire::{Bounded, framed};
use crate::{
    Adversary, Fault, FaultKind, Job, JobSpec, Opens, Plan, ProtocolChoice, Round, RoundParameters,
    SpecError,
};

impl ProtocolTable for Fssa {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }
}

impl ProtocolTable for Pss {
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
    check,
    parameters: chosen,
    round_parameters: Some(ParameterRules {
        names: Chosen::NAMES,
        choose,
        check: check_parameters,
    }),
    ..ProtocolInfo::of(plan, |round| {
        Ok(Arc::new(Derived {
            derived: Arc::new(sharing_of(round)?),
            start: AwaitKeys::start,
            restore: client::restore,
            serve: server::serve,
        }))
    })
};

/// n − d: as many may drop out as the job says, and one more ends the round.
fn min_parties(spec: &JobSpec) -> usize {
    spec.usual_survivors(spec.parties as usize)
}

fn check(job: &Job) -> Result<(), SpecError> {
    let spec = job.spec();
    spec.check_survivors()?;
    let full = spec.parties as usize;
    let found = parameters(job, full).map_err(|error| SpecError::new(error.field, error.rule))?;
    prepare(job, found).map_err(|error| match error {
        SharingError::Points { .. } => SpecError::new("parties", error.to_string()),
        other => SpecError::new("encoding", other.to_string()),
    })?;
    for n in spec.legal_rosters() {
        // guard: every-ramp-roster-has-parameters
        parameters(job, n).map_err(|error| spec.infeasible_roster(n, &error.rule))?;
    }
    Ok(())
}

/// The parameters for a roster of `n` parties.
fn parameters(job: &Job, n: usize) -> Result<RampParameters, ParameterError> {
    let spec = job.spec();
    let asked = Asked::of(spec);
    RampParameters::choose(&RampRequest {
        parties: n,
        // guard: ramp-corrupt-parties-of-the-whole-job
        corrupt: spec.corrupt_parties(),
        dropouts: spec.losses_among(n),
        active: spec.adversary == Adversary::Active,
        words: job.lanes(),
        threshold: asked.threshold,
        packing: asked.packing,
    })
}

fn choose(job: &Job, n: usize) -> Result<RoundParameters, SpecError> {
    let found = parameters(job, n).map_err(|error| SpecError::new(error.field, error.rule))?;
    Ok(Chosen::of(found.threshold(), found.packing()))
}

/// The parameters from the numbers that the coordinator has announced, which keep the privacy of a party.
fn announced_parameters(job: &Job, n: usize, numbers: Chosen) -> Result<RampParameters, FaultKind> {
    let spec = job.spec();
    let asked = Asked::of(spec);
    as_asked("threshold", numbers.threshold, asked.threshold)?;
    as_asked("packing", numbers.packing, asked.packing)?;
    let announced = AnnouncedRamp {
        parties: n,
        corrupt: spec.corrupt_parties(),
        active: spec.adversary == Adversary::Active,
        threshold: numbers.threshold as usize,
        packing: numbers.packing as usize,
    };
    RampParameters::announced(&announced).map_err(|error| FaultKind::Number {
        name: error.field,
        rule: error.rule,
    })
}

/// Privacy, and that no party has to send more than the plan of the job allows.
fn check_parameters(job: &Job, n: usize, numbers: RoundParameters) -> Result<(), FaultKind> {
    let numbers = Chosen::from(numbers);
    let parameters = announced_parameters(job, n, numbers)?;
    let column = residues(job)?.share_len() * parameters.blocks(job.lanes());
    numbers.check_share_vectors(job, (n - 1) * messages::sealed_len(column))
}

fn chosen(job: &Job, n: usize) -> Result<Parameters, SpecError> {
    let found = parameters(job, n).map_err(|error| SpecError::new(error.field, error.rule))?;
    let residues = residues(job).map_err(|e| SpecError::new("encoding", e.to_string()))?;
    Ok(vec![
        ("threshold", found.threshold()),
        ("packing", found.packing()),
        ("random", found.random()),
        ("blocks", found.blocks(job.lanes())),
        ("share_bytes", residues.share_len()),
    ])
}

/// The fields that hold every sum of the job. Encodings keep sums below 2^96; the pair of fields holds all that a job
/// can have.
fn residues(job: &Job) -> Result<Residues, SharingError> {
    Residues::for_sum(job.encoding().largest_sum()).ok_or(SharingError::SumTooLarge)
}

fn prepare(job: &Job, parameters: RampParameters) -> Result<RampSharing, SharingError> {
    let embedding = match job.spec().protocol {
        ProtocolChoice::Fssa(_) => Embedding::Coefficients,
        _ => Embedding::Evaluations,
    };
    RampSharing::new(parameters, embedding, residues(job)?, job.lanes())
}

/// The sharing of a round.
fn sharing_of(round: &Round) -> Result<RampSharing, Fault> {
    let parameters = announced_parameters(round.job(), round.parties(), round.parameters().into())
        .map_err(Fault::server)?;
    prepare(round.job(), parameters).map_err(|e| Fault::server(e.into()))
}

/// Parties that must take part in every stage before the vectors are in.
fn required_inputs(round: &Round, sharing: &RampSharing) -> usize {
    round
        .job()
        .min_parties()
        // guard: ramp-smaller-sums
        .max(sharing.parameters().threshold())
}

/// Columns are as large as in any roster that the job allows: a smaller one packs fewer words.
fn plan(job: &Job, _parties: usize) -> Plan {
    let (spec, most) = (job.spec(), job.spec().parties as usize);
    let residues = Residues::for_sum(job.encoding().largest_sum());
    let share_len = residues.map_or(0, Residues::share_len);
    let columns = spec.legal_rosters().filter_map(|n| {
        let parameters = parameters(job, n).ok()?;
        let column = share_len * parameters.blocks(job.lanes());
        Some((column, (n - 1) * messages::sealed_len(column)))
    });
    let (column, all) = columns.fold((0, 0), |(a, b), (x, y)| (a.max(x), b.max(y)));
    let set = most.div_ceil(8);
    let stage = |name, up: usize, down: usize| Stage::new(name, framed(up), framed(down));
    let mut stages = vec![
        stage(
            "advertise-keys",
            Advert::most_bytes(most),
            Keys::most_bytes(most),
        ),
        stage("share-vector", all, set + all).input().relayed(),
    ];
    if spec.adversary == Adversary::Active {
        let (up, down) = (Signed::most_bytes(most), Signatures::most_bytes(most));
        stages.push(stage("consistency", up, down));
    }
    stages.push(stage("aggregate", column, set + job.packed_len()));
    Plan::new(spec, Opens::Coordinator, stages)
}

impl From<SharingError> for FaultKind {
    fn from(error: SharingError) -> Self {
        FaultKind::Parameters(error.to_string())
    }
}

#[cfg(test)]
mod tests;
