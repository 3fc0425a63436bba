//! The job of an episode: the given job, made small. If the job leaves open what its updates are, that is drawn.

use blindsum_protocol::{
    Bound, Clipping, DivisorName, EncodingChoice, Fixed64, Flashe, InitialModel, Integers, Job,
    JobSpec, Metric, ModelUpdate, ProtocolChoice, Quantised, RoundingName, SpecError, StepChoice,
    StepName,
};

use super::faults::Dice;
use super::plain::is_ruled;
use crate::seeds::stream;

/// Coordinates of a tensor, at most.
const TENSOR: u64 = 4;

/// A job as an episode has it: with as many losses as it can bear.
pub(super) fn sized(spec: &JobSpec, seed: u64) -> Result<Job, SpecError> {
    let mut dice = Dice(stream("job", &[seed]));
    // A rule may have to leave out some; and it takes four to outvote a liar.
    let is_proved = matches!(spec.protocol, ProtocolChoice::PssMalicious(_));
    let least = if is_ruled(spec) || is_proved { 5 } else { 4 };
    let parties = least + dice.below(4) as u32;
    let mut sized = JobSpec {
        parties,
        rounds: 3 + dice.below(3) as u32,
        dim: 1 + dice.below(8),
        ..in_a_hurry(spec)
    };
    if says_nothing(spec) {
        draw(&mut sized, &mut Dice(stream("contents", &[seed])));
    }
    shorten(&mut sized, &mut dice);
    let with = |lost: u32| JobSpec {
        dropout: f64::from(lost) / f64::from(parties),
        ..sized.clone()
    };
    let most = parties / 3;
    let mut jobs = (0..=most).rev().map(|lost| with(lost).validate());
    jobs.find(Result::is_ok)
        .unwrap_or_else(|| with(0).validate())
}

/// A job whose deadlines are short.
pub(super) fn in_a_hurry(spec: &JobSpec) -> JobSpec {
    JobSpec {
        min_parties: if spec.protocol.name().tolerates_corrupt() {
            0
        } else {
            2
        },
        join_deadline: 200.0,
        stage_deadline: 3.0,
        input_deadline: 4.0,
        ..spec.clone()
    }
}

/// The same of integers, which no model is made of.
pub(super) fn of_integers(spec: &JobSpec) -> JobSpec {
    JobSpec {
        encoding: Integers {
            bits: 8,
            ..Integers::default()
        }
        .into(),
        model_update: ModelUpdate::Nothing,
        ..spec.clone()
    }
}

/// Whether a job leaves open what updates are and what becomes of them.
fn says_nothing(spec: &JobSpec) -> bool {
    let default = JobSpec::default();
    let dense = match &spec.protocol {
        ProtocolChoice::Flashe(options) => options.density == Flashe::default().density,
        _ => true,
    };
    let unchanged = spec.model_update == default.model_update
        && (&spec.step, spec.initial) == (&default.step, default.initial)
        && spec.stop == default.stop;
    let is_default = spec.encoding == default.encoding && spec.metrics == default.metrics;
    dense && is_default && unchanged
}

/// Draws what updates are and what becomes of them.
fn draw(spec: &mut JobSpec, dice: &mut Dice) {
    if dice.chance(0.4) {
        *spec = of_integers(spec);
    } else {
        spec.encoding = reals(dice);
        spec.model_update = match dice.below(4) {
            0 => ModelUpdate::Replace,
            1 if !learns(&spec.encoding) => ModelUpdate::Nothing,
            _ => ModelUpdate::Add,
        };
    }
    suit_servers(spec);
    let (sparse, short) = (dice.chance(0.6), dice.chance(0.5));
    if let ProtocolChoice::Flashe(options) = &mut spec.protocol {
        if short && options.key_rounds == 0 {
            options.key_rounds = 1 + dice.below(2) as u32;
        }
        if let (EncodingChoice::Quantised(of), true) = (&mut spec.encoding, sparse) {
            of.max_weight = 1;
            if spec.model_update == ModelUpdate::Replace {
                spec.model_update = ModelUpdate::Add;
            }
            thin_out(options, spec.model_update, dice);
        }
    }
    // Last, so that what was drawn before there was this option is drawn again.
    let bounds_norm = dice.chance(0.3) && !is_ruled(spec);
    if let (EncodingChoice::Quantised(of), true) = (&mut spec.encoding, bounds_norm)
        && of.clipping == Clipping::Tensor
    {
        of.max_norm = 1.0;
    }
    suit_proofs(spec, dice);
    if dice.chance(0.4) && takes_metrics(spec) {
        spec.metrics = metrics(dice);
    }
    // Also last.
    if spec.model_update == ModelUpdate::Add && dice.chance(0.5) {
        let steps = StepName::ALL;
        let drawn = dice.below(steps.len() as u64) as usize;
        spec.step = StepChoice::from(steps[drawn]);
    }
    if spec.model_update != ModelUpdate::Nothing && dice.chance(0.3) {
        spec.initial = InitialModel::FirstParty;
    }
}

