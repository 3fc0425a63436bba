//! Replicated sharing of long vectors among three servers (Araki et al. 2016), for sums.
//!
//! A vector x of Z_2^b is split in three components, x = x_0 + x_1 + x_2. Server i holds components i and i + 1, counted
//! modulo 3: any two servers have all of x, one has nothing but random words. Two of the components come out of seeds of
//! 32 bytes; the third, the *explicit* one, is what is left of x, and as long as x. Which one that is goes round with the
//! rank of the party, so that no server hears more than the others.
//!
//! Sums of vectors are sums of their components: [`ComponentSum`] adds one component of many vectors.

#[cfg(test)]
mod tests;

use blindsum_crypto::kdf::hash;
use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign, apply_masks};
use blindsum_crypto::secret::Secret;
use blindsum_math::MathError;
use blindsum_math::words::{Width, Words};
use rand_core::CryptoRng;

/// Components of a vector, and servers.
pub const COMPONENTS: usize = 3;
/// Bytes of a component that comes out of a seed.
pub const SEED_LEN: usize = 32;
/// Bytes of the salt in the hash of an explicit component.
pub const SALT_LEN: usize = 32;

/// The component of the vector of the party with this rank that is sent as it is.
pub fn explicit_component(rank: u32) -> usize {
    rank as usize % COMPONENTS
}

/// The components that a server holds: its own, then the next one.
pub fn components_of(server: usize) -> [usize; 2] {
    [server % COMPONENTS, (server + 1) % COMPONENTS]
}

/// The secrets from which the components of one vector are made: a seed for each of two components, and the salt of
/// the explicit one.
pub struct Dealer {
    explicit: usize,
    /// None in the place of the explicit component.
    seeds: [Option<Secret<SEED_LEN>>; COMPONENTS],
    salt: Secret<SALT_LEN>,
}

impl Dealer {
    /// Draws the secrets for the vector of the party with this rank.
    pub fn new(rank: u32, rng: &mut dyn CryptoRng) -> Self {
        let explicit = explicit_component(rank);
        let mut seed = |component| (component != explicit).then(|| Secret::generate(rng));
        let seeds = [seed(0), seed(1), seed(2)];
        let salt = Secret::generate(rng);
        Self {
            explicit,
            seeds,
            salt,
        }
    }

    /// The component that is sent as it is.
    pub fn explicit(&self) -> usize {
        self.explicit
    }

    /// The seed of a component; none of the explicit one.
    pub fn seed(&self, component: usize) -> Option<&Secret<SEED_LEN>> {
        self.seeds.get(component)?.as_ref()
    }

    /// What keeps the hash of the explicit component from telling guesses of the vector apart: the server that lacks
    /// this component has both others.
    pub fn salt(&self) -> &Secret<SALT_LEN> {
        &self.salt
    }

    /// The masks subtracted from the vector to get its explicit component.
    pub fn masks(&self) -> Vec<MaskStream> {
        let seeds = self.seeds.iter().flatten();
        seeds.map(|seed| stream(seed, Sign::Sub)).collect()
    }
}

/// The hash by which servers compare a component that comes out of a seed.
pub fn seed_hash(seed: &Secret<SEED_LEN>) -> [u8; 32] {
    hash("blindsum component seed", &[seed.expose()])
}

/// The hash by which servers compare an explicit component, packed.
pub fn explicit_hash(salt: &Secret<SALT_LEN>, packed: &[u8]) -> [u8; 32] {
    // guard: explicit-components-are-salted
    hash("blindsum component", &[salt.expose(), packed])
}

fn stream(seed: &Secret<SEED_LEN>, sign: Sign) -> MaskStream {
    MaskStream::new(MaskSeed::from(Secret::from(seed.expose())), sign)
}

/// One component of a sum of vectors.
pub struct ComponentSum(Words);

/// Streams whose keys are expanded at once: 240 bytes each.
const STREAMS: usize = 256;

impl ComponentSum {
    /// The component of the sum of no vectors of so many words.
    pub fn new(width: Width, lanes: usize) -> Self {
        Self(Words::zeros(width, lanes))
    }

    /// Adds an explicit component, packed.
    ///
    /// # Errors
    /// Bytes that are not that many words of this width.
    pub fn add_explicit(&mut self, packed: &[u8]) -> Result<(), MathError> {
        self.0.add_packed(packed)
    }

    /// Adds components that come out of these seeds.
    pub fn add_seeds<'a>(&mut self, seeds: impl IntoIterator<Item = &'a Secret<SEED_LEN>>) {
        let mut seeds = seeds.into_iter().peekable();
        while seeds.peek().is_some() {
            let some = seeds.by_ref().take(STREAMS);
            let streams: Vec<_> = some.map(|seed| stream(seed, Sign::Add)).collect();
            let lanes = self.0.len();
            apply_masks(&streams, 0, self.0.tile_mut(0..lanes));
        }
    }

    /// The component of the sum.
    pub fn into_words(self) -> Words {
        self.0
    }
}
