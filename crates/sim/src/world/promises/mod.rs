//! The promises and their checks: everything that an honest party is given, sends and receives is recorded (`Book`) and
//! compared with what it must be. P7, P8 and what servers promise have files of their own.

mod leftovers;
mod models;
mod servers;

pub(super) use servers::LAST_ROUND;

use std::collections::BTreeSet;
use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_job::party::{Begun, Clipped, RoundResult};
use blindsum_protocol::{Job, Round};

use super::book::{Book, Kept, News, Sum};
use super::plain::{Share, Total, encoding_of, is_ruled};
use super::updates::Gift;

/// Which party has a name.
pub(super) type Names<'a> = &'a dyn Fn(&str) -> Option<usize>;

impl Book {
    /// A caller gives an update.
    pub fn gave(&mut self, job: &Job, (party, round): (usize, u64), gift: &Gift) -> Kept {
        let start = self.models.start(party, round);
        let start = start.ok_or("P1: an update for a round that never began")?;
        let encoding = encoding_of(job, start)?;
        let mut reported = vec![gift.metrics.clone()];
        // It reports metrics of one model once, as far as it knows of the time before.
        if !gift.metrics.is_empty() && !self.given.measured.insert((party, *start.hash())) {
            reported.push(vec![None; gift.metrics.len()]);
        }
        for metrics in reported {
            let share = match job.density() {
                None => Share::dense(job, &encoding, gift, &metrics).map_err(|e| e.to_string())?,
                Some(_) => {
                    let levels = encoding.metric_levels(&metrics);
                    let (after, levels) =
                        ((party, start.version()), levels.map_err(|e| e.to_string())?);
                    let choice = self
                        .leftovers
                        .choose(job, &encoding, after, (gift, &levels))?;
                    Share::sparse(job, choice, &metrics)
                }
            };
            self.given
                .shares
                .entry((party, round))
                .or_default()
                .push(share);
        }
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
        let before = self.told.begun.insert(party, round).unwrap_or(0);
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

    /// P6: no result is told twice to the same caller. One that was started again may have to hear it again.
    pub fn tells_once(&mut self, party: usize, life: u32, round: u64) -> Kept {
        match self.told.results.insert((party, life, round)) {
            true => Ok(()),
            false => Err(format!(
                "P6: party {party} is told the result of round {round} twice in its life {life}"
            )),
        }
    }

    /// P2: what a party computes is the sum of what the survivors gave, and the same for all.
    pub fn computes(
        &mut self,
        job: &Arc<Job>,
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
        if result.survivors.len() < job.min_parties() {
            let (few, least) = (result.survivors.len(), job.min_parties());
            return Err(format!(
                "P2: party {party} tells the sum of {few} parties of round {round}, fewer than {least}"
            ));
        }
        self.makes(job, (party, round), result)?;
        if let Some(counts) = &result.contributors {
            self.leftovers.told(party, round, counts);
        }
        self.is_clipped(party, round, result.clipped)?;
        if self.is_exempt(party, round) {
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
        if liar || !job.tells_parties() {
            return Ok(());
        }
        let start = self.models.start(party, round);
        let start = start.ok_or("P1: the sum of a round that never began")?;
        let encoding = encoding_of(job, start)?;
        let of_rule = self.round_of(job, round, &survivors)?;
        let is_told = |total: &Total| {
            total.has_metrics(job, &result.metrics)
                && match &of_rule {
                    None => total.is_told_by(job, &encoding, result),
                    Some(round) => total.is_ruled(round, result.mean.iter()),
                }
        };
        let models = (start.clone(), result.model.clone());
        let leads = |total: &Total| {
            let models = (&models.0, &models.1);
            total.leads_to(job, models) == Ok(true)
        };
        match self.adds_up(job, round, &survivors, |total| {
            is_told(total) && leads(total)
        }) {
            true => Ok(()),
            false => Err(format!(
                "P2: the sum of round {round} is not that of what the parties {survivors:?} gave"
            )),
        }
    }

    /// A round of survivors alone, where what becomes of their vectors is no sum.
    fn round_of(
        &self,
        job: &Arc<Job>,
        round: u64,
        survivors: &[usize],
    ) -> Result<Option<Round>, String> {
        let Some(cohort) = self.cohort.as_ref().filter(|_| is_ruled(job.spec())) else {
            return Ok(None);
        };
        let roster = cohort.subset(survivors).roster(round);
        let roster = roster.map_err(|e| e.to_string())?;
        let of_rule = Round::new(job.clone(), round, roster, &[0; 32]);
        of_rule.map(Some).map_err(|e| e.to_string())
    }

    /// Whether this is the sum of one update of each survivor; if so, these are the ones that count.
    fn adds_up(
        &mut self,
        job: &Job,
        round: u64,
        survivors: &[usize],
        is_told: impl Fn(&Total) -> bool,
    ) -> bool {
        let mask = job.width().mask();
        let mut possible = vec![Total::nothing(job)];
        for party in survivors {
            let given = self.given.shares.get(&(*party, round));
            let given = given.map_or(&[][..], Vec::as_slice);
            let added = possible.iter().flat_map(|before| {
                let shares = given.iter().enumerate();
                shares.map(|(pick, share)| before.with(share, pick, mask))
            });
            possible = added.collect();
        }
        possible.retain(is_told);
        if let [total] = &possible[..] {
            for (party, pick) in survivors.iter().zip(&total.picks) {
                if let Some(given) = self.given.shares.get_mut(&(*party, round)) {
                    given.swap(0, *pick);
                    given.truncate(1);
                }
            }
        }
        !possible.is_empty()
    }

    /// P2: what a party is told that clipping did to its update is what it did.
    fn is_clipped(&self, party: usize, round: u64, clipped: Option<Clipped>) -> Kept {
        let Some(clipped) = clipped else {
            return Ok(());
        };
        let given = self.given.shares.get(&(party, round));
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
        if news == News::NoSum && self.rolled_back.get(&party) < Some(&round) {
            self.told.denied.insert((party, round));
        }
        let told = self.told.news.entry((party, round)).or_insert(news);
        let before = *told;
        *told = before.max(news);
        let opposite = before.min(news) == News::NoSum && before.max(news) > News::Fault;
        let forgot = self.rolled_back.get(&party) >= Some(&round);
        match opposite && !forgot && !self.is_exempt(party, round) {
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

    /// P6: everybody whose vector is in a sum was told it, or that it counts and is lost here.
    pub fn everybody_was_told(&self, excused: &BTreeSet<usize>) -> Kept {
        for (round, survivors) in &self.counted {
            for party in survivors.difference(excused) {
                if self.is_exempt(*party, *round) {
                    continue;
                }
                let told = self.told.news.get(&(*party, *round));
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

    /// P6: nobody whose vector is in a sum was told that it is in none, however its session ended.
    pub fn nobody_was_denied(&self) -> Kept {
        let counts = |(party, round): &&(usize, u64)| {
            let counted = self.counted.get(round);
            counted.is_some_and(|parties| parties.contains(party))
                && !self.is_exempt(*party, *round)
        };
        match self.told.denied.iter().find(counts) {
            None => Ok(()),
            Some((party, round)) => Err(format!(
                "P6: party {party} counts in round {round} and was told that it does not"
            )),
        }
    }

    /// P6: a sum is told of the rounds that count, and of those that the coordinator says are in it.
    pub fn counts_who_is_told(&self, number_of: Names) -> Kept {
        for (round, sum) in &self.sums {
            let told = sum.survivors.iter().map(|name| number_of(name));
            let told: BTreeSet<Option<usize>> = told.collect();
            let counted = self.counted.get(round).into_iter().flatten();
            let counted: BTreeSet<Option<usize>> = counted.copied().map(Some).collect();
            if told != counted {
                return Err(format!(
                    "P6: round {round} counts {counted:?}, and parties were told the sum of {told:?}"
                ));
            }
        }
        Ok(())
    }

    /// P6: a job that is done has as many rounds that count as it says, where no round was forgotten.
    pub fn all_rounds_count(&self, rounds: u32) -> Kept {
        let forgot = !self.forgotten.is_empty() || !self.anew.is_empty();
        let counted = self.counted.len();
        match forgot || counted == rounds as usize {
            true => Ok(()),
            false => Err(format!(
                "P6: the job is done after {counted} rounds that count, and not {rounds}"
            )),
        }
    }
}
