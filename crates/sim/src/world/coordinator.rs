//! The coordinator of an episode: its store, with backups, and what is to be read there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use blindsum_job::coordinator::{Choice, CoordinatorMachine, MemoryShelves, Parts, Settings};
use blindsum_job::report::{JobState, RoundReport, RoundState};
use blindsum_job::store::{MemoryStore, Store};
use blindsum_protocol::{FaultKind, ServerIndex};

use super::book::Kept;
use super::{Broken, Episode, Kind};
use crate::engine::Engine;
use crate::seeds::seed_bytes;

/// How a coordinator of a campaign waits: shorter than in the world outside, so that an episode is short.
const SETTINGS: Settings = Settings {
    patience: Duration::from_secs(3600),
    reconnect_grace: Duration::from_secs(2),
    chunk_timeout: Duration::from_secs(5),
    failed_rounds: 40,
    choice: Choice::First,
    change: 1,
};

/// What outlives the coordinator, and backups of that from before each round.
#[derive(Default)]
pub(super) struct Stores {
    pub current: Option<Arc<MemoryStore>>,
    backups: Vec<MemoryStore>,
    /// Whether the coordinator is to come back with a backup next.
    pub from_backup: bool,
    /// Whether a party has accused another one.
    claimed: bool,
    /// Rounds without a result, where only a member lies.
    pub spoilt: BTreeSet<u64>,
}

impl Episode {
    /// The coordinator is started, perhaps with a store of an earlier time.
    pub(super) fn start_coordinator(
        &mut self,
        engine: &Engine,
    ) -> Result<CoordinatorMachine, Broken> {
        let life = engine.coordinator.life;
        // Where only the parties have the model, a coordinator of an earlier time cannot go on; nor where parties have
        // left because the job was done.
        let left = engine.parties.iter().any(|party| party.over);
        let may_be = life > 1 && !self.setting.job.hides_sum() && !left;
        let drawn = self.dice.chance(self.faults.restored);
        let meant = std::mem::take(&mut self.store.from_backup);
        if may_be && (drawn || meant) {
            self.restore(engine);
        }
        let store = self
            .store
            .current
            .get_or_insert_with(|| MemoryStore::new(3).into());
        let parts = Parts {
            job: self.setting.job.clone(),
            initial: None,
            store: store.clone(),
            anchor: self.setting.anchor.clone(),
            own: None,
            results: self.learnt.results(ServerIndex::ALL[0]),
            shelves: Arc::new(MemoryShelves),
            settings: SETTINGS,
            hosted: false,
        };
        let entropy = seed_bytes("coordinator", &[self.setting.seed, life.into()]);
        let machine = CoordinatorMachine::open(parts, engine.now(), entropy)
            .map_err(|error| self.broken(engine, format!("P6: the coordinator: {error}")))?;
        self.note_rounds(engine)?;
        Ok(machine)
    }

    /// The store comes back from a backup, if there is one.
    fn restore(&mut self, engine: &Engine) {
        let back = 1 + self.dice.below(3) as usize;
        let at = self.store.backups.len().saturating_sub(back);
        let Some(backup) = self.store.backups.get(at) else {
            return;
        };
        let store = backup.snapshot();
        self.store.backups.truncate(at + 1);
        let known = store.rounds(&self.setting.job.spec().job, u32::MAX);
        let known = known.unwrap_or_default();
        let last = known.iter().map(|report| report.number).max();
        let done = known.iter().filter(|r| r.state == RoundState::Done);
        let done = done.map(|report| report.number).collect();
        self.book.forget_but(&done, last.unwrap_or(0));
        self.store.current = Some(Arc::new(store));
        self.tally.restored += 1;
        let restored = format_args!("the coordinator comes back with a store of an earlier time");
        self.log(engine, restored);
    }

    /// Keeps a copy of the store now and then, where it may be needed.
    pub(super) fn back_up(&mut self) {
        if self.faults.restored > 0.0
            && self.dice.chance(0.1)
            && let Some(store) = &self.store.current
        {
            self.store.backups.push(store.snapshot());
        }
    }

    /// What the store says of rounds that are over.
    pub(super) fn note_rounds(&mut self, engine: &Engine) -> Result<(), Broken> {
        // Nobody has a promise from a coordinator that lies.
        let honest = self.setting.kind != Kind::LyingServer;
        let Some(store) = self.store.current.clone().filter(|_| honest) else {
            return Ok(());
        };
        let name = self.setting.job.spec().job.clone();
        let rounds = store.rounds(&name, 4);
        let rounds = rounds.map_err(|e| self.broken(engine, e.to_string()))?;
        let faults = store.faults(&name);
        self.store.claimed |= faults.iter().any(|fault| fault.accuser.is_some());
        self.is_nobody_blamed(engine, &rounds)?;
        let kept = self.liar_sits_out(&rounds);
        self.check(engine, kept)?;
        for report in rounds {
            if report.state == RoundState::Aborted && self.setting.kind == Kind::Liar {
                self.store.spoilt.insert(report.number);
            }
            if report.state != RoundState::Done || report.key_setup {
                continue;
            }
            let number_of = |name: &String| {
                let mut members = self.members.iter();
                members.position(|member| member.identity.name == *name)
            };
            let survivors: BTreeSet<usize> =
                report.survivors.iter().filter_map(number_of).collect();
            let kept = self.book.counts(report.number, survivors.clone());
            self.check(engine, kept)?;
            self.note_learnt(engine, report.number, &survivors)?;
        }
        if let Some((JobState::Failed, reason)) = store.state(&name) {
            return Err(self.broken(engine, format!("P5: the job has failed: {reason}")));
        }
        Ok(())
    }

    /// P5: who was shown to lie takes no part in the next round, where there are enough others. It is looked at as long as
    /// nobody is accused by another party: these two are kept apart besides.
    fn liar_sits_out(&self, rounds: &[RoundReport]) -> Kept {
        let Some(liar) = self.liar.and_then(|liar| self.members.get(liar)) else {
            return Ok(());
        };
        let name = &liar.identity.name;
        let lied = format!("{name}: ");
        // With another key than the others it need not have lied: it may have got it of somebody who did. And whoever shows
        // nothing may have been lost.
        let no_lies = [FaultKind::OtherKey, FaultKind::Unshown].map(|kind| kind.to_string());
        let mut before = rounds.iter().filter(|report| {
            let mut faults = report.faults.iter();
            faults.any(|fault| {
                fault.starts_with(&lied) && !no_lies.iter().any(|kind| fault.ends_with(kind))
            })
        });
        let least = self.setting.job.least_roster();
        let again = before.find_map(|report| {
            let next = rounds
                .iter()
                .find(|next| next.number == report.number + 1)?;
            let takes_part = next.parties.iter().any(|party| party == name);
            (takes_part && next.parties.len() > least).then_some(next.number)
        });
        match again.filter(|_| !self.store.claimed) {
            None => Ok(()),
            Some(round) => Err(format!(
                "P5: {name} was shown to lie in the round before {round}, and takes part in it"
            )),
        }
    }
}
