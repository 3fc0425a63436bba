//! A machine is driven: it is started, hears something, and has what it wants carried out, one thing after the other.

use blindsum_job::machine::{Machine, Step};

use super::Engine;
use super::conditions::Conditions;
use super::event::Who;

/// Whose machine is driven.
pub(super) trait Driven: Copy {
    type Input;
    type Effect;
    type Shown;

    fn who(self) -> Who;

    /// Its machine, where it lives.
    fn machine(
        self,
        engine: &mut Engine,
    ) -> Option<&mut Machine<Self::Input, Self::Effect, Self::Shown>>;

    /// Makes its machine. False where it is not started any more.
    fn open<C: Conditions>(self, engine: &mut Engine, by: &mut C) -> Result<bool, C::Broken>;

    /// Carries out one effect of its machine.
    fn carry_out<C: Conditions>(
        self,
        engine: &mut Engine,
        by: &mut C,
        effect: Self::Effect,
    ) -> Result<(), C::Broken>;

    /// Hands in what waits until all is done that the machine wants. False where nothing does.
    fn hears_more(self, _engine: &mut Engine, _by: &mut impl Conditions) -> bool {
        false
    }
}

impl Engine {
    /// A machine is started, for the first time or again.
    pub(super) fn start<D: Driven, C: Conditions>(
        &mut self,
        by: &mut C,
        of: D,
    ) -> Result<(), C::Broken> {
        match of.open(self, by)? {
            true => self.serve(by, of),
            false => Ok(()),
        }
    }

    /// A machine hears something, where it lives.
    pub(super) fn tell<D: Driven>(&mut self, of: D, input: D::Input) {
        let now = self.now();
        if let Some(machine) = of.machine(self) {
            machine.handle(now, input);
        }
    }

    /// A machine hears something, where it lives, and has what it wants carried out.
    pub(super) fn hand<D: Driven, C: Conditions>(
        &mut self,
        by: &mut C,
        of: D,
        input: D::Input,
    ) -> Result<(), C::Broken> {
        self.tell(of, input);
        self.serve(by, of)
    }

    /// Time has passed for a machine.
    pub(super) fn tick<D: Driven, C: Conditions>(
        &mut self,
        by: &mut C,
        of: D,
    ) -> Result<(), C::Broken> {
        let now = self.now();
        if let Some(machine) = of.machine(self) {
            machine.tick(now);
        }
        self.serve(by, of)
    }

    /// The task of a machine ends.
    pub(super) fn task_ends<D: Driven, C: Conditions>(
        &mut self,
        by: &mut C,
        of: D,
    ) -> Result<(), C::Broken> {
        let (who, now) = (of.who(), self.now());
        let Some(task) = self.tasks.remove(&who) else {
            return Ok(());
        };
        let ticket = task.ticket;
        task.run();
        by.work_ends(self, who)?;
        if let Some(machine) = of.machine(self) {
            machine.worked(now, ticket);
        }
        self.serve(by, of)?;
        if by.kills_after_work(who) {
            self.kill(by, who);
        }
        Ok(())
    }

    /// Does what a machine wants done, unless it is killed before.
    pub(super) fn serve<D: Driven, C: Conditions>(
        &mut self,
        by: &mut C,
        of: D,
    ) -> Result<(), C::Broken> {
        let who = of.who();
        loop {
            let Some(step) = of.machine(self).and_then(Machine::poll) else {
                let wake = of.machine(self).and_then(|machine| machine.wake());
                self.wake_later(who, wake);
                match of.hears_more(self, by) {
                    true => continue,
                    false => return Ok(()),
                }
            };
            if by.kills(who) {
                self.kill(by, who);
                return Ok(());
            }
            match step {
                Step::Work(task) => self.task_begins(by, who, task),
                Step::Effect(effect) => of.carry_out(self, by, effect)?,
            }
        }
    }
}
