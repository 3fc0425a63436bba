//! What surrounds machines, and is not the same for all who run them: how long everything takes, what goes wrong, what
//! callers do, and who looks at what is said.

use std::fmt::Arguments;

use blindsum_job::JobError;
use blindsum_job::coordinator::CoordinatorMachine;
use blindsum_job::follower::ServerMachine;
use blindsum_job::membership::Leases;
use blindsum_job::party::{Input, Over, PartyMachine, Told};
use blindsum_job::pb::{CoordinatorFrame, PartyFrame};
use blindsum_protocol::{ServerIndex, ServerRole};
use bytes::Bytes;

use super::Engine;
use super::event::{Errand, Micros, Who};

/// What a caller of a party does when it is told something.
pub(crate) enum Answer {
    /// Nothing.
    Nothing,
    /// It says something at once.
    Now(Input),
    /// It does something after so long.
    Later(Micros, Errand),
}

/// The surroundings of machines. The engine asks them whenever something takes time, may go wrong or is said; they see the
/// whole engine, and change nothing in it but by what they answer. Where a method has a default, it is that nothing goes wrong
/// and that nobody looks.
pub(crate) trait Conditions {
    /// Why a run ends early.
    type Broken;

    /// Something that a run cannot go on with.
    fn fails(&self, engine: &Engine, what: String) -> Self::Broken;

    /// Something happens that is worth telling.
    fn event(&mut self, _engine: &Engine, _what: Arguments<'_>) {}

    // How long everything takes.

    /// How long a frame, a letter or an upload is on its way.
    fn way(&mut self) -> Micros;

    /// How long a task takes, which begins now.
    fn work(&mut self, who: Who) -> Micros;

    /// How long somebody waits before another connection.
    fn pause(&mut self) -> Micros;

    /// How long it takes until somebody learns that a connection broke.
    fn notice(&mut self) -> Micros;

    /// How long after the start of a party its caller begins to wait for rounds.
    fn caller_comes(&mut self) -> Micros;

    // What begins.

    /// The machine of a party that is started; none where it has left the job.
    fn open_party(&mut self, engine: &Engine, number: usize) -> Option<PartyMachine>;

    /// The machine of the coordinator, which is started.
    fn open_coordinator(&mut self, engine: &Engine) -> Result<CoordinatorMachine, Self::Broken>;

    /// The leases of a coordinator that is started, if it has any.
    fn open_leases(&mut self, _engine: &Engine) -> Option<Leases> {
        None
    }

    /// The machine of a server that is started; none where the job is done for it.
    fn open_follower(&mut self, engine: &Engine, role: ServerRole) -> Option<ServerMachine>;

    // What goes wrong.

    /// Whether a machine is killed before it does what it wants to do next.
    fn kills(&mut self, _who: Who) -> bool {
        false
    }

    /// Whether a machine is killed after the task whose end it was told.
    fn kills_after_work(&mut self, _who: Who) -> bool {
        false
    }

    /// A machine is killed that has a task under way: whether the task was done before.
    fn is_work_done(&mut self) -> bool {
        false
    }

    /// How long a machine that was killed stays away; none where it does not come back.
    fn stays_away(&mut self, _who: Who) -> Option<Micros> {
        None
    }

    /// Whether an upload, or the word on what becomes of it, is lost with its connection.
    fn loses_upload(&mut self) -> bool {
        false
    }

    /// A lease runs out.
    fn lease_ends(&mut self, _engine: &Engine, _name: &str) {}

    // What is said. An error is what nobody may say.

    /// A party says something to the coordinator. Gives what goes out, if anything does.
    fn party_says(
        &mut self,
        _engine: &Engine,
        _number: usize,
        frame: PartyFrame,
    ) -> Result<Option<PartyFrame>, Self::Broken> {
        Ok(Some(frame))
    }

    /// A party has something for a server in a round. Gives what goes out, if anything does.
    fn party_uploads(
        &mut self,
        _engine: &Engine,
        _of: (usize, ServerRole),
        upload: (u64, Bytes),
    ) -> Result<Option<(u64, Bytes)>, Self::Broken> {
        Ok(Some(upload))
    }

    /// A server says something to the coordinator.
    fn follower_says(
        &mut self,
        _engine: &Engine,
        _role: ServerRole,
        _frame: &PartyFrame,
    ) -> Result<(), Self::Broken> {
        Ok(())
    }

    /// A server has taken an upload in a round.
    fn follower_takes(
        &mut self,
        _engine: &Engine,
        _role: ServerRole,
        _round: u64,
    ) -> Result<(), Self::Broken> {
        Ok(())
    }

    /// The coordinator says something, to somebody whose connection may be gone. Gives what goes out.
    fn coordinator_says(
        &mut self,
        _to: Option<Who>,
        frame: CoordinatorFrame,
    ) -> Vec<CoordinatorFrame> {
        vec![frame]
    }

    /// A frame of the coordinator reaches somebody.
    fn reaches(&mut self, _host: Who, _frame: &CoordinatorFrame) {}

    /// A server says something to another one in a round. Gives what goes out.
    fn letter(
        &mut self,
        _engine: &Engine,
        _way: (ServerIndex, ServerIndex),
        _round: u64,
        letter: Bytes,
    ) -> Result<Bytes, Self::Broken> {
        Ok(letter)
    }

    // What ends. An error is an end that may not be.

    /// A task has ended. Its machine is told next.
    fn work_ends(&mut self, _engine: &Engine, _who: Who) -> Result<(), Self::Broken> {
        Ok(())
    }

    /// The job's machine has ended at the coordinator.
    fn coordinator_over(
        &mut self,
        engine: &Engine,
        end: Result<(), JobError>,
    ) -> Result<(), Self::Broken>;

    /// A server has ended. Gives how long it stays away, where it comes back.
    fn follower_over(
        &mut self,
        engine: &Engine,
        role: ServerRole,
        end: Result<(), JobError>,
    ) -> Result<Option<Micros>, Self::Broken>;

    /// A party has ended. Gives how long it stays away, where it comes back.
    fn party_over(
        &mut self,
        engine: &Engine,
        number: usize,
        over: Over,
    ) -> Result<Option<Micros>, Self::Broken>;

    // What callers do.

    /// The caller of a party is told something, but not that it has ended.
    fn told(&mut self, engine: &Engine, number: usize, told: Told) -> Result<Answer, Self::Broken>;

    /// The caller of a party does something. Gives what it says, one after the other.
    fn runs_errand(
        &mut self,
        engine: &Engine,
        number: usize,
        errand: Errand,
    ) -> Result<Vec<Input>, Self::Broken>;
}
