//! Who masks with whom.

use blindsum_crypto::kdf::{self, Context};
use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign, apply_masks};
use blindsum_crypto::secret::Secret;
use blindsum_math::words::TileMut;

use super::GraphParameters;
use crate::PartyId;

/// The Harary graph H(n, κ) over a random order of the parties: everybody is the neighbour of the
/// ⌊κ/2⌋ next ones on either side of a circle, and of the one opposite if κ is odd (Bell20 §3.1).
///
/// The order is drawn from the round's context, which holds a fresh nonce of every party. Against an active adversary
/// parties commit to their nonces first and say them once everything else of the context is fixed
/// ([`nonce_commitment`](crate::nonce_commitment)): whoever speaks last knows the order that its nonce leads to, but has
/// no other one to say. All it can do is to end the round.
pub struct AggregationGraph {
    parameters: GraphParameters,
    /// The party at each place of the circle.
    order: Vec<u32>,
    /// The place of each party.
    place: Vec<u32>,
}

impl AggregationGraph {
    /// Draws the graph of a round.
    pub fn draw(parameters: GraphParameters, context: &Context) -> Self {
        let n = parameters.parties();
        let mut order: Vec<u32> = (0..n as u32).collect();
        let mut stream = Draws::new(context);
        for last in (1..n).rev() {
            order.swap(last, stream.below(last as u64 + 1) as usize);
        }
        let mut place = vec![0; n];
        for (at, party) in order.iter().enumerate() {
            if let Some(slot) = place.get_mut(*party as usize) {
                *slot = at as u32;
            }
        }
        Self {
            parameters,
            order,
            place,
        }
    }

    /// Degree and threshold.
    pub fn parameters(&self) -> &GraphParameters {
        &self.parameters
    }

    /// The neighbours of a party, in rank order; none for a party outside the roster.
    pub fn neighbours(&self, party: PartyId) -> Vec<PartyId> {
        let n = self.order.len();
        let Some(&place) = self.place.get(party.rank()) else {
            return Vec::new();
        };
        let half = self.parameters.neighbours() / 2;
        let odd = self.parameters.neighbours() % 2 == 1;
        let steps = (1..=half)
            .flat_map(|step| [step, n - step])
            .chain(odd.then_some(n / 2));
        let mut neighbours: Vec<PartyId> = steps
            .filter_map(|step| self.order.get((place as usize + step) % n))
            .map(|&rank| PartyId(rank))
            .collect();
        neighbours.sort_unstable();
        neighbours
    }

    /// The parties whose signatures confirm a survivor set: the first K on the circle, in rank order; everybody
    /// on the complete graph. They are the same for everybody, so that no two sets can both be confirmed: of
    /// two sets of t witnesses, 2t > K + corrupt witnesses, some honest one is in both.
    pub fn witnesses(&self) -> Vec<PartyId> {
        let first = self.order.iter().take(self.parameters.holders());
        let mut witnesses: Vec<PartyId> = first.map(|&rank| PartyId(rank)).collect();
        witnesses.sort_unstable();
        witnesses
    }

    #[cfg(test)]
    pub(super) fn at_place(&self, place: i64) -> PartyId {
        let n = self.order.len() as i64;
        PartyId(self.order[place.rem_euclid(n) as usize])
    }
}

/// Uniform numbers from the AES-256-CTR stream keyed by `H("blindsum graph"; context)`.
struct Draws {
    stream: MaskStream,
    drawn: u64,
}

impl Draws {
    fn new(context: &Context) -> Self {
        let seed = MaskSeed::from(Secret::from(kdf::hash("blindsum graph", &[&context.0])));
        Self {
            stream: MaskStream::new(seed, Sign::Add),
            drawn: 0,
        }
    }

    /// A number below `bound`: 64-bit draws, those at or above the largest multiple of `bound` are
    /// thrown away.
    fn below(&mut self, bound: u64) -> u64 {
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let mut draw = [0u64];
            apply_masks(
                std::slice::from_ref(&self.stream),
                self.drawn,
                TileMut::W64(&mut draw),
            );
            self.drawn += 1;
            let [draw] = draw;
            if draw < limit {
                return draw % bound;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Adversary, JobSpec, ProtocolName, SecAggPlus};

    fn graph(n: usize, neighbours: u32) -> AggregationGraph {
        let spec = JobSpec {
            adversary: Adversary::SemiHonest,
            protocol: SecAggPlus {
                neighbours,
                ..Default::default()
            }
            .into(),
            corrupt: 0.0,
            dropout: 0.0,
            ..JobSpec::default()
        };
        let parameters = GraphParameters::find(&spec, n).unwrap();
        AggregationGraph::draw(parameters, &Context([7; 32]))
    }

    #[test]
    fn every_party_has_exactly_kappa_neighbours_and_the_relation_is_symmetric() {
        for (n, kappa) in [
            (2, 1),
            (8, 7),
            (9, 8),
            (10, 3),
            (11, 4),
            (100, 15),
            (101, 16),
        ] {
            let graph = graph(n, kappa);
            for party in (0..n as u32).map(PartyId) {
                let neighbours = graph.neighbours(party);
                assert_eq!(neighbours.len(), kappa as usize);
                assert!(neighbours.windows(2).all(|w| w[0] < w[1]));
                assert!(!neighbours.contains(&party));
                for other in neighbours {
                    assert!(graph.neighbours(other).contains(&party));
                }
            }
        }
    }

    #[test]
    fn the_order_depends_on_the_context() {
        let spec = JobSpec {
            protocol: ProtocolName::SecAgg.into(),
            ..JobSpec::default()
        };
        let parameters = GraphParameters::find(&spec, 50).unwrap();
        let one = AggregationGraph::draw(parameters, &Context([1; 32]));
        let two = AggregationGraph::draw(parameters, &Context([2; 32]));
        assert_ne!(one.order, two.order);
    }
}
