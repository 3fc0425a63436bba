//! What a party computes while it waits for its own update or for the others.

use std::time::Duration;

use blindsum_protocol::Client;
use tracing::debug;

use super::active::Active;
use super::context::Context;
use crate::JobError;
use crate::machine::Time;

/// How long nothing has happened when the work begins. Where waits are shorter, what is made ahead costs the machine
/// more than it saves: it goes through the memory and back.
const IDLE: Duration = Duration::from_millis(200);

impl Active {
    /// The party waits now: for its caller, or for the others.
    pub(super) fn begin_waiting(&mut self, now: Time) {
        self.ahead.idle_from = Some(now + IDLE);
    }

    /// When it has waited for long enough to work ahead, unless something comes before or is coming.
    pub(super) fn idle_from(&self, ctx: &Context) -> Option<Time> {
        let receives = ctx.connection.is_receiving(self.number());
        self.ahead.idle_from.filter(|_| !receives)
    }

    /// Works ahead, once for each wait.
    pub(super) async fn work_ahead(&mut self, ctx: &mut Context) -> Result<(), JobError> {
        self.ahead.idle_from = None;
        let (begun, memory) = (ctx.hand.now(), ctx.settings.mask_memory);
        let (of, bytes) = match self.client.is_some() {
            _ if memory == 0 => return Ok(()),
            true => ("result", self.prepare_answer(ctx, memory).await?),
            false if self.needs_update() => ("update", self.prepare_update(ctx, memory).await?),
            false => return Ok(()),
        };
        let seconds = (ctx.hand.now() - begun).as_secs_f64();
        if bytes > 0 {
            self.timings.ahead += seconds;
            let (party, round, ms) = (&ctx.identity.name, self.number(), seconds * 1e3);
            debug!(%party, round, of, bytes, ms, "masks computed ahead");
        }
        Ok(())
    }

    /// While the caller makes its update.
    async fn prepare_update(
        &mut self,
        ctx: &mut Context,
        memory: usize,
    ) -> Result<usize, JobError> {
        let setup = self.setup(ctx);
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
        let Some(mut client) = self.take_client() else {
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
