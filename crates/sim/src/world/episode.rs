//! An episode from its beginning to its end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use blindsum_job::coordinator::CoordinatorMachine;
use blindsum_protocol::ProtocolName;

use super::faults::Faults;
use super::plain::is_ruled;
use super::{Broken, Kind, Tally, World};
use crate::engine::{Micros, Who};

/// Virtual time in which a job must come to its end once nothing more goes wrong: for whoever is away to come back and for the
/// longest pause after lost rounds, and for each round that is left. A member that lies may end rounds, and has everybody wait
/// for it.
const COMING_BACK: Micros = 90_000_000;
const ROUND: Micros = 12_000_000;
const LIAR: Micros = 250_000_000;

impl World {
    /// Runs the episode to its end.
    pub(super) fn run(mut self) -> Result<Tally, Broken> {
        self.watched(Self::play)?;
        Ok(self.done())
    }

    /// P4: what panics has broken a promise, and is told as such. Nothing is done with the world afterwards.
    fn watched(
        &mut self,
        play: impl FnOnce(&mut Self) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        match catch_unwind(AssertUnwindSafe(|| play(self))) {
            Ok(played) => played,
            Err(panic) => {
                let words = panic.downcast_ref::<String>().map(String::as_str);
                let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
                let words = words.unwrap_or("without a word");
                Err(self
                    .episode
                    .broken(&self.engine, format!("P4: it panics: {words}")))
            }
        }
    }

    fn play(&mut self) -> Result<(), Broken> {
        let storm = 300 + self.episode.dice.below(3000);
        while self.engine.steps < storm && !self.is_over() {
            self.step()?;
        }
        if self.episode.setting.kind == Kind::LyingServer || self.may_last_for_ever() {
            return Ok(());
        }
        self.last_blow();
        if !self.calm_down()? {
            return Ok(());
        }
        let (engine, episode) = (&self.engine, &mut self.episode);
        episode.note_rounds(engine)?;
        let excused = episode.liar.into_iter().chain(episode.mortal).collect();
        let (book, members) = (&episode.book, &episode.members);
        let number_of = |name: &str| members.iter().position(|it| it.identity.name == name);
        let kept = book
            .everybody_was_told(&excused)
            .and_then(|()| book.nobody_was_denied())
            .and_then(|()| book.counts_who_is_told(&number_of))
            .and_then(|()| book.all_rounds_count(episode.setting.job.spec().rounds));
        episode.check(engine, kept)
    }

    /// Nothing more goes wrong, but for who lies: the job comes to its end. False where it cannot: its model is lost, or it needs
    /// an honest answer of who lies.
    fn calm_down(&mut self) -> Result<bool, Broken> {
        let episode = &mut self.episode;
        let lies = episode.faults;
        episode.faults = Faults {
            lie: lies.lie,
            ..Faults::default()
        };
        episode.calms_down();
        let from_here = format_args!("from here on nothing goes wrong");
        episode.log(&self.engine, from_here);
        let left = u64::from(episode.setting.job.spec().rounds) + 1;
        let each = ROUND + episode.liar.map_or(0, |_| LIAR);
        let mut until = self.engine.time() + COMING_BACK + left * each;
        while !self.is_over() {
            let episode = &self.episode;
            if episode.setting.job.hides_sum() && episode.book.is_latest_sum_lost() {
                return Ok(false);
            }
            if self.is_missed() {
                until += COMING_BACK;
            }
            if self.engine.time() > until && self.needs_the_liar() {
                return Ok(false);
            }
            if self.engine.time() > until {
                let what = "P5: the job does not come to its end".into();
                return Err(self.episode.broken(&self.engine, what));
            }
            self.step()?;
        }
        Ok(true)
    }

