//! Who has lied, by what verifiers answered and by what accused provers show.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_sharing::validity::{Answer, Verdict};
use rand_core::CryptoRng;

use super::Shared;
use super::aggregate::CollectSums;
use super::survivors::Survivors;
use crate::core::round::{Bodies, Excuse, ServerStage, ServerStep};
use crate::kit::confirm::CollectSignatures;
use crate::kit::keys::is_active;
use crate::protocols::pss_malicious::messages::{JUDGED, SALT, Shown};
use crate::{Fault, FaultKind, PartyId, PartySet};

/// What one verifier said.
pub(super) struct Heard {
    /// All of it, as it was signed.
    pub body: Vec<u8>,
    /// Provers whose column it cannot use.
    pub unusable: PartySet,
    /// About every prover of U1, in rank order.
    pub answers: Vec<Answer>,
}

/// What is known of everybody's honesty.
pub(super) struct Judgement {
    pub told: Shared,
    heard: BTreeMap<PartyId, Heard>,
    /// Verifiers whose answers count: all but those who accuse too many.
    verifiers: Vec<PartyId>,
    /// Those who have lied, each with what shows it.
    guilty: BTreeMap<PartyId, Fault>,
    /// Verifiers whose word and a prover's do not fit, by prover.
    accused: BTreeMap<PartyId, BTreeSet<PartyId>>,
    /// Salts and columns that accused provers have shown, by verifier that could not use them.
    shown: BTreeMap<PartyId, Vec<(PartyId, Vec<u8>)>>,
}

impl Judgement {
    /// Judges all provers by the responses.
    pub fn new(told: Shared, heard: BTreeMap<PartyId, Heard>, rng: &mut dyn CryptoRng) -> Self {
        let mut judgement = Self {
            told,
            heard,
            verifiers: Vec::new(),
            guilty: BTreeMap::new(),
            accused: BTreeMap::new(),
            shown: BTreeMap::new(),
        };
        judgement.find_false_accusers();
        let verdicts = judgement.verdicts(rng);
        let provers: Vec<PartyId> = judgement.told.parties.iter().collect();
        for (prover, verdict) in provers.into_iter().zip(verdicts) {
            judgement.take(prover, verdict);
        }
        judgement
    }

    fn corrupt(&self) -> usize {
        self.told.common.sharing.parameters().corrupt()
    }

    /// At most c provers can have dealt a column that is unusable: whoever says it of more lies.
    fn find_false_accusers(&mut self) {
        let most = self.corrupt();
        let many = self
            .heard
            .iter()
            // guard: mass-accusers-are-found
            .filter(|(_, heard)| heard.unusable.len() > most);
        let faults = many.map(|(&party, heard)| {
            let provers = heard.unusable.len();
            let fault = Fault::party(party, FaultKind::FalseAccuser { provers });
            (party, fault.shown_by(&heard.body))
        });
        self.guilty = faults.collect();
        let all = self.heard.keys().copied();
        self.verifiers = all
            .filter(|party| !self.guilty.contains_key(party))
            .collect();
    }

    fn verdicts(&self, rng: &mut dyn CryptoRng) -> Vec<Verdict> {
        let verifiers = &self.verifiers;
        let answer = |verifier: &PartyId, place: usize, prover: PartyId| {
            let heard = self.heard.get(verifier)?;
            let answer = heard.answers.get(place)?;
            (!heard.unusable.contains(prover)).then_some(answer)
        };
        let provers = self.told.parties.iter().enumerate();
        let about: Vec<Vec<Option<&Answer>>> = provers
            .map(|(place, prover)| {
                verifiers
                    .iter()
                    .map(|of| answer(of, place, prover))
                    .collect()
            })
            .collect();
        let ranks: Vec<usize> = verifiers.iter().map(|party| party.rank()).collect();
        self.told.common.sharing.judge(&ranks, &about, rng)
    }

