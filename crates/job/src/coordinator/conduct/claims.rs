//! What parties say of each other, and who sits out rounds because of it.
//!
//! A claim costs accuser and accused the same: they take turns (`turns.rs`) for [`APART`] rounds. Then it lapses, and both
//! take part together. If the accuser claims the same again, it alone sits out first, longer each time: a false claim that
//! is repeated costs its author more than its victim.
//!
//! An honest party can be made to repeat a true claim, and loses the round in which it does. So a claim that is repeated
//! stands twice as long each time, up to [`MAX_APART`] rounds, and the price of the accuser has two bounds. It is never
//! longer than [`MAX_ALONE`] rounds, and [`FREE`] times as many rounds are free of it after its end.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::turns::{Graph, Name, patience};

/// Rounds for which two parties that accuse each other are kept apart.
const APART: u64 = 20;
/// The most rounds for which a claim that is repeated keeps them apart.
const MAX_APART: u64 = 160;
/// Rounds that an accuser sits out alone when it repeats a claim that had lapsed; twice as many each time after that.
const ALONE: u64 = 5;
/// The most rounds that it sits out alone at a time.
const MAX_ALONE: u64 = 20;
/// How many times as long an accuser does not sit out alone again.
const FREE: u64 = 3;
/// After this many rounds without the claim one repetition is forgiven.
const CLEAN: u64 = 100;

/// What one party says of another.
#[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Claim {
    /// The latest round with such a claim.
    latest: u64,
    /// How often it was repeated after it had lapsed.
    again: u32,
}

/// Two parties, one of which has accused the other.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Pair {
    /// The latest round with a claim.
    since: u64,
    /// The last round in which they are kept apart.
    until: u64,
    /// Whether the first accuses the second, and the second the first.
    accuses: [bool; 2],
    /// Which of the two has since left a round that failed, if one has.
    left: [bool; 2],
}

/// The rounds that an accuser sits out alone.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Alone {
    /// The last of them.
    until: u64,
    /// None begin before this round.
    free: u64,
}

/// All that parties have said of each other.
#[derive(Default)]
pub(super) struct Claims {
    /// What one party (first) says of another (second).
    pub claims: BTreeMap<(Name, Name), Claim>,
    /// The pairs of parties that are kept apart, in the order of their names.
    pub apart: BTreeMap<(Name, Name), Pair>,
    pub alone: BTreeMap<Name, Alone>,
    /// How many rounds in a row a party has sat out in favour of another.
    pub waits: BTreeMap<Name, u32>,
    /// Who sits out the round that was chosen for last, each with one that takes part in its place.
    pub out: BTreeMap<Name, Name>,
}

impl Claims {
    /// One party says that another one misbehaved. Gives how many have accused that one, and how many this one has accused.
    pub fn add(&mut self, by: &Name, about: &Name, round: u64) -> (usize, usize) {
        self.forget_lapsed(round);
        // guard: claims-are-of-pairs
        let names = (by.min(about).clone(), by.max(about).clone());
        let stands = self.apart.contains_key(&names);
        let is_repeated = self.again(by, about, round, stands);
        let again = self.claims.get(&(by.clone(), about.clone()));
        let again = again.map_or(0, |claim| claim.again);
        let alone = match is_repeated {
            true => self.sits_alone(by, again, round),
            false => 0,
        };
        let apart = doubled(APART, again).min(MAX_APART);
        let until = round.saturating_add(alone).saturating_add(apart);
        let is_second = usize::from(by > about);
        let pair = self.apart.entry(names).or_insert(Pair {
            since: round,
            until,
            accuses: [false; 2],
            left: [false; 2],
        });
        (pair.until, pair.since) = (pair.until.max(until), round);
        if let Some(accuses) = pair.accuses.get_mut(is_second) {
            *accuses = true;
        }
        let accusers = self.claims.keys().filter(|(_, of)| of == about).count();
        let accused = self.claims.keys().filter(|(of, _)| of == by).count();
        (accusers, accused)
    }

    /// Records a claim, and whether it repeats one that had lapsed: not where it `stands` yet, or is new.
    fn again(&mut self, by: &Name, about: &Name, round: u64, stands: bool) -> bool {
        let names = (by.clone(), about.clone());
        let Some(claim) = self.claims.get_mut(&names) else {
            let again = 0;
            self.claims.insert(
                names,
                Claim {
                    latest: round,
                    again,
                },
            );
            return false;
        };
        let clean = (round.saturating_sub(claim.latest) / CLEAN).try_into();
        claim.latest = round;
        if stands {
            return false;
        }
        claim.again = claim.again.saturating_sub(clean.unwrap_or(u32::MAX));
        claim.again = claim.again.saturating_add(1);
        true
    }

    /// An accuser that repeats a claim for the n-th time sits out alone; gives for how many rounds.
    fn sits_alone(&mut self, by: &Name, again: u32, round: u64) -> u64 {
        let is_free = self.alone.get(by).is_none_or(|alone| alone.free <= round);
        if !is_free {
            return 0;
        }
        let rounds = doubled(ALONE, again.saturating_sub(1)).min(MAX_ALONE);
        // guard: a-claim-that-comes-again-costs-more
        let until = round.saturating_add(rounds);
        let free = until.saturating_add(rounds.saturating_mul(FREE));
        self.alone.insert(by.clone(), Alone { until, free });
        rounds
    }

