//! Which parties take part where more are ready than a round takes.
//!
//! Two sums over parties that are almost the same tell their difference. So a choice by turns or at random changes at least
//! `change` parties of the latest round at once, or none: parties that want `min_cohort_change` of their policy are not
//! made to refuse every round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand_core::Rng;
use tracing::info;

use super::api::Choice;
use super::context::Context;
use super::offered::ReadyParty;
use crate::first_few;
use crate::report::RoundReport;

/// Who took part in which round the last time, and how often.
#[derive(Default)]
pub(super) struct Turns {
    latest: BTreeMap<Arc<str>, (u64, u64)>,
    /// The parties of the latest round.
    cohort: BTreeSet<Arc<str>>,
}

impl Turns {
    /// What reports of rounds say, newest first.
    pub fn stored(reports: &[RoundReport]) -> Self {
        let mut turns = Self::default();
        for report in reports
            .iter()
            .rev()
            .filter(|report| !report.parties.is_empty())
        {
            let names = report.parties.iter().map(|name| Arc::from(name.as_str()));
            turns.took_part(report.number, names.collect());
        }
        turns
    }

    /// These parties take part in a round.
    pub fn took_part(&mut self, round: u64, names: BTreeSet<Arc<str>>) {
        for name in &names {
            let (latest, times) = self.latest.entry(name.clone()).or_default();
            (*latest, *times) = (round, *times + 1);
        }
        self.cohort = names;
    }

    /// Those that take part in a round, at most as many as the job has parties.
    pub fn choose(
        &mut self,
        context: &Context,
        round: u64,
        mut ready: Vec<ReadyParty>,
    ) -> Vec<ReadyParty> {
        let (most, settings) = (context.spec().parties as usize, context.settings());
        if ready.len() > most && settings.choice != Choice::First {
            let chosen = self.names(context, &ready, most);
            let waits: Vec<Arc<str>> = ready
                .extract_if(.., |party| !chosen.contains(&party.name))
                .map(|party| party.name)
                .collect();
            info!(job = %context.name, round, choice = ?settings.choice, parties = chosen.len(),
                waits = %first_few(&waits), "more parties are ready than the round takes");
        }
        let names = ready.iter().take(most).map(|party| party.name.clone());
        self.took_part(round, names.collect());
        ready
    }

    /// The names of those that take part, of more than `most`.
    fn names(&self, context: &Context, ready: &[ReadyParty], most: usize) -> BTreeSet<Arc<str>> {
        let settings = context.settings();
        // The root takes part in every round.
        let root = context.spec().root();
        let names = ready.iter().map(|party| party.name.clone());
        let (always, mut order): (Vec<_>, Vec<_>) = names.partition(|name| Some(&**name) == root);
        match settings.choice {
            Choice::First => {}
            Choice::Turns => self.sort(&mut order),
            Choice::Random => {
                let mut rng = context.hand.random();
                for last in (1..order.len()).rev() {
                    let other = rng.next_u64() % (last as u64 + 1);
                    order.swap(last, other as usize);
                }
            }
        }
        let most = most.saturating_sub(always.len());
        let mut chosen = self.chosen(order, most, settings.change as usize);
        chosen.extend(always);
        chosen
    }

    /// Those that have waited longest come first; of those that have waited as long, those that took part least often.
    fn sort(&self, names: &mut [Arc<str>]) {
        names.sort_by_key(|name| self.latest.get(name).copied().unwrap_or_default());
    }

    /// The first `most` in this order, unless that would replace fewer than `change` parties of the latest round: then its
    /// parties stay, and others take the places that are left.
    fn chosen(&self, mut order: Vec<Arc<str>>, most: usize, change: usize) -> BTreeSet<Arc<str>> {
        let was_in = |name: &&Arc<str>| self.cohort.contains(*name);
        let replaced = order.iter().skip(most).filter(was_in).count();
        if replaced < change {
            order.sort_by_key(|name| !was_in(&name));
        }
        order.truncate(most);
        order.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    /// Rounds of `most` of these parties by turns.
    fn play(parties: &[&str], most: usize, change: usize, rounds: u64) -> Vec<BTreeSet<Arc<str>>> {
        let mut turns = Turns::default();
        let round = |round| {
            let mut order = names(parties);
            turns.sort(&mut order);
            let chosen = turns.chosen(order, most, change);
            turns.took_part(round, chosen.clone());
            chosen
        };
        (1..=rounds).map(round).collect()
    }

    #[test]
    fn by_turns_everybody_takes_part_as_often() {
        let parties = ["a", "b", "c", "d", "e"];
        let rounds = play(&parties, 3, 1, 50);
        for party in parties {
            let times = rounds.iter().filter(|round| round.contains(party)).count();
            assert_eq!(times, 30, "{party}");
        }
    }

    #[test]
    fn so_many_are_replaced_at_once_or_none() {
        for change in 2..=3 {
            let rounds = play(&["a", "b", "c", "d", "e", "f"], 3, change, 20);
            for pair in rounds.windows(2) {
                let replaced = pair[0].difference(&pair[1]).count();
                assert!(replaced == 0 || replaced >= change, "{replaced}");
            }
            assert!(
                rounds.iter().any(|round| round.contains("f")),
                "all have turns"
            );
        }
        // Only one waits: it is never alone in being new.
        let rounds = play(&["a", "b", "c", "d"], 3, 2, 20);
        assert!(rounds.iter().all(|round| *round == rounds[0]));
    }

    #[test]
    fn places_that_are_free_are_given_to_those_that_wait() {
        let mut turns = Turns::default();
        turns.took_part(1, names(&["a", "b", "c"]).into_iter().collect());
        let chosen = turns.chosen(names(&["d", "e", "a", "b"]), 3, 2);
        assert!(chosen.contains("a") && chosen.contains("b") && chosen.len() == 3);
    }

    #[test]
    fn turns_are_the_same_from_the_reports_of_rounds() {
        let report = |number, parties: &[&str]| RoundReport {
            parties: parties.iter().map(|name| (*name).to_owned()).collect(),
            ..RoundReport::offered(number, 0, 0)
        };
        let reports = [
            report(3, &[]),
            report(2, &["a", "c"]),
            report(1, &["a", "b"]),
        ];
        let turns = Turns::stored(&reports);
        let mut order = names(&["a", "b", "c", "d"]);
        turns.sort(&mut order);
        assert_eq!(order, names(&["d", "b", "c", "a"]));
        assert_eq!(turns.cohort, names(&["a", "c"]).into_iter().collect());
    }
}
