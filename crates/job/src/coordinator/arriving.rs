//! A party connects: whether it is let in, and what it needs to go on with a round, or to hear how one ended.

use std::sync::Arc;

use blindsum_protocol::Tag;
use tracing::info;

use super::api::{Effect, LinkId, Peer};
use super::connections::Connected;
use super::ended::{Ended, Told};
use super::link::Link;
use super::nonces::{send_fixed, will_not_open};
use super::presence::ANOTHER_PROCESS;
use super::running::Running;
use super::state::State;
use crate::foreign;
use crate::pb::{self, RefusalCode};
use crate::report::JobState;
use crate::totals::LossCause;

/// The most characters of what a party says of where it is.
pub const LONGEST_LOCATION: usize = 64;

/// Rounds that are skipped at most where a party knows of later ones.
const MAX_SKIPPED: u64 = 1000;

/// A party that connects.
pub(super) struct Arrival {
    name: Arc<str>,
    hello: pb::Hello,
}

impl Arrival {
    /// Lets a party in, or says why not.
    pub async fn admit(state: &mut State, id: LinkId, peer: Peer, hello: pb::Hello) {
        let (name, hand) = (peer.name.clone(), state.context.hand.clone());
        let (link, arrival) = (Link { id, peer, hand }, Self { name, hello });
        match arrival.welcome(state, &link) {
            Ok(welcome) => {
                state.context.say(Effect::Admit(id));
                link.frame(welcome.into());
                arrival.enter(state, link).await;
            }
            Err(refusal) => state.context.say(Effect::Refuse(id, refusal)),
        }
    }

    /// What a party hears that is let in. The newer connection of one party replaces its older one; [`Presence`] says
    /// which one is newer, and refuses a second party with the same name.
    ///
    /// [`Presence`]: super::presence::Presence
    fn welcome(&self, state: &mut State, link: &Link) -> Result<pb::Welcome, pb::Refused> {
        let Self { name, hello } = self;
        check_hello(hello, name)?;
        // guard: failed-jobs-tell-their-latest-sum
        if state.phase.state().has_broken_off() && !state.ended.owes(name, hello.round) {
            return Err(state.job_failed());
        }
        let is_in_round = state.phase.is_in_round(name);
        let unfit = (state.certificates).unfit(&state.context, &link.peer, is_in_round);
        // guard: a-banned-party-is-not-let-in
        if let Some(refusal) = unfit.or_else(|| state.banned(name)) {
            return Err(refusal);
        }
        let grace = state.context.grace();
        let is_another = state.connections.judge(hello, link, grace)?;
        // guard: another-process-gets-the-model
        if is_another {
            state.models.sealed.forget_process(name);
        }
        if let Some(older) = state.connections.get(name).map(|member| &member.link) {
            let reason = match older.peer.certificate == link.peer.certificate {
                _ if is_another => ANOTHER_PROCESS,
                false => "its certificate was renewed: it has a new connection",
                true => "the same process has a newer connection",
            };
            let last = pb::Refused::new(RefusalCode::RefusalReplaced, reason);
            older.cut(last);
            state.connections.settle(name, state.phase.running_mut());
        }
        info!(job = %state.context.name, party = %name, address = %link.peer.address,
            key_exchange = link.peer.traffic.key_exchange(), program = %foreign(&hello.program), "party joined");
        state.welcome_frame()
    }

    /// A party has been let in.
    async fn enter(&self, state: &mut State, link: Link) {
        let Self { name, hello } = self;
        (state.rounds).skip_to(&state.context.name, hello.last_round, MAX_SKIPPED);
        link.grant();
        let member = Connected::new(link, hello);
        state.connections.enter(name, member, state.context.now());
        (state.connections).watch_crowd(&state.context, state.calls.is_hosted);
        self.greet(state).await;
        // guard: who-was-asked-for-the-model-may-be-gone
        // What went over an older connection may be lost.
        state.forget_source(name);
        state.context.news();
    }

    /// What a party that has just connected needs to go on.
    async fn greet(&self, state: &mut State) {
        let Self { name, hello } = self;
        if !self.resume_opening(state) {
            self.resume(state).await;
        }
        let Some(member) = state.connections.get(name) else {
            return;
        };
        if state.phase.state() == JobState::Done {
            member.link.frame(state.job_done().into());
        }
        let is_called = state.calls.is_called(name);
        if let Some(joining) = state.phase.offered_mut().filter(|_| is_called) {
            if hello.round != joining.number {
                joining.forget(name);
            }
            let round = joining.number;
            let offer = state.models.offer(round, state.calls.tag());
            member.link.frame(offer.into());
        }
        self.call_came(state);
    }

