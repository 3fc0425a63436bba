//! The round that a party is in.

use std::collections::BTreeSet;
use std::sync::Arc;

use blindsum_encode::Judged;
use blindsum_protocol::{Client, ClientSetup, Message, PartyId, Plan, Prepared, Round, ServerRole};
use tracing::info;

use super::context::Context;
use super::exchange::{Begun, Told};
use super::guard::Guard;
use super::left::accuses;
use super::metrics::Reported;
use super::past::Past;
use super::policy::Cohort;
use super::result::{Clipped, RoundResult, Timings};
use crate::machine::Time;
use crate::orders::Terms;
use crate::{JobError, Model, seconds};

/// Time beyond the deadlines of a round for its messages to arrive.
const SLACK: f64 = 30.0;

/// A round under way at a party.
pub(super) struct Active {
    pub round: Arc<Round>,
    pub me: PartyId,
    /// The model that it starts from; none in a key set-up of a party that cannot read it yet.
    pub model: Option<Model>,
    /// The machine; none before it has started, and while a step runs.
    pub client: Option<Client>,
    /// How the machine came to where it is; kept where the party may be suspended.
    pub past: Option<Past>,
    /// Whether its update was out when the machine was taken away the last time.
    pub out: bool,
    /// Other servers that have not taken their part of the latest answer yet; none before they are given any.
    pub uploading: Option<BTreeSet<ServerRole>>,
    /// A message that waits for the caller's update.
    pub held: Option<Message>,
    pub own: OwnUpdate,
    pub outcome: Outcome,
    /// Whether the caller does not want the result.
    pub unwanted: bool,
    pub ahead: Ahead,
    /// What the machine asks about survivors.
    pub guard: Arc<Guard>,
    pub timings: Timings,
    /// When the round cannot give a result any more.
    pub deadline: Time,
}

/// This party's own update in a round.
pub(super) struct OwnUpdate {
    /// The caller's update, once it is there and until the machine has it.
    pub update: Option<Judged>,
    /// What clipping did to it, once it was sent.
    pub clipped: Option<Clipped>,
    /// The metrics that the caller reports.
    pub reported: Reported,
    /// What the caller is warned of.
    pub warnings: Vec<String>,
}

/// What the machine has come to.
#[derive(Default)]
pub(super) enum Outcome {
    /// Nothing yet.
    #[default]
    Open,
    /// The result, while the coordinator's word on the model is awaited.
    Computed(Box<RoundResult>),
    /// A key set-up has given this party the key of the job.
    KeyHeld,
}

/// What is computed ahead.
#[derive(Default)]
pub(super) struct Ahead {
    /// When something may be computed ahead; none while the party does not wait, and once that is done.
    pub idle_from: Option<Time>,
    /// What was computed ahead of the machine's start.
    pub prepared: Arc<Prepared>,
}

impl Active {
    /// The party is in a round now.
    pub fn enter(
        ctx: &mut Context,
        round: Arc<Round>,
        me: PartyId,
        client: Option<Client>,
        guard: Arc<Guard>,
        terms: &Terms,
    ) -> Self {
        info!(party = %ctx.identity.name, round = round.number(), parties = round.parties(),
            resumed = client.is_some(), "round begins");
        Self {
            own: OwnUpdate {
                update: None,
                clipped: None,
                // guard: alone-across-processes
                reported: ctx.given.measured.reported_in(round.number()),
                warnings: ctx.watch_bounds(&round),
            },
            deadline: deadline(&round, terms, ctx.hand.now()),
            round,
            me,
            model: ctx.model.clone(),
            client,
            past: None,
            out: false,
            uploading: None,
            held: None,
            outcome: Outcome::default(),
            unwanted: false,
            ahead: Ahead::default(),
            guard,
            timings: Timings::default(),
        }
    }

    /// The caller gets the round, if it is one for it: in a key set-up it still waits for its round. True where it was
    /// told.
    pub fn tell_begun(&self, ctx: &Context) -> bool {
        let (Some(_), Some(model)) = (self.input_stage(), &self.model) else {
            return false;
        };
        ctx.tell(Told::Round(Begun {
            number: self.number(),
            model: model.clone(),
            parties: cohort(&self.round).into_iter().collect(),
            tag: self.round.tag(),
            needs_update: !self.has_update(),
        }));
        true
    }

    /// The number of the round.
    pub fn number(&self) -> u64 {
        self.round.number()
    }

