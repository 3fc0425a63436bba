//! Random projections of a vector, which are short where it is, and long or wrapped around where it is not.
//!
//! The field holds a sum of squares only if it does not wrap: a vector with entries near √p has a norm that looks small. Bits
//! of every word rule such vectors out, at S rows for a row of words. Projections do it for the price of a few rows altogether:
//! Σ z·v over all numbers v of the vector, with coefficients z that are 1 and −1 with probability ¼ each and 0 with ½, and
//! that nobody knows before the vector is committed to. An honest prover shows that each of [`PROJECTIONS`] of them is from
//! −Y to Y, by bits.
//!
//! **An honest vector passes.** With V = 2T + m, m being the count of numbers, Σ v² ≤ V: v² ≤ 2·v·(v + 1) + 1 for every integer
//! v. z is half the sum of two signs, so that Σ z·v is above Y with probability at most exp(−Y²/V), as Hoeffding bounds it, and
//! below −Y as well. With Y² ≥ 34·V, 128 projections all pass but for 2^8 · exp(−34) < 2^−40.
//!
//! **A vector with Σ v² ≥ 74·Y² does not**, where v is what lies nearest to 0 of its residue class, and (2m + 1)·Y < p: each
//! projection passes with probability at most ½. If some |v| is above 2Y, of the three values that the sum can have for its
//! three coefficients those that differ by v cannot both be from −Y to Y: either that with z = 0 is not, or the other two are not.
//! If none is, no sum wraps. Then by Berry's and Esseen's theorem, with 0.56 as its constant, the sum is from −Y to Y as often as a
//! normal number but for 2 · 0.56 · Σ|v|³/2 / (Σ v²/2)^(3/2) ≤ 3.17 · Y / √(Σ v²), which is for a normal number at most
//! 1.13 · Y / √(Σ v²): together less than 4.3/√74 ≤ ½.
//!
//! **So the norm is what it seems.** All of 128 pass with probability at most 2^−128, and otherwise Σ v² < 74·Y². Then Σ v·(v + 1) is
//! below 148·Y² < p: it did not wrap, and is at most T, as the bits of the norm say. No term of it is negative, so each is at most T.
//!
//! The coefficients follow from the shares of the words by a hash. Whoever does not like them can change its shares and try again:
//! after 2^64 tries the chance is still 2^−64.
//!
//! After the wrap-around checks of PINE (Rothblum, Omri, Chen, Talwar, "PINE: Efficient Verification of a Euclidean Norm Bound
//! of a Secret-Shared Vector", 2024). The bounds and their constants are ours.

use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign, apply_masks};
use blindsum_crypto::secret::Secret;
use blindsum_math::prime_field::NttField;
use blindsum_math::words::TileMut;
use zeroize::Zeroizing;

use super::REPETITIONS;
use super::bounded::BoundedBits;
use super::points::inner;

/// Projections of a vector.
pub const PROJECTIONS: usize = 128;

/// Bytes of one bit each for every projection.
const BYTES: usize = PROJECTIONS / 8;
/// Lanes of 8 bytes that the coefficients of a number take: a bit that is added and a bit that is taken off for each projection.
const LANES: usize = 2 * BYTES / 8;
/// Numbers whose coefficients are drawn at a time.
const DRAWN: usize = 256;

/// The least Y with Y² ≥ 34·(2T + m), for the bound T of a norm and m numbers.
pub(super) fn largest_projection(most: u64, numbers: u64) -> u64 {
    let square = 34 * (2 * u128::from(most) + u128::from(numbers));
    let root = square.isqrt();
    let up = u128::from(root * root < square);
    // A square of at most 72 bits.
    (root + up) as u64
}

/// The coefficients of all projections for one number after the other: for each the bytes of bits that count 1, and of bits that
/// count −1. They follow from a seed that may be public.
struct Coefficients {
    stream: [MaskStream; 1],
    drawn: [u64; DRAWN * LANES],
    next: usize,
}

impl Coefficients {
    fn new(seed: [u8; 32]) -> Self {
        Self {
            stream: [MaskStream::new(
                MaskSeed::from(Secret::from(seed)),
                Sign::Add,
            )],
            drawn: [0; DRAWN * LANES],
            next: 0,
        }
    }

    fn next(&mut self) -> [[u8; BYTES]; 2] {
        let place = self.next % DRAWN;
        if place == 0 {
            self.drawn.fill(0);
            let lanes = TileMut::W64(&mut self.drawn);
            apply_masks(&self.stream, (self.next * LANES) as u64, lanes);
        }
        self.next += 1;
        let mut bytes = [[0; BYTES]; 2];
        let lanes = self.drawn[place * LANES..].iter();
        for (eight, lane) in bytes.as_flattened_mut().chunks_exact_mut(8).zip(lanes) {
            eight.copy_from_slice(&lane.to_le_bytes());
        }
        bytes
    }
}

