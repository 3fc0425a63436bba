//! One round at the coordinator, from its offer to its result: the stages of the protocol, each until
//! everybody has answered or its deadline has passed.

use std::sync::Arc;

use blindsum_protocol::{Closed, Excuse, Message, Receipt, Round, RoundKind, Seat, Server};
use tracing::{debug, info};

use super::api::Gate;
use super::collecting::Collecting;
use super::concluding::{abort, why_aborted};
use super::context::Context;
use super::counting::{count_abort, count_down};
use super::departed::{refusal_cause, refused_because};
use super::faults::{accuse, ended_by, found_out, refuse_answer};
use super::handling::Event;
use super::phase::Phase;
use super::running::Running;
use super::state::State;
use super::talking::{hear, say_letters, say_notices};
use super::trouble::needs_servers;
use super::{Coordinator, Halt};
use crate::pb::party_frame::Frame;
use crate::report::{RoundReport, RoundState};
use crate::totals::LossCause;
use crate::{seconds, server_name};

impl Coordinator {
    /// Runs one round. An error leaves the job ready for the next one, unless it says otherwise.
    pub(super) async fn run_round(&mut self) -> Result<(), Halt> {
        let version = self.state.models.current.version();
        let mut report = self
            .state
            .rounds
            .begin(&self.state.context, version)
            .await?;
        // guard: sentences-in-rounds-begun-here
        self.state.back_off.conduct.begin();
        self.state.connections.forget_lost();
        let number = report.number;
        let result = match self.join(&mut report).await {
            Ok(round) => {
                report.key_setup = round.kind() == RoundKind::KeySetup;
                self.state.rounds.after_key_setup = report.key_setup;
                start_round(&mut self.state, round.clone(), report.clone());
                let result = match write_began(&self.state).await {
                    Ok(()) => self.run_stages(round).await,
                    Err(halt) => Err(halt),
                };
                if let Some(running) = self.state.phase.running() {
                    report = running.report.clone();
                }
                result
            }
            Err(halt) => Err(halt),
        };
        close_gate(&self.state.context, number);
        let result = match self.state.calls.is_hosted {
            true => result,
            false => result.map_err(|halt| {
                let (running, needs_all) = (
                    self.state.phase.running(),
                    self.state.context.job().needs_everybody(),
                );
                let back_off = &mut self.state.back_off;
                self.state
                    .trouble
                    .lost_with(running, back_off, needs_all, halt)
            }),
        };
        let result = match result.map_err(|halt| self.state.opened.explain(halt)) {
            Ok(()) => Ok(()),
            Err(Halt::Broken(error)) => {
                // The store may be what is broken; what matters is that the parties know.
                let reason = error.for_others();
                let halt = Halt::Broken(error);
                count_abort(&self.state.context, &self.state.certificates, &halt);
                let _ = abort(&mut self.state, report, &reason).await;
                return Err(halt);
            }
            Err(halt) => {
                count_abort(&self.state.context, &self.state.certificates, &halt);
                let reason = why_aborted(&self.state, number, &halt);
                abort(&mut self.state, report, &reason).await?;
                Err(halt)
            }
        };
        self.state.back_off.store(&self.state.context).await;
        result
    }

    async fn run_stages(&mut self, round: Arc<Round>) -> Result<(), Halt> {
        let number = round.number();
        let start = round.clone();
        let started = self
            .state
            .context
            .hand
            .work(move || Server::start(start))
            .await;
        let mut server = started?.map_err(|fault| ended_by(&mut self.state, &fault))?;
        loop {
            let stage = server.waiting().stage;
            let Collecting {
                server: ended,
                shelf,
            } = self.run_stage(&round, server).await?;
            let mut rng = self.state.context.hand.random();
            let closed = self
                .state
                .context
                .hand
                .work(move || ended.close(&mut rng))
                .await;
            let closed = match closed? {
                Ok(closed) => closed,
                Err(fault) => {
                    found_out(&mut self.state, number, fault.found()).await;
                    return Err(ended_by(&mut self.state, &fault));
                }
            };
            match closed {
                Closed::Next {
                    server: next,
                    messages,
                    excused,
                } => {
                    count_down(
                        &self.state.context,
                        self.state.phase.running_mut(),
                        &messages,
                    );
                    let after = next.waiting().stage;
                    open_gate(&self.state, &round, after);
                    for Excuse { party, reason } in excused {
                        let reason = format!("left out by the protocol: {reason}");
                        self.state
                            .drop_seat(party.into(), LossCause::Protocol, &reason);
                    }
                    // What is said where stages are skipped is said at the end of the last of them.
                    if let Some(mut delivery) = self.state.delivery() {
                        delivery.deliver_all(after.saturating_sub(1), messages, shelf);
                    }
                    server = next;
                    say_letters(&self.state.context, number, &mut server);
                }
                Closed::Done { outcome, messages } => {
                    return self.finish_round(&round, stage, outcome, messages).await;
                }
            }
        }
    }

