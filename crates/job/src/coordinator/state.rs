//! What a coordinator knows of its job. Inputs change it; it waits for none.

use std::sync::Arc;

use super::back_off::BackOff;
use super::bounds::Bounds;
use super::calls::Calls;
use super::certificates::CertificateWatch;
use super::connections::{Connected, Connections};
use super::context::Context;
use super::delivery::Delivery;
use super::ended::Ended;
use super::models::Models;
use super::operator::Operator;
use super::phase::Phase;
use super::released::Opened;
use super::rounds::Rounds;
use super::trouble::Trouble;
use crate::machine::Time;
use crate::store::StoredJob;

/// What a coordinator knows of its job.
pub(super) struct State {
    pub context: Context,
    pub models: Models,
    pub connections: Connections,
    pub phase: Phase,
    /// The latest rounds that count, for parties that have not heard their end.
    pub ended: Ended,
    pub rounds: Rounds,
    /// What operators have ordered.
    pub operator: Operator,
    pub calls: Calls,
    pub back_off: BackOff,
    /// The rounds without a result since the latest one with one.
    pub trouble: Trouble,
    /// Which results were opened, where servers compute together.
    pub opened: Opened,
    /// When the job gives up, unless a round begins.
    pub patience: Time,
    pub certificates: CertificateWatch,
    pub bounds: Bounds,
}

impl State {
    /// A job as the store has it.
    pub fn new(context: Context, stored: StoredJob, operator: Operator, rounds: Rounds) -> Self {
        let now = context.now();
        Self {
            opened: Opened::stored(&context.parts, &stored),
            back_off: BackOff::stored(&context.parts, &stored.conduct),
            calls: Calls::new(context.parts.hosted),
            trouble: Trouble::default(),
            models: Models::stored(stored.model, stored.model_from),
            connections: Connections::new(now),
            phase: Phase::Gathering,
            // guard: campaign-results-are-kept, stored-results-are-told
            ended: Ended::stored(stored.ending),
            rounds,
            operator,
            patience: now,
            certificates: CertificateWatch::new(now),
            bounds: Bounds::default(),
            context,
        }
    }

    /// The connected parties that the round is for, where a host has called some.
    pub fn invited(&self) -> impl Iterator<Item = (&Arc<str>, &Connected)> {
        let members = self.connections.iter();
        members.filter(|(name, _)| self.calls.is_called(name))
    }

    /// The round under way, and the connections of those who are in it.
    pub(super) fn delivery(&mut self) -> Option<Delivery<'_>> {
        let (context, members) = (&self.context, &mut self.connections);
        let running = self.phase.running_mut()?;
        Some(Delivery {
            context,
            members,
            running,
        })
    }
}
