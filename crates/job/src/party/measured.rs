//! What a party remembers of the metrics that it reported: of which models, and which in the round under way.
//!
//! A party reports metrics of one model once. Two sums over the same model are of the same values: if a party is missing in
//! one of them, the difference is exactly the value of that party. The difference of two sums of updates is not, since the
//! updates of a further training differ. A round that is repeated from the same model is no proof of an attack, so the party
//! takes part, without metrics.
//!
//! `measuring` keeps it.

use super::metrics::Reported;
use crate::Model;

/// Bytes of the hash of a model that are remembered.
const OF_HASH: usize = 16;

/// What is remembered.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Measured {
    /// The models of which this party has reported metrics: the first 16 bytes of the hash of each, one after the other.
    #[prost(bytes = "vec", tag = "1")]
    models: Vec<u8>,
    /// The latest round in which it reported some; 0 before the first.
    #[prost(uint64, tag = "2")]
    round: u64,
    /// What it reported there.
    #[prost(string, repeated, tag = "3")]
    names: Vec<String>,
    #[prost(uint32, tag = "4")]
    weight: u32,
}

impl Measured {
    /// Whether this party has reported metrics of the model.
    pub fn has(&self, model: &Model) -> bool {
        let (models, _) = self.models.as_chunks::<OF_HASH>();
        models.iter().any(|known| model.hash().starts_with(known))
    }

    /// It reports these metrics of the model in a round.
    pub fn add(&mut self, model: &Model, round: u64, reported: &Reported) {
        if !self.has(model) {
            let (begin, _) = model.hash().split_at(OF_HASH);
            self.models.extend(begin);
        }
        (self.round, self.weight) = (round, reported.weight);
        self.names.clone_from(&reported.names);
    }

    /// What this party reported in this round, as far as it has left it.
    pub fn reported_in(&self, round: u64) -> Reported {
        match self.round == round {
            true => Reported {
                names: self.names.clone(),
                weight: self.weight,
            },
            false => Reported::default(),
        }
    }
}