    /// A party connects that says it is in a round: it goes on, or hears how the round ended.
    async fn resume(&self, state: &mut State) {
        let Self { name, hello } = self;
        let place = state.phase.running().and_then(|running| {
            let party = running.id(name)?;
            let gone = running.place(party.into())?.gone.as_ref();
            let out = gone
                .filter(|gone| gone.told)
                .map(|gone| (gone.reason.clone(), gone.may_count));
            Some((running.number(), party, out))
        });
        match place {
            Some((round, party, None)) if round == hello.round => {
                if let Some(mut delivery) = state.delivery() {
                    delivery.resume(party, hello.answered);
                }
                return;
            }
            Some((round, _, Some((reason, may_count)))) if round == hello.round => {
                return state.connections.tell_gone(round, name, &reason, may_count);
            }
            Some((_, party, None)) => {
                let reason =
                    "started again before its update was out, or without its state of the round";
                if let Some(mut delivery) = state.delivery() {
                    delivery.leave_round(party, LossCause::Restarted, reason);
                }
            }
            _ => {}
        }
        (state.ended).forget_hearer(name, hello.round, state.context.now());
        let running = state.phase.running().map(Running::number);
        if place.is_none() && running == Some(hello.round) {
            let reason = "the round began without this party: it was not known to be ready";
            return state.connections.tell_dropped(hello.round, name, reason);
        }
        let joining = state.phase.offered().map(|joining| joining.number);
        if hello.round != 0
            && Some(hello.round) != joining
            // guard: results-for-those-that-come-back
            && !self.send_end(state)
        {
            Ended::send_past(&state.context, &state.connections, name, hello.round).await;
        }
    }

    /// A party that has come back asks for the end of a round; false where it is not known any more.
    fn send_end(&self, state: &mut State) -> bool {
        let Self { name, hello } = self;
        let place = (hello.round, hello.answered);
        let (context, members) = (&state.context, &mut state.connections);
        let told = state.ended.send_end(context, members, name, place);
        if told == Some(Told::Out) {
            state.leave_failed(name);
        }
        told.is_some()
    }

    /// A party connects while nonces are opened; true where it needs no more words about a round.
    fn resume_opening(&self, state: &mut State) -> bool {
        let (name, round) = (&self.name, self.hello.round);
        let Some(opening) = state.phase.fixed_mut() else {
            return false;
        };
        let is_now = opening.number == round;
        match (opening.has(name), is_now) {
            (true, true) => send_fixed(state, name),
            (true, false) => {
                // Its nonce lived in the process that drew it.
                let reason = "it was started again without its nonce";
                will_not_open(state, name, reason.into());
            }
            (false, true) => {
                let reason = "the roster was fixed without this party";
                state.connections.tell_dropped(round, name, reason);
            }
            (false, false) => return false,
        }
        is_now
    }

    /// A party has connected, and says that it is in this round. One that was called and comes after its sum has begun hears
    /// so.
    fn call_came(&self, state: &mut State) {
        let (name, in_round) = (&self.name, self.hello.round);
        if let Some((round, tag, reason)) = state.calls.over_without(name, in_round) {
            self.tell_begun_without(state, (round, tag), &reason);
            return;
        }
        let is_late = (state.phase).began_without(name, state.rounds.after_key_setup);
        let Some(call) = state.calls.naming(name) else {
            return;
        };
        if !is_late {
            call.away.remove(name);
            call.gone.remove(name);
            call.came.insert(name.clone());
            return;
        }
        if in_round == call.round {
            return;
        }
        let (round, why) = (call.round, call.why_lost(name));
        let reason = why
            .unwrap_or("the round began without this party: it came too late")
            .to_owned();
        self.tell_begun_without(state, (round, state.calls.tag()), &reason);
    }

    /// A party that waits for a tag hears that the round with it began without the party.
    fn tell_begun_without(&self, state: &State, (round, tag): (u64, Option<Tag>), reason: &str) {
        let name = &self.name;
        if let Some(member) = state.connections.get(name) {
            let offer = state.models.offer(round, tag);
            member.link.frame(offer.into());
        }
        state.connections.tell_dropped(round, name, reason);
    }
}

/// Whether both speak one version of the wire, and the party is who its certificate says.
pub(super) fn check_hello(hello: &pb::Hello, name: &str) -> Result<(), pb::Refused> {
    let (first, last) = pb::WIRE_VERSIONS.into_inner();
    // guard: versions-meet
    if hello.first_version > last || hello.last_version < first {
        let reason = format!(
            "{} speaks wire versions {first} to {last}, {} speaks {} to {}: update the older one",
            pb::PROGRAM,
            foreign(&hello.program),
            hello.first_version,
            hello.last_version
        );
        return Err(pb::Refused::new(RefusalCode::RefusalVersion, reason));
    }
    if hello.location.chars().count() > LONGEST_LOCATION
        || hello.location.chars().any(char::is_control)
    {
        let rule = format!("location: must be a text of at most {LONGEST_LOCATION} characters");
        return Err(pb::Refused::new(RefusalCode::RefusalBadFrame, rule));
    }
    // guard: parties-are-called-as-certified
    if hello.name != name {
        let reason = format!(
            "the party calls itself {:?}, its certificate is that of {name:?}",
            foreign(&hello.name)
        );
        return Err(pb::Refused::new(RefusalCode::RefusalName, reason));
    }
    Ok(())
}
