//! Who of the parties between which claims stand takes part in the next round.
//!
//! A claim names two parties, at least one of which is corrupt. They never take part together, so the parties that take
//! part are independent in the graph of claims. Neither names nor numbers of rounds decide who they are: whoever sat out
//! the round before comes first.
//!
//! * If the parties of a component form two sides with claims between the sides alone, the sides take part in turn. A
//!   party and all that accuse it are on different sides, however many they are.
//! * Otherwise corrupt parties have accused each other. A party that sat out and has accused nobody comes first then, and so
//!   does an accuser that has sat out [`patience`] rounds in a row; of these, the one that has waited longest. No two
//!   parties that accuse nobody are neighbours, so none of them sits out two rounds in a row before an accuser has waited so long.
//!
//! Why an accuser waits longer: c corrupt parties and an honest one that all accuse each other look alike. So no rule gives
//! one that accuses nobody the share x of the rounds, and each of its accusers more than (1 − x) / c. Here x is a half.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A party, as the others name it.
pub(super) type Name = Arc<str>;

/// After how many rounds in a row an accuser comes first, too, where `corrupt` parties may lie. As many accusers that take
/// the rounds between in turn do not wait so long.
pub(super) fn patience(corrupt: usize) -> u32 {
    let rounds = corrupt.saturating_mul(2).max(1);
    rounds.try_into().unwrap_or(u32::MAX)
}

/// The claims that stand.
#[derive(Default)]
pub(super) struct Graph<'a> {
    neighbours: BTreeMap<&'a Name, BTreeSet<&'a Name>>,
    accusers: BTreeSet<&'a Name>,
}

impl<'a> Graph<'a> {
    /// Two parties are kept apart, of which the first, the second or both accuse the other.
    pub fn add(&mut self, one: &'a Name, other: &'a Name, accuses: [bool; 2]) {
        self.neighbours.entry(one).or_default().insert(other);
        self.neighbours.entry(other).or_default().insert(one);
        let parties = [one, other].into_iter().zip(accuses);
        let accusers = parties.filter_map(|(party, accuses)| accuses.then_some(party));
        self.accusers.extend(accusers);
    }

    pub fn parties(&self) -> impl Iterator<Item = &'a Name> {
        self.neighbours.keys().copied()
    }

    /// Who sits out the next round, each with one that takes part in its place. `waits` is the number of rounds in a row
    /// that a party has sat out so; after `patience` of them an accuser comes first.
    pub fn out(&self, waits: impl Fn(&str) -> u32, patience: u32) -> BTreeMap<Name, Name> {
        let mut out = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for start in self.parties() {
            if seen.contains(start) {
                continue;
            }
            let component = self.component(start);
            seen.extend(component.keys().copied());
            let into = match self.is_two_sided(&component) {
                true => self.side(&component, &waits),
                false => self.independent(&component, &waits, patience),
            };
            for party in component.into_keys().filter(|party| !into.contains(party)) {
                let other = self.around(party).find(|other| into.contains(other));
                out.extend(other.map(|other| (party.clone(), other.clone())));
            }
        }
        out
    }

    fn around(&self, party: &Name) -> impl Iterator<Item = &'a Name> {
        self.neighbours.get(party).into_iter().flatten().copied()
    }

    fn is_accuser(&self, party: &Name) -> bool {
        self.accusers.contains(party)
    }

    /// The parties that are connected with one by claims, and on which side each of them is.
    fn component(&self, start: &'a Name) -> BTreeMap<&'a Name, bool> {
        let mut sides = BTreeMap::from([(start, false)]);
        let mut next = vec![(start, false)];
        while let Some((party, side)) = next.pop() {
            for other in self.around(party) {
                if !sides.contains_key(other) {
                    sides.insert(other, !side);
                    next.push((other, !side));
                }
            }
        }
        sides
    }

    fn is_two_sided(&self, sides: &BTreeMap<&'a Name, bool>) -> bool {
        let crosses = |party: &Name, side: bool| {
            let mut around = self.around(party);
            around.all(|other| sides.get(other) == Some(&!side))
        };
        sides.iter().all(|(party, side)| crosses(party, *side))
    }

    /// The side whose turn it is: the one with the party that has waited longest, and at first the one with more parties
    /// that accuse nobody.
    fn side(
        &self,
        sides: &BTreeMap<&'a Name, bool>,
        waits: &impl Fn(&str) -> u32,
    ) -> BTreeSet<&'a Name> {
        let of = |side: bool| {
            let of_side = sides.iter().filter(move |(_, its)| **its == side);
            of_side.map(|(party, _)| *party)
        };
        let rank = |side: bool| {
            let longest = of(side).map(|party| waits(party)).max();
            let accuse_nobody = of(side).filter(|party| !self.is_accuser(party)).count();
            (longest, accuse_nobody)
        };
        // guard: a-claim-costs-both
        of(rank(true) > rank(false)).collect()
    }

    /// Parties that are independent, to which none of the others could be added.
    fn independent(
        &self,
        sides: &BTreeMap<&'a Name, bool>,
        waits: &impl Fn(&str) -> u32,
        patience: u32,
    ) -> BTreeSet<&'a Name> {
        let mut order: Vec<&'a Name> = sides.keys().copied().collect();
        order.sort_by_key(|party| {
            let (waited, accuses) = (waits(party), self.is_accuser(party));
            let least = if accuses { patience } else { 1 };
            // guard: a-victim-waits-for-one-turn
            (waited < least, Reverse(waited), accuses)
        });
        let mut into = BTreeSet::new();
        for party in order {
            if !self.around(party).any(|other| into.contains(other)) {
                into.insert(party);
            }
        }
        into
    }
}
