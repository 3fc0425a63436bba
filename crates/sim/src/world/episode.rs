//! An episode from its beginning to its end.

use std::panic::{AssertUnwindSafe, catch_unwind};

use blindsum_job::coordinator::CoordinatorMachine;
use blindsum_protocol::ProtocolName;

use super::agenda::{Event, Micros, Who};
use super::faults::Faults;
use super::plain::is_ruled;
use super::{Broken, Kind, Tally, World};

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
                Err(self.broken(format!("P4: it panics: {words}")))
            }
        }
    }

    fn play(&mut self) -> Result<(), Broken> {
        let storm = 300 + self.dice.below(3000);
        while self.tally.steps < storm && !self.is_over() {
            self.step()?;
        }
        if self.kind == Kind::LyingServer || self.may_last_for_ever() {
            return Ok(());
        }
        self.last_blow();
        // Nothing more goes wrong, but for who lies.
        let lies = self.faults;
        self.faults = Faults {
            lie: lies.lie,
            ..Faults::default()
        };
        self.membership.calms_down();
        self.log("from here on nothing goes wrong".into());
        let left = u64::from(self.job.spec().rounds) + 1;
        let each = ROUND + self.liar.map_or(0, |_| LIAR);
        let mut until = self.time + COMING_BACK + left * each;
        while !self.is_over() {
            if self.job.hides_sum() && self.book.is_latest_sum_lost() {
                return Ok(());
            }
            if self.is_missed() {
                until += COMING_BACK;
            }
            if self.time > until {
                return Err(self.broken("P5: the job does not come to its end".into()));
            }
            self.step()?;
        }
        self.note_rounds()?;
        let excused = self.liar.into_iter().chain(self.mortal).collect();
        let kept = self.book.everybody_was_told(&excused);
        self.check(kept)?;
        let kept = self.book.nobody_was_denied();
        self.check(kept)?;
        let number_of = |name: &str| self.parties.iter().position(|party| *party.name == *name);
        let kept = self.book.counts_who_is_told(&number_of);
        self.check(kept)?;
        let kept = self.book.all_rounds_count(self.job.spec().rounds);
        self.check(kept)
    }

    /// The last thing that goes wrong: the coordinator is started again, with a store of an earlier time, or while
    /// somebody is gone for good.
    fn last_blow(&mut self) {
        if !matches!(self.kind, Kind::Storm | Kind::Rollback) || self.server.machine.is_none() {
            return;
        }
        let alive =
            |number: &usize| self.lives(Who::Party(*number), self.life_of(Who::Party(*number)));
        if let Some(number) = self.mortal.filter(alive) {
            self.kill(Who::Party(number));
        }
        self.server.from_backup = self.kind == Kind::Rollback;
        self.kill(Who::Server);
    }

    /// A job of three servers may need the very party that is gone, where a result with it was opened: it says so, and the
    /// party comes back. True where that is so now.
    fn is_missed(&mut self) -> bool {
        let status = self.server.machine.as_ref().map(CoordinatorMachine::status);
        let waits = status.is_some_and(|status| !status.warning.is_empty());
        let gone = self.mortal.filter(|number| {
            let who = Who::Party(*number);
            waits && !self.followers.is_empty() && !self.lives(who, self.life_of(who))
        });
        let Some(number) = gone else {
            return false;
        };
        self.mortal = None;
        self.log(format!(
            "party {number}, which was gone for good, is missed and comes back"
        ));
        self.agenda
            .push(self.time, Event::Start(Who::Party(number)));
        true
    }

    fn done(self) -> Tally {
        let rounds = self.book.rounds() as u64;
        let name = &self.job.spec().job;
        let faults = self
            .server
            .store
            .as_ref()
            .map_or(0, |store| store.faults(name).len());
        Tally {
            rounds,
            spoilt: self.spoilt.len() as u64,
            shown: faults as u64,
            ..self.tally
        }
    }

    /// Whether one member may end every round: nobody can tell who of them spoilt the sum of a protocol that tolerates no
    /// corrupt party; or a rule, or a round that outvotes liars, needs all parties.
    fn may_last_for_ever(&self) -> bool {
        let spec = self.job.spec();
        let can_need = is_ruled(spec) || self.job.least_roster() > self.job.min_parties();
        let needs_all = can_need && self.parties.len() <= self.job.least_roster();
        self.liar.is_some() && (spec.protocol.name() == ProtocolName::Flashe || needs_all)
    }

    /// Whether the job is done and everybody honest has heard so.
    fn is_over(&self) -> bool {
        let mut others = self.parties.iter().enumerate();
        let excused = |number| self.liar == Some(number) || self.mortal == Some(number);
        let told = others.all(|(number, party)| party.over || excused(number));
        told && self.followers.values().all(|server| server.over)
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
            world.log("here it begins".into());
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
