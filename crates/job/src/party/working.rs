//! A party in a round whose vector is not out.

use std::sync::Arc;

use blindsum_encode::Judged;
use blindsum_protocol::{ClientSetup, Message, Prepared};

use super::context::Context;
use super::left::Left;
use super::participation::Participation;
use super::stepping::{Came, Event, Outcome};

/// *In r*, in docs/wire-party.md, from `RoundStart` r until its vector is out: until the answer that carries it is written
/// down. In a key set-up, which has no vectors, until it holds the key. Its `Hello` says round r, and the stage behind that
/// of the latest message that it has answered.
pub(super) struct Working {
    pub of: Participation,
    /// The caller's update, once it is there and until the machine has it.
    pub update: Option<Judged>,
    /// A message that waits for the caller's update.
    pub held: Option<Message>,
    /// What was computed ahead of the machine's start.
    prepared: Arc<Prepared>,
}

/// What follows what happened.
pub(super) enum Next {
    /// The party stays where it is.
    Stays,
    /// Its vector is written down, and goes out now.
    Sent,
    /// The machine has done all that it does.
    Computed(Outcome),
}

impl Working {
    pub fn new(of: Participation) -> Self {
        Self {
            of,
            update: None,
            held: None,
            prepared: Arc::default(),
        }
    }

    /// What happens in the round.
    pub async fn on(&mut self, event: Event, ctx: &mut Context) -> Result<Next, Left> {
        let next = match event {
            Event::Begun(taken) => {
                let says_something = match self.of.client.is_some() {
                    true => self.of.lacks_latest(taken),
                    // An update that was given meanwhile starts it.
                    false => !self.needs_update(),
                };
                match says_something {
                    true => self.step(ctx, None).await?,
                    false => Next::Stays,
                }
            }
            Event::Update(update) => {
                self.update = Some(update);
                match self.of.client.is_none() && self.needs_update() {
                    true => self.step(ctx, None).await?,
                    false => Next::Stays,
                }
            }
            Event::Chunk(chunk) => match ctx.connection.receive(self.of.round.plan(), chunk)? {
                // One that came before does not take the place of the one that waits for the update.
                Some(message) if self.answers_now(&message) => {
                    return self.step(ctx, Some(message)).await;
                }
                Some(message) => {
                    self.held = Some(message);
                    Next::Stays
                }
                None => Next::Stays,
            },
            // No server has got a part.
            Event::Message(_) | Event::Uploaded(_) | Event::UploadRefused(..) => Next::Stays,
        };
        match next {
            Next::Stays => self.go_on(ctx).await,
            next => Ok(next),
        }
    }

    /// Answers the coordinator's message, once the update that it may need is there.
    async fn go_on(&mut self, ctx: &mut Context) -> Result<Next, Left> {
        let ready = self.of.client.is_some() && (!self.needs_update() || self.update.is_some());
        match self.held.take_if(|_| ready) {
            Some(message) => self.step(ctx, Some(message)).await,
            None => Ok(Next::Stays),
        }
    }

    async fn step(&mut self, ctx: &mut Context, message: Option<Message>) -> Result<Next, Left> {
        let takes_update = match (&self.of.client, &message) {
            (Some(client), Some(message)) => client.takes_input_with(message),
            (None, _) => self.needs_update(),
            // Sending the latest answer once more needs no update.
            (Some(_), None) => false,
        };
        let setup = self.setup(ctx);
        let update = self.update.take_if(|_| takes_update);
        match self.of.step(ctx, setup, message, update).await? {
            Came::Nothing => Ok(Next::Stays),
            Came::Answer { .. } if self.of.has_vector() => Ok(Next::Sent),
            Came::Answer { .. } => {
                self.of.say_latest(ctx);
                Ok(Next::Stays)
            }
            Came::End(outcome) => Ok(Next::Computed(outcome)),
        }
    }

    /// What its machine starts from, where it waits for the update to start it.
    pub fn begins_with_update(&self, ctx: &Context) -> Option<ClientSetup> {
        let waits = self.of.client.is_none() && self.needs_update();
        waits.then(|| self.setup(ctx))
    }

    /// What its machine starts from.
    fn setup(&self, ctx: &Context) -> ClientSetup {
        ClientSetup {
            prepared: self.prepared.clone(),
            ..self.of.setup(ctx)
        }
    }

    /// Whether a message can be answered without the caller's update.
    fn answers_now(&self, message: &[u8]) -> bool {
        let client = self.of.client.as_ref();
        client.is_some_and(|client| !client.takes_input_with(message))
    }

    /// Whether the next step of the machine needs the caller's update.
    pub fn needs_update(&self) -> bool {
        match &self.of.client {
            None => self.of.input_stage() == Some(0),
            Some(client) => client.needs_input(),
        }
    }
}