    /// Collects the answers of a stage.
    async fn run_stage(&mut self, round: &Round, server: Server) -> Result<Collecting, Halt> {
        let (begun, waiting) = (self.state.context.now(), server.waiting());
        let mut stage = Collecting::new(server, &*self.state.context.parts.shelves);
        let running = self.state.phase.running();
        let time = running.map_or(0.0, |running| running.deadline(waiting.stage));
        let deadline = self.state.context.now() + seconds(time);
        let grace = self.state.context.grace();
        let number = round.number();
        let began_ms = self.state.context.unix_millis();
        with_running(&mut self.state, |running| {
            running.begin_stage(&waiting, began_ms)
        });
        self.state.publish(self.state.phase.report());
        loop {
            needs_servers(self.state.phase.running())?;
            let (overdue, next) = match self.state.phase.running() {
                Some(running) if !running.is_settled(stage.server.is_computing()) => {
                    running.overdue(self.state.context.now(), grace)
                }
                _ => break,
            };
            if !overdue.is_empty() {
                for (seat, lost) in overdue {
                    let reason = why_lost(&self.state, seat, lost.reason());
                    self.state.drop_seat(seat, lost.cause(), &reason);
                }
                // Perhaps nobody is missing now.
                continue;
            }
            if self.state.context.now() >= deadline {
                stage_is_over(&mut self.state, round, waiting.stage, waiting.name, time)?;
                break;
            }
            let until = next.map_or(deadline, |next| next.min(deadline));
            if let Some(event) = self.next_event(Some(until)).await? {
                stage = round_event(&mut self.state, number, stage, event).await?;
            }
        }
        let elapsed = self.state.context.now() - begun;
        with_running(&mut self.state, |running| {
            if let Some(stage) = running.report.stages.last_mut() {
                stage.seconds = elapsed.as_secs_f64();
            }
        });
        let (name, seconds) = (waiting.name, elapsed.as_secs_f64());
        self.state
            .context
            .count(|totals| totals.stage_ended(name, seconds));
        let ms = elapsed.as_millis() as u64;
        info!(job = %self.state.context.name, round = number, stage = waiting.name, ms, "stage ended");
        Ok(stage)
    }
}

/// The round has its roster: everybody in it is told.
fn start_round(state: &mut State, round: Arc<Round>, mut report: RoundReport) {
    report.state = RoundState::Running;
    state.rounds.met = true;
    info!(job = %state.context.name, round = round.number(), parties = round.parties(),
        "round started");
    let members = round.roster().members().iter();
    let names: Vec<Arc<str>> = members.map(|m| Arc::from(m.name.as_str())).collect();
    state.trouble.begun();
    if round.kind() == RoundKind::Sum {
        state
            .back_off
            .conduct
            .took_part(&names.iter().cloned().collect());
    }
    for name in &names {
        state.connections.settle(name, None);
    }
    let running = Running::new(
        round.clone(),
        state.models.current.name(),
        report,
        state.operator.terms,
    );
    state.phase = Phase::Running(Box::new(running));
    // Who was still waited for while the round was offered is no news any more.
    state.publish(state.phase.report());
    open_gate(state, &round, 0);
    if let Some(mut delivery) = state.delivery() {
        delivery.start_all();
    }
}

/// The deadline has passed: who has not answered is out of the round. Where that is a server, or parties upload to servers and
/// too few do, the round is, and nobody says that parties are to blame.
fn stage_is_over(
    state: &mut State,
    round: &Round,
    stage: u8,
    name: &str,
    time: f64,
) -> Result<(), Halt> {
    let uploads = round.servers().any(|role| role.place().is_some())
        && round.plan().answer(stage).is_some_and(|step| step.input);
    if let Some(running) = state.phase.running().filter(|_| uploads)
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
    let silent = state.phase.running().map(Running::silent);
    for seat in silent.unwrap_or_default() {
        // guard: lost-parties-are-dropped
        state.drop_seat(seat, LossCause::Deadline, &reason);
    }
    needs_servers(state.phase.running())
}

