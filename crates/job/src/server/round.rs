//! One round at the coordinator, from its offer to its result: the stages of the protocol, each until
//! everybody has answered or its deadline has passed.

use std::sync::Arc;

use blindsum_protocol::{Closed, Excuse, Message, Receipt, Round, RoundKind, Seat, Server};
use tracing::{debug, info};

use super::collecting::Collecting;
use super::counting::{count_abort, count_down};
use super::departed::{refusal_cause, refused_because};
use super::face::Gate;
use super::job::Event;
use super::phase::Phase;
use super::running::Running;
use super::trouble::needs_servers;
use super::{Halt, Lead};
use crate::pb::party_frame::Frame;
use crate::report::{RoundReport, RoundState};
use crate::totals::LossCause;
use crate::{seconds, server_name};

impl Lead {
    /// Runs one round. An error leaves the job ready for the next one, unless it says otherwise.
    pub(super) async fn run_round(&mut self) -> Result<(), Halt> {
        let version = self.models.current.version();
        let mut report = self.rounds.begin(&self.context, version).await?;
        // guard: sentences-in-rounds-begun-here
        self.bans.begin();
        self.members.forget_lost();
        let number = report.number;
        let result = match self.join(&mut report).await {
            Ok(round) => {
                report.key_setup = round.kind() == RoundKind::KeySetup;
                self.rounds.after_key_setup = report.key_setup;
                self.start_round(round.clone(), report.clone());
                let result = match self.write_began().await {
                    Ok(()) => self.run_stages(round).await,
                    Err(halt) => Err(halt),
                };
                if let Some(running) = self.phase.running() {
                    report = running.report.clone();
                }
                result
            }
            Err(halt) => Err(halt),
        };
        self.close_gate(number);
        let result = match self.calls.is_hosted {
            true => result,
            false => result.map_err(|halt| {
                let (running, needs_all) =
                    (self.phase.running(), self.context.job().needs_everybody());
                let bans = &mut self.bans;
                self.trouble.lost_with(running, bans, needs_all, halt)
            }),
        };
        let result = match result.map_err(|halt| self.waits_to_open(halt)) {
            Ok(()) => Ok(()),
            Err(Halt::Broken(error)) => {
                // The store may be what is broken; what matters is that the parties know.
                let reason = error.for_others();
                let halt = Halt::Broken(error);
                count_abort(&self.context, &self.certificates, &halt);
                let _ = self.abort(report, &reason).await;
                return Err(halt);
            }
            Err(halt) => {
                count_abort(&self.context, &self.certificates, &halt);
                self.abort(report, &self.why_aborted(number, &halt)).await?;
                Err(halt)
            }
        };
        self.bans.store(&self.context).await;
        result
    }

    /// The round has its roster: everybody in it is told.
    fn start_round(&mut self, round: Arc<Round>, mut report: RoundReport) {
        report.state = RoundState::Running;
        self.rounds.met = true;
        info!(job = %self.context.name, round = round.number(), parties = round.parties(),
            "round started");
        let members = round.roster().members().iter();
        let names: Vec<Arc<str>> = members.map(|m| Arc::from(m.name.as_str())).collect();
        self.trouble.begun();
        if round.kind() == RoundKind::Sum {
            self.bans.take_part(names.iter().cloned());
        }
        for name in &names {
            self.members.settle(name, None);
        }
        let running = Running::new(
            round.clone(),
            self.models.current.name(),
            report,
            self.operator.terms,
        );
        self.phase = Phase::Running(Box::new(running));
        // Who was still waited for while the round was offered is no news any more.
        self.publish(self.phase.report());
        self.open_gate(&round, 0);
        if let Some(mut delivery) = self.delivery() {
            delivery.start_all();
        }
    }

    /// Writes down that the round has its parties: whoever reads the store sees that they train, and who.
    async fn write_began(&self) -> Result<(), Halt> {
        let Some(report) = self.phase.report() else {
            return Ok(());
        };
        self.context
            .stored(move |store, job| store.round_began(job, &report))
            .await
    }

