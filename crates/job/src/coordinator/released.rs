//! What the coordinator, as one of the servers that open results together, remembers of earlier ones, and how it chooses
//! the parties of rounds so that their result may be opened.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use blindsum_protocol::{Fault, FaultKind, Job, Round, RoundKind, ServerRole};
use tracing::warn;

use super::context::Context;
use super::offered::ReadyParty;
use super::trouble::grown;
use super::{Halt, Parts};
use crate::machine::Time;
use crate::released::{MAX_RELEASES, Release, Releases, Rule, compare, standing};
use crate::store::StoredJob;
use crate::{foreign, pb};

/// The coordinator's memory of results that were opened.
pub(super) struct Opened {
    pub releases: Arc<Releases>,
    /// Releases that other servers know of and this one does not, by who says so.
    told: Vec<(ServerRole, Release)>,
    /// The latest round whose result counts; 0 if there is none.
    last_counted: u64,
    /// Whether a server has refused to open the result of the round under way.
    is_refused: bool,
    /// Since when no result may be opened, and how many rounds have ended because of that.
    waiting: Option<(Time, u32)>,
    /// What people are told while that is so; empty otherwise.
    pub warning: String,
}

impl Opened {
    /// What the store has of it.
    pub fn stored(parts: &Parts, stored: &StoredJob) -> Self {
        let (store, name) = (parts.store.clone(), parts.job.spec().job.clone());
        let keep = move |releases: &[Release]| {
            let kept = store.released(&name, releases);
            kept.map_err(|error| io::Error::other(error.to_string()))
        };
        let last_counted = stored.ending.as_ref().map_or(0, |ending| ending.done.round);
        // guard: the-coordinator-recalls-what-was-opened
        let kept = standing(&parts.job, stored.released.clone(), last_counted);
        Self {
            releases: Releases::new(&parts.job, kept, Box::new(keep)),
            told: Vec::new(),
            last_counted,
            is_refused: false,
            waiting: None,
            warning: String::new(),
        }
    }

    /// A server begins anew, and what it said before does not bind any more.
    pub fn begins_anew(&mut self, role: ServerRole) {
        self.told.retain(|(by, _)| *by != role);
    }

    /// A round has ended for another reason than that its result may not be opened.
    pub fn tried_otherwise(&mut self) {
        self.waiting = None;
        self.warning.clear();
    }

    /// A round that asks the coordinator's memory before its result is opened.
    pub fn guard(&self, round: Round, model: String) -> Round {
        let guard = self.releases.guard(&round, model);
        round.with_releases(guard)
    }

    /// The releases of this model that are known here.
    fn known(&self, model: &str) -> Vec<Release> {
        let mut known = self.releases.of_model(model);
        let told = self.told.iter().map(|(_, release)| release);
        for release in told.filter(|it| it.model == model) {
            if known.iter().all(|it| it.survivors != release.survivors) {
                known.push(release.clone());
            }
        }
        known
    }

    /// Those of the ready parties with whom a round may have a result, and the others: all of them, or as many as may be.
    pub fn choose(
        &mut self,
        job: &Job,
        model: &str,
        (number, kind): (u64, RoundKind),
        ready: Vec<ReadyParty>,
    ) -> Result<(Vec<ReadyParty>, Vec<ReadyParty>), Halt> {
        self.is_refused = false;
        let known = self.known(model);
        let present: BTreeSet<String> = ready.iter().map(|it| it.name.to_string()).collect();
        let rule = Rule::of(job.spec());
        let near = compare(&known, &present, rule);
        let (RoundKind::Sum, Err(near)) = (kind, near) else {
            return Ok((ready, Vec::new()));
        };
        let choice = Choice {
            rule,
            least: job.least_roster(),
            root: job.spec().root(),
        };
        let Some(chosen) = choose(&present, &known, choice, number) else {
            // guard: rounds-that-may-not-be-opened-do-not-fail
            return Err(Halt::Unopened(format!(
                "no round of the parties that are ready may have a result: {near}"
            )));
        };
        let is_chosen = |party: &ReadyParty| chosen.contains(&*party.name);
        Ok(ready.into_iter().partition(is_chosen))
    }

