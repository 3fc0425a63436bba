//! What the coordinator and the servers that compute with it say to each other in a round.

use blindsum_protocol::{Message, Server, ServerIndex};
use bytes::Bytes;

use super::Halt;
use super::api::Effect;
use super::collecting::Collecting;
use super::context::Context;
use super::faults::ended_by;
use super::state::State;

/// Hears a server that computes with this one, and says what follows from it.
pub(super) async fn hear(
    state: &mut State,
    number: u64,
    mut stage: Collecting,
    from: ServerIndex,
    letter: Bytes,
) -> Result<Collecting, Halt> {
    // What a server tells of uploads, perhaps late, says nothing about who is slow to compute.
    // guard: notices-are-no-answers
    let is_letter = stage.server.is_letter(&letter);
    let heard = state.context.hand.work(move || {
        let heard = stage.server.receive_letter(from, &letter);
        (stage, heard)
    });
    let (mut stage, heard) = heard.await?;
    if let Some(running) = state.phase.running_mut().filter(|_| is_letter) {
        running.servers.has_spoken(from);
    }
    heard.map_err(|fault| ended_by(state, &fault))?;
    say_letters(&state.context, number, &mut stage.server);
    Ok(stage)
}

/// Says what there is to say to servers that compute with this one.
pub(super) fn say_letters(context: &Context, round: u64, server: &mut Server) {
    send_letters(context, round, server.letters());
}

/// Tells them of uploads.
pub(super) fn say_notices(context: &Context, round: u64, server: &mut Server) {
    send_letters(context, round, server.notices());
}

fn send_letters(context: &Context, round: u64, letters: Vec<(ServerIndex, Message)>) {
    for (to, letter) in letters {
        context.say(Effect::Letter { to, round, letter });
    }
}
