//! How a party comes into a round.

use std::sync::Arc;

use blindsum_protocol::{Client, PartyId, Round};
use tracing::info;

use super::active::{Active, Ahead, Outcome, OwnUpdate, cohort, deadline};
use super::context::Context;
use super::exchange::{Begun, Told};
use super::guard::Guard;
use super::result::Timings;
use crate::orders::Terms;

impl Active {
    /// The party is in a round now.
    pub(super) fn enter(
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
    pub(super) fn tell_begun(&self, ctx: &Context) -> bool {
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
}

/// What the machine of a round asks about survivors.
pub(super) fn guard_of(ctx: &Context, round: &Arc<Round>) -> Arc<Guard> {
    let (policy, earlier) = (ctx.settings.policy.clone(), ctx.sums.groups());
    Arc::new(Guard::new(policy, round.clone(), earlier))
}
