//! The other servers of a job, where its protocol needs some. They connect to the coordinator as parties do, each for its
//! role; they are in no roster, and a round waits for them in the stages in which they speak.

use blindsum_protocol::ServerRole;
use tracing::info;

use super::api::{Effect, LinkId, Peer};
use super::arriving::check_hello;
use super::connections::{Connected, over};
use super::link::Link;
use super::state::State;
use crate::MAX_AHEAD;
use crate::pb::{self, RefusalCode};
use crate::report::JobState;
use crate::totals::LossCause;

/// The name of a key service in the coordinator's process. No certificate has it.
pub const KEY_SERVICE: &str = "key service";

/// What a server is told when another one has taken its place.
const ANOTHER_SERVER: &str =
    "another process with the certificate of this server has connected after this one";

/// Lets a server in, or says why not. The newer connection of one replaces its older one.
pub(super) fn admit_server(
    state: &mut State,
    id: LinkId,
    peer: Peer,
    role: ServerRole,
    hello: &pb::Hello,
) {
    let link = Link {
        id,
        peer,
        hand: state.context.hand.clone(),
    };
    let welcome = check_hello(hello, &link.peer.name).and_then(|()| {
        match state
            .context
            .parts
            .job
            .servers()
            .any(|needed| needed == role)
        {
            true if !is_of_job(state, role, &link.peer.name) => {
                let reason = format!("{} is not the {role} of this job", link.peer.name);
                Err(pb::Refused::new(RefusalCode::RefusalName, reason))
            }
            true => state.welcome_frame(),
            false => {
                let reason = format!("job {:?} needs no {role}", state.context.name);
                Err(pb::Refused::new(RefusalCode::RefusalUnknownJob, reason))
            }
        }
    });
    let welcome = match welcome {
        Ok(welcome) => welcome,
        Err(refusal) => return state.context.say(Effect::Refuse(id, refusal)),
    };
    info!(job = %state.context.name, server = %link.peer.name, %role, address = %link.peer.address,
        key_exchange = link.peer.traffic.key_exchange(), "server joined");
    (state.rounds).skip_to(&state.context.name, hello.last_round, MAX_AHEAD);
    state.context.say(Effect::Admit(id));
    link.frame(welcome.into());
    let (server, now) = (Connected::new(link, hello), state.context.now());
    if let Some(older) = state.connections.enter_server(role, server, now) {
        let last = pb::Refused::new(RefusalCode::RefusalReplaced, ANOTHER_SERVER);
        older.link.cut(last);
    }
    state.context.news();
    resume_server(state, role, hello);
    // guard: what-a-server-said-goes-with-its-process
    state.opened.begins_anew(role);
    if let Some(counted) = state.opened.last_counted() {
        (state.connections).tell_server(role, over(counted, "it has a result", true).into());
    }
    if state.phase.state() == JobState::Done {
        state.connections.tell_server(role, state.job_done().into());
    }
}

/// Whether a server is the one that the job names for its role, where it names one.
fn is_of_job(state: &State, role: ServerRole, name: &str) -> bool {
    match (role, state.context.spec().decryptor()) {
        (ServerRole::Decryptor, Some(host)) => name == host,
        (ServerRole::Decryptor, None) if state.context.job().needs_everybody() => {
            name == KEY_SERVICE
        }
        _ => true,
    }
}

/// A server that is in the round under way goes on in it; one that has lost its part in it does not come back to it.
fn resume_server(state: &mut State, role: ServerRole, hello: &pb::Hello) {
    let running = state.phase.running();
    let number = running
        .filter(|running| !running.is_gone(role))
        .map(|r| r.number());
    if let Some(number) = number {
        // guard: campaign-servers-come-back-to-no-round
        if number == hello.round {
            if let Some(mut delivery) = state.delivery() {
                delivery.start(role.into(), hello.answered);
            }
            return;
        }
        let reason = "started again without its state of the round";
        state.drop_seat(role.into(), LossCause::Restarted, reason);
    }
    if hello.round != 0 {
        (state.connections).tell_server(role, over(hello.round, "it is over", false).into());
    }
}
