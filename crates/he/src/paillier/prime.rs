//! Secret primes.

use blindsum_crypto::CryptoRng;
use crypto_bigint::{Limb, NonZero, Uint};
use zeroize::Zeroizing;

use super::kernel::{Kernel, power};
use super::portable::Portable;

/// Rounds of Miller and Rabin's test. Of random candidates of 1024 bits or more that pass 8 of them, fewer than one in
/// 2^150 is composite: Damgård, Landrock and Pomerance, "Average case error estimates for the strong probable prime
/// test", Theorem 2, with k = 1024 and t = 8, and more for longer ones.
const ROUNDS: usize = 8;

/// Numbers below this are divided by, before any test that takes long.
const SMALL: u64 = 1 << 11;

/// A prime of `W` words that is 3 mod 4 and has its two highest bits set: a product of two of them has full length.
///
/// Every candidate is drawn afresh. Time tells how many there were, and nothing of the one that is taken.
pub(super) fn generate<const W: usize>(rng: &mut dyn CryptoRng) -> Zeroizing<Uint<W>> {
    loop {
        let mut candidate = random::<W>(rng);
        let words = candidate.as_mut_words();
        words[0] |= 3;
        words[W - 1] |= 3 << 62;
        if !has_small_factor(&candidate) && is_prime(&candidate, rng) {
            return candidate;
        }
    }
}

/// A uniform number of `W` words.
pub(super) fn random<const W: usize>(rng: &mut dyn CryptoRng) -> Zeroizing<Uint<W>> {
    let mut number = Zeroizing::new(Uint::ZERO);
    for word in number.as_mut_words() {
        let mut bytes = Zeroizing::new([0; 8]);
        rng.fill_bytes(&mut *bytes);
        *word = u64::from_le_bytes(*bytes);
    }
    number
}

/// Whether an odd number has an odd factor below 2^11.
pub(super) fn has_small_factor<const W: usize>(number: &Uint<W>) -> bool {
    // Multiples of other divisors are found as well: that they are no primes does no harm.
    (3..SMALL)
        .step_by(2)
        .filter(|divisor| {
            [3, 5, 7]
                .iter()
                .all(|it| divisor == it || divisor % it != 0)
        })
        .any(|divisor| {
            let divisor = NonZero::new(Limb(divisor)).expect_copied("at least 3");
            number.rem_limb(divisor) == Limb::ZERO
        })
}

/// Whether a number that is 3 mod 4 and has its highest bit set is probably prime.
fn is_prime<const W: usize>(number: &Uint<W>, rng: &mut dyn CryptoRng) -> bool {
    (0..ROUNDS).all(|_| {
        // Uniform below the number's highest bit: a quarter of all bases or more, of which at most a quarter lie.
        let mut base = random::<W>(rng);
        base.as_mut_words()[W - 1] >>= 1;
        passes(number, &base)
    })
}

/// Whether a number n that is 3 mod 4 passes Miller and Rabin's test to a base a: a^((n−1)/2) is 1 or −1. Bases 0 and 1
/// count as passed.
pub(super) fn passes<const W: usize>(number: &Uint<W>, base: &Uint<W>) -> bool {
    let modulo = Portable::<W>::new(number.as_words());
    let half = Zeroizing::new(number.shr_vartime(1));
    let mut block = modulo.load(base.as_words());
    modulo.multiply(&mut block, modulo.r_squared());
    let mut raised = power(&modulo, block, half.as_words());
    modulo.multiply(&mut raised, modulo.one());
    let mut power = Zeroizing::new([0; W]);
    modulo.store(&raised, &mut *power);
    let minus_one = Zeroizing::new(number.wrapping_sub(&Uint::ONE));
    *power == Uint::<W>::ONE.to_words() || *power == minus_one.to_words() || *base <= Uint::ONE
}
