//! Of which survivors the results of a job were opened: the memory of each of the servers that compute together.
//!
//! Two results from one model, over survivors that differ by few parties, tell the vectors of these few: parties that train
//! again from the same model give the same update. A server can end a round after it has learned the result, and leave a
//! party out of the next one. So each server records the survivors of a result before it sends the first byte of it, and
//! does not open a result of the same model whose survivors are too near to recorded ones. They may be the same parties
//! again. Of honest updates that stay as they are, a sum of the same parties tells nothing new. Another rule can: a corrupt
//! party that gives another update changes how the others count, so each repetition is another result of theirs. Noise is
//! fresh each time, and the mean of several results has less of it. There repetitions count as releases, too
//! ([`Rule::repetitions_tell`]), and no model has more than [`MAX_RELEASES`].
//!
//! A model is known by its hash alone, which is in the context of the round and in what parties sign. Its version is what the
//! coordinator says: it could say another one, and let parties train from the same values again.
//!
//! With c corrupt parties, whose vectors the corrupt server knows, a difference of c + 1 parties can be the vector of one
//! honest party. So sets differ by at least c + 2. With three sets and more, sums of differences count too: then each group
//! of parties that the sets tell apart must have c + 2 parties ([`Groups`]).

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use blindsum_protocol::{
    Job, JobSpec, ModelUpdate, NotOpened, PartySet, PrivacyName, ProtocolChoice, ReleaseGuard,
    Round, RuleName,
};
use serde::{Deserialize, Serialize};

use crate::MAX_NAMES;
use crate::party::Groups;

/// Releases that are kept: all of the model under way, and of others the latest ones. No model has more.
pub const MAX_RELEASES: usize = 16;

/// Honest parties that a difference of two results must have at least.
// guard: survivors-differ-by-the-corrupt-and-two-more
const MIN_HONEST: usize = 2;

/// The survivors of a result that servers began to open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The round.
    pub round: u64,
    /// The model from which the round started: its hash, in hexadecimal digits.
    pub model: String,
    /// The names of the survivors.
    pub survivors: BTreeSet<String>,
}

/// Why no result of some survivors is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooNear {
    /// The release that they are too near to.
    pub to: Release,
    /// The parties that are in one of both and not in the other one.
    pub differ: BTreeSet<String>,
    /// By how many parties they must differ, if they are not the same.
    pub bound: usize,
    /// Whether the model has as many releases as any may have.
    pub is_full: bool,
}

impl fmt::Display for TooNear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Release {
            round, survivors, ..
        } = &self.to;
        let (some, more) = match self.differ.len() > MAX_NAMES {
            true => (MAX_NAMES, " and others"),
            false => (self.differ.len(), ""),
        };
        let names: Vec<&str> = self.differ.iter().take(some).map(String::as_str).collect();
        if self.is_full {
            return write!(
                f,
                "{MAX_RELEASES} results of the same model were opened, one of them for round {round}, and none was \
                 announced. Each further one tells more of the same updates: the model must change"
            );
        }
        write!(
            f,
            "the survivors differ from the {} of round {round} only in {}{more}. The result of round {round} was opened \
             from the same model, and both results together could tell the update of one party. The survivors must be \
             the same again or differ in {} parties, or the model must change",
            survivors.len(),
            names.join(", "),
            self.bound,
        )
    }
}

impl From<TooNear> for NotOpened {
    fn from(near: TooNear) -> Self {
        Self {
            round: near.to.round,
            reason: near.to_string(),
        }
    }
}

/// What results of one model may be opened in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// By how many parties the survivors of two results must differ, if they are not the same: one more than the corrupt
    /// parties and one honest one.
    pub bound: usize,
    /// Whether a result of the same survivors can tell something new: where the result is not their mean, or has noise.
    pub repetitions_tell: bool,
}

impl Rule {
    /// That of a job.
    pub fn of(spec: &JobSpec) -> Self {
        let repetitions_tell = match &spec.protocol {
            ProtocolChoice::Mpc3(options) => {
                let adds = matches!(options.rule, RuleName::FedAvg | RuleName::Weighted);
                let has_noise =
                    options.noise > 0.0 || spec.privacy.name() != PrivacyName::NoPrivacy;
                // guard: repetitions-of-what-is-no-mean-are-counted
                !adds || has_noise
            }
            _ => true,
        };
        Self {
            bound: spec.corrupt_parties() + MIN_HONEST,
            repetitions_tell,
        }
    }
}

/// Compares survivors with those of earlier results of the same model.
///
/// # Errors
/// [`TooNear`] for survivors whose result is not to be opened.
pub fn compare(known: &[Release], survivors: &BTreeSet<String>, rule: Rule) -> Result<(), TooNear> {
    let Rule {
        bound,
        repetitions_tell,
    } = rule;
    // guard: results-of-a-model-are-counted
    let is_full = known.len() >= MAX_RELEASES;
    let is_repeated = known.iter().any(|release| release.survivors == *survivors);
    if is_repeated && !(is_full && repetitions_tell) {
        return Ok(());
    }
    let differ = |release: &Release| -> BTreeSet<String> {
        let parties = release.survivors.symmetric_difference(survivors);
        parties.cloned().collect()
    };
    let nearest = known.iter().map(|release| (release, differ(release)));
    let Some((to, differ)) = nearest.min_by_key(|(_, differ)| differ.len()) else {
        return Ok(());
    };
    let sets: BTreeSet<&BTreeSet<String>> = known.iter().map(|known| &known.survivors).collect();
    let is_near = match sets.len() {
        _ if is_full => true,
        // guard: near-survivors-are-refused
        1 => differ.len() < bound,
        // guard: three-results-together-tell-no-party
        _ => smallest_group(sets.into_iter().chain([survivors])) < bound,
    };
    match is_near {
        true => Err(TooNear {
            to: to.clone(),
            differ,
            bound,
            is_full,
        }),
        false => Ok(()),
    }
}

