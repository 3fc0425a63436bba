//! What the servers compute of the vectors, where it is more than their sum.
//!
//! Parties whose vectors are too long are left out and named, the others' result is opened. Among servers of which one may
//! lie everything is verified before the result is opened.

use blindsum_crypto::kex::SharedSecret;
use blindsum_math::words::Words;
use blindsum_mpc::line::Line;
use blindsum_mpc::rules::{Bounds, Weighed};
use blindsum_mpc::{Agreed, Mpc, MpcError, NoiseKeys, PairKeys, Ring, Shares};

use super::blame::broken;
use super::holding::Gathered;
use super::noise::Noise;
use super::options::TruncationName;
use super::weighing::Weighing;
use super::{is_active, is_for_parties};
use crate::{Fault, FaultKind, PartyId, PartySet, Round, ServerIndex};

/// What is wrong with a vector that fails the gate.
const TOO_LONG: &str = "longer than the encoding allows";

/// A result.
pub(super) enum Made {
    /// As all servers know it.
    Shown(Words),
    /// The own component of this server, and the next one.
    Shared([Words; 2]),
}

/// What came of it.
pub(super) struct Computed {
    /// Whose vectors are in the result, and the root.
    pub survivors: PartySet,
    pub result: Made,
    /// Parties whose vectors are too long.
    pub faults: Vec<Fault>,
}

/// Computes what the job's rule says. `begun` is what this server shares with the one before and with the next one, and
/// the hash of what all three agreed on.
pub(super) async fn compute(
    me: ServerIndex,
    round: &Round,
    gathered: Gathered,
    (secrets, begun): ([SharedSecret; 2], [u8; 32]),
    line: Line,
) -> Result<Computed, Fault> {
    let agreed = Agreed {
        round: round.context().0,
        // guard: keys-are-those-of-what-was-agreed
        begun,
    };
    let [previous, next] = secrets;
    let noise = NoiseKeys::derive(me, &previous, &next, &agreed);
    match is_active(round.job()) {
        true => {
            let keys = PairKeys::derive(me, &previous, &next, &agreed);
            computed(Mpc::verifying(keys, line), round, gathered, noise).await
        }
        false => {
            let keys = PairKeys::<u64>::derive(me, &previous, &next, &agreed);
            computed(Mpc::new(keys, line), round, gathered, noise).await
        }
    }
}

async fn computed<R: Ring>(
    mpc: Mpc<R>,
    round: &Round,
    gathered: Gathered,
    noise: NoiseKeys,
) -> Result<Computed, Fault> {
    let weighing = Weighing::of(round.job());
    let weighing = weighing.ok_or_else(|| Fault::nobody(FaultKind::NotAMember))?;
    let mpc = match weighing.options.truncation {
        TruncationName::Probabilistic => mpc,
        TruncationName::Exact => mpc.exact(),
    };
    let root = weighing.root(round)?;
    let failed = |error| match (&error, root) {
        (MpcError::Direction, Some(root)) => {
            let rule = "it is no direction: its norm is not that which all directions have";
            Fault::party(root, FaultKind::malformed("vector", rule))
        }
        _ => broken(error),
    };
    let weighed = weigh(&mpc, &weighing, &gathered).await.map_err(failed)?;
    let of_parties = || gathered.parties.iter().copied().zip(&weighed.passed);
    let passed = of_parties().filter_map(|(party, passed)| passed.then_some(party));
    let survivors = PartySet::of(round.parties(), passed.chain(root));
    let (have, need) = (survivors.len(), round.job().min_parties());
    // guard: enough-are-left-behind-the-gate
    if have < need {
        let too_long = of_parties().find(|(_, passed)| !**passed);
        return Err(too_few(too_long.map(|(party, _)| party), have, need));
    }
    // guard: who-a-gate-leaves-is-asked-about
    round.check_release(&survivors)?;
    weighed.verify(&mpc).await.map_err(failed)?;
    // Of the survivors, as the sum of vectors is, whatever their vectors weigh.
    let mut counted = weighed.passed.clone();
    counted.resize(gathered.metrics.count(), true);
    let metrics = gathered.metrics.only(&counted).sum();
    let sum = Shares::concat(&[&weighed.shown(), &metrics]);
    let divisor = weighed.divisor;
    let gaussian = weighing.noise.as_ref().map(Noise::gaussian).transpose();
    let gaussian = gaussian.map_err(broken)?;
    let (count, even) = (weighed.sum.len(), weighed.even);
    let mut noise: Shares<R> = noise.draw(gaussian.as_ref(), even, count);
    if sum.len() > count {
        // The sum of weights and those of metrics are shown as they are.
        noise = Shares::concat(&[&noise, &Shares::zeros(sum.len() - count)]);
    }
    // guard: results-are-recorded-before-they-are-opened
    round.record_release(&survivors)?;
    let result = hand_over(&mpc, (&weighing, round), sum, noise, divisor).await?;
    let too_long = of_parties().filter(|(_, passed)| !**passed);
    let faults = too_long.map(|(party, _)| {
        let rule = format!("it is {TOO_LONG}: the servers left it out");
        Fault::party(party, FaultKind::malformed("vector", rule))
    });
    Ok(Computed {
        survivors,
        result,
        faults: faults.collect(),
    })
}

/// Too few parties are left: because this one's vector is too long, if it is.
fn too_few(too_long: Option<PartyId>, have: usize, need: usize) -> Fault {
    let Some(party) = too_long else {
        return Fault::nobody(FaultKind::TooFewSurvivors { have, need });
    };
    let rule =
        format!("it is {TOO_LONG}. Only {have} of {need} parties that the round needs are left");
    Fault::party(party, FaultKind::malformed("vector", rule))
}

async fn weigh<R: Ring>(
    mpc: &Mpc<R>,
    weighing: &Weighing,
    gathered: &Gathered,
) -> Result<Weighed<R>, MpcError> {
    let bounds = match weighing.is_gated() {
        // All vectors are here, so that nobody can fit one to the coin.
        // guard: rows-of-the-gate-come-from-a-coin
        true => weighing.bounds(mpc.coin().await?)?,
        false => Bounds::new(15)?,
    };
    let Gathered { vectors, root, .. } = gathered;
    let rule = weighing.rule(root.as_ref());
    rule.compute(mpc, vectors, bounds).await
}

/// Shows a verified result with its noise; or leaves it shared, where it is for parties alone.
async fn hand_over<R: Ring>(
    mpc: &Mpc<R>,
    (weighing, round): (&Weighing, &Round),
    sum: Shares<R>,
    noise: Shares<R>,
    divisor: f64,
) -> Result<Made, Fault> {
    // guard: results-have-the-noise-of-the-job
    let sum = sum.plus(&noise).map_err(broken)?;
    let made = match is_for_parties(round.job().spec()) {
        true => {
            let parts = mpc.both_parts(&sum).map_err(broken)?;
            weighing
                .components(mpc.me(), parts, divisor)
                .map(Made::Shared)
        }
        false => {
            let shown = mpc.reveal(&sum).await.map_err(broken)?;
            weighing.result(shown, divisor).map(Made::Shown)
        }
    };
    made.map_err(Fault::nobody)
}
