//! A round that is offered: who is ready for it, and who does not want to take part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A round that is offered.
pub(crate) struct Offered {
    pub number: u64,
    /// Who is ready.
    ready: BTreeMap<Arc<str>, ReadyParty>,
    /// Who does not want to take part, and why.
    refused: BTreeMap<Arc<str>, String>,
    /// Of whom the log says so already.
    told: BTreeSet<Arc<str>>,
}

/// A party that is ready for a round.
pub(crate) struct ReadyParty {
    pub name: Arc<str>,
    /// Its nonce, or its commitment to it.
    pub nonce: [u8; 32],
    /// The name of the key that it holds for the round; empty if it holds none.
    pub key_id: Vec<u8>,
    /// Whether that key does not open the model.
    pub lacks_model: bool,
}

impl Offered {
    /// Nobody has answered yet.
    pub fn new(number: u64) -> Self {
        Self {
            number,
            ready: BTreeMap::new(),
            refused: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// A party is ready.
    pub fn ready(&mut self, party: ReadyParty) {
        self.forget(&party.name);
        self.ready.insert(party.name.clone(), party);
    }

    /// A party does not want to take part. True where the log does not say so yet.
    pub fn refuses(&mut self, name: &Arc<str>, reason: String) -> bool {
        self.forget(name);
        self.refused.insert(name.clone(), reason);
        self.told.insert(name.clone())
    }

    /// Who is ready.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.ready.keys()
    }

    /// Those that are ready, by name.
    pub fn into_ready(self) -> impl Iterator<Item = ReadyParty> {
        self.ready.into_values()
    }

    pub fn has(&self, name: &str) -> bool {
        self.ready.contains_key(name)
    }

    /// How many parties are ready.
    pub fn count(&self) -> usize {
        self.ready.len()
    }

    /// Whether somebody has said nothing yet.
    pub fn is_open(&self, name: &str) -> bool {
        !self.ready.contains_key(name) && !self.refused.contains_key(name)
    }

    /// Those that do not take part, and why.
    pub fn refused(&self) -> impl Iterator<Item = (&Arc<str>, &String)> {
        self.refused.iter()
    }

    /// Those that are ready and hold a key.
    pub fn holders(&self) -> impl Iterator<Item = &Arc<str>> {
        let holders = self
            .ready
            .iter()
            .filter(|(_, party)| !party.key_id.is_empty() && !party.lacks_model);
        holders.map(|(name, _)| name)
    }

    pub fn forget(&mut self, name: &str) {
        self.ready.remove(name);
        self.refused.remove(name);
    }

    /// The reasons of those who refuse, for people.
    pub fn refusals(&self) -> String {
        let reasons = self
            .refused
            .iter()
            .map(|(name, reason)| format!("{name}: {reason}"));
        reasons.collect::<Vec<_>>().join("; ")
    }
}
