//! What was promised, and whether it is kept: everything that an honest party is given, says and hears is written down,
//! and compared with what it must be.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_crypto::kdf;
use blindsum_job::party::{Begun, RoundResult, Update};

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
    given: BTreeMap<(usize, u64), Vec<Vec<u32>>>,
    /// What parties said, by party, round and stage.
    said: BTreeMap<(usize, u64, u32), [u8; 32]>,
    /// What rounds led to.
    sums: BTreeMap<u64, Sum>,
    /// What parties were told.
    told: BTreeMap<(usize, u64), News>,
    /// Rounds that the coordinator has counted, and whose vectors are in them.
    counted: BTreeMap<u64, BTreeSet<usize>>,
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
}

/// What one round led to.
#[derive(Clone, Debug, PartialEq)]
struct Sum {
    survivors: Vec<String>,
    sums: Vec<u128>,
    name: [u8; 32],
}

impl Book {
    pub fn with(liar: Option<usize>, misled: bool) -> Self {
        Self {
            liar,
            misled,
            ..Self::default()
        }
    }

    pub fn gave(&mut self, party: usize, round: u64, update: &Update) {
        if let Update::U32(values) = update {
            let given = self.given.entry((party, round)).or_default();
            given.push(values.clone());
        }
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
        party: usize,
        round: u64,
        result: &RoundResult,
        number_of: Names,
    ) -> Kept {
        let announced = self.announced.get(&(party, round));
        if !announced.is_some_and(|names| names.contains(&result.result[..])) {
            return Err(format!(
                "P2: party {party} tells a result of round {round} that the coordinator has not announced to it"
            ));
        }
        let sums = result.integers.as_ref();
        let sum = Sum {
            survivors: result.survivors.clone(),
            sums: sums.map_or_else(Vec::new, |integers| integers.sums.clone()),
            name: result.result,
        };
        if self.is_exempt(round) {
            return Ok(());
        }
        let known = self.sums.entry(round).or_insert_with(|| sum.clone());
        if *known != sum {
            return Err(format!(
                "P2: party {party} has another result of round {round} than the others"
            ));
        }
        let survivors = result.survivors.iter().filter_map(|name| number_of(name));
        let survivors: Vec<usize> = survivors.collect();
        let liar = survivors.iter().any(|party| self.liar == Some(*party));
        if sums.is_some() && !liar && !self.adds_up(round, &survivors, &sum.sums) {
            return Err(format!(
                "P2: the sum of round {round} is not that of what the parties {survivors:?} gave"
            ));
        }
        Ok(())
    }

    /// Whether this is the sum of one update of each survivor.
    fn adds_up(&self, round: u64, survivors: &[usize], sum: &[u128]) -> bool {
        let mut possible = vec![vec![0u128; sum.len()]];
        for party in survivors {
            let given = self.given.get(&(*party, round));
            let given = given.map_or(&[][..], Vec::as_slice);
            let added = possible.iter().flat_map(|before| {
                given.iter().map(move |update| {
                    let pairs = before.iter().zip(update);
                    pairs.map(|(a, b)| a + u128::from(*b)).collect()
                })
            });
            possible = added.collect();
        }
        possible.iter().any(|one| one == sum)
    }

    /// Nobody is told the opposite of what it was told before.
    pub fn hears(&mut self, party: usize, round: u64, news: News) -> Kept {
        if self.liar == Some(party) {
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

    fn is_exempt(&self, round: u64) -> bool {
        self.misled || self.forgotten.contains(&round)
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
