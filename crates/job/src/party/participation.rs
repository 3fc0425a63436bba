//! What a party has of the round that it is in, in each of its states there: `working`, `sent`, `computed`.

use std::sync::Arc;
use std::time::Duration;

use blindsum_protocol::{Client, ClientSetup, PartyId, Plan, Round};
use tracing::info;

use super::context::Context;
use super::exchange::{Begun, Identity, Told};
use super::guard::Guard;
use super::left::{Left, accuses};
use super::metrics::Reported;
use super::policy::Cohort;
use super::replay_log::ReplayLog;
use super::result::{Clipped, Timings};
use crate::machine::Time;
use crate::orders::Terms;
use crate::{JobError, Model, seconds};

/// Time beyond the deadlines of a round for its messages to arrive.
const SLACK: f64 = 30.0;
/// How long nothing has happened when work ahead begins. Where waits are shorter, what is made ahead costs the machine
/// more than it saves: it goes through the memory and back.
const IDLE: Duration = Duration::from_millis(200);

/// A party's part in a round under way.
pub(super) struct Participation {
    pub round: Arc<Round>,
    pub me: PartyId,
    /// The model that it starts from; none in a key set-up of a party that cannot read it yet.
    pub model: Option<Model>,
    /// The machine; none before it has started, and while a step runs.
    pub client: Option<Client>,
    /// How the machine came to where it is; kept where the party may be suspended.
    pub log: Option<ReplayLog>,
    /// What the machine asks about survivors.
    pub guard: Arc<Guard>,
    /// What clipping did to the caller's update, once the machine has it.
    pub clipped: Option<Clipped>,
    /// The metrics that the caller reports.
    pub reported: Reported,
    /// What the caller is warned of.
    pub warnings: Vec<String>,
    /// Whether the caller does not want the result.
    pub unwanted: bool,
    /// When something may be computed ahead; none while the party does not wait, and once that is done.
    pub idle_from: Option<Time>,
    pub timings: Timings,
    /// When the round cannot give a result any more.
    pub deadline: Time,
}

impl Participation {
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
            // guard: alone-across-processes
            reported: ctx.given.measured.reported_in(round.number()),
            warnings: ctx.watch_bounds(&round),
            deadline: deadline(&round, terms, ctx.hand.now()),
            round,
            me,
            model: ctx.model.clone(),
            client,
            log: None,
            guard,
            clipped: None,
            unwanted: false,
            idle_from: None,
            timings: Timings::default(),
        }
    }

    /// The caller gets the round, if it is one for it: in a key set-up it still waits for its round. True where it was
    /// told.
    pub fn tell_begun(&self, ctx: &Context, needs_update: bool) -> bool {
        let (Some(_), Some(model)) = (self.input_stage(), &self.model) else {
            return false;
        };
        ctx.tell(Told::Round(Begun {
            number: self.number(),
            model: model.clone(),
            parties: cohort(&self.round).into_iter().collect(),
            tag: self.round.tag(),
            needs_update,
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

    /// Whether the coordinator, which has so many answers, lacks the latest one.
    pub fn lacks_latest(&self, taken: u32) -> bool {
        self.answered()
            // guard: an-update-given-meanwhile-goes-out, lost-answers-come-again
            .is_some_and(|stage| taken <= stage.into())
    }

    /// The stage in which this party's answer carries its vector.
    pub fn input_stage(&self) -> Option<u8> {
        self.round.plan().input_stage_of(self.me)
    }

    /// Whether an answer of its machine has carried its vector.
    pub fn has_vector(&self) -> bool {
        let input = self.input_stage();
        input.is_some() && self.answered() >= input
    }

    /// Whether its latest answer is the one that carries its vector.
    pub fn says_vector(&self) -> bool {
        let input = self.input_stage();
        input.is_some() && self.answered() == input
    }

    /// What its machine starts from.
    pub fn setup(&self, ctx: &Context) -> ClientSetup {
        ctx.setup(&self.round, self.me, &self.guard, Arc::default())
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

    /// The party waits now: for its caller, or for the others.
    pub fn begin_waiting(&mut self, now: Time) {
        self.idle_from = Some(now + IDLE);
    }

    /// The coordinator gets time to tell what became of the round meanwhile.
    pub fn connected_again(&mut self, now: Time) {
        self.deadline = self.deadline.max(now + seconds(SLACK));
    }
}

/// This party's place in the roster of a round, which has its key there, and what it is ready with: its nonce, or the
/// commitment to it.
pub(super) fn own_place(
    of: &Identity,
    round: &Round,
    ready: Option<&[u8]>,
) -> Result<PartyId, Left> {
    let unable = |reason: &str| Left::unable(round.number(), reason);
    let me = round.roster().rank_of(&of.name);
    let member = me.and_then(|me| round.roster().member(me));
    let key = me.and_then(|me| round.roster().verifying_key(me));
    let (Some(me), Some(member)) = (me, member) else {
        return Err(unable("the roster lacks this party"));
    };
    // Its certificate may have been renewed since it was ready.
    let other_key = key != Some(of.key.verifying_key());
    // guard: only-the-round-that-it-was-ready-for
    if other_key || ready.is_some_and(|ready| member.nonce[..] != *ready) {
        let reason = "the roster holds another key, nonce or commitment of this party";
        return Err(unable(reason));
    }
    Ok(PartyId(me))
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
