//! What surrounds the machines of an episode, as the engine asks for it.

use std::fmt::Arguments;

use blindsum_job::JobError;
use blindsum_job::coordinator::CoordinatorMachine;
use blindsum_job::follower::ServerMachine;
use blindsum_job::membership::Leases;
use blindsum_job::party::{Input, Over, PartyMachine, Told};
use blindsum_job::pb::coordinator_frame::Frame;
use blindsum_job::pb::{CoordinatorFrame, PartyFrame};
use blindsum_protocol::{ServerIndex, ServerRole};
use bytes::Bytes;

use super::{Broken, Episode, Kind};
use crate::engine::{Answer, Conditions, Engine, Errand, Micros, Who};

/// How long a machine that was killed stays away, at most.
const SHORT: Micros = 4_000_000;
const LONG: Micros = 25_000_000;

impl Conditions for Episode {
    type Broken = Broken;

    fn fails(&self, engine: &Engine, what: String) -> Broken {
        self.broken(engine, what)
    }

    fn event(&mut self, engine: &Engine, what: Arguments<'_>) {
        self.log(engine, what);
    }

    fn way(&mut self) -> Micros {
        match self.dice.chance(self.faults.late) {
            true => self.dice.below(4_000_000),
            false => 100 + self.dice.below(20_000),
        }
    }

    fn work(&mut self, who: Who) -> Micros {
        if who == Who::Server {
            self.back_up();
        }
        match self.dice.chance(self.faults.slow) {
            true => self.dice.below(3_000_000),
            false => self.dice.below(3_000),
        }
    }

    fn pause(&mut self) -> Micros {
        50_000 + self.dice.below(500_000)
    }

    fn notice(&mut self) -> Micros {
        match self.dice.chance(0.2) {
            true => self.dice.below(6_000_000),
            false => self.dice.below(50_000),
        }
    }

    fn caller_comes(&mut self) -> Micros {
        self.dice.below(3_000_000)
    }

    fn open_party(&mut self, engine: &Engine, number: usize) -> Option<PartyMachine> {
        self.start_member(engine, number)
    }

    fn open_coordinator(&mut self, engine: &Engine) -> Result<CoordinatorMachine, Broken> {
        self.start_coordinator(engine)
    }

    fn open_leases(&mut self, engine: &Engine) -> Option<Leases> {
        Some(self.new_leases(engine))
    }

    fn open_follower(&mut self, engine: &Engine, role: ServerRole) -> Option<ServerMachine> {
        self.start_server(engine, role)
    }

    fn kills(&mut self, _who: Who) -> bool {
        self.dice.chance(self.faults.kill)
    }

    fn kills_after_work(&mut self, who: Who) -> bool {
        let Who::Follower(role) = who else {
            return false;
        };
        // It has opened a result, and is gone before the round counts.
        let opened = self.servers.get(&role).is_some_and(|server| server.opened);
        opened && self.dice.chance(self.faults.opened)
    }

    fn is_work_done(&mut self) -> bool {
        self.dice.chance(0.5)
    }

    fn stays_away(&mut self, who: Who) -> Option<Micros> {
        self.tally.kills += 1;
        let long = matches!(who, Who::Party(_)) && self.dice.chance(self.faults.away);
        let away = self.dice.below(if long { LONG } else { SHORT });
        let returns = who != Who::Party(self.mortal.unwrap_or(usize::MAX));
        returns.then_some(away)
    }

    fn loses_upload(&mut self) -> bool {
        self.dice.chance(self.faults.cut)
    }

    fn lease_ends(&mut self, engine: &Engine, name: &str) {
        self.tally.leases += 1;
        self.log(engine, format_args!("the lease of {name} runs out"));
    }

    fn party_says(
        &mut self,
        engine: &Engine,
        number: usize,
        frame: PartyFrame,
    ) -> Result<Option<PartyFrame>, Broken> {
        self.note_said(engine, number, &frame)?;
        Ok(self.perhaps_lie(number, frame))
    }

    fn party_uploads(
        &mut self,
        engine: &Engine,
        (number, role): (usize, ServerRole),
        (round, message): (u64, Bytes),
    ) -> Result<Option<(u64, Bytes)>, Broken> {
        let kept = self.book.uploads(number, role, round, &message);
        self.check(engine, kept)?;
        Ok(self.perhaps_upload_other(number, (round, message)))
    }

    fn follower_says(
        &mut self,
        engine: &Engine,
        role: ServerRole,
        frame: &PartyFrame,
    ) -> Result<(), Broken> {
        self.note_word(engine, role, frame)
    }

    fn follower_takes(
        &mut self,
        engine: &Engine,
        role: ServerRole,
        round: u64,
    ) -> Result<(), Broken> {
        self.note_taken(engine, role, round)
    }

    fn coordinator_says(
        &mut self,
        to: Option<Who>,
        frame: CoordinatorFrame,
    ) -> Vec<CoordinatorFrame> {
        match to {
            Some(Who::Follower(role)) => self.perhaps_mislead_follower(role, frame),
            _ => self.perhaps_mislead(frame),
        }
    }

    fn reaches(&mut self, host: Who, frame: &CoordinatorFrame) {
        match (host, &frame.frame) {
            (Who::Party(number), Some(Frame::RoundStart(start))) => {
                self.book.starts_anew(number, start.round);
            }
            (Who::Party(number), Some(Frame::RoundDone(done))) => {
                self.book.announces(number, done.round, &done.result);
            }
            _ => {}
        }
    }

    fn letter(
        &mut self,
        engine: &Engine,
        (from, to): (ServerIndex, ServerIndex),
        round: u64,
        letter: Bytes,
    ) -> Result<Bytes, Broken> {
        let letter = match from == ServerIndex::ALL[0] {
            true => self.perhaps_mislead_server(letter),
            false => letter,
        };
        self.note_letter(engine, from, to, round, &letter)?;
        Ok(letter)
    }

    fn work_ends(&mut self, engine: &Engine, who: Who) -> Result<(), Broken> {
        let Who::Follower(role) = who else {
            return Ok(());
        };
        let opened = self.note_written(engine, role)?;
        if let Some(server) = self.servers.get_mut(&role) {
            server.opened = opened;
        }
        Ok(())
    }

    fn coordinator_over(
        &mut self,
        engine: &Engine,
        end: Result<(), JobError>,
    ) -> Result<(), Broken> {
        match end {
            Err(error) if self.setting.kind != Kind::LyingServer => {
                Err(self.broken(engine, format!("P5: the job fails: {error}")))
            }
            _ => Ok(()),
        }
    }

    fn follower_over(
        &mut self,
        engine: &Engine,
        role: ServerRole,
        end: Result<(), JobError>,
    ) -> Result<Option<Micros>, Broken> {
        self.server_over(engine, role, end)
    }

    fn party_over(
        &mut self,
        engine: &Engine,
        number: usize,
        over: Over,
    ) -> Result<Option<Micros>, Broken> {
        self.member_over(engine, number, over)
    }

    fn told(&mut self, engine: &Engine, number: usize, told: Told) -> Result<Answer, Broken> {
        self.tell(engine, number, told)
    }

    fn runs_errand(
        &mut self,
        engine: &Engine,
        number: usize,
        errand: Errand,
    ) -> Result<Vec<Input>, Broken> {
        self.do_errand(engine, number, errand)
    }
}