/// Metrics of several ranges.
fn metrics(dice: &mut Dice) -> Vec<Metric> {
    let ranges = [(0.0, 1.0), (-3.0, 40.0), (1e9, 2e9), (-1e-6, 1e-3)];
    let metric = |(index, (low, high)): (usize, (f64, f64))| Metric {
        name: format!("metric-{index}"),
        low,
        high,
    };
    let count = 1 + dice.below(ranges.len() as u64) as usize;
    let ranges = ranges.into_iter().take(count).enumerate();
    ranges.map(metric).collect()
}

/// Whether a job may have metrics: nothing exact is told beside noise, and no word but of a coordinate counts in a norm that is
/// proved.
fn takes_metrics(spec: &JobSpec) -> bool {
    match (&spec.protocol, &spec.encoding) {
        (ProtocolChoice::Mpc3(options), _) => options.noise == 0.0,
        (ProtocolChoice::PssMalicious(_), EncodingChoice::Quantised(of)) => of.max_norm == 0.0,
        _ => true,
    }
}

/// What is proved has bits and no weights. Where the norm has a bound it may be proved alone.
fn suit_proofs(spec: &mut JobSpec, dice: &mut Dice) {
    let ProtocolChoice::PssMalicious(options) = &mut spec.protocol else {
        return;
    };
    if let EncodingChoice::Fixed64(_) = spec.encoding {
        spec.encoding = Quantised::default().into();
    }
    if let EncodingChoice::Quantised(of) = &mut spec.encoding {
        of.max_weight = 1;
        if of.max_norm > 0.0 && dice.chance(0.5) {
            options.bound = Bound::L2;
        }
    }
}

/// What other servers know has its limits: bounds that follow from means are known to parties and coordinator only, and a
/// rule that is no sum takes levels, without weights, which round in the same way for everybody.
fn suit_servers(spec: &mut JobSpec) {
    if is_ruled(spec) {
        let of = Quantised {
            bits: 8,
            rounding: RoundingName::Nearest,
            ..Quantised::default()
        };
        spec.encoding = of.into();
    }
    let has_servers = matches!(
        spec.protocol,
        ProtocolChoice::Mpc3(_)
            | ProtocolChoice::PaillierRing(_)
            | ProtocolChoice::PaillierBroadcast(_)
            | ProtocolChoice::PaillierAllReduce(_)
    );
    if let (true, EncodingChoice::Quantised(of)) = (has_servers, &mut spec.encoding)
        && of.clipping == Clipping::Aciq
    {
        of.clipping = Quantised::default().clipping;
    }
}

/// An encoding of real numbers, of each kind that there is.
fn reals(dice: &mut Dice) -> EncodingChoice {
    let nearest = Quantised {
        bits: 8,
        rounding: RoundingName::Nearest,
        ..Quantised::default()
    };
    let quantised = match dice.below(6) {
        0 => Quantised {
            max_weight: 3,
            ..Quantised::default()
        },
        1 => nearest,
        2 | 3 => Quantised {
            clipping: Clipping::Aciq,
            ..nearest
        },
        4 => Quantised {
            clipping: Clipping::L2,
            max_weight: 2,
            ..nearest
        },
        _ => {
            return Fixed64 {
                clip: 2.0,
                max_weight: 3,
                ..Fixed64::default()
            }
            .into();
        }
    };
    quantised.into()
}

fn learns(encoding: &EncodingChoice) -> bool {
    matches!(encoding, EncodingChoice::Quantised(of) if of.clipping == Clipping::Aciq)
}

/// Rounds become sparse.
fn thin_out(options: &mut Flashe, update: ModelUpdate, dice: &mut Dice) {
    options.density = dice.pick(&[0.25, 0.5]).unwrap_or(0.5);
    options.min_contributors = dice.below(4) as u32;
    if dice.chance(0.3) {
        options.divisor = DivisorName::Senders;
    }
    if update != ModelUpdate::Nothing && dice.chance(0.3) {
        (options.density_start, options.density_steps) = (0.75, 2);
    }
}

/// Tensors get a few coordinates each.
fn shorten(spec: &mut JobSpec, dice: &mut Dice) {
    let tensors = match &mut spec.encoding {
        EncodingChoice::Quantised(of) => &mut of.tensors,
        EncodingChoice::Fixed64(of) => &mut of.tensors,
        EncodingChoice::Integers(_) => return,
    };
    for tensor in tensors.iter_mut() {
        tensor.len = 1 + dice.below(TENSOR);
    }
    if !tensors.is_empty() {
        spec.dim = tensors.iter().map(|tensor| tensor.len).sum();
    }
}
