//! Montgomery's multiplication of one number of `W` words, two words of a factor at a time.
//!
//! A pass over the running sum t adds four products to each of its words: those of two words of x with y, and of the two
//! multiples of n that clear t's lowest words. Each product has a chain of carries of its own, so that a processor works
//! on four at once, and t is read and written half as often as with one word at a time (after Ç. K. Koç, T. Acar,
//! B. S. Kaliski, "Analyzing and Comparing Montgomery Multiplication Algorithms", IEEE Micro 16, 1996: finely integrated
//! operand scanning). It takes the same steps for all numbers.

/// An odd modulus of an even number of words, and what clears a word: −1/n mod 2^64.
#[derive(Clone)]
pub(super) struct Modulus<const W: usize> {
    words: [u64; W],
    clear: u64,
}

impl<const W: usize> Drop for Modulus<W> {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.words);
        zeroize::Zeroize::zeroize(&mut self.clear);
    }
}

impl<const W: usize> Modulus<W> {
    /// The modulus with these words, the first of which is odd.
    pub fn new(words: [u64; W]) -> Self {
        const { assert!(W >= 2 && W.is_multiple_of(2)) };
        // Each step doubles the bits that are right; an odd number is its own inverse modulo 8.
        let step = |inverse: u64, _| {
            let error = 2_u64.wrapping_sub(words[0].wrapping_mul(inverse));
            inverse.wrapping_mul(error)
        };
        let inverse = (0..5).fold(words[0], step);
        Self {
            words,
            clear: inverse.wrapping_neg(),
        }
    }

    /// x·y/2^(64·W) mod n, canonical, for x and y below n.
    pub fn multiply(&self, x: &[u64; W], y: &[u64; W]) -> [u64; W] {
        let n = &self.words;
        let (mut t, mut top) = ([0; W], 0);
        for &[a, b] in x.as_chunks().0 {
            // Column 0, which the first multiple of n clears.
            let (low, mut of_a) = add_product(t[0], a, y[0], 0);
            let m = low.wrapping_mul(self.clear);
            let (_, mut of_m) = add_product(low, m, n[0], 0);
            // Column 1, which the second one clears.
            let (low, carry) = add_product(t[1], a, y[1], of_a);
            of_a = carry;
            let (low, carry) = add_product(low, m, n[1], of_m);
            of_m = carry;
            let (low, mut of_b) = add_product(low, b, y[0], 0);
            let q = low.wrapping_mul(self.clear);
            let (_, mut of_q) = add_product(low, q, n[0], 0);
            for j in 2..W {
                let (low, carry) = add_product(t[j], a, y[j], of_a);
                of_a = carry;
                let (low, carry) = add_product(low, m, n[j], of_m);
                of_m = carry;
                let (low, carry) = add_product(low, b, y[j - 1], of_b);
                of_b = carry;
                let (low, carry) = add_product(low, q, n[j - 1], of_q);
                of_q = carry;
                t[j - 2] = low;
            }
            let (low, high) = add(top, of_a, of_m);
            let (low, carry) = add_product(low, b, y[W - 1], of_b);
            of_b = carry;
            let (low, carry) = add_product(low, q, n[W - 1], of_q);
            of_q = carry;
            t[W - 2] = low;
            (t[W - 1], top) = add(high, of_b, of_q);
        }
        self.below(t, top)
    }

    /// t + 2^(64·W)·top, which is below 2n, less n if that is not below n.
    fn below(&self, t: [u64; W], top: u64) -> [u64; W] {
        let (mut less, mut borrow) = ([0; W], 0);
        for ((less, t), n) in less.iter_mut().zip(t).zip(self.words) {
            let (word, first) = t.overflowing_sub(n);
            let (word, second) = word.overflowing_sub(borrow);
            (*less, borrow) = (word, u64::from(first | second));
        }
        // All ones where t is below n: nothing above it covers what was borrowed.
        let keep = (borrow & (top ^ 1)).wrapping_neg();
        for (less, t) in less.iter_mut().zip(t) {
            *less = *less & !keep | t & keep;
        }
        less
    }
}

/// t + a·b + carry: the low word, and the next carry.
#[inline(always)]
fn add_product(t: u64, a: u64, b: u64, carry: u64) -> (u64, u64) {
    let sum = u128::from(t) + u128::from(a) * u128::from(b) + u128::from(carry);
    (sum as u64, (sum >> 64) as u64)
}

fn add(x: u64, y: u64, z: u64) -> (u64, u64) {
    let sum = u128::from(x) + u128::from(y) + u128::from(z);
    (sum as u64, (sum >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use crypto_bigint::Uint;
    use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Words that lie at the ends of what they may be, more often than chance would have it.
    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            select(vec![0, 1, u64::MAX, u64::MAX - 1, 1 << 63])
        ]
    }

    fn agrees<const W: usize>(n: &[u64], x: &[u64], y: &[u64]) -> Result<(), TestCaseError> {
        let mut n: [u64; W] = n.try_into().unwrap();
        n[0] |= 1;
        let odd = Uint::<W>::from_words(n).to_odd().unwrap();
        let below = |x: &[u64]| {
            let x = Uint::<W>::from_words(x.try_into().unwrap());
            x.rem_vartime(odd.as_nz_ref())
        };
        let params = FixedMontyParams::new(odd);
        let largest = odd.as_ref().wrapping_sub(&Uint::ONE);
        for (x, y) in [
            (below(x), below(y)),
            (largest, below(y)),
            (largest, largest),
        ] {
            let form = |x| FixedMontyForm::from_montgomery(x, &params);
            let expected = form(x).mul(&form(y)).as_montgomery().to_words();
            let product = Modulus::new(n).multiply(x.as_words(), y.as_words());
            prop_assert_eq!(product, expected);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn products_are_those_of_the_library(
            n in prop::collection::vec(word(), 6),
            x in prop::collection::vec(word(), 6),
            y in prop::collection::vec(word(), 6),
        ) {
            agrees::<2>(&n[..2], &x[..2], &y[..2])?;
            agrees::<4>(&n[..4], &x[..4], &y[..4])?;
            agrees::<6>(&n, &x, &y)?;
        }

        #[test]
        fn so_they_are_where_numbers_are_as_long_as_those_of_keys(
            n in prop::collection::vec(word(), 96),
            x in prop::collection::vec(word(), 96),
            y in prop::collection::vec(word(), 96),
        ) {
            agrees::<32>(&n[..32], &x[..32], &y[..32])?;
            agrees::<96>(&n, &x, &y)?;
        }
    }
}
