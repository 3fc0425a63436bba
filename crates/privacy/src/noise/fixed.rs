//! Numbers of 256 bits with a fixed point: 8 bits before it, 248 behind it. They become tables of public numbers, so their
//! time may depend on them.

use crypto_bigint::{NonZero, U512};

/// Bits behind the point.
pub(super) const FRACTION_BITS: u32 = 248;

/// 1.
pub(super) fn one() -> U512 {
    U512::ONE.shl_vartime(FRACTION_BITS)
}

/// The product of two numbers below 2^8, rounded down.
pub(super) fn product(a: &U512, b: &U512) -> U512 {
    a.wrapping_mul(b).shr_vartime(FRACTION_BITS)
}

/// ⌊a / b⌋, for b above 0.
pub(super) fn quotient(a: &U512, b: &U512) -> U512 {
    let divisor = NonZero::new(*b).into_option();
    a.wrapping_div_vartime(&divisor.expect("no divisor here is 0"))
}

/// e^(−n/d), for n < 2^64 and 0 < d < 2^64, off by less than 2^-240 for n/d up to 1 and by less than 2^-224 in any case.
///
/// n/d is halved until it is at most 2^-8, the exponential of that is summed as a Taylor series, and then squared as often.
pub(super) fn exp_neg(n: u64, d: u64) -> U512 {
    let (mut divisor, mut halvings) = (u128::from(d), 0);
    while u128::from(n) << 8 > divisor {
        divisor <<= 1;
        halvings += 1;
    }
    let x = quotient(
        &U512::from_u64(n).shl_vartime(FRACTION_BITS),
        &U512::from_u128(divisor),
    );
    // The last terms are not below 0: rounding down leaves them at 0.
    let (mut term, mut sum, mut k) = (one(), one(), 0);
    while term != U512::ZERO {
        k += 1;
        term = quotient(&product(&term, &x), &U512::from_u64(k));
        sum = match k % 2 {
            1 => sum.wrapping_sub(&term),
            _ => sum.wrapping_add(&term),
        };
    }
    for _ in 0..halvings {
        sum = product(&sum, &sum);
    }
    sum
}
