//! What every part of a coordinator needs: the job, the clock, the store, and the ways to send,
//! to count and to show something.

use std::sync::Arc;
use std::time::Duration;

use blindsum_protocol::{Job, JobSpec};
use tracing::error;

use super::Halt;
use super::api::{Effect, Input, Parts, Settings};
use super::board::Board;
use crate::StoreError;
use crate::machine::{Hand, Time};
use crate::store::{ShownFault, Store};
use crate::totals::Totals;

/// What every part of a coordinator needs.
pub(super) struct Context {
    pub hand: Hand<Input, Effect>,
    pub parts: Parts,
    pub board: Arc<Board>,
    /// The name of the job.
    pub name: String,
}

impl Context {
    pub fn new(hand: Hand<Input, Effect>, parts: Parts, board: Arc<Board>) -> Self {
        let name = parts.job.spec().job.clone();
        Self {
            hand,
            parts,
            board,
            name,
        }
    }

    pub fn now(&self) -> Time {
        self.hand.now()
    }

    pub fn unix_millis(&self) -> u64 {
        self.hand.unix_millis()
    }

    pub fn unix_seconds(&self) -> u64 {
        self.hand.unix_seconds()
    }

    pub fn say(&self, effect: Effect) {
        self.hand.say(effect);
    }

    pub fn job(&self) -> &Arc<Job> {
        &self.parts.job
    }

    pub fn spec(&self) -> &JobSpec {
        self.parts.job.spec()
    }

    /// How long to wait for what.
    pub fn settings(&self) -> Settings {
        self.parts.settings
    }

    /// How long somebody of a round may stay away whose connection was lost.
    pub fn grace(&self) -> Duration {
        self.parts.settings.reconnect_grace
    }

    /// How many parties a round begins with, at least.
    pub fn least_roster(&self) -> usize {
        self.parts.job.least_roster()
    }

    /// Changes what is counted.
    pub fn count(&self, change: impl FnOnce(&mut Totals)) {
        self.board.count(change);
    }

    /// There is something that watchers were not told.
    pub fn news(&self) {
        self.board.news();
    }

    /// Calls the store, which waits for a disk.
    pub async fn stored<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Store, &str) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Halt> {
        let (store, name) = (self.parts.store.clone(), self.name.clone());
        let called = self.hand.work(move || call(&*store, &name)).await;
        Ok(called??)
    }

    /// The store does not do its work where the job can go on without it.
    pub fn not_stored(&self, what: &str, halt: Halt) {
        if let Halt::Broken(error) = halt {
            error!(job = %self.name, %error, "{what}");
        }
    }

    /// Something happened with a party that operators should know.
    pub async fn record_event(&self, round: u64, kind: &'static str, name: &str, detail: String) {
        error!(job = %self.name, party = %name, round, "{detail}");
        let stored = self.stored(move |store, job| store.event(job, round, kind, &detail));
        if let Err(halt) = stored.await {
            self.not_stored("an event could not be stored", halt);
        }
    }

    /// Writes down what somebody did wrong. The round goes on where that cannot be.
    pub async fn keep_fault(&self, fault: ShownFault) {
        let stored = self.stored(move |store, job| store.fault(job, &fault));
        if let Err(halt) = stored.await {
            self.not_stored("a fault could not be stored", halt);
        }
    }
}
