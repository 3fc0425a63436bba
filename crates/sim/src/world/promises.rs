//! What was promised, and whether it is kept: everything that an honest party is given, says and hears is written down,
//! and compared with what it must be.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_crypto::kdf;
use blindsum_job::party::{Begun, Clipped, RoundResult};
use blindsum_protocol::Job;

use super::leftovers::Leftovers;
use super::models::Models;
use super::plain::{Share, Total, encoding_of};
use super::updates::Gift;

/// A promise that was broken, in words.
pub(super) type Kept = Result<(), String>;

/// Which party has a name.
pub(super) type Names<'a> = &'a dyn Fn(&str) -> Option<usize>;

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

/// Everything that is compared.
#[derive(Default)]
pub(super) struct Book {
    /// What callers gave, by party and round: more than once where a party was started again before it was sent.
    pub(super) given: BTreeMap<(usize, u64), Vec<Share>>,
    /// What parties said, by party, round and stage.
    said: BTreeMap<(usize, u64, u32), [u8; 32]>,
    /// What rounds led to.
    sums: BTreeMap<u64, Sum>,
    /// What parties were told.
    told: BTreeMap<(usize, u64), News>,
    /// Rounds that the coordinator has counted, and whose vectors are in them.
    pub(super) counted: BTreeMap<u64, BTreeSet<usize>>,
    /// The party that lies: what it gave is whatever it says.
    liar: Option<usize>,
    /// Rounds of which nothing is promised but privacy: the coordinator has forgotten them.
    forgotten: BTreeSet<u64>,
    /// Whether the coordinator lies: nothing is promised of any round but privacy.
    misled: bool,
    /// Parties that have forgotten what they did up to a round.
    rolled_back: BTreeMap<usize, u64>,
    /// The latest round that parties were told begins.
    begun: BTreeMap<usize, u64>,
    /// The names of the results that parties heard of from the coordinator, by party and round.
    announced: BTreeMap<(usize, u64), BTreeSet<Vec<u8>>>,
    pub(super) models: Models,
    pub(super) leftovers: Leftovers,
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
struct Sum {
    survivors: Vec<String>,
    sums: Vec<u128>,
    mean: Vec<u32>,
    contributors: Option<Vec<u32>>,
    name: [u8; 32],
    model: [u8; 32],
}

impl Sum {
    fn of(result: &RoundResult) -> Self {
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

    /// A caller gives an update.
    pub fn gave(&mut self, job: &Job, (party, round): (usize, u64), gift: &Gift) -> Kept {
        let start = self.models.start(party, round);
        let start = start.ok_or("P1: an update for a round that never began")?;
        let encoding = encoding_of(job, start)?;
        let share = match job.density() {
            None => Share::dense(&encoding, gift)?,
            Some(_) => {
                let choice = self.leftovers.choose(&encoding, (party, round), gift)?;
                Share::sparse(job, choice)?
            }
        };
        self.given.entry((party, round)).or_default().push(share);
        Ok(())
    }

    /// P1: nobody begins a round with strangers, with fewer parties than the job allows, or with a number that it has
    /// left behind, whoever says that it begins.
    pub fn begins(&mut self, party: usize, begun: &Begun, least: usize, known: Names) -> Kept {
        let (round, parties) = (begun.number, begun.parties.len());
        if let Some(stranger) = begun.parties.iter().find(|name| known(name).is_none()) {
            return Err(format!(
                "P1: party {party} begins round {round} with {stranger}, whom nobody has certified"
            ));
        }
        if parties < least {
            return Err(format!(
                "P1: party {party} begins round {round} with {parties} parties, fewer than {least}"
            ));
        }
        let before = self.begun.insert(party, round).unwrap_or(0);
        match before > round && !self.rolled_back.contains_key(&party) {
            true => Err(format!(
                "P1: party {party} begins round {round} after round {before}"
            )),
            false => Ok(()),
        }
    }

    /// The coordinator says the name of a result.
    pub fn announces(&mut self, party: usize, round: u64, result: &[u8]) {
        let announced = self.announced.entry((party, round)).or_default();
        announced.insert(result.to_vec());
    }

    /// P3: no party answers a stage in two ways, whatever happens to it.
    pub fn says(&mut self, party: usize, round: u64, stage: u32, message: &[u8]) -> Kept {
        let hash = kdf::hash("said", &[message]);
        let before = *self.said.entry((party, round, stage)).or_insert(hash);
        match before == hash {
            true => Ok(()),
            false => Err(format!(
                "P3: party {party} answers stage {stage} of round {round} in two ways"
            )),
        }
    }

    /// P2: what a party computes is the sum of what the survivors gave, and the same for all.
    pub fn computes(
        &mut self,
        job: &Job,
        (party, round): (usize, u64),
        result: &RoundResult,
        number_of: Names,
    ) -> Kept {
        let announced = self.announced.get(&(party, round));
        if !announced.is_some_and(|names| names.contains(&result.result[..])) {
            return Err(format!(
                "P2: party {party} tells a result of round {round} that the coordinator has not announced to it"
            ));
        }
        self.makes(job, (party, round), result)?;
        if let Some(counts) = &result.contributors {
            self.leftovers.told(party, round, counts);
        }
        self.is_clipped(party, round, result.clipped)?;
        if self.is_exempt(round) {
            return Ok(());
        }
        let sum = Sum::of(result);
        let known = self.sums.entry(round).or_insert_with(|| sum.clone());
        if *known != sum {
            return Err(format!(
                "P2: party {party} has another result of round {round} than the others"
            ));
        }
        let survivors = result.survivors.iter().filter_map(|name| number_of(name));
        let survivors: Vec<usize> = survivors.collect();
        let liar = survivors.iter().any(|party| self.is_liar(*party));
        match liar || self.adds_up(job, (party, round), &survivors, result)? {
            true => Ok(()),
            false => Err(format!(
                "P2: the sum of round {round} is not that of what the parties {survivors:?} gave"
            )),
        }
    }

    /// Whether this is the sum of one update of each survivor; if so, these are the ones that count.
    fn adds_up(
        &mut self,
        job: &Job,
        (party, round): (usize, u64),
        survivors: &[usize],
        result: &RoundResult,
    ) -> Result<bool, String> {
        let start = self.models.start(party, round);
        let start = start.ok_or("P1: the sum of a round that never began")?;
        let encoding = encoding_of(job, start)?;
        let mask = encoding.width().mask();
        let mut possible = vec![Total::nothing(job)];
        for party in survivors {
            let given = self.given.get(&(*party, round));
            let given = given.map_or(&[][..], Vec::as_slice);
            let added = possible.iter().flat_map(|before| {
                let shares = given.iter().enumerate();
                shares.map(|(pick, share)| before.with(share, pick, mask))
            });
            possible = added.collect();
        }
        possible.retain(|total| total.is_told_by(job, &encoding, result));
        if let [total] = &possible[..] {
            for (party, pick) in survivors.iter().zip(&total.picks) {
                if let Some(given) = self.given.get_mut(&(*party, round)) {
                    given.swap(0, *pick);
                    given.truncate(1);
                }
            }
        }
        Ok(!possible.is_empty())
    }

    /// P2: what a party is told that clipping did to its update is what it did.
    fn is_clipped(&self, party: usize, round: u64, clipped: Option<Clipped>) -> Kept {
        let Some(clipped) = clipped else {
            return Ok(());
        };
        let given = self.given.get(&(party, round));
        let mut reports = given.iter().flat_map(|shares| shares.iter());
        match reports.any(|share| Clipped::from(share.report) == clipped) {
            true => Ok(()),
            false => Err(format!(
                "P2: party {party} is told that its update of round {round} was clipped: {clipped:?}"
            )),
        }
    }

    /// Nobody is told the opposite of what it was told before.
    pub fn hears(&mut self, party: usize, round: u64, news: News) -> Kept {
        if news == News::Missed {
            self.leftovers.missed(party, round);
        }
        if self.is_liar(party) {
            return Ok(());
        }
        let told = self.told.entry((party, round)).or_insert(news);
        let before = *told;
        *told = before.max(news);
        let opposite = before.min(news) == News::NoSum && before.max(news) > News::Fault;
        let forgot = self.rolled_back.get(&party) >= Some(&round);
        match opposite && !forgot && !self.is_exempt(round) {
            true => Err(format!(
                "P6: party {party} was told {before:?} of round {round}, and then {news:?}"
            )),
            false => Ok(()),
        }
    }

    /// P6: a round that counts stays so, with the same survivors.
    pub fn counts(&mut self, round: u64, survivors: BTreeSet<usize>) -> Kept {
        if self.misled {
            return Ok(());
        }
        let known = self.counted.entry(round);
        let known = known.or_insert_with(|| survivors.clone());
        match *known == survivors {
            true => Ok(()),
            false => Err(format!(
                "P6: round {round} counts other parties than before"
            )),
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
    pub(super) fn is_exempt(&self, round: u64) -> bool {
        self.misled || self.forgotten.contains(&round)
    }

    pub(super) fn is_liar(&self, party: usize) -> bool {
        self.liar == Some(party)
    }

    /// Whether one of the rounds that the coordinator has forgotten is such.
    pub(super) fn forgot(&self, is: impl Fn(&u64) -> bool) -> bool {
        self.forgotten.iter().any(is)
    }

    /// The latest round before this one that counts a party's vector.
    pub(super) fn latest_of(&self, party: usize, before: u64) -> Latest {
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

    /// P6: everybody whose vector is in a sum was told it, or that it counts and is lost here.
    pub fn everybody_was_told(&self, excused: &BTreeSet<usize>) -> Kept {
        for (round, survivors) in &self.counted {
            if self.is_exempt(*round) {
                continue;
            }
            for party in survivors.difference(excused) {
                let told = self.told.get(&(*party, *round));
                if self.rolled_back.get(party) >= Some(round) {
                    continue;
                }
                if !matches!(told, Some(News::Sum | News::Missed | News::Fault)) {
                    return Err(format!(
                        "P6: party {party} counts in round {round} and was told {told:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    pub fn rounds(&self) -> usize {
        self.counted.len()
    }
}
