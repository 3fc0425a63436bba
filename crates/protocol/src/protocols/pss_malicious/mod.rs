//! `pss-malicious`: ramp sharing of vectors with a proof that each is in bounds, which holds although up to c parties lie
//! (the malicious protocol of the PSS thesis, with proofs of our own: [`blindsum_sharing::validity`]).
//!
//! | stage | up | down |
//! |---|---|---|
//! | advertise-keys | a fresh key | everybody's, and a commitment of the coordinator to a nonce |
//! | share-vector | a commitment to all columns, a sealed column for each other party | who shared, the nonce, all commitments, and their columns for the receiver |
//! | confirm-challenge (active) | a signature over the challenge | enough of them |
//! | respond | an answer about every prover | to those who are accused: by whom |
//! | dispute (if anybody is) | the columns of the accusers | whose vectors are summed |
//! | confirm-survivors (active) | a signature over that set | enough of them |
//! | aggregate | the sum of their columns | result |
//!
//! The challenge is the hash of the nonce, which nobody knew before, and of all commitments, so that nobody can fit its
//! vector to it. An answer that does not fit the others means that the prover or the verifier lies. The prover then shows
//! the column that it dealt: it is bound by its commitment, and the verifier by its signature, so that one of them is found
//! out. An honest prover shows only columns of verifiers that have provably lied, or that say that theirs is unusable: those
//! are no secret to the corrupt. So honest parties lose nothing, however many lies there are.
//!
//! Where the coordinator may lie as well, two groups of parties could be told two challenges, or two sets of survivors, and
//! the difference of what they answer is an equation about single vectors. More than (n + c)/2 signatures confirm each.

mod client;
mod commitments;
mod messages;
mod options;
mod server;

pub use client::Misbehaviour;
pub use options::{Bound, PssMalicious};

use std::sync::Arc;

use blindsum_encode::{ClipSpec, EncodingKind};
use blindsum_sharing::ramp::ParameterError;
use blindsum_sharing::validity::{
    NormBound, ProofShape, RangeProof, Statement, ValidityError, ValidityParameters,
    ValidityRequest, ValiditySharing,
};

use messages::{COMMITMENT, HASH, Keys, PieceLayout, Shown, response_len};

use crate::core::noise_rule::NoiseRule;
use crate::core::plan::Stage;
use crate::core::protocol::{Parameters, ProtocolInfo, ProtocolTable};
use crate::core::round_parameters::{ParameterRules, as_asked};
use crate::kit::advertise::{Advert, AwaitKeys};
use crate::kit::consistency::{Signatures, Signed};
use crate::kit::packed::Chosen;
use crate::kit::restore::Derived;
use crate::kit::wire::{Bounded, PARTY, framed};
use crate::{
    Adversary, Fault, FaultKind, Job, JobSpec, Opens, Plan, Round, RoundParameters, SpecError, Who,
};

impl ProtocolTable for PssMalicious {
    fn info(&self) -> &'static ProtocolInfo {
        &INFO
    }
}

