//! Sums are exact whoever is lost, and no mask is used twice, whatever happens to parties and their vaults.

use std::collections::BTreeSet;
use std::sync::Arc;

use blindsum_math::words::Words;
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;

use super::*;
use crate::testing::{Cohort, Given, storage_key};
use crate::{
    Adversary, Client, EncodingChoice, Fixed64, Flashe, Integers, Masking, MemoryVault,
    ModelUpdate, Quantised, Round,
};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Words of 6 bits and more, of up to 64.
fn encodings() -> impl Strategy<Value = EncodingChoice> {
    let max_weight = || prop::sample::select(vec![1, 200]);
    prop_oneof![
        (5..33u32, max_weight()).prop_map(|(bits, max_weight)| {
            let other = Quantised::default();
            EncodingChoice::from(Quantised {
                bits,
                max_weight,
                ..other
            })
        }),
        (5..65u32, max_weight()).prop_map(|(bits, max_weight)| {
            // As many bits as fit beside the carries.
            let bits = if max_weight > 1 { bits.min(32) } else { bits };
            Integers { bits, max_weight }.into()
        }),
        max_weight().prop_map(|max_weight| {
            let other = Fixed64::default();
            Fixed64 {
                max_weight,
                ..other
            }
            .into()
        }),
    ]
}

prop_compose! {
    fn jobs()(
        parties in 2..12u32,
        masking in prop::sample::select(vec![Masking::Cheaper, Masking::Double, Masking::Single]),
        adversary in prop::sample::select(Adversary::ALL),
        encoding in encodings(),
        dropout in 0.0..0.9f64,
    ) -> JobSpec {
        let model_update = ModelUpdate::Nothing;
        let dim = 13;
        JobSpec { protocol: Flashe { masking, ..Default::default() }.into(), adversary, encoding, dropout, model_update, dim, ..spec(parties) }
    }
}

/// A key set-up in which parties are lost: who holds the key then, as all of them say; `None` if it ends without.
fn set_up(rig: &mut Rig, lost_at: &[u8]) -> Option<PartySet> {
    let n = rig.cohort.round.parties() as u32;
    let mut said = Vec::new();
    for stage in 0.. {
        rig.drop_out(parties(0..n).filter(|party| lost_at[party.rank()] == stage));
        if let Err(fault) = rig.serve() {
            assert!(
                matches!(fault.kind, FaultKind::TooFewSurvivors { .. }),
                "{fault}"
            );
            return None;
        }
        for party in rig.down.keys().copied().collect::<Vec<_>>() {
            if !rig.clients.contains_key(&party) {
                continue;
            }
            if let Answer::KeyHeld(holders) = rig.answer(party).unwrap() {
                said.push(holders);
            }
        }
        if let Some(outcome) = rig.outcome.take() {
            assert_eq!(said.len(), outcome.survivors.len());
            assert!(said.iter().all(|holders| *holders == outcome.survivors));
            return Some(outcome.survivors);
        }
    }
    None
}

proptest! {
    #![proptest_config(config(60))]

    /// Whoever is lost in the set-up and in the round: those who are left hold one key, and each of them finds the
    /// exact sum, or the round ends for want of survivors.
    #[test]
    fn sums_are_exact_at_every_survivor(
        spec in jobs(),
        lost_in_set_up in prop::collection::vec(prop_oneof![4 => Just(u8::MAX), 1 => 0..3u8], 12),
        lost in prop::collection::vec(prop_oneof![2 => Just(false), 1 => Just(true)], 12),
    ) {
        let mut first = Rig::first_key_setup(spec, 7);
        let Some(holders) = set_up(&mut first, &lost_in_set_up) else { return Ok(()) };
        let ids: BTreeSet<_> = holders.iter().map(|party| key_id(&first, party.0, 2)).collect();
        prop_assert!(ids.len() == 1 && !ids.contains(&None));
        let cohort = first.cohort.begin(round(&first.cohort, 2, 0));
        let present: Vec<u32> = holders.iter().map(|party| party.0).filter(|rank| !lost[*rank as usize]).collect();
        let mut rig = Rig::of_parties(cohort, first.rng.clone(), &present);
        match sum(&mut rig) {
            Ok((_, survivors)) => {
                let survivors: Vec<u32> = survivors.iter().map(|party| party.0).collect();
                prop_assert_eq!(survivors, present);
            }
            Err(fault) => {
                prop_assert!(present.len() < 2);
                prop_assert!(matches!(fault.kind, FaultKind::TooFewSurvivors { .. }), "{}", fault);
            }
        }
    }
}