async fn round_event(
    state: &mut State,
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
            let stage = take(state, number, stage, seat, message).await;
            drop(hold);
            stage
        }
        Event::Frame {
            name,
            frame: Frame::RoundRefused(refusal),
        } if refusal.round == number => {
            let party = state.phase.running().and_then(|running| running.id(&name));
            if let Some(party) = party {
                let reason = refused_because(&refusal);
                let cause = refusal_cause(&refusal);
                if let (true, Some(running)) = (cause.is_sitting_out(), state.phase.running_mut()) {
                    running.gives_no_update(&name);
                }
                accuse(state, number, &name, &refusal).await;
                if let Some(mut delivery) = state.delivery() {
                    delivery.leave_round(party, cause, &reason);
                }
            }
            Ok(stage)
        }
        Event::Letter {
            from,
            round,
            letter,
        } if round == number => hear(state, number, stage, from, letter).await,
        // guard: campaign-lost-lines-end-the-round
        Event::LineLost { to, reason } if stage.server.is_computing() => {
            let to = server_name(to);
            let whom = format!("waiting for {to}, the line to which was lost in round {number}");
            let reason = format!("the line to {to} was lost while the servers computed: {reason}");
            Err(Halt::Waits { whom, reason })
        }
        Event::Unreadable { round, reason } if round == number => Err(Halt::Aborted(reason)),
        _ => Ok(stage),
    }
}

/// Folds one answer in.
async fn take(
    state: &mut State,
    number: u64,
    mut stage: Collecting,
    seat: Seat,
    message: Message,
) -> Result<Collecting, Halt> {
    let Some(running) = state.phase.running().filter(|r| !r.is_gone(seat)) else {
        return Ok(stage);
    };
    let (name, bytes) = (running.label(seat), message.len());
    let taken = state.context.hand.work(move || {
        let receipt = stage.receive(seat, message);
        (stage, receipt)
    });
    let (mut stage, receipt) = taken.await?;
    say_notices(&state.context, number, &mut stage.server);
    match receipt.map_err(|e| Halt::Aborted(e.to_string()))? {
        Ok(Receipt::Taken) => {
            debug!(job = %state.context.name, round = number, from = %name, bytes, "answer taken");
            with_running(state, |running| running.answered(seat, bytes));
            state
                .context
                .count(|totals| totals.message_bytes.0 += bytes as u64);
            state.context.news();
        }
        Ok(Receipt::Repeated) => {}
        Err(fault) => refuse_answer(state, number, seat, &name, &fault).await,
    }
    Ok(stage)
}

/// Lets the answers of a stage in.
fn open_gate(state: &State, round: &Round, stage: u8) {
    let running = state.phase.running();
    let members = running.map(|running| running.members(stage));
    let time = running.map_or(0.0, |running| running.deadline(stage));
    let step = round.plan().answer(stage);
    state.context.board.set_gate(Gate {
        round: round.number(),
        stage: stage.into(),
        limit: step.map_or(0, |step| step.largest),
        time: seconds(time),
        members: Arc::new(members.unwrap_or_default()),
    });
}

/// Whatever comes for this round from now on comes too late.
fn close_gate(context: &Context, round: u64) {
    context.board.set_gate(Gate::closed(round));
}

/// Writes down that the round has its parties: whoever reads the store sees that they train, and who.
async fn write_began(state: &State) -> Result<(), Halt> {
    let Some(report) = state.phase.report() else {
        return Ok(());
    };
    state
        .context
        .stored(move |store, job| store.round_began(job, &report))
        .await
}

/// Why somebody of the round is not waited for any more.
fn why_lost(state: &State, seat: Seat, reason: &str) -> String {
    match (seat, state.phase.running()) {
        (Seat::Party(party), Some(running)) => {
            let name = running.name(party);
            let reported = state.calls.why_out(name);
            reported.unwrap_or_else(|| state.connections.departed.reason(name, reason))
        }
        _ => reason.into(),
    }
}

fn with_running(state: &mut State, change: impl FnOnce(&mut Running)) {
    if let Some(running) = state.phase.running_mut() {
        change(running);
    }
}
