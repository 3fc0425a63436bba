//! What a campaign writes down of what honest parties are given, say and hear, for the promises to be compared with.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_job::party::RoundResult;

use super::leftovers::Leftovers;
use super::models::Models;
use super::plain::Share;

/// A promise that was broken, in words.
pub(super) type Kept = Result<(), String>;

/// What a party was told last about a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    /// That there is no sum, or none with its vector in it.
    NoSum,
    /// That somebody did what nobody honest does.
    Fault,
    /// That the sum counts its vector, and is lost for it.
    Missed,
    /// The sum.
    Sum,
}

/// Everything that is written down.
#[derive(Default)]
pub(super) struct Book {
    /// What callers gave, by party and round: more than once where a party was started again before it was sent.
    pub given: BTreeMap<(usize, u64), Vec<Share>>,
    /// What parties said, by party, round and stage.
    pub said: BTreeMap<(usize, u64, u32), [u8; 32]>,
    /// What rounds led to.
    pub sums: BTreeMap<u64, Sum>,
    /// What parties were told.
    pub told: BTreeMap<(usize, u64), News>,
    /// Rounds that the coordinator has counted, and whose vectors are in them.
    pub counted: BTreeMap<u64, BTreeSet<usize>>,
    /// The party that lies: what it gave is whatever it says.
    pub liar: Option<usize>,
    /// Rounds of which nothing is promised but privacy: the coordinator has forgotten them.
    pub forgotten: BTreeSet<u64>,
    /// Whether the coordinator lies: nothing is promised of any round but privacy.
    pub misled: bool,
    /// Parties that have forgotten what they did up to a round.
    pub rolled_back: BTreeMap<usize, u64>,
    /// The latest round that parties were told begins.
    pub begun: BTreeMap<usize, u64>,
    /// The names of the results that parties heard of from the coordinator, by party and round.
    pub announced: BTreeMap<(usize, u64), BTreeSet<Vec<u8>>>,
    pub models: Models,
    pub leftovers: Leftovers,
}

/// The latest round that counts a party's vector.
pub(super) enum Latest {
    Round(u64),
    None,
    /// The party, or the coordinator, has forgotten what it did.
    Unknown,
}

/// What one round led to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sum {
    survivors: Vec<String>,
    sums: Vec<u128>,
    mean: Vec<u32>,
    contributors: Option<Vec<u32>>,
    name: [u8; 32],
    model: [u8; 32],
}

impl Sum {
    pub fn of(result: &RoundResult) -> Self {
        let integers = result.integers.as_ref();
        Self {
            survivors: result.survivors.clone(),
            sums: integers.map_or_else(Vec::new, |integers| integers.sums.clone()),
            mean: result.mean.iter().map(|value| value.to_bits()).collect(),
            contributors: result.contributors.clone(),
            name: result.result,
            model: *result.model.hash(),
        }
    }
}

impl Book {
    pub fn with(liar: Option<usize>, misled: bool) -> Self {
        Self {
            liar,
            misled,
            ..Self::default()
        }
    }

    /// The coordinator has lost all rounds but these.
    pub fn forget_but(&mut self, known: &BTreeSet<u64>) {
        self.counted.retain(|number, _| known.contains(number));
        self.sums.retain(|number, _| known.contains(number));
        let lost = (1..=self.latest()).filter(|number| !known.contains(number));
        self.forgotten.extend(lost);
    }

    /// A party lost what it wrote down last.
    pub fn rolled_back(&mut self, party: usize) {
        self.rolled_back.insert(party, self.latest());
    }

    /// The latest round that anybody has said anything in.
    fn latest(&self) -> u64 {
        let said = self.said.keys().map(|(_, round, _)| *round);
        said.max().unwrap_or(0)
    }

    /// Whether nothing is promised of a round but privacy.
    pub fn is_exempt(&self, round: u64) -> bool {
        self.misled || self.forgotten.contains(&round)
    }

    pub fn is_liar(&self, party: usize) -> bool {
        self.liar == Some(party)
    }

    /// Whether one of the rounds that the coordinator has forgotten is such.
    pub fn forgot(&self, is: impl Fn(&u64) -> bool) -> bool {
        self.forgotten.iter().any(is)
    }

    /// The latest round before this one that counts a party's vector.
    pub fn latest_of(&self, party: usize, before: u64) -> Latest {
        let counts = |(round, survivors): (&u64, &BTreeSet<usize>)| {
            survivors.contains(&party).then_some(*round)
        };
        let latest = self.counted.range(..before).rev().find_map(counts);
        let since = latest.map_or(0, |latest| latest + 1);
        let told = |round: u64| self.told.get(&(party, round));
        let back = self.rolled_back.get(&party);
        let forgot = self
            .forgotten
            .range(since..before)
            .any(|round| told(*round).is_some());
        let refused = latest.is_some_and(|round| told(round) == Some(&News::Fault));
        match latest {
            _ if self.misled || forgot || refused => Latest::Unknown,
            latest if back.is_some_and(|back| latest.is_none_or(|latest| latest <= *back)) => {
                Latest::Unknown
            }
            Some(latest) => Latest::Round(latest),
            None => Latest::None,
        }
    }

    pub fn rounds(&self) -> usize {
        self.counted.len()
    }
}