    /// Takes note of a verdict: guilty, accused or neither.
    fn take(&mut self, prover: PartyId, verdict: Verdict) {
        let fault = match verdict {
            Verdict::Fails(test) => FaultKind::Invalid { test: test.name() },
            Verdict::Fits(wrong) => {
                let unusable = self.verifiers.iter().copied().filter(|verifier| {
                    let heard = self.heard.get(verifier);
                    heard.is_some_and(|heard| heard.unusable.contains(prover))
                });
                let wrong = wrong.into_iter().map(|rank| PartyId(rank as u32));
                let accusers: BTreeSet<PartyId> = unusable.chain(wrong).collect();
                let count = accusers.len();
                if count <= self.corrupt() {
                    if count > 0 {
                        self.accused.insert(prover, accusers);
                    }
                    return;
                }
                FaultKind::Accused { accusers: count }
            }
        };
        let fault = Fault::party(prover, fault).shown_by(&self.answers_about(prover));
        self.guilty.entry(prover).or_insert(fault);
    }

    /// The prover's commitment, and what each verifier answered about it: `rank ‖ answer`.
    fn answers_about(&self, prover: PartyId) -> Vec<u8> {
        let mut bytes = self
            .told
            .commitment(prover)
            .map_or_else(Vec::new, |of| of.write().to_vec());
        let place = self.told.parties.iter().position(|party| party == prover);
        for (verifier, heard) in &self.heard {
            if let Some(answer) = place.and_then(|place| heard.answers.get(place)) {
                bytes.extend(verifier.0.to_be_bytes());
                bytes.extend(self.told.common.sharing.write_answer(answer));
            }
        }
        bytes
    }

    /// Provers that are accused, and by whom.
    pub fn accused(&self) -> &BTreeMap<PartyId, BTreeSet<PartyId>> {
        &self.accused
    }

    /// Provers that are accused and were lost before they could hear of it show nothing.
    pub fn settle_the_lost(&mut self, rng: &mut dyn CryptoRng) {
        let lost = self
            .accused
            .keys()
            .filter(|prover| !self.heard.contains_key(prover));
        for prover in lost.copied().collect::<Vec<_>>() {
            self.settle(prover, None, rng);
            self.accused.remove(&prover);
        }
    }

    /// A verifier's response, as it was signed.
    pub fn response_of(&self, verifier: PartyId) -> &[u8] {
        self.heard.get(&verifier).map_or(&[], |heard| &heard.body)
    }

    /// An accused prover has shown what it dealt its accusers, in rank order, all of it as committed to; or nothing.
    pub fn settle(&mut self, prover: PartyId, shown: Option<&[u8]>, rng: &mut dyn CryptoRng) {
        let accusers = self.accused.get(&prover).cloned().unwrap_or_default();
        let Some(shown) = shown else {
            // guard: silent-provers-are-left-out
            let fault = Fault::party(prover, FaultKind::Unshown);
            self.guilty.entry(prover).or_insert(fault);
            return;
        };
        let sharing = self.told.common.sharing.clone();
        let challenge = sharing.challenge(self.told.challenge);
        let mut right = BTreeMap::new();
        let pieces = shown.chunks_exact(Shown::len(sharing.shape()));
        for (&accuser, piece) in accusers.iter().zip(pieces) {
            let answer = Shown::read(sharing.shape(), piece).and_then(|of| {
                let root = of.root(&self.told.common.round, sharing.shape(), (prover, accuser));
                let answer = sharing.answer(&challenge, accuser.rank(), of.column, root.seed);
                answer.ok()
            });
            match answer {
                Some(answer) => right.insert(accuser, (answer, piece)),
                // What it has committed to is no column.
                // guard: columns-that-are-none-convict
                None => return self.convict(prover, accuser, piece),
            };
        }
        // guard: provers-that-deal-two-things-are-found
        if let Some(victim) = self.misfit(prover, &right, rng) {
            let piece = right.get(&victim).map_or(&[] as &[u8], |(_, piece)| piece);
            return self.convict(prover, victim, piece);
        }
        for (accuser, (answer, piece)) in right {
            self.judge_accuser(prover, accuser, &answer, piece);
        }
    }

    fn convict(&mut self, prover: PartyId, victim: PartyId, shown: &[u8]) {
        let fault = Fault::party(prover, FaultKind::WrongShares { victim });
        self.guilty.entry(prover).or_insert(fault.shown_by(shown));
    }

