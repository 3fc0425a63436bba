//! The backends against each other and against division, on random and on edge values.

use crypto_bigint::{NonZero, Uint};
use proptest::prelude::*;

use super::super::kernel::Arithmetic;
use super::super::portable::uint;
use super::*;

/// Odd moduli of `W` words: full, the least of full length, and those of a key.
fn moduli<const W: usize>(of_key: &[u64]) -> Vec<[u64; W]> {
    let mut least = [0; W];
    (least[0], least[W - 1]) = (1, 1 << 63);
    let mut most = [u64::MAX; W];
    most[0] -= 58;
    vec![[u64::MAX; W], most, least, of_key.try_into().unwrap()]
}

/// 0, 1, values near the modulus, with long carries, and with one bit, all below the modulus.
fn edges<const W: usize>(modulus: &[u64; W]) -> Vec<[u64; W]> {
    let modulus = uint::<W>(modulus);
    let near = (1..4u64).map(|less| modulus.wrapping_sub(&Uint::from(less)));
    let half = modulus.shr_vartime(1);
    let bits = [51, 52, 53, 63, 64, 103, 104, 64 * W as u32 - 2];
    let powers = bits.map(|bit| Uint::ONE.shl_vartime(bit));
    let carries = powers.map(|power| power.wrapping_sub(&Uint::ONE));
    let all = [Uint::ZERO, Uint::ONE, half].into_iter().chain(near);
    let all = all.chain(powers).chain(carries);
    all.map(|value| value.rem(&modulus.to_nz().unwrap()).to_words())
        .collect()
}

/// x·y mod m by long division.
fn product_by_division<const W: usize>(x: &[u64], y: &[u64], modulus: &[u64; W]) -> Vec<u64> {
    let modulus: NonZero<Uint<W>> = uint::<W>(modulus).to_nz().unwrap();
    let wide = uint::<W>(x).widening_mul(&uint::<W>(y));
    Uint::rem_wide_vartime(wide, &modulus).to_words().to_vec()
}

fn on_each(modulus: &[u64]) -> Vec<Box<dyn Arithmetic>> {
    backends().map(|backend| backend.modulo(modulus)).collect()
}

fn check_products<const W: usize>(of_key: &[u64]) {
    for modulus in moduli::<W>(of_key) {
        let edges = edges(&modulus);
        let (mut xs, mut ys, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for x in &edges {
            for y in &edges {
                xs.extend_from_slice(x);
                ys.extend_from_slice(y);
                expected.extend(product_by_division(x, y, &modulus));
            }
        }
        for arithmetic in on_each(&modulus) {
            assert_eq!(arithmetic.product(&[&xs, &ys]), expected);
            assert_eq!(arithmetic.product(&[&ys]), ys, "one vector");
            // Five factors, of which three are 1.
            let ones: Vec<u64> = xs.chunks(W).flat_map(|_| edges[1]).collect();
            let five = [&ones, &xs, &ones, &ys, &ones].map(|it| &it[..]);
            assert_eq!(arithmetic.product(&five), expected);
        }
    }
}

#[test]
fn products_of_edge_values() {
    let [small, large] = KeySize::ALL.map(|size| key(size).public());
    check_products::<32>(small.modulus());
    check_products::<48>(large.modulus());
    check_products::<64>(small.square());
    check_products::<96>(large.square());
}

/// Wide numbers, raised to exponents that take table entries, squares, and both.
fn check_powers<const W: usize>(modulus: &[u64; W]) {
    let mut wide = Vec::new();
    for upper in edges(modulus).iter().chain([&[u64::MAX; W]]) {
        for lower in [[0; W], [u64::MAX; W], *modulus] {
            wide.extend(lower);
            wide.extend(upper);
        }
    }
    let nz = uint::<W>(modulus).to_nz().unwrap();
    let pairs = wide.chunks(2 * W).map(|it| it.split_at(W));
    let reduced: Vec<u64> = pairs
        .flat_map(|(lower, upper)| Uint::rem_wide((uint::<W>(lower), uint(upper)), &nz).to_words())
        .collect();
    let squared = |x: &[u64]| -> Vec<u64> {
        let each = x.chunks(W);
        each.flat_map(|x| product_by_division(x, x, modulus))
            .collect()
    };
    let square = squared(&reduced);
    let sixteenth = squared(&squared(&squared(&square)));
    let mut ones = vec![0; reduced.len()];
    ones.chunks_mut(W).for_each(|one| one[0] = 1);
    for arithmetic in on_each(modulus) {
        assert_eq!(arithmetic.power(&wide, &[0])[..], ones);
        assert_eq!(arithmetic.power(&wide, &[1])[..], reduced);
        assert_eq!(arithmetic.power(&wide, &[2])[..], square);
        assert_eq!(arithmetic.power(&wide, &[16])[..], sixteenth);
    }
    for exponent in [[u64::MAX, u64::MAX], [0x0123_4567_89ab_cdef, 1 << 63]] {
        let powers = on_each(modulus).into_iter();
        let powers: Vec<_> = powers.map(|it| it.power(&wide, &exponent)).collect();
        assert!(powers.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn powers_of_edge_values() {
    let [small, large] = KeySize::ALL.map(|size| key(size).public());
    moduli::<32>(small.modulus()).iter().for_each(check_powers);
    moduli::<48>(large.modulus()).iter().for_each(check_powers);
}

/// Every entry of every window of a fixed base is found.
#[test]
fn fixed_bases() {
    let modulus: [u64; 32] = key(KeySize::Bits2048)
        .public()
        .modulus()
        .try_into()
        .unwrap();
    let base = edges(&modulus)[2];
    let wide: Vec<u64> = base.into_iter().chain([0; 32]).collect();
    for arithmetic in on_each(&modulus) {
        let powers = arithmetic.powers(&base, 3);
        let exponents = (0..256u32).map(|i| i.wrapping_mul(0x0105_2917) & 0xff_ffff);
        let exponents: Vec<u32> = exponents.chain([0, 1, 0xff_ffff]).collect();
        let bytes: Vec<u8> = exponents
            .iter()
            .flat_map(|it| it.to_le_bytes()[..3].to_vec())
            .collect();
        let mut factors: Vec<u64> = exponents.iter().flat_map(|_| base).collect();
        powers.multiply(&mut factors, &bytes);
        for (exponent, got) in exponents.iter().zip(factors.chunks(32)) {
            let expected = arithmetic.power(&wide, &[u64::from(*exponent) + 1]);
            assert_eq!(got, &expected[..]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn products_of_random_numbers(
        modulus in prop::array::uniform32(any::<u64>()),
        x in prop::collection::vec(prop::array::uniform32(any::<u64>()), 1..20),
    ) {
        let mut modulus = modulus;
        modulus[0] |= 1;
        modulus[31] |= 1 << 63;
        let nz = uint::<32>(&modulus).to_nz().unwrap();
        let x: Vec<u64> = x.iter().flat_map(|x| uint::<32>(x).rem(&nz).to_words()).collect();
        let y: Vec<u64> = x.chunks(32).rev().flatten().copied().collect();
        let expected: Vec<u64> = x
            .chunks(32)
            .zip(y.chunks(32))
            .flat_map(|(x, y)| product_by_division(x, y, &modulus))
            .collect();
        for arithmetic in on_each(&modulus) {
            prop_assert_eq!(arithmetic.product(&[&x, &y]), expected.clone());
        }
    }
}
