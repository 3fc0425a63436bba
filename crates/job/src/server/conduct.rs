//! What members did wrong, and for how long the others do without them.
//!
//! Who says something that nobody honest says sits out the next rounds, longer each time. What one party says of another
//! is a claim: the accuser may be the liar. But of the job's parties no more than `corrupt` lie. So who is accused by
//! more than that many is a liar, since one of them is honest; and so is who accuses more than that many. As long as
//! neither is known the two are kept apart: one of them takes part in a round, then the other one, so that a claim costs
//! whoever makes it as much as whom it is about. Where one of them leaves a round, and that comes to nothing, its turns
//! are the other one's: as long as one who lies is among so few it could end every round in which it takes part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rounds that somebody sits out the first time; twice as many each time after that.
const FIRST: u64 = 10;
/// Most rounds that somebody sits out at a time.
const MOST: u64 = 1000;
/// Rounds for which two that accuse each other are kept apart.
const APART: u64 = 20;

/// That somebody has lied, as somebody else says.
struct Claim {
    /// The round in which it was made.
    since: u64,
    /// Who of the two has left a round since that came to nothing.
    left: Option<Arc<str>>,
}

/// How the members of a job have behaved since the coordinator started.
#[derive(Default)]
pub(super) struct Conduct {
    /// How many may lie.
    corrupt: usize,
    /// Who has accused whom.
    claims: BTreeMap<(Arc<str>, Arc<str>), Claim>,
    /// How often somebody lied, and the last round that it sits out.
    liars: BTreeMap<Arc<str>, (u32, u64)>,
    /// Who was here and not ready when a round began: it is not waited for again before it is.
    slow: BTreeSet<Arc<str>>,
}

impl Conduct {
    /// Of a job of which so many parties may lie.
    pub fn of(corrupt: usize) -> Self {
        Self {
            corrupt,
            ..Self::default()
        }
    }

    /// Somebody has said in a round what nobody honest says.
    pub fn lied(&mut self, name: &Arc<str>, round: u64) {
        let (times, until) = self.liars.entry(name.clone()).or_default();
        let rounds = FIRST.saturating_mul(1u64.checked_shl(*times).unwrap_or(u64::MAX));
        *until = round.saturating_add(rounds.min(MOST));
        *times += 1;
        let of = |(by, about): &(Arc<str>, Arc<str>)| by == name || about == name;
        self.claims.retain(|claim, _| !of(claim));
    }

    /// One party says that another one has lied in a round; gives who that shows to be a liar.
    pub fn accused(&mut self, by: &Arc<str>, about: &Arc<str>, round: u64) -> Option<Arc<str>> {
        if by == about {
            return None;
        }
        let claim = self.claims.entry((by.clone(), about.clone()));
        claim
            .and_modify(|claim| claim.since = round)
            .or_insert(Claim {
                since: round,
                left: None,
            });
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

    /// These have left a round that came to nothing. Who has accused somebody in it had to leave.
    pub fn left(&mut self, names: &BTreeSet<Arc<str>>, round: u64) {
        let new = self.claims.iter().filter(|(_, claim)| claim.since == round);
        let accusers: BTreeSet<Arc<str>> = new.map(|((by, _), _)| by.clone()).collect();
        let has_left = |name: &Arc<str>| names.contains(name) && !accusers.contains(name);
        for ((by, about), claim) in &mut self.claims {
            match (has_left(by), has_left(about)) {
                _ if claim.since == round => {}
                (true, false) => claim.left = Some(by.clone()),
                (false, true) => claim.left = Some(about.clone()),
                _ => {}
            }
        }
    }

    /// Why somebody takes no part in a round; none where it does.
    pub fn sits_out(&self, name: &str, round: u64) -> Option<String> {
        if let Some((_, until)) = self.liars.get(name).filter(|(_, until)| *until >= round) {
            return Some(format!(
                "it said what no honest party says, and sits out until round {until}"
            ));
        }
        let apart = |((by, about), claim): (&(Arc<str>, Arc<str>), &Claim)| {
            let first = match &claim.left {
                Some(left) => left == about,
                None => round.is_multiple_of(2),
            };
            let (one, other) = match first {
                true => (about, by),
                false => (by, about),
            };
            let lasts = claim.since.saturating_add(APART) >= round;
            (&**one == name && lasts).then(|| other.clone())
        };
        let other = self.claims.iter().find_map(apart)?;
        Some(format!(
            "it or {other} is not honest, one has accused the other: they do not take part together"
        ))
    }

    /// Somebody was here, and not ready when a round began.
    pub fn was_slow(&mut self, name: &Arc<str>) {
        self.slow.insert(name.clone());
    }

    /// Somebody is ready.
    pub fn is_ready(&mut self, name: &str) {
        self.slow.remove(name);
    }

    /// Whether somebody is not waited for.
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
}
