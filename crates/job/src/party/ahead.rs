//! What a party computes while it waits for its own update or for the others.

use blindsum_protocol::{Client, ClientSetup};
use tracing::debug;

use super::context::Context;
use super::participation::Participation;
use super::state::State;
use crate::JobError;
use crate::machine::Time;

impl State {
    /// When it has waited for long enough to work ahead, unless something comes before or is coming.
    pub(super) fn idle_from(&self, ctx: &Context) -> Option<Time> {
        let of = self.participation()?;
        let receives = ctx.connection.is_receiving(of.number());
        of.idle_from.filter(|_| !receives)
    }

    /// Works ahead, once for each wait.
    pub(super) async fn work_ahead(&mut self, ctx: &mut Context) -> Result<(), JobError> {
        let begins = match self {
            Self::Working(working) => working.begins_with_update(ctx),
            _ => None,
        };
        // The state says what is out, also while its machine is away.
        // guard: work-ahead-notes-that-an-update-is-out
        let Some(of) = self.participation_mut() else {
            return Ok(());
        };
        of.idle_from = None;
        let (begun, memory) = (ctx.hand.now(), ctx.settings.mask_memory);
        let (what, bytes) = match begins {
            _ if memory == 0 => return Ok(()),
            Some(setup) => ("update", of.prepare_update(ctx, setup, memory).await?),
            None => ("result", of.prepare_answer(ctx, memory).await?),
        };
        let seconds = (ctx.hand.now() - begun).as_secs_f64();
        if bytes > 0 {
            of.timings.ahead += seconds;
            let (party, round, ms) = (&ctx.identity.name, of.number(), seconds * 1e3);
            debug!(%party, round, of = what, bytes, ms, "masks computed ahead");
        }
        Ok(())
    }
}

impl Participation {
    /// While the caller makes its update.
    async fn prepare_update(
        &mut self,
        ctx: &mut Context,
        setup: ClientSetup,
        memory: usize,
    ) -> Result<usize, JobError> {
        let prepare = move || Client::prepare(&setup, memory);
        let prepared = ctx.hand.work(prepare).await?;
        prepared.map_err(|fault| ctx.found_wrong(self.number(), fault))
    }

    /// While the others make theirs.
    async fn prepare_answer(
        &mut self,
        ctx: &mut Context,
        memory: usize,
    ) -> Result<usize, JobError> {
        let Some(mut client) = self.client.take() else {
            return Ok(0);
        };
        let mut rng = ctx.hand.random();
        let prepare = move || {
            let bytes = client.prepare_answer(memory, &mut rng);
            (client, bytes)
        };
        let (client, bytes) = ctx.hand.work(prepare).await?;
        self.client = Some(client);
        Ok(bytes)
    }
}
