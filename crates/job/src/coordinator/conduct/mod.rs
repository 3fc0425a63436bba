//! What members did wrong, and for how long they sit out rounds.
//!
//! A party that sends what no honest party sends sits out the next rounds, longer each time (`sentences.rs`). What one
//! party says of another is only a claim: the accuser may be the liar. But at most `corrupt` of the job's parties lie. So a
//! party that more than that many others accuse is a liar, since one of them is honest; and so is a party that accuses more
//! than that many others. As long as neither is known, accuser and accused are kept apart (`claims.rs`, `turns.rs`). If one
//! of them leaves a round and the round fails, the other one gets its turns: otherwise a liar could end every round in which
//! it takes part.

mod claims;
mod sentences;
#[cfg(test)]
mod tests;
mod turns;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use claims::Claims;
use sentences::{How, Liar, Missed};

/// A number of rounds that were begun.
type Begun = u64;

/// How the members of a job have behaved. Rounds are counted as they begin, so that no party can influence the count.
#[derive(Default)]
pub(super) struct Conduct {
    /// How many parties may lie.
    corrupt: usize,
    /// Rounds that were begun. Their numbers also move by what parties say, this one does not.
    pub begun: Begun,
    claims: Claims,
    liars: BTreeMap<Arc<str>, Liar>,
    /// The parties that have ended rounds without having lied.
    missed: BTreeMap<Arc<str>, Missed>,
    /// The parties that were connected but not ready when a round began. They are not waited for again until they are
    /// ready.
    slow: BTreeSet<Arc<str>>,
    /// The parties that were not ready because the model was on its way to them. That is excused once.
    waited_for: BTreeSet<Arc<str>>,
}

impl Conduct {
    /// The record of a job in which `corrupt` parties may lie.
    pub fn of(corrupt: usize) -> Self {
        Self {
            corrupt,
            ..Self::default()
        }
    }

    /// A party has sent in the latest round what no honest party sends. In one round that counts once.
    pub fn lied(&mut self, name: &Arc<str>) {
        let liar = self.liars.entry(name.clone()).or_default();
        if liar.again(self.begun) {
            self.claims.forget(name);
        }
    }

    /// A party could not open its nonce, or did not want to, and the round has ended.
    pub fn kept_nonce_back(&mut self, name: &Arc<str>) {
        self.missed(name, How::KeptNonceBack);
    }

    /// A party gave no update to a round, by its own word, and the round has ended without a sum.
    pub fn gave_no_update(&mut self, name: &Arc<str>) {
        self.missed(name, How::GaveNoUpdate);
    }

    /// A party was lost in a round that has no sum without it, and the round has ended.
    pub fn lost(&mut self, name: &Arc<str>) {
        self.missed(name, How::Lost);
    }

    fn missed(&mut self, name: &Arc<str>, how: How) {
        let before = self.missed.get(name).copied();
        let missed = Missed::after(before, how, self.begun);
        self.missed.insert(name.clone(), missed);
    }

    /// A round was ended by none of its members, and this party was one.
    pub fn kept(&mut self, name: &str) {
        if let Some(missed) = self.missed.get_mut(name)
            && !missed.kept()
        {
            self.missed.remove(name);
        }
    }

    /// One party says that another one has lied in the latest round. Gives the party that is now known to be a liar, if any.
    pub fn accused(&mut self, by: &Arc<str>, about: &Arc<str>) -> Option<Arc<str>> {
        if by == about {
            return None;
        }
        let (accusers, accused) = self.claims.add(by, about, self.begun);
        let liar = match (accusers > self.corrupt, accused > self.corrupt) {
            // guard: claims-are-matched
            (true, _) => about,
            // guard: accusers-are-counted
            (false, true) => by,
            (false, false) => return None,
        };
        self.lied(liar);
        Some(liar.clone())
    }

    /// These parties have left a round that failed. If one of them has accused somebody in it, it had to leave.
    pub fn left(&mut self, names: &BTreeSet<Arc<str>>) {
        self.claims.left(names, self.begun);
    }

    /// These parties took part in a round in which updates were asked for, whatever came of it.
    pub fn took_part(&mut self, names: &BTreeSet<Arc<str>>) {
        self.claims.took_part(names, self.begun);
    }

    /// A round begins: who sits it out is decided.
    pub fn begin(&mut self) {
        self.begun += 1;
        self.choose(self.begun);
    }

    /// Decides who sits out this round, which is the next one. May be called again when something has changed.
    pub fn choose(&mut self, round: Begun) {
        let lossy = self.missed.iter();
        let lossy = lossy.filter(|(_, missed)| missed.until >= round);
        let lossy = lossy.map(|(name, _)| name.clone()).collect();
        self.claims.choose(round, self.corrupt, &lossy);
    }

    /// The last round that a liar sits out; `None` if the party is no liar, or has sat out its rounds.
    fn sentence(&self, name: &str, round: Begun) -> Option<u64> {
        let liar = self.liars.get(name)?;
        Some(liar.until).filter(|until| *until >= round)
    }

    /// Whether a party is known to lie and sits out this round for that.
    pub fn is_liar(&self, name: &str, round: Begun) -> bool {
        self.sentence(name, round).is_some()
    }

    /// Whether a party sits out this round because earlier ones were lost with it, or came to nothing because of it.
    pub fn is_lossy(&self, name: &str, round: Begun) -> bool {
        self.missed
            .get(name)
            .is_some_and(|missed| missed.until >= round)
    }

    /// The latest round that was lost with a party, or came to nothing because of it; 0 if there is none.
    pub fn latest_loss(&self, name: &str) -> Begun {
        self.missed.get(name).map_or(0, |missed| missed.latest)
    }

    /// Whether nobody sits out rounds, or will because of what has happened.
    pub fn is_at_rest(&self) -> bool {
        let round = self.begun;
        let is_liar = self.liars.keys().any(|name| self.is_liar(name, round));
        let is_lossy = self.missed.keys().any(|name| self.is_lossy(name, round));
        !is_liar && !is_lossy && self.claims.are_at_rest(round)
    }

    /// Whether a party has accused another one in the latest round.
    pub fn has_accused(&self, name: &str) -> bool {
        self.claims.has_accused(name, self.begun)
    }

    /// Why a party takes no part in the round that was [chosen](Self::choose) for last; `None` if it may.
    pub fn sits_out(&self, name: &str, round: Begun) -> Option<String> {
        if let Some(until) = self.sentence(name, round) {
            let more = until - round;
            return Some(format!(
                "it broke the protocol in an earlier round, and sits out this round and {more} more"
            ));
        }
        let missed = self.missed.get(name);
        if let Some(missed) = missed.filter(|missed| missed.until >= round) {
            let (how, more) = (missed.how, missed.until - round);
            return Some(format!("{how}, and sits out this round and {more} more"));
        }
        self.claims.sits_out(name, round)
    }

    /// A party was connected, but not ready when a round began. `lacks_model` says whether the model was on its way to
    /// it, which is not its fault the first time.
    pub fn was_late(&mut self, name: &Arc<str>, lacks_model: bool) {
        if !lacks_model || !self.waited_for.insert(name.clone()) {
            self.slow.insert(name.clone());
        }
    }

    /// A party is ready.
    pub fn is_ready(&mut self, name: &str) {
        self.slow.remove(name);
        self.waited_for.remove(name);
    }

    /// Whether a party is not waited for.
    pub fn is_slow(&self, name: &str) -> bool {
        self.slow.contains(name)
    }
}
