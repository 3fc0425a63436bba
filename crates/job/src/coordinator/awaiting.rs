//! A round is offered: the coordinator waits until the parties are ready that it needs.

use std::sync::Arc;
use std::time::Duration;

use blindsum_protocol::{KeyName, Tag};
use tracing::warn;

use super::api::Choice;
use super::back_off::Out;
use super::gathering::out_of_patience;
use super::handling::Event;
use super::offered::ReadyParty;
use super::state::State;
use super::{Coordinator, Halt};
use crate::machine::Time;
use crate::pb::party_frame::Frame;
use crate::{foreign, pb, seconds};

/// How long a coordinator that was started again waits for further parties, each time that one has come.
const COMING_BACK: Duration = Duration::from_millis(2500);

impl Coordinator {
    /// Until everybody is ready, or the deadline has passed and enough are. The job gives up where
    /// not enough can be, or where it takes too long.
    pub(super) async fn collect_ready(&mut self, number: u64) -> Result<(), Halt> {
        let (context, terms) = (&self.state.context, self.state.operator.terms);
        let deadline = context.now() + seconds(terms.join_deadline);
        let grace = context.grace();
        while let Some(until) = waits_until(&self.state, deadline, grace)? {
            if let Some(event) = self.next_event(Some(until)).await? {
                joining_event(&mut self.state, number, event);
            }
            self.state.may_begin()?;
        }
        Ok(())
    }

    /// Until everybody who was called is ready, or is not waited for.
    pub(super) async fn collect_called(&mut self, number: u64) -> Result<(), Halt> {
        let grace = self.state.context.grace();
        let least = self.state.context.least_roster();
        loop {
            let now = self.state.context.now();
            let (Some(joining), Some(call)) =
                (self.state.phase.offered(), &mut self.state.calls.call)
            else {
                return Ok(());
            };
            let ready = joining.count();
            let (awaited, next) = call.awaited(joining, now, grace);
            let root = self.state.context.spec().root();
            let is_lost = |root: &str| call.why_lost(root).is_some();
            if ready + awaited.len() < least || root.is_some_and(is_lost) {
                let reason = call.too_few(ready + awaited.len(), least, root);
                return Err(Halt::Aborted(reason));
            }
            let (join_until, within) = (call.join_until, call.join_within);
            let has_needed = self.state.connections.has_needed(self.state.context.job());
            if awaited.is_empty() && has_needed {
                return Ok(());
            }
            if now >= join_until {
                if !has_needed {
                    return Err(Halt::Aborted(
                        self.state
                            .connections
                            .lacks_needed(self.state.context.job()),
                    ));
                }
                for name in awaited {
                    let what = match self.state.connections.has(&name) {
                        true => "was not ready",
                        false => "did not come",
                    };
                    let reason = format!("it {what} within {within} s");
                    self.state.leave_out(number, &name, &reason);
                }
                continue;
            }
            let until = next.map_or(join_until, |next| next.min(join_until));
            if let Some(event) = self.next_event(Some(until)).await? {
                joining_event(&mut self.state, number, event);
            }
            self.state.may_begin()?;
        }
    }
}