    /// What was said by this party and of it does not count any more: it is known to misbehave.
    pub fn forget(&mut self, name: &Name) {
        let of = |(one, other): &(Name, Name)| one == name || other == name;
        self.claims.retain(|claim, _| !of(claim));
        self.apart.retain(|pair, _| !of(pair));
    }

    /// These parties have left a round that failed. If one of them has accused somebody in it, it had to leave.
    pub fn left(&mut self, names: &BTreeSet<Name>, round: u64) {
        let new = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.latest == round);
        let accusers: BTreeSet<Name> = new.map(|((by, _), _)| by.clone()).collect();
        let has_left = |name: &Name| names.contains(name) && !accusers.contains(name);
        for ((one, other), pair) in &mut self.apart {
            let left = [has_left(one), has_left(other)];
            if pair.since != round && left[0] != left[1] {
                // guard: turns-are-lost
                pair.left = left;
            }
        }
    }

    /// Whether nobody is kept apart, or free of sitting out alone for a while.
    pub fn are_at_rest(&self, round: u64) -> bool {
        let apart = self.apart.values().any(|pair| pair.until >= round);
        !apart && self.alone.values().all(|alone| alone.free <= round)
    }

    /// Whether a party has accused another one in this round.
    pub fn has_accused(&self, name: &str, round: u64) -> bool {
        let claims = self.claims.iter();
        let mut of_name = claims.filter(|((by, _), _)| **by == *name);
        of_name.any(|(_, claim)| claim.latest == round)
    }

    /// Pairs that were apart for long enough are together again.
    fn forget_lapsed(&mut self, round: u64) {
        self.apart.retain(|_, pair| pair.until >= round);
    }

    /// Decides who sits out this round, which is the next one. The `absent` sit it out for another reason: nobody sits out in
    /// their place.
    pub fn choose(&mut self, round: u64, corrupt: usize, absent: &BTreeSet<Name>) {
        self.forget_lapsed(round);
        let graph = self.graph(round, absent);
        let mut out = graph.out(|name| self.waits_of(name), patience(corrupt));
        let left = self
            .have_left()
            .map(|(name, other)| (name.clone(), other.clone()));
        out.extend(left);
        self.out = out;
    }

    /// The parties that have lost their turns because they left a round that failed, each with the other one of its pair.
    fn have_left(&self) -> impl Iterator<Item = (&Name, &Name)> {
        self.apart
            .iter()
            .filter_map(|((one, other), pair)| match pair.left {
                [true, _] => Some((one, other)),
                [_, true] => Some((other, one)),
                _ => None,
            })
    }

    /// The claims between parties that may both take part in a round.
    fn graph(&self, round: u64, absent: &BTreeSet<Name>) -> Graph<'_> {
        let left: BTreeSet<&Name> = self.have_left().map(|(name, _)| name).collect();
        let is_out = |name: &Name| {
            // guard: nobody-sits-out-for-who-is-not-there
            left.contains(name) || self.is_alone(name, round) || absent.contains(name)
        };
        let mut graph = Graph::default();
        for ((one, other), pair) in &self.apart {
            if !is_out(one) && !is_out(other) {
                graph.add(one, other, pair.accuses);
            }
        }
        graph
    }

    fn waits_of(&self, name: &str) -> u32 {
        self.waits.get(name).copied().unwrap_or(0)
    }

    fn is_alone(&self, name: &str, round: u64) -> bool {
        self.alone
            .get(name)
            .is_some_and(|alone| alone.until >= round)
    }

    /// These parties were in a round in which updates were asked for. Those that sat it out wait for their turn. One that had
    /// its turn and was away does not: otherwise it could stay away and keep the turn.
    pub fn took_part(&mut self, names: &BTreeSet<Name>, round: u64) {
        let has_waited = |name: &Name| self.out.contains_key(name) && !names.contains(name);
        // Nobody that is out is among the absent.
        let waits = self.graph(round, &BTreeSet::new());
        let waits = waits.parties().filter(|name| has_waited(name));
        let waits = waits.map(|name| (name.clone(), self.waits_of(name).saturating_add(1)));
        self.waits = waits.collect();
    }

    /// Why a party takes no part in the round that was [chosen](Self::choose) for last; `None` if it may.
    pub fn sits_out(&self, name: &str, round: u64) -> Option<String> {
        if let Some(alone) = self.alone.get(name).filter(|alone| alone.until >= round) {
            let more = alone.until - round;
            return Some(format!(
                "it has accused a party again and again, and sits out this round and {more} more"
            ));
        }
        let other = self.out.get(name)?;
        Some(format!(
            "it or {other} lies, one has accused the other: they do not take part together"
        ))
    }
}

/// A number of rounds that was doubled so many times.
fn doubled(rounds: u64, times: u32) -> u64 {
    let factor = 1u64.checked_shl(times).unwrap_or(u64::MAX);
    rounds.saturating_mul(factor)
}
