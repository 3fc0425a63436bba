//! What a party computes while it waits anyway: for its own update, and then for those of the others.

use std::time::Instant;

use blindsum_protocol::Client;
use tracing::debug;

use super::task::Task;
use crate::NetError;
use crate::coordinator::blocking;

impl Task {
    /// While the caller makes its update.
    pub(super) async fn prepare_update(&mut self) -> Result<(), NetError> {
        let memory = self.config.mask_memory;
        let Some(active) = &self.active else {
            return Ok(());
        };
        if memory == 0 || active.client.is_some() || !active.needs_update() {
            return Ok(());
        }
        let (round, setup) = (active.number, self.setup(&active.round, active.me));
        let prepare = move || {
            let clock = Instant::now();
            (
                Client::prepare(&setup, memory),
                clock.elapsed().as_secs_f64(),
            )
        };
        let (prepared, seconds) = blocking(prepare).await?;
        let bytes = prepared.map_err(|fault| NetError::Fault { round, fault })?;
        self.prepared("update", bytes, seconds);
        Ok(())
    }

    /// While the others make theirs.
    pub(super) async fn prepare_answer(&mut self) -> Result<(), NetError> {
        let memory = self.config.mask_memory;
        let Some(active) = self.active.as_mut().filter(|_| memory > 0) else {
            return Ok(());
        };
        let Some(mut client) = active.client.take() else {
            return Ok(());
        };
        let prepare = move || {
            let clock = Instant::now();
            let bytes = client.prepare_answer(memory);
            (client, bytes, clock.elapsed().as_secs_f64())
        };
        let (client, bytes, seconds) = blocking(prepare).await?;
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