    /// A server does not open the result of a round, and says which earlier one is in the way.
    pub fn refused_by(
        &mut self,
        context: &Context,
        model: String,
        role: ServerRole,
        refusal: &pb::RoundRefused,
    ) {
        if refusal.code() != pb::RoundRefusalCode::RoundRefusalPolicy {
            return;
        }
        self.is_refused = true;
        let most = context.spec().parties as usize;
        if refusal.released.is_empty() || refusal.released.len() > most {
            return;
        }
        let release = Release {
            round: refusal.released_round,
            model,
            survivors: refusal.released.iter().map(|name| foreign(name)).collect(),
        };
        let told = &mut self.told;
        let is_told = |(by, it): &(ServerRole, Release)| {
            *by == role && it.model == release.model && it.survivors == release.survivors
        };
        if !told.iter().any(is_told) {
            told.push((role, release));
            let of_role = told.iter().filter(|(by, _)| *by == role).count();
            if of_role > MAX_RELEASES {
                let oldest = told.iter().position(|(by, _)| *by == role);
                oldest.map(|oldest| told.remove(oldest));
            }
        }
    }

    /// A round that ended because its result must not be opened has not failed: the job waits for other parties.
    pub fn explain(&self, halt: Halt) -> Halt {
        match halt {
            Halt::Aborted(reason) | Halt::Missed { reason, .. } | Halt::Waits { reason, .. }
                if self.is_refused =>
            {
                Halt::Unopened(reason)
            }
            halt => halt,
        }
    }

    /// No result may be opened for now, for this reason. Rounds begin again after a pause of this time, until the job's
    /// patience is over.
    pub fn wait(&mut self, context: &Context, reason: &str) -> Result<Duration, Halt> {
        let (now, settings) = (context.now(), context.settings());
        let (since, rounds) = self.waiting.unwrap_or((now, 0));
        self.waiting = Some((since, rounds.saturating_add(1)));
        if now >= since + settings.patience {
            return Err(Halt::Ended(format!(
                "no result could be opened for {} s: {reason}",
                settings.patience.as_secs_f64()
            )));
        }
        self.warning = reason.into();
        Ok(grown(settings.reconnect_grace, rounds))
    }

    /// A round counts: the next one is of another model, or asks for other vectors. Where the store does not forget the
    /// releases that are behind it, the round counts all the same, and they are forgotten after the next one.
    pub async fn result_counts(&mut self, context: &Context, round: u64) {
        self.last_counted = round;
        self.waiting = None;
        self.warning.clear();
        self.told.clear();
        let (releases, job) = (self.releases.clone(), context.job().clone());
        let forgotten = context
            .hand
            .work(move || releases.counted(&job, round))
            .await;
        // The round is recorded and told: nothing that fails from here on takes it back.
        let reason = match forgotten {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        warn!(job = %context.name, round, %reason, "earlier releases cannot be removed from the store yet");
    }

    /// The latest round that counts, for a server that has come and may not have heard of it.
    pub fn last_counted(&self) -> Option<u64> {
        (self.last_counted > 0).then_some(self.last_counted)
    }
}

/// The end of a round whose result the coordinator's own memory does not allow to be opened.
pub(super) fn not_opened_by(fault: &Fault) -> Option<Halt> {
    match &fault.kind {
        FaultKind::NotOpened { .. } => Some(Halt::Unopened(fault.kind.to_string())),
        _ => None,
    }
}

/// What a choice of parties must keep.
#[derive(Clone, Copy)]
struct Choice<'a> {
    /// What results may be opened.
    rule: Rule,
    /// How many parties a round begins with.
    least: usize,
    /// A party without which there is no round.
    root: Option<&'a str>,
}

/// The largest set of present parties that was found whose result may be opened, where that of all of them may not: the
/// parties of an earlier result, or all without some more. Who is left out goes round with the number of the round.
fn choose(
    present: &BTreeSet<String>,
    known: &[Release],
    choice: Choice<'_>,
    number: u64,
) -> Option<BTreeSet<String>> {
    let fits = |set: &BTreeSet<String>| {
        set.len() >= choice.least
            && choice.root.is_none_or(|root| set.contains(root))
            && compare(known, set, choice.rule).is_ok()
    };
    let again = known.iter().map(|release| &release.survivors);
    let again = again.filter(|set| set.is_subset(present)).cloned();
    let fewer = known.iter().filter_map(|from| {
        let mut set = present.clone();
        let shared = present.intersection(&from.survivors).cloned();
        let mut shared: Vec<String> = shared.filter(|name| Some(&**name) != choice.root).collect();
        let shift = number.checked_rem(shared.len() as u64).unwrap_or(0);
        shared.rotate_left(shift as usize);
        shared.into_iter().find_map(|name| {
            set.remove(&name);
            fits(&set).then(|| set.clone())
        })
    });
    let all = again.chain(fewer).filter(|set| fits(set));
    all.max_by_key(BTreeSet::len)
}

#[cfg(test)]
mod tests;