static INFO: ProtocolInfo = ProtocolInfo {
    protects: true,
    tolerates_corrupt: true,
    asks_parties: true,
    min_parties,
    least_roster,
    check,
    noise: |_| {
        let rule = "must be none with pss-malicious: it proves the vector as it is sent, and noise would make the bound of \
                    that vector many times as wide; choose pss";
        NoiseRule::Refused(rule.into())
    },
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

/// n − d − c: as many may drop out as the job says, and all liars may be found.
fn min_parties(spec: &JobSpec) -> usize {
    let usual = spec.usual_survivors(spec.parties as usize);
    let honest = usual.saturating_sub(spec.corrupt_parties());
    honest
        .max(spec.floor_of_survivors())
        .min(spec.parties as usize)
}

/// So many that c wrong answers can be corrected with a word in a row, or as many words as the job asks for.
fn least_roster(spec: &JobSpec) -> usize {
    let all = spec.least_survivors()..=spec.parties as usize;
    let is_too_small = |&n: &usize| ValidityParameters::choose(&request(spec, n, 1)).is_err();
    all.take_while(is_too_small).last().map_or(0, |n| n + 1)
}

fn check(job: &Job) -> Result<(), SpecError> {
    let spec = job.spec();
    spec.check_survivors()?;
    let full = spec.parties as usize;
    let of_field = |error: ParameterError| {
        let hint = "have more parties, or lower corrupt or dropout";
        SpecError::new(error.field, format!("{}; {hint}", error.rule))
    };
    let statement = statement(job)?;
    let shape = |found| ProofShape::new(found, statement).map_err(refused);
    ValiditySharing::new(
        *shape(parameters(job, full).map_err(of_field)?)?.parameters(),
        statement,
    )
    .map_err(refused)?;
    for n in spec.legal_rosters() {
        let found = parameters(job, n).map_err(|error| spec.infeasible_roster(n, &error.rule))?;
        shape(found)?;
    }
    Ok(())
}

/// What is proved of every vector: that its words are those of the encoding, and its norm is what the job allows.
fn statement(job: &Job) -> Result<Statement, SpecError> {
    let spec = job.spec();
    let largest = match spec.encoding.kind() {
        EncodingKind::Quantised { bits, rounding, .. } => rounding.last_level(bits),
        EncodingKind::Integers { bits } if bits <= 32 => (1 << bits) - 1,
        EncodingKind::Integers { bits } => {
            let rule = format!("bits = {bits} <= 32 for pss-malicious, which proves every bit");
            return Err(SpecError::new("bits", rule));
        }
        EncodingKind::Fixed64 { .. } => {
            let rule =
                "must be quantised or integers for pss-malicious, which proves every bit of a word";
            return Err(SpecError::new("encoding", rule));
        }
    };
    let weight = spec.encoding.max_weight();
    if weight > 1 {
        let rule =
            format!("max_weight = {weight} must be 1 for pss-malicious: a weight cannot be proved");
        return Err(SpecError::new("max_weight", rule));
    }
    let norm = job.encoding().squared_norm();
    // guard: no-metrics-in-a-proved-norm
    if norm.is_some() && !spec.metrics.is_empty() {
        let rule = "must be empty for pss-malicious with max_norm: their words would count in the norm that is proved";
        return Err(SpecError::new("metrics", rule));
    }
    let range = match PssMalicious::of(spec).bound {
        Bound::Entries => RangeProof::Bits,
        Bound::L2 => RangeProof::Projections,
    };
    if range == RangeProof::Projections {
        check_l2(spec)?;
    }
    Ok(Statement {
        words: job.lanes(),
        largest,
        range,
        norm: norm.map(|norm| NormBound {
            offset: norm.offset,
            slope: norm.slope,
            most: norm.most,
        }),
    })
}

/// Every vector within the norm must be within the encoding.
fn check_l2(spec: &JobSpec) -> Result<(), SpecError> {
    let EncodingKind::Quantised { clip: bounds, .. } = spec.encoding.kind() else {
        let rule = "bound = l2 needs the encoding quantised: other encodings have no norm";
        return Err(SpecError::new("bound", rule));
    };
    match bounds {
        ClipSpec::Sent { clip, max_norm } if max_norm <= clip => Ok(()),
        ClipSpec::Sent { clip, max_norm } => {
            let rule = format!(
                "max_norm = {max_norm} <= clip = {clip} where bound is l2, so that no coordinate is out of range"
            );
            Err(SpecError::new("max_norm", rule))
        }
        ClipSpec::Tensor(_) | ClipSpec::L2(_) => {
            let rule = "max_norm must be above 0 if bound is l2: the proof is about it";
            Err(SpecError::new("max_norm", rule))
        }
    }
}

/// The parameters for a roster of `n` parties.
fn parameters(job: &Job, n: usize) -> Result<ValidityParameters, ParameterError> {
    ValidityParameters::choose(&request(job.spec(), n, job.lanes()))
}

fn request(spec: &JobSpec, n: usize, words: usize) -> ValidityRequest {
    ValidityRequest {
        parties: n,
        corrupt: spec.corrupt_parties(),
        dropouts: spec.losses_among(n),
        words,
        packing: options::packing(spec),
        active: spec.adversary == Adversary::Active,
    }
}

fn refused(error: ValidityError) -> SpecError {
    match error {
        ValidityError::Statement {
            field: "norm",
            rule,
        } => {
            let hint = "T is the largest sum of squares in steps of the encoding: take fewer bits, or another max_norm";
            SpecError::new("max_norm", format!("{rule}; {hint}"))
        }
        ValidityError::Statement { rule, .. } => SpecError::new("bits", rule),
        other => SpecError::new("parties", other.to_string()),
    }
}

fn shape(job: &Job, parameters: ValidityParameters) -> Result<ProofShape, SpecError> {
    ProofShape::new(parameters, statement(job)?).map_err(refused)
}

fn choose(job: &Job, n: usize) -> Result<RoundParameters, SpecError> {
    let found = parameters(job, n).map_err(|error| SpecError::new(error.field, error.rule))?;
    Ok(Chosen::of(found.threshold(), found.packing()))
}

/// The parameters from the numbers that the coordinator has announced, which keep the privacy of a party.
fn announced_parameters(
    job: &Job,
    n: usize,
    numbers: Chosen,
) -> Result<ValidityParameters, FaultKind> {
    let spec = job.spec();
    as_asked("packing", numbers.packing, options::packing(spec))?;
    let (k, l) = (numbers.threshold as usize, numbers.packing as usize);
    ValidityParameters::announced(n, spec.corrupt_parties(), k, l).map_err(|error| {
        FaultKind::Number {
            name: error.field,
            rule: error.rule,
        }
    })
}

/// Privacy, and that no party has to send more than the plan of the job allows.
fn check_parameters(job: &Job, n: usize, numbers: RoundParameters) -> Result<(), FaultKind> {
    let numbers = Chosen::from(numbers);
    let parameters = announced_parameters(job, n, numbers)?;
    let shape = shape(job, parameters).map_err(|error| FaultKind::Parameters(error.to_string()))?;
    numbers.check_share_vectors(job, share_len(PieceLayout::of(&shape), n))
}

fn chosen(job: &Job, n: usize) -> Result<Parameters, SpecError> {
    let found = parameters(job, n).map_err(|error| SpecError::new(error.field, error.rule))?;
    let shape = shape(job, found)?;
    let mut chosen = vec![
        ("threshold", found.threshold()),
        ("packing", found.packing()),
        ("random", found.threshold() - found.packing()),
        ("quorum", found.quorum()),
        ("blocks", shape.layout().blocks()),
        ("rows", shape.layout().rows()),
        ("answers", found.answers()),
    ];
    if let Some(norm) = shape.layout().statement().norm {
        chosen.push((
            "squared_norm",
            usize::try_from(norm.most).unwrap_or(usize::MAX),
        ));
    }
    if let Some(largest) = shape.layout().largest_projection() {
        let largest = usize::try_from(largest).unwrap_or(usize::MAX);
        chosen.push(("largest_projection", largest));
    }
    Ok(chosen)
}

/// The sharing of a round.
fn sharing_of(round: &Round) -> Result<ValiditySharing, Fault> {
    let parameters = announced_parameters(round.job(), round.parties(), round.parameters().into())
        .map_err(Fault::server)?;
    statement(round.job())
        .and_then(|statement| ValiditySharing::new(parameters, statement).map_err(refused))
        .map_err(|error| Fault::server(FaultKind::Parameters(error.to_string())))
}

/// Parties that must take part up to the responses: enough to judge, whoever lies.
fn required(round: &Round, sharing: &ValiditySharing) -> usize {
    round
        .job()
        .min_parties()
        .max(sharing.parameters().answers())
}

/// Bytes with which a party shares its vector among so many others and itself.
fn share_len(piece: PieceLayout, parties: usize) -> usize {
    COMMITMENT + (parties - 1) * piece.len()
}

/// Messages are as large as in any roster that the job allows: a smaller one packs fewer words.
fn plan(job: &Job, _parties: usize) -> Plan {
    let (spec, most) = (job.spec(), job.spec().parties as usize);
    let shapes = spec
        .legal_rosters()
        .filter_map(|n| shape(job, parameters(job, n).ok()?).ok());
    let mut largest = Largest::default();
    shapes.for_each(|shape| largest.include(&shape));
    let (set, corrupt) = (most.div_ceil(8), spec.corrupt_parties().max(1));
    let stage = |name, up: usize, down: usize| Stage::new(name, framed(up), framed(down));
    let confirm = |name| stage(name, Signed::most_bytes(most), Signatures::most_bytes(most));
    let is_active = spec.adversary == Adversary::Active;
    let mut stages = vec![
        stage(
            "advertise-keys",
            Advert::most_bytes(most),
            Keys::most_bytes(most),
        ),
        stage(
            "share-vector",
            largest.share,
            set + HASH + most * COMMITMENT + largest.share,
        )
        .input()
        .relayed(),
    ];
    if is_active {
        stages.push(confirm("confirm-challenge"));
    }
    let accusation = 1 + corrupt * (PARTY + largest.response);
    stages.push(stage("respond", largest.response, accusation).heard_by(Who::Few));
    // At most c columns of a prover are shown, and a receiver lacks those of at most c provers.
    let judged = 1 + set + corrupt * (PARTY + largest.shown);
    stages.push(
        stage("dispute", corrupt * largest.shown, judged)
            .answered_by(Who::Few)
            .enough(0)
            .optional(),
    );
    if is_active {
        stages.push(confirm("confirm-survivors"));
    }
    stages.push(stage("aggregate", largest.words, set + job.packed_len()));
    Plan::new(spec, Opens::Coordinator, stages)
}

/// Bytes of the largest messages of several rosters.
#[derive(Default)]
struct Largest {
    share: usize,
    response: usize,
    shown: usize,
    words: usize,
}

impl Largest {
    fn include(&mut self, shape: &ProofShape) {
        let n = shape.parameters().parties();
        let piece = PieceLayout::of(shape);
        self.share = self.share.max(share_len(piece, n));
        self.response = self.response.max(response_len(shape, n));
        self.shown = self.shown.max(Shown::len(shape));
        self.words = self.words.max(shape.words_len());
    }
}

impl From<ValidityError> for FaultKind {
    fn from(error: ValidityError) -> Self {
        match error {
            ValidityError::Word { .. }
            | ValidityError::Norm { .. }
            | ValidityError::Projection { .. }
            | ValidityError::Words { .. } => FaultKind::Input(error.to_string()),
            other => FaultKind::Parameters(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