/// Until when the round that is offered waits for further parties; `None` where it begins. The job gives up where not
/// enough can be ready, or where it takes too long.
fn waits_until(state: &State, deadline: Time, grace: Duration) -> Result<Option<Time>, Halt> {
    let (context, now) = (&state.context, state.context.now());
    let (least, most) = (context.least_roster(), context.spec().parties as usize);
    let Some(joining) = state.phase.offered() else {
        return Ok(None);
    };
    // Where there are not enough without them, those that should sit out take part.
    let sits_out = |name: &&Arc<str>| state.back_off.sits_out(name).is_some();
    let out = joining.names().filter(sits_out).count();
    let is_lossy = |name: &&Arc<str>| sits_out(name) && state.back_off.why_out(name) == Out::Lossy;
    let lossy = joining.names().filter(is_lossy).count();
    let all = joining.count();
    let ready = match now >= deadline {
        true => all,
        false => all - out,
    };
    // Nothing begins without the other servers and the root, which may have gone since the round was offered.
    let root = context.spec().root();
    let has_needed =
        state.connections.has_needed(context.job()) && root.is_none_or(|root| joining.has(root));
    // A choice is one of all that are here.
    let is_full = ready >= most && context.settings().choice == Choice::First;
    if has_needed && (is_full || (ready >= least && now >= deadline)) {
        return Ok(None);
    }
    let refused = joining.refused().count();
    if refused > 0 && state.connections.len() - refused < least && now >= deadline {
        let reasons = joining.refusals();
        return Err(Halt::Aborted(format!("refused by parties: {reasons}")));
    }
    if now >= state.patience {
        return Err(match ready < least || has_needed {
            true => out_of_patience(state, "ready", ready),
            false => Halt::Ended(state.connections.lacks_needed(context.job())),
        });
    }
    // Once parties have met, whoever is there is whom to wait for; somebody who has just
    // gone gets the time to come back, and after a restart everybody does.
    let settled = match state.rounds.done_here {
        0 => state.connections.changed() + COMING_BACK,
        _ => state.connections.changed() + grace,
    };
    // Who waits for a model that nobody can seal who is ready cannot become ready, once everybody else is; but
    // for who has just refused one, whose word that it is ready without is on its way.
    let sealed = &state.models.sealed;
    let in_vain = |name: &str| sealed.waits_in_vain(name, joining.holders());
    let away = |name: &&Arc<str>| {
        joining.is_open(name) && (state.back_off.conduct.is_slow(name) || in_vain(name))
    };
    let away = state.connections.names().filter(away).count();
    // Those with which rounds were lost are in where it takes them, and nobody else is here to be waited for.
    let enough = ready >= least || all - out + lossy >= least;
    let everybody = enough && all + refused + away == state.connections.len();
    // guard: campaign-no-waiting-for-the-absent
    let complete = everybody && state.rounds.met;
    if has_needed && complete && now >= settled {
        return Ok(None);
    }
    Ok(Some(match (complete, now < deadline) {
        _ if !has_needed => state.patience,
        (true, true) => settled.min(deadline),
        (false, true) => deadline,
        (_, false) => state.patience,
    }))
}

fn joining_event(state: &mut State, number: u64, event: Event) {
    match event {
        Event::Frame {
            name,
            frame: Frame::Ready(ready),
        } if ready.round == number && state.calls.is_called(&name) => {
            becomes_ready(state, name, ready);
        }
        Event::Frame {
            name,
            frame: Frame::RoundRefused(refusal),
        } if refusal.round == number => {
            let reason = foreign(&refusal.reason);
            if let Some(joining) = state.phase.offered_mut() {
                // guard: a-refusal-is-one-line
                if joining.refuses(&name, reason.clone()) {
                    warn!(job = %state.context.name, round = number, party = %name, %reason, "round refused");
                }
            }
        }
        _ => {}
    }
}

fn becomes_ready(state: &mut State, name: Arc<str>, ready: pb::Ready) {
    let (said, not_said, what) = match state.context.job().commits_nonces() {
        true => (ready.commitment, ready.nonce, "commitment"),
        false => (ready.nonce, ready.commitment, "nonce"),
    };
    let Some(nonce) = said.try_into().ok().filter(|_| not_said.is_empty()) else {
        let reason = format!(
            "Ready: in this job it must have a {what} of 32 bytes, and of nonce and commitment nothing else"
        );
        return state.refuse(&name, &reason);
    };
    let key_id = ready.key_id;
    if !(key_id.is_empty() || key_id.len() == size_of::<KeyName>()) {
        return state.refuse(&name, "Ready: the key_id must have 0 or 16 bytes");
    }
    let tag = state.calls.tag();
    if (ready.tag, &ready.about) != (tag.map(|tag| tag.number), &Tag::about_bytes(tag)) {
        let reason = match (ready.tag, ready.about.is_empty()) {
            (None, _) => "its program knows of no tags of rounds: update it",
            (Some(_), true) if tag.is_some_and(|tag| Some(tag.number) == ready.tag) => {
                "its program does not know what a round may be about: update it"
            }
            _ => "it is ready for another tag than that of the round",
        };
        state.calls.without(&name, reason);
        return state.connections.tell_dropped(ready.round, &name, reason);
    }
    state.back_off.conduct.is_ready(&name);
    state.calls.ready(&name);
    if let Some(joining) = state.phase.offered_mut() {
        joining.ready(ReadyParty {
            name,
            nonce,
            key_id,
            lacks_model: ready.lacks_model,
        });
    }
    (state.models.sealed).ask(&state.context, &state.connections, state.phase.offered());
    state.context.news();
}