    /// The stage behind that of the coordinator's latest message that was heard; 0 before the first.
    pub fn heard(&self) -> u32 {
        self.client
            .as_ref()
            .map_or(0, |client| client.heard().into())
    }

    /// The stage of the latest answer; none before the first.
    pub fn answered(&self) -> Option<u8> {
        self.client.as_ref()?.stage()
    }

    /// The stage in which this party's answer carries its vector.
    pub fn input_stage(&self) -> Option<u8> {
        self.round.plan().input_stage_of(self.me)
    }

    /// Whether its update is on its way: the coordinator may count it, and knows the result then.
    pub fn may_count(&self) -> bool {
        let input = self.input_stage();
        self.out || (input.is_some() && self.answered() >= input)
    }

    /// Whether its update has left this party. The coordinator has nothing of it before other servers have their parts.
    pub fn is_out(&self) -> bool {
        let uploads = self.uploading.as_ref();
        let waits = uploads.is_some_and(|missing| !missing.is_empty());
        // guard: an-update-whose-parts-wait-is-not-out
        self.out || (self.may_count() && !waits)
    }

    /// What its machine starts from.
    pub fn setup(&self, ctx: &Context) -> ClientSetup {
        ctx.setup(
            &self.round,
            self.me,
            &self.guard,
            self.ahead.prepared.clone(),
        )
    }

    /// The member of the round that is said to have done wrong, by name; empty where there is none.
    pub fn accused(&self, error: &JobError) -> String {
        let party = match error {
            JobError::Fault { fault, .. } => accuses(fault),
            _ => None,
        };
        let member = party.and_then(|party| self.round.roster().member(party.0));
        member.map_or(String::new(), |member| member.name.clone())
    }

    /// Takes the machine away for a while. What it knows of the update is noted first: it may not come back.
    pub fn take_client(&mut self) -> Option<Client> {
        // guard: work-ahead-notes-that-an-update-is-out
        self.out = self.is_out();
        self.client.take()
    }

    /// The latest answer stays here: unless an earlier one carried the update, none of it has left.
    pub fn keeps_answer(&mut self) {
        // guard: what-stays-here-does-not-count
        self.client.take_if(|_| !self.out);
    }

    /// Whether the caller's update is here already, or out.
    pub fn has_update(&self) -> bool {
        self.own.update.is_some() || self.may_count()
    }

    /// Whether its latest answer is the one that carries its vector.
    pub fn says_vector(&self) -> bool {
        let input = self.input_stage();
        input.is_some() && self.answered() == input
    }

    /// The coordinator gets time to tell what became of the round meanwhile.
    pub fn connected_again(&mut self, now: Time) {
        self.deadline = self.deadline.max(now + seconds(SLACK));
    }

    /// Whether the machine has done all it does: the coordinator's word on the end is awaited.
    pub fn has_result(&self) -> bool {
        !matches!(self.outcome, Outcome::Open)
    }

    /// Whether a message can be answered without the caller's update.
    pub fn answers_now(&self, message: &[u8]) -> bool {
        let client = self.client.as_ref();
        client.is_some_and(|client| !client.takes_input_with(message))
    }

    /// Whether the next step of the machine needs the caller's update.
    pub fn needs_update(&self) -> bool {
        match &self.client {
            None => self.input_stage() == Some(0),
            Some(client) => client.needs_input(),
        }
    }
}

/// What the machine of a round asks about survivors.
pub(super) fn guard_of(ctx: &Context, round: &Arc<Round>) -> Arc<Guard> {
    let (policy, earlier) = (ctx.settings.policy.clone(), ctx.sums.groups());
    Arc::new(Guard::new(policy, round.clone(), earlier))
}

/// When a round that begins now has passed all its deadlines.
fn deadline(round: &Round, terms: &Terms, now: Time) -> Time {
    let whole = |plan: &Plan| {
        let answers: f64 = plan.answers().map(|step| terms.deadline(Some(step))).sum();
        let reply = plan.replies().last();
        answers + reply.map_or(0.0, |step| terms.deadline(Some(step)))
    };
    let setup = round.job().key_setup_plan().map_or(0.0, whole);
    now + seconds(whole(round.job().plan()).max(setup) + SLACK)
}

/// The names of a round's parties.
pub(super) fn cohort(round: &Round) -> Cohort {
    let members = round.roster().members().iter();
    members.map(|member| member.name.clone()).collect()
}