    /// The last thing that goes wrong: the coordinator is started again, with a store of an earlier time, or while
    /// somebody is gone for good.
    fn last_blow(&mut self) {
        let (engine, episode) = (&mut self.engine, &mut self.episode);
        let kind = episode.setting.kind;
        if !matches!(kind, Kind::Storm | Kind::Rollback) || !engine.is_alive(Who::Server) {
            return;
        }
        if let Some(mortal) = episode.mortal.map(Who::Party)
            && engine.is_alive(mortal)
        {
            engine.kill(episode, mortal);
        }
        episode.store.from_backup = kind == Kind::Rollback;
        engine.kill(episode, Who::Server);
    }

    /// A job of three servers may need the very party that lies, where a result with it was opened and then lost: it says so,
    /// and waits until its patience is over.
    fn needs_the_liar(&self) -> bool {
        let machine = self.engine.coordinator.machine.as_ref();
        let waits = machine.is_some_and(|machine| !machine.status().warning.is_empty());
        waits && self.episode.liar.is_some() && !self.episode.servers.is_empty()
    }

    /// A job of three servers may need the very party that is gone, where a result with it was opened: it says so, and the
    /// party comes back. True where that is so now.
    fn is_missed(&mut self) -> bool {
        let (engine, episode) = (&mut self.engine, &mut self.episode);
        let machine = engine.coordinator.machine.as_ref();
        let status = machine.map(CoordinatorMachine::status);
        let waits = status.is_some_and(|status| !status.warning.is_empty());
        let is_gone = |number: &usize| !engine.is_alive(Who::Party(*number));
        let gone = episode
            .mortal
            .filter(|_| waits && !episode.servers.is_empty());
        let Some(number) = gone.filter(is_gone) else {
            return false;
        };
        episode.mortal = None;
        let comes_back =
            format_args!("party {number}, which was gone for good, is missed and comes back");
        episode.log(engine, comes_back);
        engine.transit.start_after(0, Who::Party(number));
        true
    }

    fn done(self) -> Tally {
        let episode = self.episode;
        let store = episode.store.current.as_ref();
        let name = &episode.setting.job.spec().job;
        Tally {
            steps: self.engine.steps,
            rounds: episode.book.rounds() as u64,
            spoilt: episode.store.spoilt.len() as u64,
            shown: store.map_or(0, |store| store.faults(name).len()) as u64,
            ..episode.tally
        }
    }

    /// Whether one member may end every round: nobody can tell who of them spoilt the sum of a protocol that tolerates no
    /// corrupt party; or a rule, or a round that outvotes liars, needs all parties.
    fn may_last_for_ever(&self) -> bool {
        let (job, liar) = (&self.episode.setting.job, self.episode.liar);
        let can_need = is_ruled(job.spec()) || job.least_roster() > job.min_parties();
        let needs_all = can_need && self.engine.parties.len() <= job.least_roster();
        let is_flashe = job.spec().protocol.name() == ProtocolName::Flashe;
        liar.is_some() && (is_flashe || needs_all)
    }

    /// Whether the job is done and everybody honest has heard so.
    fn is_over(&self) -> bool {
        let (engine, episode) = (&self.engine, &self.episode);
        let excused = |number| [episode.liar, episode.mortal].contains(&Some(number));
        let mut others = engine.parties.iter().enumerate();
        let told = others.all(|(number, party)| party.over || excused(number));
        told && engine.followers.values().all(|server| server.over)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use blindsum_protocol::JobSpec;

    use super::super::contents::sized;
    use super::*;

    /// A panic in an episode is told with the seed that leads to it.
    #[test]
    fn a_panic_is_a_broken_promise() {
        let job = Arc::new(sized(&JobSpec::default(), 7).unwrap());
        let mut world = World::new(job, 7).unwrap();
        let broken = world.watched(|world| {
            let begins = format_args!("here it begins");
            world.episode.log(&world.engine, begins);
            panic!("index {} out of bounds", 3)
        });
        let broken = broken.unwrap_err();
        assert_eq!(broken.seed, 7);
        assert_eq!(broken.what, "P4: it panics: index 3 out of bounds");
        assert!(
            broken
                .story
                .iter()
                .any(|line| line.contains("here it begins"))
        );
    }
}
