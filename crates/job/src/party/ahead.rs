//! What a party computes while it waits for its own update or for the others.

use std::time::Duration;

use blindsum_protocol::Client;
use tracing::debug;

use super::member::Member;
use crate::JobError;
use crate::machine::Time;

/// How long nothing has happened when the work begins. Where waits are shorter, what is made ahead costs the machine
/// more than it saves: it goes through the memory and back.
const IDLE: Duration = Duration::from_millis(200);

impl Member {
    /// The party waits now: for its caller, or for the others.
    pub(super) fn begin_waiting(&mut self) {
        let now = self.hand.now();
        if let Some(active) = &mut self.active {
            active.idle_from = Some(now + IDLE);
        }
    }

    /// When it has waited for long enough to work ahead, unless something comes before or is coming.
    pub(super) fn idle_from(&self) -> Option<Time> {
        let active = self.active.as_ref()?;
        let receives = self.connection.receiving(active.number).is_some();
        active.idle_from.filter(|_| !receives)
    }

    /// Works ahead, once for each wait.
    pub(super) async fn work_ahead(&mut self) -> Result<(), JobError> {
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        active.idle_from = None;
        match active.client {
            None => self.prepare_update().await,
            Some(_) => self.prepare_answer().await,
        }
    }

    /// While the caller makes its update.
    async fn prepare_update(&mut self) -> Result<(), JobError> {
        let memory = self.settings.mask_memory;
        let Some(active) = &self.active else {
            return Ok(());
        };
        if memory == 0 || active.client.is_some() || !active.needs_update() {
            return Ok(());
        }
        let (round, setup) = (
            active.number,
            self.setup(&active.round, active.me, &active.guard),
        );
        let begun = self.hand.now();
        let prepare = move || Client::prepare(&setup, memory);
        let prepared = self.hand.work(prepare).await?;
        let seconds = (self.hand.now() - begun).as_secs_f64();
        let bytes = prepared.map_err(|fault| self.found_wrong(round, fault))?;
        self.prepared("update", bytes, seconds);
        Ok(())
    }

    /// While the others make theirs.
    async fn prepare_answer(&mut self) -> Result<(), JobError> {
        let memory = self.settings.mask_memory;
        let Some(active) = self.active.as_mut().filter(|_| memory > 0) else {
            return Ok(());
        };
        let Some(mut client) = active.take_client() else {
            return Ok(());
        };
        let (begun, mut rng) = (self.hand.now(), self.hand.random());
        let prepare = move || {
            let bytes = client.prepare_answer(memory, &mut rng);
            (client, bytes)
        };
        let (client, bytes) = self.hand.work(prepare).await?;
        let seconds = (self.hand.now() - begun).as_secs_f64();
        if let Some(active) = &mut self.active {
            active.client = Some(client);
        }
        self.prepared("result", bytes, seconds);
        Ok(())
    }

    fn prepared(&mut self, of: &str, bytes: usize, seconds: f64) {
        let Some(active) = self.active.as_mut().filter(|_| bytes > 0) else {
            return;
        };
        active.timings.ahead += seconds;
        let (party, round, ms) = (&self.identity.name, active.number, seconds * 1e3);
        debug!(%party, round, of, bytes, ms, "masks computed ahead");
    }
}
