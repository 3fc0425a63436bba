//! What members did wrong, and for how long they sit out rounds.
//!
//! A party that sends what no honest party sends sits out the next rounds, longer each time. What one party says of
//! another is only a claim: the accuser may be the liar. But at most `corrupt` of the job's parties lie. So a party
//! that more than that many others accuse is a liar, since one of them is honest; and so is a party that accuses more
//! than that many others. As long as neither is known, accuser and accused are kept apart: one of them takes part in a
//! round, then the other one, so that a claim costs both the same. If one of them leaves a round and the round fails,
//! the other one gets its turns: otherwise a liar could end every round in which it takes part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rounds that a party sits out the first time; twice as many each time after that.
const FIRST: u64 = 10;
/// The most rounds that a party sits out at a time.
const MOST: u64 = 1000;
/// Rounds for which two parties that accuse each other are kept apart.
const APART: u64 = 20;

/// After this many rounds that no member has ended, one earlier time is forgotten. If it were forgotten sooner, one party
/// could end a good part of all rounds, and a few of them in turn nearly all.
const FORGIVEN: u32 = 10;

/// Two parties, one of which has accused the other.
struct Pair {
    /// The latest round with such a claim.
    since: u64,
    /// The party of the two that has since left a round that failed.
    left: Option<Arc<str>>,
}

/// A party that has sent what no honest party sends.
#[derive(Default)]
struct Liar {
    /// In how many rounds.
    times: u32,
    /// The latest of them.
    latest: Option<u64>,
    /// The last round that it sits out because of that.
    until: u64,
}

/// A party that has ended rounds without having lied: by not opening its nonce, or by its loss where a round needs all of
/// its parties.
#[derive(Default)]
struct Missed {
    /// How many times.
    times: u32,
    /// What it did the last time.
    what: &'static str,
    /// The last round that it sits out because of that.
    until: u64,
    /// The number of rounds since that did not end so, this party among their members.
    kept: u32,
}

/// How the members of a job have behaved since the coordinator started. Rounds are counted from then on, so that no
/// party can influence the count.
#[derive(Default)]
pub(super) struct Conduct {
    /// How many parties may lie.
    corrupt: usize,
    /// The latest round in which one party (first) has accused another (second).
    claims: BTreeMap<(Arc<str>, Arc<str>), u64>,
    /// The pairs of parties that are kept apart, in the order of their names.
    apart: BTreeMap<(Arc<str>, Arc<str>), Pair>,
    liars: BTreeMap<Arc<str>, Liar>,
    /// The parties that have ended rounds without having lied.
    missed: BTreeMap<Arc<str>, Missed>,
    /// The parties that were connected but not ready when a round began. They are not waited for again until they are
    /// ready.
    slow: BTreeSet<Arc<str>>,
    /// The parties that were not ready because the model was on its way to them. That is excused once.
    waited_for: BTreeSet<Arc<str>>,
}

impl Conduct {
    /// The record of a job in which `corrupt` parties may lie.
    pub fn of(corrupt: usize) -> Self {
        Self {
            corrupt,
            ..Self::default()
        }
    }

    /// A party has sent in a round what no honest party sends. In one round that counts once.
    pub fn lied(&mut self, name: &Arc<str>, round: u64) {
        let liar = self.liars.entry(name.clone()).or_default();
        if liar.latest == Some(round) {
            return;
        }
        let rounds = FIRST.saturating_mul(1u64.checked_shl(liar.times).unwrap_or(u64::MAX));
        *liar = Liar {
            times: liar.times + 1,
            latest: Some(round),
            until: round.saturating_add(rounds.min(MOST)),
        };
        let of = |(one, other): &(Arc<str>, Arc<str>)| one == name || other == name;
        self.claims.retain(|claim, _| !of(claim));
        self.apart.retain(|pair, _| !of(pair));
    }

    /// A party could not open its nonce, or did not want to, and the round has ended.
    pub fn declined(&mut self, name: &Arc<str>, round: u64) {
        self.missed(name, round, "it did not open its nonce in an earlier round");
    }

    /// A party was lost in a round that needs all of its parties, and the round has ended.
    pub fn lost(&mut self, name: &Arc<str>, round: u64) {
        self.missed(name, round, "an earlier round was lost with it");
    }

    /// A party has ended a round. It need not be at fault, but the others must not lose one round after the other because
    /// of it.
    fn missed(&mut self, name: &Arc<str>, round: u64, what: &'static str) {
        let missed = self.missed.entry(name.clone()).or_default();
        let rounds = 1u64.checked_shl(missed.times).unwrap_or(MOST).min(MOST);
        *missed = Missed {
            times: missed.times + 1,
            what,
            until: round.saturating_add(rounds),
            kept: 0,
        };
    }

