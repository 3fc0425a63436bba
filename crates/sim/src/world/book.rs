//! The record of what honest parties are given, send and receive in a campaign. The promises are checked against it.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_job::party::RoundResult;
use blindsum_job::released::Release;
use blindsum_job::report::MetricReport;
use blindsum_protocol::{ServerIndex, ServerRole};

use super::leftovers::Leftovers;
use super::models::Models;
use super::plain::Share;
use crate::cohort::Cohort;

/// A promise that was broken, in words.
pub(super) type Kept = Result<(), String>;

/// What a party was told last about a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    /// That its vector is out, and that nobody here knows whether it counts.
    Unknown,
    /// That there is no sum, or none with its vector in it.
    NoSum,
    /// That somebody did what nobody honest does.
    Fault,
    /// That the sum counts its vector, and is lost for it.
    Missed,
    /// The sum.
    Sum,
}

/// What callers gave.
#[derive(Default)]
pub(super) struct Gifts {
    /// By party and round: more than once where a party was started again before it was sent.
    pub shares: BTreeMap<(usize, u64), Vec<Share>>,
    /// Parties with the hashes of the models for which their callers have given metrics.
    pub measured: BTreeSet<(usize, [u8; 32])>,
}

/// What callers were told.
#[derive(Default)]
pub(super) struct Told {
    /// Last, by party and round.
    pub news: BTreeMap<(usize, u64), News>,
    /// Rounds of which parties were told that their vectors are in no sum, by party and round, where the party had not lost
    /// what it knew of the round.
    pub denied: BTreeSet<(usize, u64)>,
    /// The latest round that begins, by party.
    pub begun: BTreeMap<usize, u64>,
    /// Results: the party, its life and the round.
    pub results: BTreeSet<(usize, u32, u64)>,
}

/// What servers that are not the coordinator did, and those that compute with it.
#[derive(Default)]
pub(super) struct Servers {
    /// What parties gave them directly, by party, round and server.
    pub uploaded: BTreeMap<(usize, u64, ServerRole), [u8; 32]>,
    /// What those that compute with others said, by server and by round. A coordinator with a store of an earlier time may
    /// use a number again: how often it came back with one tells the rounds apart.
    pub spoken: BTreeMap<(ServerIndex, u64, u64), Spoken>,
    /// Whose results they have opened.
    pub released: BTreeMap<ServerRole, Vec<Release>>,
}

/// Everything that is written down.
#[derive(Default)]
pub(super) struct Book {
    pub given: Gifts,
    /// What parties said, by party, round and stage.
    pub said: BTreeMap<(usize, u64, u32), [u8; 32]>,
    pub servers: Servers,
    /// What rounds led to.
    pub sums: BTreeMap<u64, Sum>,
    pub told: Told,
    /// Rounds that the coordinator has counted, and whose vectors are in them.
    pub counted: BTreeMap<u64, BTreeSet<usize>>,
    /// All parties, by number.
    pub cohort: Option<Cohort>,
    /// The party that lies: what it gave is whatever it says.
    pub liar: Option<usize>,
    /// Rounds of which nothing is promised but privacy: the coordinator has forgotten them.
    pub forgotten: BTreeSet<u64>,
    /// Forgotten rounds whose numbers the coordinator has used again, and the parties for which they began again: to
    /// nobody else anything is promised of them.
    pub anew: BTreeMap<u64, BTreeSet<usize>>,
    /// Whether the coordinator lies: nothing is promised of any round but privacy.
    pub misled: bool,
    /// Parties that have forgotten what they did up to a round.
    pub rolled_back: BTreeMap<usize, u64>,
    /// The names of the results that parties heard of from the coordinator, by party and round.
    pub announced: BTreeMap<(usize, u64), BTreeSet<Vec<u8>>>,
    pub models: Models,
    pub leftovers: Leftovers,
}

/// What a server said in one round.
pub(super) struct Spoken {
    /// The life in which it did.
    pub life: u32,
    /// How many letters it has said to each other server, and of how many uploads it has told it (true).
    pub said: BTreeMap<(ServerIndex, bool), u32>,
    /// Its words to the coordinator, by stage.
    pub words: BTreeMap<u32, [u8; 32]>,
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
    pub survivors: Vec<String>,
    sums: Vec<u128>,
    mean: Vec<u64>,
    contributors: Option<Vec<u32>>,
    metrics: BTreeMap<String, MetricReport>,
    name: [u8; 32],
    model: [u8; 32],
}

