//! Who sits out rounds for what it did in earlier ones, and who does all the same where too few are left.

use std::sync::Arc;

use tracing::warn;

use super::api::Parts;
use super::conduct::Conduct;
use super::connections::Connections;
use super::context::Context;
use super::offered::ReadyParty;

/// Why a party that is ready sits a round out, by the order in which they are in all the same where too few are left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Out {
    /// Earlier rounds were lost with it.
    Lossy,
    /// It has accused somebody, or was accused.
    Accused,
    /// It has broken the protocol.
    Liar,
}

/// Who sits out rounds. Rounds are counted as they begin.
pub(super) struct BackOff {
    /// What parties did wrong.
    pub conduct: Conduct,
    /// What of that the store has.
    stored: Vec<u8>,
    /// The party without which there is no round, whatever it did before.
    root: Option<Arc<str>>,
}

impl BackOff {
    /// What the store has of how parties have behaved. What cannot be read ends no job.
    pub fn stored(parts: &Parts, stored: &[u8]) -> Self {
        let spec = parts.job.spec();
        let corrupt = spec.corrupt_parties();
        let conduct = match stored.is_empty() {
            true => Conduct::of(corrupt),
            false => Conduct::from_bytes(corrupt, stored).unwrap_or_else(|reason| {
                warn!(job = %spec.job, %reason,
                    "the store's record of who sits out rounds cannot be read: nobody does");
                Conduct::of(corrupt)
            }),
        };
        Self {
            stored: conduct.to_bytes(0),
            conduct,
            root: spec.root().map(Arc::from),
        }
    }

    /// Why a party takes no part in this round.
    fn sits_out_in(&self, name: &str, round: u64) -> Option<String> {
        // guard: no-round-without-the-root
        match self.root.as_deref() == Some(name) {
            true => None,
            false => self.conduct.sits_out(name, round),
        }
    }

    /// Why a party takes no part in the round that has begun.
    pub fn sits_out(&self, name: &str) -> Option<String> {
        self.sits_out_in(name, self.conduct.begun)
    }

    /// Why a party sits out the round that has begun, if it does.
    pub fn why_out(&self, name: &str) -> Out {
        if self.conduct.is_liar(name, self.conduct.begun) {
            return Out::Liar;
        }
        match self.conduct.is_lossy(name, self.conduct.begun) {
            true => Out::Lossy,
            false => Out::Accused,
        }
    }

    /// Whether a party that is ready sits out the round that has begun. With whom earlier rounds were lost takes part where
    /// a host calls it.
    fn is_left_out(&self, name: &str, is_hosted: bool) -> bool {
        let sits_out = self.sits_out(name).is_some();
        sits_out && !(is_hosted && self.why_out(name) == Out::Lossy)
    }

    /// Those that are ready and take part, and those that sit out where there are enough others.
    pub fn choose(
        &self,
        ready: impl Iterator<Item = ReadyParty>,
        least: usize,
        is_hosted: bool,
    ) -> (Vec<ReadyParty>, Vec<ReadyParty>) {
        let (mut out, mut wanted): (Vec<_>, Vec<_>) =
            // guard: campaign-who-lies-sits-out
            ready.partition(|party| self.is_left_out(&party.name, is_hosted));
        // Where too few are left those come first with which rounds were lost, then those of whom nobody knows whether they lie.
        for last in [Out::Lossy, Out::Accused, Out::Liar] {
            if wanted.len() >= least {
                break;
            }
            let is_asked = |party: &mut ReadyParty| self.why_out(&party.name) == last;
            let mut asked: Vec<ReadyParty> = out.extract_if(.., is_asked).collect();
            // Those with which rounds were lost longest ago come first; those of the latest one only if they are needed.
            let loss = |party: &ReadyParty| match last {
                Out::Lossy => self.conduct.latest_loss(&party.name),
                Out::Accused | Out::Liar => 0,
            };
            asked.sort_by_key(loss);
            let missing = least - wanted.len();
            let latest = asked.get(missing - 1).map_or(u64::MAX, loss);
            let enough = asked.partition_point(|party| loss(party) <= latest);
            out.extend(asked.split_off(enough));
            wanted.extend(asked);
        }
        (wanted, out)
    }

    /// Whether there are parties enough for the next round without those with which the latest one was lost, and without
    /// liars. Those with which earlier ones were lost are asked again if there are not enough others.
    pub fn has_enough_others(&mut self, members: &Connections, enough: usize) -> bool {
        let next = self.conduct.begun.saturating_add(1);
        self.conduct.choose(next);
        let takes_part = |name: &&Arc<str>| {
            let only_lossy = self.conduct.is_lossy(name, next) && !self.conduct.is_liar(name, next);
            self.sits_out_in(name, next).is_none()
                || only_lossy && self.conduct.latest_loss(name) != self.conduct.begun
        };
        members.names().filter(takes_part).count() >= enough
    }

    /// Whether a party sits out the next round because this one was lost with it.
    pub fn sits_out_next(&self, name: &str) -> bool {
        self.conduct
            .is_lossy(name, self.conduct.begun.saturating_add(1))
    }

    /// Writes down who sits out rounds, where that has changed or somebody does.
    pub async fn store(&mut self, context: &Context) {
        let bytes = self.conduct.to_bytes(0);
        if bytes == self.stored && self.conduct.is_at_rest() {
            return;
        }
        let dated = self.conduct.to_bytes(self.conduct.begun);
        // guard: who-sits-out-is-stored
        let stored = context.stored(move |store, job| store.set_conduct(job, &dated));
        match stored.await {
            Ok(()) => self.stored = bytes,
            Err(halt) => context.not_stored("who sits out rounds could not be stored", halt),
        }
    }
}