    /// A round was ended by none of its members, and this party was one. One earlier time is forgotten, but not all: a party
    /// that ended many rounds is not treated like a new one.
    pub fn kept(&mut self, name: &str) {
        let Some(missed) = self.missed.get_mut(name) else {
            return;
        };
        missed.kept += 1;
        if missed.kept < FORGIVEN {
            return;
        }
        missed.kept = 0;
        missed.times -= 1;
        if missed.times == 0 {
            self.missed.remove(name);
        }
    }

    /// One party says that another one has lied in a round. Gives the party that is now known to be a liar, if any.
    pub fn accused(&mut self, by: &Arc<str>, about: &Arc<str>, round: u64) -> Option<Arc<str>> {
        if by == about {
            return None;
        }
        self.claims.insert((by.clone(), about.clone()), round);
        let pair = (by.min(about).clone(), by.max(about).clone());
        let new = Pair {
            since: round,
            left: None,
        };
        self.apart.entry(pair).or_insert(new).since = round;
        let accusers = self.claims.keys().filter(|(_, of)| of == about).count();
        let accused = self.claims.keys().filter(|(of, _)| of == by).count();
        let liar = match (accusers > self.corrupt, accused > self.corrupt) {
            (true, _) => about,
            (false, true) => by,
            (false, false) => return None,
        };
        self.lied(liar, round);
        Some(liar.clone())
    }

    /// These parties have left a round that failed. If one of them has accused somebody in it, it had to leave.
    pub fn left(&mut self, names: &BTreeSet<Arc<str>>, round: u64) {
        let new = self.claims.iter().filter(|(_, since)| **since == round);
        let accusers: BTreeSet<Arc<str>> = new.map(|((by, _), _)| by.clone()).collect();
        let has_left = |name: &Arc<str>| names.contains(name) && !accusers.contains(name);
        for ((one, other), pair) in &mut self.apart {
            match (has_left(one), has_left(other)) {
                _ if pair.since == round => {}
                (true, false) => pair.left = Some(one.clone()),
                (false, true) => pair.left = Some(other.clone()),
                _ => {}
            }
        }
    }

    /// The last round that a liar sits out; `None` if the party is no liar, or has sat out its rounds.
    fn sentence(&self, name: &str, round: u64) -> Option<u64> {
        let liar = self.liars.get(name)?;
        Some(liar.until).filter(|until| *until >= round)
    }

    /// Whether a party is known to lie and sits out this round for that.
    pub fn is_liar(&self, name: &str, round: u64) -> bool {
        self.sentence(name, round).is_some()
    }

    /// Why a party takes no part in a round; `None` if it may.
    pub fn sits_out(&self, name: &str, round: u64) -> Option<String> {
        if let Some(until) = self.sentence(name, round) {
            let more = until - round;
            return Some(format!(
                "it broke the protocol in an earlier round, and sits out this round and {more} more"
            ));
        }
        let missed = self.missed.get(name);
        if let Some(missed) = missed.filter(|missed| missed.until >= round) {
            let (what, more) = (missed.what, missed.until - round);
            return Some(format!("{what}, and sits out this round and {more} more"));
        }
        let apart = |((one, other), pair): (&(Arc<str>, Arc<str>), &Pair)| {
            let other_is_out = match &pair.left {
                Some(left) => left == other,
                None => round.is_multiple_of(2),
            };
            let (out, takes_part) = match other_is_out {
                true => (other, one),
                false => (one, other),
            };
            let lasts = pair.since.saturating_add(APART) >= round;
            (&**out == name && lasts).then(|| takes_part.clone())
        };
        let other = self.apart.iter().find_map(apart)?;
        Some(format!(
            "it or {other} lies, one has accused the other: they do not take part together"
        ))
    }

    /// A party was connected, but not ready when a round began. `lacks_model` says whether the model was on its way to
    /// it, which is not its fault the first time.
    pub fn was_late(&mut self, name: &Arc<str>, lacks_model: bool) {
        if !lacks_model || !self.waited_for.insert(name.clone()) {
            self.slow.insert(name.clone());
        }
    }

    /// A party is ready.
    pub fn is_ready(&mut self, name: &str) {
        self.slow.remove(name);
        self.waited_for.remove(name);
    }

    /// Whether a party is not waited for.
    pub fn is_slow(&self, name: &str) -> bool {
        self.slow.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Arc<str> {
        name.into()
    }

    fn out(conduct: &Conduct, round: u64) -> Vec<&'static str> {
        let all = ["a", "b", "c", "d"];
        let out = |name: &&str| conduct.sits_out(name, round).is_some();
        all.into_iter().filter(out).collect()
    }