fn round(cohort: &Cohort, number: u64, model: u8) -> Round {
    let (job, roster) = (cohort.round.job().clone(), cohort.round.roster().clone());
    Round::new(job, number, roster, &[model; 32]).unwrap()
}

const PARTIES: u32 = 3;

/// What happens next. Numbers are relative to the largest one so far: a server may say any.
#[derive(Clone, Debug)]
enum Step {
    /// Parties are told to encrypt in a round, from a model of the server's choice.
    Encrypt {
        number: i64,
        model: u8,
        who: u32,
    },
    SetUp {
        number: i64,
        who: u32,
    },
    /// The file of a party's vault is copied, or put back; its mark is kept elsewhere.
    Backup(u32),
    PutBack(u32),
    /// A party loses all it had.
    Lose(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (number, who) = (-4..3i64, 1..1u32 << PARTIES);
    let step = prop_oneof![
        6 => (number.clone(), 0..3u8, who.clone()).prop_map(|(number, model, who)| Step::Encrypt { number, model, who }),
        3 => (number, who).prop_map(|(number, who)| Step::SetUp { number, who }),
        2 => (0..PARTIES).prop_map(Step::Backup),
        2 => (0..PARTIES).prop_map(Step::PutBack),
        1 => (0..PARTIES).prop_map(Step::Lose),
    ];
    prop::collection::vec(step, 1..25)
}

/// A job whose parties go through anything, and a record of every mask that was used.
struct World {
    cohort: Cohort,
    rng: ChaCha20Rng,
    largest: u64,
    backups: BTreeMap<u32, Vec<u8>>,
    /// How often a party has lost all it had.
    losses: [u8; PARTIES as usize],
    /// Key, round, rank and how often the party had lost everything.
    rounds: BTreeSet<([u8; 32], u64, u32, u8)>,
    /// Key, context and rank.
    contexts: BTreeSet<([u8; 32], [u8; 32], u32)>,
    encryptions: u8,
}

impl World {
    /// Everybody holds the key.
    fn new() -> Self {
        let spec = JobSpec {
            protocol: Flashe {
                key_rounds: 9,
                ..Default::default()
            }
            .into(),
            dim: 5,
            ..spec(PARTIES)
        };
        let rig = Rig::first_key_setup(spec, 7);
        let mut world = Self {
            cohort: rig.cohort,
            rng: rig.rng,
            largest: 1,
            backups: BTreeMap::new(),
            losses: [0; PARTIES as usize],
            rounds: BTreeSet::new(),
            contexts: BTreeSet::new(),
            encryptions: 0,
        };
        world.set_up(1, &[0, 1, 2]);
        world
    }

    fn number(&mut self, relative: i64) -> u64 {
        let number = self.largest.saturating_add_signed(relative).max(1);
        self.largest = self.largest.max(number);
        number
    }

    /// Carries a step out.
    ///
    /// # Errors
    /// A mask that was used before.
    fn step(&mut self, step: &Step) -> Result<(), String> {
        let some = |who: u32| (0..PARTIES).filter(move |party| who >> party & 1 == 1);
        match *step {
            Step::Encrypt { number, model, who } => {
                let number = self.number(number);
                return some(who).try_for_each(|party| self.encrypt(number, model, party));
            }
            Step::SetUp { number, who } => {
                let number = self.number(number);
                let who: Vec<u32> = some(who).collect();
                self.set_up(number, &who);
            }
            Step::Backup(party) => {
                let kept = self.cohort.vaults[party as usize].read().unwrap();
                if let Some(contents) = kept.contents {
                    self.backups.insert(party, contents.to_vec());
                }
            }
            Step::PutBack(party) => {
                if let Some(contents) = self.backups.get(&party) {
                    self.cohort.vaults[party as usize]
                        .write(contents, 0)
                        .unwrap();
                }
            }
            Step::Lose(party) => {
                self.cohort.vaults[party as usize] = Arc::new(MemoryVault::default());
                self.losses[party as usize] += 1;
                self.backups.remove(&party);
            }
        }
        Ok(())
    }