    async fn run_stages(&mut self, round: Arc<Round>) -> Result<(), Halt> {
        let number = round.number();
        let start = round.clone();
        let started = self.context.hand.work(move || Server::start(start)).await;
        let mut server = started?.map_err(|fault| self.ended_by(&fault))?;
        loop {
            let stage = server.waiting().stage;
            let Collecting {
                server: ended,
                shelf,
            } = self.run_stage(&round, server).await?;
            let mut rng = self.context.hand.random();
            let closed = self.context.hand.work(move || ended.close(&mut rng)).await;
            let closed = match closed? {
                Ok(closed) => closed,
                Err(fault) => {
                    self.found_out(number, fault.found()).await;
                    return Err(self.ended_by(&fault));
                }
            };
            match closed {
                Closed::Next {
                    server: next,
                    messages,
                    excused,
                } => {
                    count_down(&self.context, self.phase.running_mut(), &messages);
                    let after = next.waiting().stage;
                    self.open_gate(&round, after);
                    for Excuse { party, reason } in excused {
                        let reason = format!("left out by the protocol: {reason}");
                        self.drop_seat(party.into(), LossCause::Protocol, &reason);
                    }
                    // What is said where stages are skipped is said at the end of the last of them.
                    if let Some(mut delivery) = self.delivery() {
                        delivery.deliver_all(after.saturating_sub(1), messages, shelf);
                    }
                    server = next;
                    self.say_letters(number, &mut server);
                }
                Closed::Done { outcome, messages } => {
                    return self.finish_round(&round, stage, outcome, messages).await;
                }
            }
        }
    }

    /// Collects the answers of a stage.
    async fn run_stage(&mut self, round: &Round, server: Server) -> Result<Collecting, Halt> {
        let (begun, waiting) = (self.context.now(), server.waiting());
        let mut stage = Collecting::new(server, &*self.context.parts.shelves);
        let running = self.phase.running();
        let time = running.map_or(0.0, |running| running.deadline(waiting.stage));
        let deadline = self.context.now() + seconds(time);
        let grace = self.context.parts.settings.reconnect_grace;
        let number = round.number();
        let began_ms = self.context.unix_millis();
        self.with_running(|running| running.begin_stage(&waiting, began_ms));
        self.publish(self.phase.report());
        loop {
            needs_servers(self.phase.running())?;
            let (overdue, next) = match self.phase.running() {
                Some(running) if !running.is_settled(stage.server.is_computing()) => {
                    running.overdue(self.context.now(), grace)
                }
                _ => break,
            };
            if !overdue.is_empty() {
                for (seat, lost) in overdue {
                    let reason = self.why_lost(seat, lost.reason());
                    self.drop_seat(seat, lost.cause(), &reason);
                }
                // Perhaps nobody is missing now.
                continue;
            }
            if self.context.now() >= deadline {
                self.stage_is_over(round, waiting.stage, waiting.name, time)?;
                break;
            }
            let until = next.map_or(deadline, |next| next.min(deadline));
            if let Some(input) = self.next_input(Some(until)).await?
                && let Some(event) = self.handle(input).await
            {
                stage = self.round_event(number, stage, event).await?;
            }
        }
        let elapsed = self.context.now() - begun;
        self.with_running(|running| {
            if let Some(stage) = running.report.stages.last_mut() {
                stage.seconds = elapsed.as_secs_f64();
            }
        });
        let (name, seconds) = (waiting.name, elapsed.as_secs_f64());
        self.context
            .count(|totals| totals.stage_ended(name, seconds));
        let ms = elapsed.as_millis() as u64;
        info!(job = %self.context.name, round = number, stage = waiting.name, ms, "stage ended");
        Ok(stage)
    }

    /// The deadline has passed: who has not answered is out of the round. Where that is a server, or parties upload to servers and
    /// too few do, the round is, and nobody says that parties are to blame.
    fn stage_is_over(
        &mut self,
        round: &Round,
        stage: u8,
        name: &str,
        time: f64,
    ) -> Result<(), Halt> {
        let uploads = round.servers().any(|role| role.place().is_some())
            && round.plan().answer(stage).is_some_and(|step| step.input);
        if let Some(running) = self.phase.running().filter(|_| uploads)
            && let (have, need) = running.answers()
            && have < need
        {
            let reason = format!(
                "only {have} of the {need} uploads that the round needs came within {time} s: a party answers once the \
                 other servers have its upload, so one of these may not answer"
            );
            let number = round.number();
            let whom = format!("waiting for the other servers, without uploads in round {number}");
            return Err(Halt::Waits { whom, reason });
        }
        let reason = format!("no answer to stage {name} within {time} s");
        let silent = self.phase.running().map(Running::silent);
        for seat in silent.unwrap_or_default() {
            // guard: lost-parties-are-dropped
            self.drop_seat(seat, LossCause::Deadline, &reason);
        }
        needs_servers(self.phase.running())
    }