    #[test]
    fn case_57_who_is_accused_by_more_than_may_lie_sits_out() {
        let mut conduct = Conduct::of(1);
        assert_eq!(conduct.accused(&name("a"), &name("b"), 1), None);
        assert_eq!(conduct.accused(&name("c"), &name("b"), 1), Some(name("b")));
        for round in 2..=11 {
            assert_eq!(out(&conduct, round), ["b"]);
        }
        assert!(out(&conduct, 12).is_empty());
        conduct.lied(&name("b"), 12);
        assert_eq!(out(&conduct, 32), ["b"]);
        assert!(out(&conduct, 33).is_empty());
    }

    #[test]
    fn case_52_lies_in_one_round_count_once() {
        let mut conduct = Conduct::of(1);
        (0..3).for_each(|_| conduct.lied(&name("b"), 1));
        assert_eq!(out(&conduct, 11), ["b"]);
        assert!(out(&conduct, 12).is_empty());
    }

    #[test]
    fn case_52_who_accuses_more_than_may_lie_sits_out() {
        let mut conduct = Conduct::of(1);
        assert_eq!(conduct.accused(&name("d"), &name("a"), 1), None);
        assert_eq!(conduct.accused(&name("d"), &name("b"), 2), Some(name("d")));
        assert_eq!(out(&conduct, 3), ["d"]);
    }

    #[test]
    fn case_52_a_claim_costs_both_the_same() {
        let mut conduct = Conduct::of(1);
        // Its own word about itself says nothing.
        assert_eq!(conduct.accused(&name("a"), &name("a"), 1), None);
        assert!(out(&conduct, 2).is_empty());
        for round in 1..4 {
            // The same claim again is no second one.
            assert_eq!(conduct.accused(&name("a"), &name("b"), round), None);
        }
        assert_eq!(out(&conduct, 4), ["b"]);
        assert_eq!(out(&conduct, 5), ["a"]);
        assert_eq!(out(&conduct, 23), ["a"]);
        assert!(out(&conduct, 24).is_empty());
    }

    #[test]
    fn case_52_who_leaves_a_round_that_comes_to_nothing_loses_its_turns() {
        let left = |conduct: &mut Conduct, who: &[&str], round| {
            let names = who.iter().map(|who| name(who)).collect();
            conduct.left(&names, round);
        };
        let mut conduct = Conduct::of(1);
        conduct.accused(&name("a"), &name("b"), 1);
        // Who accuses leaves the round, which says nothing; nor does it where both do, or somebody else.
        left(&mut conduct, &["a"], 1);
        left(&mut conduct, &["a", "b"], 2);
        left(&mut conduct, &["c"], 3);
        assert_eq!((out(&conduct, 4), out(&conduct, 5)), (vec!["b"], vec!["a"]));
        left(&mut conduct, &["b"], 5);
        assert_eq!((out(&conduct, 6), out(&conduct, 7)), (vec!["b"], vec!["b"]));
        // The latest one counts.
        left(&mut conduct, &["a"], 7);
        assert_eq!((out(&conduct, 8), out(&conduct, 9)), (vec!["a"], vec!["a"]));
        assert!(out(&conduct, 22).is_empty());
        // Somebody else makes it leave: that is not its doing.
        let mut conduct = Conduct::of(2);
        conduct.accused(&name("a"), &name("b"), 1);
        conduct.accused(&name("b"), &name("c"), 4);
        left(&mut conduct, &["b"], 4);
        assert_eq!(out(&conduct, 5), ["a", "b"]);
    }

    #[test]
    fn case_52_two_that_accuse_each_other_take_part_in_turn() {
        let mut conduct = Conduct::of(1);
        conduct.accused(&name("b"), &name("a"), 1);
        conduct.accused(&name("a"), &name("b"), 1);
        assert_eq!((out(&conduct, 2), out(&conduct, 3)), (vec!["b"], vec!["a"]));
        // The second claim of the two makes it last, and shows nobody to lie.
        assert_eq!(conduct.accused(&name("b"), &name("a"), 10), None);
        assert_eq!(out(&conduct, 30), ["b"]);
        assert!(out(&conduct, 31).is_empty());
    }

    #[test]
    fn case_52_nobody_is_waited_for_round_after_round() {
        let mut conduct = Conduct::of(1);
        conduct.was_late(&name("a"), true);
        assert!(!conduct.is_slow("a"));
        conduct.was_late(&name("a"), true);
        assert!(conduct.is_slow("a"));
        conduct.is_ready("a");
        conduct.was_late(&name("a"), false);
        assert!(conduct.is_slow("a"));
    }
}
