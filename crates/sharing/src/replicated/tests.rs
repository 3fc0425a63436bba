//! Any two servers have the sum, one has random words.

use blindsum_crypto::mask::apply_masks;
use blindsum_math::words::{Width, Words};
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::*;

/// The explicit component of a vector, packed.
fn explicit(dealer: &Dealer, x: &Words) -> Vec<u8> {
    let mut left = x.clone();
    let lanes = left.len();
    apply_masks(&dealer.masks(), 0, left.tile_mut(0..lanes));
    left.pack()
}

/// A component of the sum of vectors that were dealt so.
fn component(j: usize, width: Width, dealt: &[(Dealer, Vec<u8>)], lanes: usize) -> Words {
    let mut sum = ComponentSum::new(width, lanes);
    sum.add_seeds(dealt.iter().filter_map(|(dealer, _)| dealer.seed(j)));
    for (_, packed) in dealt.iter().filter(|(dealer, _)| dealer.explicit() == j) {
        sum.add_explicit(packed).unwrap();
    }
    sum.into_words()
}

proptest! {
    /// The components of the sum add up to the sum of the vectors, for any width, length and number of vectors.
    #[test]
    fn components_add_up(bits in 1u32..=64, lanes in 1usize..200, n in 1u32..8, seed: u64) {
        let width = Width::new(bits).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let (mut dealt, mut expected) = (Vec::new(), Words::zeros(width, lanes));
        for rank in 0..n {
            let values: Vec<u64> = (0..lanes).map(|_| rng.next_u64() & width.mask()).collect();
            let x = Words::from_values(width, &values).unwrap();
            expected.add(&x).unwrap();
            let dealer = Dealer::new(rank, &mut rng);
            let packed = explicit(&dealer, &x);
            dealt.push((dealer, packed));
        }
        let mut sum = Words::zeros(width, lanes);
        for j in 0..COMPONENTS {
            sum.add(&component(j, width, &dealt, lanes)).unwrap();
        }
        prop_assert!(sum == expected);
    }
}

#[test]
fn every_component_is_missing_at_one_server() {
    for component in 0..COMPONENTS {
        let holders = (0..COMPONENTS).filter(|i| components_of(*i).contains(&component));
        assert_eq!(holders.count(), 2);
    }
}

#[test]
fn the_explicit_component_goes_round() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for rank in 0..7 {
        let dealer = Dealer::new(rank, &mut rng);
        assert_eq!(dealer.explicit(), rank as usize % 3);
        let seeds = (0..COMPONENTS).filter(|j| dealer.seed(*j).is_some());
        assert_eq!(seeds.count(), 2);
    }
}

/// Abuse case 38: the server that lacks the explicit component cannot test a guess of the vector by its hash.
#[test]
fn case_38_the_hash_of_an_explicit_component_is_salted() {
    let packed = [7; 40];
    let salts = [Secret::from([1; 32]), Secret::from([2; 32])];
    let hashes = salts.each_ref().map(|salt| explicit_hash(salt, &packed));
    assert_ne!(hashes[0], hashes[1]);
    assert_ne!(explicit_hash(&salts[0], &[8; 40]), hashes[0]);
}