/// How many parties are in the smallest group of those that these sets tell apart.
fn smallest_group<'a>(sets: impl Iterator<Item = &'a BTreeSet<String>>) -> usize {
    let together = sets.fold(Groups::default(), |groups, set| {
        groups.refine(set, 0).groups
    });
    together.sizes().min().unwrap_or(0)
}

/// Writes all releases of a job down. When it returns they survive a crash.
pub type Keep = Box<dyn Fn(&[Release]) -> io::Result<()> + Send + Sync>;

/// The memory of one server of a job.
pub struct Releases {
    rule: Rule,
    /// Oldest first.
    kept: Mutex<Vec<Release>>,
    keep: Keep,
}

impl Releases {
    /// A memory with what was written down before, and how to write it down from now on.
    pub fn new(job: &Job, mut kept: Vec<Release>, keep: Keep) -> Arc<Self> {
        // Earlier records have the version of the model in front of its hash.
        for release in &mut kept {
            if let Some((_, hash)) = release.model.split_once(' ') {
                release.model = hash.to_owned();
            }
        }
        Arc::new(Self {
            rule: Rule::of(job.spec()),
            kept: Mutex::new(kept),
            keep,
        })
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Release>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The releases of the model with this hash.
    pub fn of_model(&self, model: &str) -> Vec<Release> {
        let kept = self.kept();
        let of_model = kept.iter().filter(|release| release.model == model);
        of_model.cloned().collect()
    }

    /// The release of a round.
    pub fn of_round(&self, round: u64) -> Option<Release> {
        self.kept()
            .iter()
            .find(|release| release.round == round)
            .cloned()
    }

    /// What a round from this model asks before its result is opened.
    pub fn guard(self: &Arc<Self>, round: &Round, model: String) -> Arc<dyn ReleaseGuard> {
        let members = round.roster().members().iter();
        Arc::new(OfRound {
            releases: self.clone(),
            round: round.number(),
            model,
            names: members.map(|member| member.name.clone()).collect(),
        })
    }

    /// A round counts. In a job that keeps no model the next round asks for other vectors: what was opened up to this round
    /// is forgotten. In all other jobs the next round starts from another model.
    ///
    /// # Errors
    /// It cannot be written down.
    pub fn counted(&self, job: &Job, round: u64) -> io::Result<()> {
        let mut kept = self.kept();
        let later = standing(job, kept.clone(), round);
        if later.len() == kept.len() {
            return Ok(());
        }
        // Also where it cannot be written down: what is kept then is forgotten with the next one.
        *kept = later;
        (self.keep)(&kept)
    }

    /// Writes a release down.
    fn record(&self, release: Release) -> Result<(), NotOpened> {
        let mut kept = self.kept();
        let (of_model, mut others): (Vec<Release>, Vec<Release>) = kept
            .iter()
            .cloned()
            .partition(|it| it.model == release.model);
        compare(&of_model, &release.survivors, self.rule)?;
        let is_known = of_model.iter().any(|it| it.survivors == release.survivors);
        if is_known && !self.rule.repetitions_tell {
            return Ok(());
        }
        let room = MAX_RELEASES.saturating_sub(of_model.len() + 1);
        others.drain(..others.len().saturating_sub(room));
        let all: Vec<Release> = others
            .into_iter()
            // guard: releases-of-the-model-are-kept
            .chain(of_model)
            .chain([release])
            .collect();
        let failed = |error| NotOpened {
            round: 0,
            reason: format!("its survivors cannot be recorded: {error}"),
        };
        (self.keep)(&all).map_err(failed)?;
        *kept = all;
        Ok(())
    }
}

/// Whether the model has the same name in all rounds of a job: it keeps none, and servers learn what is computed.
fn has_one_model(job: &Job) -> bool {
    job.spec().model_update == ModelUpdate::Nothing && !job.hides_sum()
}

/// The releases that still stand once `last_counted` is the latest round with a result; 0 if there is none.
pub fn standing(job: &Job, mut kept: Vec<Release>, last_counted: u64) -> Vec<Release> {
    if has_one_model(job) {
        kept.retain(|release| release.round > last_counted);
    }
    kept
}

/// What one round asks.
struct OfRound {
    releases: Arc<Releases>,
    round: u64,
    model: String,
    /// The parties, in order.
    names: Vec<String>,
}

impl OfRound {
    fn named(&self, survivors: &PartySet) -> BTreeSet<String> {
        let names = survivors
            .iter()
            .filter_map(|party| self.names.get(party.rank()));
        names.cloned().collect()
    }
}

impl ReleaseGuard for OfRound {
    fn check(&self, survivors: &PartySet) -> Result<(), NotOpened> {
        let known = self.releases.of_model(&self.model);
        Ok(compare(&known, &self.named(survivors), self.releases.rule)?)
    }

    fn record(&self, survivors: &PartySet) -> Result<(), NotOpened> {
        self.releases.record(Release {
            round: self.round,
            model: self.model.clone(),
            survivors: self.named(survivors),
        })
    }
}

#[cfg(test)]
mod tests;
