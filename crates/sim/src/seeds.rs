//! Every random number of a run, derived from one seed.

use blindsum_crypto::kdf;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

/// Names a stream of random numbers: the same name and numbers always give the same stream.
pub(crate) fn seed_bytes(label: &str, numbers: &[u64]) -> [u8; 32] {
    let numbers: Vec<[u8; 8]> = numbers.iter().map(|n| n.to_be_bytes()).collect();
    let mut parts: Vec<&[u8]> = vec![label.as_bytes()];
    parts.extend(numbers.iter().map(|n| n.as_slice()));
    kdf::hash("blindsum simulation", &parts)
}

/// The generator of that name.
pub(crate) fn stream(label: &str, numbers: &[u64]) -> ChaCha20Rng {
    ChaCha20Rng::from_seed(seed_bytes(label, numbers))
}

/// A number in `[0, 1)`, a multiple of 2^-53.
pub(crate) fn unit(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A number below `bound`, which must not be 0. The bias, below `bound / 2^64`, is nothing to a simulation.
pub(crate) fn below(rng: &mut impl Rng, bound: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// Takes `count` of the items at random, in the order in which they were drawn.
pub(crate) fn choose<T>(rng: &mut impl Rng, mut items: Vec<T>, count: usize) -> Vec<T> {
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count && !items.is_empty() {
        let index = below(rng, items.len() as u64) as usize;
        chosen.push(items.swap_remove(index));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_tell_streams_apart() {
        let seeds = [
            seed_bytes("a", &[1, 2]),
            seed_bytes("a", &[2, 1]),
            seed_bytes("b", &[1, 2]),
            seed_bytes("a", &[1]),
        ];
        for (i, seed) in seeds.iter().enumerate() {
            assert_eq!(seeds.iter().position(|s| s == seed), Some(i));
        }
        assert_eq!(seed_bytes("a", &[1, 2]), seeds[0]);
    }

    #[test]
    fn chosen_items_are_distinct_and_bounded() {
        let mut rng = stream("test", &[]);
        let mut chosen = choose(&mut rng, (0..50).collect(), 20);
        chosen.sort_unstable();
        chosen.dedup();
        assert_eq!(chosen.len(), 20);
        assert_eq!(choose(&mut rng, vec![1, 2], 5).len(), 2);
        assert!((0..1000).all(|_| unit(&mut rng) < 1.0 && below(&mut rng, 3) < 3));
    }
}