    /// One of the accusers whose column, as the prover shows it, does not fit the others' answers.
    fn misfit(
        &self,
        prover: PartyId,
        right: &BTreeMap<PartyId, (Answer, &[u8])>,
        rng: &mut dyn CryptoRng,
    ) -> Option<PartyId> {
        let place = self.told.parties.iter().position(|party| party == prover)?;
        let verifiers = &self.verifiers;
        let answer = |verifier: &PartyId| match right.get(verifier) {
            Some((answer, _)) => Some(answer),
            None => self.heard.get(verifier)?.answers.get(place),
        };
        let about = vec![verifiers.iter().map(answer).collect()];
        let ranks: Vec<usize> = verifiers.iter().map(|party| party.rank()).collect();
        let verdict = self.told.common.sharing.judge(&ranks, &about, rng).pop();
        match verdict {
            // What an honest prover shows leaves nothing that does not fit.
            Some(Verdict::Fits(wrong)) if wrong.is_empty() => None,
            Some(Verdict::Fits(wrong)) => {
                let wrong = wrong.into_iter().map(|rank| PartyId(rank as u32));
                let shown = wrong.into_iter().find(|party| right.contains_key(party));
                shown.or_else(|| right.keys().next().copied())
            }
            _ => right.keys().next().copied(),
        }
    }

    /// The prover has dealt this accuser what fits the others. If the accuser has answered, its answer was wrong; if it
    /// could not use the column, nobody can tell why, and it gets it now.
    fn judge_accuser(&mut self, prover: PartyId, accuser: PartyId, right: &Answer, piece: &[u8]) {
        let place = self.told.parties.iter().position(|party| party == prover);
        let Some(heard) = self.heard.get(&accuser) else {
            return;
        };
        if heard.unusable.contains(prover) {
            let column = piece.get(..SALT + self.told.common.sharing.column_len());
            let of = self.shown.entry(accuser).or_default();
            of.push((prover, column.unwrap_or_default().to_vec()));
            return;
        }
        let said = place.and_then(|place| heard.answers.get(place));
        if said != Some(right) {
            let fault = Fault::party(accuser, FaultKind::WrongAnswer { prover });
            let evidence = [&heard.body, piece].concat();
            self.guilty
                .entry(accuser)
                .or_insert(fault.shown_by(&evidence));
        }
    }

    /// Goes on with those who have not lied, after so many stages that were skipped.
    pub fn conclude(self, skipped: u8) -> Result<ServerStep, Fault> {
        let Self {
            told,
            heard,
            guilty,
            shown,
            ..
        } = self;
        let common = told.common;
        let round = common.round.clone();
        let honest = told
            .parties
            .iter()
            .filter(|party| !guilty.contains_key(party));
        let survivors = PartySet::of(round.parties(), honest);
        let (have, need) = (survivors.len(), round.job().min_parties());
        if have < need {
            let few = Fault::nobody(FaultKind::TooFewHonest { have, need });
            // guard: rounds-that-end-name-who-lied
            return Err(few.after(guilty.into_values()));
        }
        let stay: BTreeSet<PartyId> = heard
            .keys()
            .copied()
            .filter(|party| survivors.contains(*party))
            .collect();
        let bodies = stay.iter().map(|&to| {
            let mut body = vec![JUDGED];
            body.extend(survivors.as_bitmap());
            let columns = shown.get(&to).into_iter().flatten();
            for (prover, column) in columns.filter(|(prover, _)| survivors.contains(*prover)) {
                body.extend(prover.0.to_be_bytes());
                body.extend(column);
            }
            (to, body)
        });
        let bodies = Bodies::Each(bodies.collect());
        let excused = guilty.iter().filter(|(party, _)| heard.contains_key(party));
        let excuses = excused.map(|(&party, fault)| Excuse {
            party,
            reason: fault.kind.clone(),
        });
        let how = (skipped, excuses.collect::<Vec<_>>());
        let next: Box<dyn ServerStage> = match is_active(&round) {
            true => {
                let over = Survivors {
                    common,
                    survivors,
                    how,
                };
                CollectSignatures::of(over, stay)
            }
            false => Box::new(CollectSums::new(common, survivors, stay, how)),
        };
        Ok(ServerStep::Next {
            next,
            bodies,
            faults: guilty.into_values().collect(),
        })
    }
}
