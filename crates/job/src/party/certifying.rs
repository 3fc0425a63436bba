//! What begins a round, certified with what came over the connection and with the model that is here.

use blindsum_protocol::{Round, RoundKind};

use super::context::Context;
use super::left::Left;
use crate::certified::certified_round;
use crate::error::wrong;
use crate::{JobError, Model, pb};

impl Context {
    /// Keeps the certificates of a beginning that comes late: they do not come again over this connection.
    pub(super) fn keep_certificates(&mut self, mut start: pb::RoundStart) -> Result<(), JobError> {
        let (parties, anchor) = (self.job()?.spec().parties, &self.identity.anchor);
        let certificates = &mut self.connection.certificates;
        if let Ok(brought) = certificates.take(&mut start, parties) {
            certificates.forget_strangers(brought, anchor);
        }
        Ok(())
    }

    /// Whether a sum starts from a model that is not here.
    pub(super) fn lacks_model(&mut self, start: &pb::RoundStart) -> Result<bool, JobError> {
        if start.kind() != pb::RoundKind::Sum {
            return Ok(false);
        }
        let name = start.model.clone().unwrap_or_default();
        Ok(!self.has_model(&name)?)
    }

    /// The round that begins, once its members are certified. `of_round` is the model of the round, if the party is in
    /// it.
    pub(super) fn certified(
        &mut self,
        start: &mut pb::RoundStart,
        of_round: Option<&Model>,
    ) -> Result<Round, Left> {
        let job = self.job()?.clone();
        let anchor = &self.identity.anchor;
        let certificates = &mut self.connection.certificates;
        let brought = certificates.take(start, job.spec().parties);
        let brought = brought.map_err(|reason| {
            let error = wrong(format!("round {}: {reason}", start.round));
            Left::refused(error)
        })?;
        let model = of_round.or(self.model.as_ref());
        let is_named = |model: &&Model| start.model.as_ref().is_some_and(|name| model.is(name));
        let model = model.filter(is_named);
        // A certificate that ends while a round is under way counts to the end of it.
        let live = self.memory.live_in(start.round);
        // guard: a-round-goes-on-with-those-with-whom-it-began
        let began = live.as_ref().and_then(|live| live.certified);
        let now = began.unwrap_or_else(|| self.hand.unix_seconds());
        match (
            certified_round(start, &job, anchor, certificates, model, now),
            live,
        ) {
            (Ok(round), Some(live)) => {
                live.certified = Some(now);
                live.key_setup = round.kind() == RoundKind::KeySetup;
                Ok(round)
            }
            (Ok(round), None) => Ok(round),
            (Err(error), _) => {
                certificates.forget_strangers(brought, anchor);
                Err(Left::refused(error))
            }
        }
    }
}