    async fn round_event(
        &mut self,
        number: u64,
        stage: Collecting,
        event: Event,
    ) -> Result<Collecting, Halt> {
        match event {
            Event::Answer {
                seat,
                round,
                message,
                hold,
            } if round == number => {
                let stage = self.take(number, stage, seat, message).await;
                drop(hold);
                stage
            }
            Event::Frame {
                name,
                frame: Frame::RoundRefused(refusal),
            } if refusal.round == number => {
                let party = self.phase.running().and_then(|running| running.id(&name));
                if let Some(party) = party {
                    let reason = refused_because(&refusal);
                    let cause = refusal_cause(&refusal);
                    if let (true, Some(running)) =
                        (cause.is_sitting_out(), self.phase.running_mut())
                    {
                        running.gives_no_update(&name);
                    }
                    self.accuse(number, &name, &refusal).await;
                    if let Some(mut delivery) = self.delivery() {
                        delivery.leave_round(party, cause, &reason);
                    }
                }
                Ok(stage)
            }
            Event::Letter {
                from,
                round,
                letter,
            } if round == number => self.hear(number, stage, from, letter).await,
            // guard: campaign-lost-lines-end-the-round
            Event::LineLost { to, reason } if stage.server.is_computing() => {
                let to = server_name(to);
                let whom =
                    format!("waiting for {to}, the line to which was lost in round {number}");
                let reason =
                    format!("the line to {to} was lost while the servers computed: {reason}");
                Err(Halt::Waits { whom, reason })
            }
            Event::Unreadable { round, reason } if round == number => Err(Halt::Aborted(reason)),
            _ => Ok(stage),
        }
    }

    /// Folds one answer in.
    async fn take(
        &mut self,
        number: u64,
        mut stage: Collecting,
        seat: Seat,
        message: Message,
    ) -> Result<Collecting, Halt> {
        let Some(running) = self.phase.running().filter(|r| !r.is_gone(seat)) else {
            return Ok(stage);
        };
        let (name, bytes) = (running.label(seat), message.len());
        let taken = self.context.hand.work(move || {
            let receipt = stage.receive(seat, message);
            (stage, receipt)
        });
        let (mut stage, receipt) = taken.await?;
        self.say_notices(number, &mut stage.server);
        match receipt.map_err(|e| Halt::Aborted(e.to_string()))? {
            Ok(Receipt::Taken) => {
                debug!(job = %self.context.name, round = number, from = %name, bytes, "answer taken");
                self.with_running(|running| running.answered(seat, bytes));
                self.context
                    .count(|totals| totals.message_bytes.0 += bytes as u64);
                self.context.news();
            }
            Ok(Receipt::Repeated) => {}
            Err(fault) => self.refuse_answer(number, seat, &name, &fault).await,
        }
        Ok(stage)
    }

    /// Lets the answers of a stage in.
    fn open_gate(&self, round: &Round, stage: u8) {
        let running = self.phase.running();
        let members = running.map(|running| running.members(stage));
        let time = running.map_or(0.0, |running| running.deadline(stage));
        let step = round.plan().answer(stage);
        self.context.board.set_gate(Gate {
            round: round.number(),
            stage: stage.into(),
            limit: step.map_or(0, |step| step.largest),
            time: seconds(time),
            members: Arc::new(members.unwrap_or_default()),
        });
    }

    /// Whatever comes for this round from now on comes too late.
    fn close_gate(&self, round: u64) {
        self.context.board.set_gate(Gate::closed(round));
    }

    fn with_running(&mut self, change: impl FnOnce(&mut Running)) {
        if let Some(running) = self.phase.running_mut() {
            change(running);
        }
    }
}