/// All projections of a vector, for which the seed stands.
///
/// Sums the numbers up by the bytes of their coefficients, and those sums by their bits.
pub(super) fn project<F: NttField>(seed: [u8; 32], numbers: impl Iterator<Item = F>) -> Vec<F> {
    let mut coefficients = Coefficients::new(seed);
    let mut by_byte = Zeroizing::new(vec![[F::ZERO; 256]; BYTES]);
    for number in numbers {
        let [plus, minus] = coefficients.next();
        for (sums, (plus, minus)) in by_byte.iter_mut().zip(plus.into_iter().zip(minus)) {
            sums[usize::from(plus)] += number;
            sums[usize::from(minus)] -= number;
        }
    }
    let of_bit = |sums: &[F; 256], bit: usize| {
        let with = (0..256).filter(|byte| byte >> bit & 1 == 1);
        with.fold(F::ZERO, |sum, byte| sum + sums[byte])
    };
    let bits = by_byte
        .iter()
        .flat_map(|sums| (0..8).map(move |bit| of_bit(sums, bit)));
    bits.collect()
}

/// The test that projections are what their bits say, of a random combination of all of them in each repetition.
pub(super) struct ProjectionTest<F> {
    /// For each byte of bits of coefficients what the factors of their projections add up to.
    by_byte: Vec<[[u64; REPETITIONS]; 256]>,
    /// What the sum of all projections, each moved by Y, is moved by, divided by l.
    moved: [F; REPETITIONS],
    /// What every bit of projections counts times its projection's factor, slot by slot and row by row.
    weights: [Vec<F>; REPETITIONS],
}

impl<F: NttField> ProjectionTest<F> {
    /// The test with these factors of all projections, for rows with l numbers and projections with these bits.
    pub fn new(factors: [Vec<F>; REPETITIONS], bits: BoundedBits, packing: usize) -> Self {
        let mut by_byte = vec![[[0; REPETITIONS]; 256]; BYTES];
        for (repetition, factors) in factors.iter().enumerate() {
            for (sums, factors) in by_byte.iter_mut().zip(factors.chunks_exact(8)) {
                for byte in 1..256_usize {
                    let rest = of_canonical::<F>(sums[byte & (byte - 1)][repetition]);
                    let lowest = factors[byte.trailing_zeros() as usize];
                    sums[byte][repetition] = (rest + lowest).to_canonical();
                }
            }
        }
        let moved_by =
            of_canonical::<F>(bits.most / 2) * of_canonical::<F>(packing as u64).inverse();
        let sum = |factors: &Vec<F>| factors.iter().fold(F::ZERO, |sum, &factor| sum + factor);
        let counts: Vec<F> = (0..bits.count())
            .map(|bit| of_canonical(bits.weight(bit)))
            .collect();
        let weights = |factors: &Vec<F>| {
            let bits = factors
                .iter()
                .flat_map(|&factor| counts.iter().map(move |&count| factor * count));
            let mut weights: Vec<F> = bits.collect();
            weights.resize(weights.len().next_multiple_of(packing), F::ZERO);
            weights
        };
        Self {
            by_byte,
            moved: factors.each_ref().map(|factors| moved_by * sum(factors)),
            weights: factors.each_ref().map(weights),
        }
    }

    /// The value of the test's polynomial at a verifier's point, where slot e of a row has the basis polynomial with the value
    /// `basis[e]`, row b of the vector the share `numbers[b]`, and row g of bits of projections the share `bits[g]`. The seed is
    /// the prover's.
    pub fn at(&self, seed: [u8; 32], basis: &[F], numbers: &[F], bits: &[F]) -> [F; REPETITIONS] {
        let mut values = self.moved;
        let combined = self.combined(seed, basis, numbers);
        for ((value, combined), weights) in values.iter_mut().zip(combined).zip(&self.weights) {
            let rows = weights
                .chunks_exact(basis.len())
                .map(|row| inner(basis, row));
            let said = rows
                .zip(bits)
                .fold(F::ZERO, |sum, (weight, &bit)| sum + weight * bit);
            *value += combined - said;
        }
        values
    }

    /// Σ X_b · numbers[b], X_b being the polynomial of the combined coefficients of row b.
    fn combined(&self, seed: [u8; 32], basis: &[F], numbers: &[F]) -> [F; REPETITIONS] {
        let mut coefficients = Coefficients::new(seed);
        let mut found = [F::ZERO; REPETITIONS];
        for &basis in basis {
            // Terms have less than 101 bits.
            let mut sums = [0_u128; REPETITIONS];
            for number in numbers {
                let number = u128::from(number.to_canonical());
                let of_number = self.coefficient(coefficients.next());
                for (sum, coefficient) in sums.iter_mut().zip(of_number) {
                    *sum += u128::from(coefficient) * number;
                }
            }
            for (found, sum) in found.iter_mut().zip(sums) {
                *found += basis * F::from_wide(sum);
            }
        }
        found
    }

    /// The combined coefficient of a number: something below 2^6·p that is congruent to it.
    fn coefficient(&self, [plus, minus]: [[u8; BYTES]; 2]) -> [u64; REPETITIONS] {
        let mut found = [BYTES as u64 * F::MODULUS; REPETITIONS];
        for (sums, (plus, minus)) in self.by_byte.iter().zip(plus.into_iter().zip(minus)) {
            let (plus, minus) = (&sums[usize::from(plus)], &sums[usize::from(minus)]);
            for (found, (plus, minus)) in found.iter_mut().zip(plus.iter().zip(minus)) {
                *found = *found + plus - minus;
            }
        }
        found
    }
}

fn of_canonical<F: NttField>(value: u64) -> F {
    F::from_canonical(value).unwrap_or(F::ZERO)
}