    /// A key set-up with some parties, as far as it goes.
    fn set_up(&mut self, number: u64, who: &[u32]) {
        let (job, roster) = (self.cohort.round.job(), self.cohort.round.roster());
        let round = Round::key_setup(job.clone(), number, roster.clone()).unwrap();
        let able = |party: &u32| {
            let vault = &*self.cohort.vaults[*party as usize];
            job.held_key(vault, number).is_ok()
        };
        let who: Vec<u32> = who.iter().copied().filter(able).collect();
        let mut rig = Rig::of_parties(self.cohort.begin(round), self.rng.clone(), &who);
        let _ = rig.finish();
        self.rng = rig.rng;
    }

    /// A party encrypts another vector than ever before, if it can.
    fn encrypt(&mut self, number: u64, model: u8, party: u32) -> Result<(), String> {
        // Parties draw a nonce for every round, so no context comes twice. Here the roster stays the same, which
        // is worse. A party that lost everything, also the numbers of its rounds, has nothing but these nonces to
        // keep it from using a mask again; models that were not used before stand for them.
        let model = model + 3 * self.losses.iter().sum::<u8>();
        let cohort = self.cohort.begin(round(&self.cohort, number, model));
        self.encryptions += 1;
        let job = cohort.round.job();
        let values = vec![u64::from(self.encryptions); job.lanes()];
        let words = Words::from_values(job.width(), &values).unwrap();
        let setup = cohort.setup(PartyId(party));
        let Ok((client, sent)) = Client::start(setup, Some(&Given(&words)), &mut self.rng) else {
            return Ok(());
        };
        // Whoever restarts says the same again.
        let sealed = client.seal(&storage_key(), &mut self.rng).unwrap().unwrap();
        let again = Client::unseal(cohort.setup(PartyId(party)), &storage_key(), &sealed);
        if *again.unwrap().latest() != sent.message().unwrap() {
            return Err(format!("{party} sends something else after a restart"));
        }
        let kept = cohort.vaults[party as usize].read().unwrap().contents;
        let key: [u8; 32] = kept.unwrap()[1..33].try_into().unwrap();
        let losses = self.losses[party as usize];
        let context = cohort.round.context().0;
        if !self.rounds.insert((key, number, party, losses))
            || !self.contexts.insert((key, context, party))
        {
            return Err(format!("{party} encrypts twice in round {number}"));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(config(80))]

    /// Abuse case 33: whatever numbers a server says, whoever restarts, puts an old file back or loses everything.
    #[test]
    fn case_33_no_mask_is_used_twice(steps in steps()) {
        let mut world = World::new();
        let all = Step::Encrypt { number: 1, model: 0, who: 7 };
        prop_assert_eq!(world.step(&all), Ok(()));
        prop_assert_eq!(world.rounds.len(), 3);
        for step in &steps {
            prop_assert_eq!(world.step(step), Ok(()));
        }
    }
}

/// Where also the mark is put back, a party encrypts twice, and the record of masks shows it.
#[test]
fn the_record_shows_a_mask_used_twice() {
    let mut world = World::new();
    let encrypt = Step::Encrypt {
        number: 1,
        model: 0,
        who: 2,
    };
    world.step(&Step::Backup(1)).unwrap();
    world.step(&encrypt).unwrap();
    world.cohort.vaults[1] = Arc::new(MemoryVault::default());
    world.step(&Step::PutBack(1)).unwrap();
    let again = Step::Encrypt {
        number: 0,
        model: 0,
        who: 2,
    };
    let found = world.step(&again);
    assert_eq!(found, Err("1 encrypts twice in round 2".into()));
}