impl Sum {
    pub fn of(result: &RoundResult) -> Self {
        Self {
            survivors: result.survivors.clone(),
            sums: result.sums.clone().unwrap_or_default(),
            mean: result.mean.iter().map(|value| value.to_bits()).collect(),
            contributors: result.contributors.clone(),
            metrics: result.metrics.clone(),
            name: result.result,
            model: *result.model.hash(),
        }
    }
}

impl Book {
    pub fn with(liar: Option<usize>, misled: bool, cohort: Cohort) -> Self {
        Self {
            cohort: Some(cohort),
            liar,
            misled,
            ..Self::default()
        }
    }

    /// The coordinator has lost all sums but those of these rounds, and all rounds after `last`.
    pub fn forget_but(&mut self, known: &BTreeSet<u64>, last: u64) {
        self.counted.retain(|number, _| known.contains(number));
        self.sums.retain(|number, _| known.contains(number));
        self.models.forget_but(known);
        self.anew.retain(|number, _| *number <= last);
        let begun = self.models.starts.keys().map(|(_, round)| *round);
        let told = self.told.news.keys().map(|(_, round)| *round);
        let latest = begun.chain(told).fold(self.latest(), u64::max);
        let lost = (1..=latest).filter(|number| !known.contains(number));
        self.forgotten.extend(lost);
    }

    /// The coordinator, as it was started last, begins a round with a party. Where its number is that of one that was
    /// forgotten, everything is promised to the party again, and nothing of the earlier one is compared.
    pub fn starts_anew(&mut self, party: usize, round: u64) {
        if self.forgotten.remove(&round) {
            self.anew.insert(round, BTreeSet::new());
        }
        let anew = self.anew.get_mut(&round);
        if anew.is_none_or(|parties| !parties.insert(party)) {
            return;
        }
        let of = (party, round);
        self.given.shares.remove(&of);
        self.told.news.remove(&of);
        self.told.denied.remove(&of);
        self.announced.remove(&of);
        self.models.starts.remove(&of);
        self.leftovers.forget(party, round);
        self.told
            .results
            .retain(|(of, _, number)| (*of, *number) != (party, round));
    }

    /// A party lost what it wrote down last.
    pub fn rolled_back(&mut self, party: usize) {
        self.rolled_back.insert(party, self.latest());
    }

    /// Whether everybody who had the latest sum lost what it wrote down since: a model that only parties have is gone then.
    pub fn is_latest_sum_lost(&self) -> bool {
        let since = |round: &u64, party: &usize| self.rolled_back.get(party) >= Some(round);
        let latest = self.counted.last_key_value();
        latest.is_some_and(|(round, parties)| parties.iter().all(|party| since(round, party)))
    }

    /// The latest round that anybody has said anything in.
    fn latest(&self) -> u64 {
        let said = self.said.keys().map(|(_, round, _)| *round);
        said.max().unwrap_or(0)
    }

    /// Whether nothing is promised to a party of a round but privacy.
    pub fn is_exempt(&self, party: usize, round: u64) -> bool {
        let anew = self.anew.get(&round);
        let earlier = anew.is_some_and(|parties| !parties.contains(&party));
        self.misled || self.forgotten.contains(&round) || earlier
    }

    pub fn is_liar(&self, party: usize) -> bool {
        self.liar == Some(party)
    }

    /// The latest round before this one that counts a party's vector.
    pub fn latest_of(&self, party: usize, before: u64) -> Latest {
        let counts = |(round, survivors): (&u64, &BTreeSet<usize>)| {
            survivors.contains(&party).then_some(*round)
        };
        let latest = self.counted.range(..before).rev().find_map(counts);
        let since = latest.map_or(0, |latest| latest + 1);
        let told = |round: u64| self.told.news.get(&(party, round));
        let back = self.rolled_back.get(&party);
        let mut heard = self.told.news.range((party, since)..(party, before));
        let forgot = heard.any(|((_, round), _)| self.is_exempt(party, *round));
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
