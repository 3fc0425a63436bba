//! A party in a round whose vector is out. Servers other than the coordinator get their parts of it first. The answer itself
//! goes out once all of them have theirs: what the coordinator has is nowhere missing then.

use std::collections::BTreeSet;

use blindsum_protocol::{Client, Message, ServerRole};

use super::context::Context;
use super::exchange::Effect;
use super::left::Left;
use super::participation::Participation;
use super::stepping::{Came, Event};
use super::working::Next;

/// *In r*, in docs/wire-party.md, from when the answer that carries its vector is written down until the last message is
/// taken. Its `Hello` says round r, and the stage behind that of the latest message that it has answered.
pub(super) struct Sent {
    pub of: Participation,
    /// Whether its update has left this party. The coordinator has nothing of it before other servers have their parts.
    pub out: bool,
    /// Other servers that have not taken their part of the latest answer yet; none before they are given any.
    uploading: Option<BTreeSet<ServerRole>>,
}

impl Sent {
    /// The vector is written down; `out` is whether it may have left in an earlier process.
    pub fn new(of: Participation, out: bool) -> Self {
        Self {
            of,
            out,
            uploading: None,
        }
    }

    /// What happens in the round.
    pub async fn on(&mut self, event: Event, ctx: &mut Context) -> Result<Next, Left> {
        match event {
            Event::Begun(taken) if self.of.lacks_latest(taken) => self.step(ctx, None).await,
            Event::Chunk(chunk) => match ctx.connection.receive(self.of.round.plan(), chunk)? {
                Some(message) => self.step(ctx, Some(message)).await,
                None => Ok(Next::Stays),
            },
            Event::Message(message) => self.step(ctx, Some(message)).await,
            Event::Uploaded(role) => {
                let missing = self.uploading.as_mut();
                if missing.is_some_and(|missing| missing.remove(&role)) {
                    self.say(ctx);
                }
                Ok(Next::Stays)
            }
            Event::UploadRefused(role, reason) => {
                let missing = self.uploading.as_ref();
                if !missing.is_some_and(|missing| missing.contains(&role)) {
                    return Ok(Next::Stays);
                }
                // The party cannot be in the sum.
                let reason = format!("the {role} refuses this party's upload: {reason}");
                Err(Left::unable(self.of.number(), reason))
            }
            Event::Begun(_) | Event::Update(_) => Ok(Next::Stays),
        }
    }

    async fn step(&mut self, ctx: &mut Context, message: Option<Message>) -> Result<Next, Left> {
        if self.of.client.is_none() {
            // It was lost to a task that failed, and no other one takes its place.
            return Ok(Next::Stays);
        }
        let setup = self.of.setup(ctx);
        match self.of.step(ctx, setup, message, None).await? {
            Came::Nothing => {}
            Came::Answer { again } => {
                self.uploading.take_if(|_| !again);
                self.say(ctx);
            }
            Came::End(outcome) => return Ok(Next::Computed(outcome)),
        }
        Ok(Next::Stays)
    }

    /// Sends the latest answer, once every other server has its part of it. Those that have not been given theirs are given it
    /// now.
    pub fn say(&mut self, ctx: &mut Context) {
        let given = || give_parts(&self.of, ctx);
        let missing = self.uploading.get_or_insert_with(given);
        // guard: an-update-whose-parts-wait-is-not-out
        self.out |= missing.is_empty();
        // guard: uploads-come-before-the-answer
        if missing.is_empty() {
            self.of.say_latest(ctx);
        }
    }
}

/// Gives other servers their parts of the latest answer: who gets one.
fn give_parts(of: &Participation, ctx: &Context) -> BTreeSet<ServerRole> {
    let parts = of.client.as_ref().map_or(&[][..], Client::parts);
    let give = |(role, message): &(ServerRole, Message)| {
        ctx.hand.say(Effect::Upload {
            round: of.number(),
            role: *role,
            message: message.clone(),
        });
        *role
    };
    parts.iter().map(give).collect()
}
