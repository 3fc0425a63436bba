//! Numbers of bits from the bits of a double. Logarithms of a platform's mathematical library may differ in the last bit,
//! and all three servers must come to the same number.

/// Bits of a double behind its point.
const FRACTION_OF_DOUBLE: u32 = f64::MANTISSA_DIGITS - 1;

/// The difference between the exponent field of a double and its exponent.
const BIAS_OF_DOUBLE: u32 = 1023;

/// ⌈log2 x⌉; 0 for x < 1 and NaN, 1024 for infinity.
pub(crate) fn ceil_log2(x: f64) -> u32 {
    let bits = x.max(1.0).to_bits();
    let is_above = bits << (u64::BITS - FRACTION_OF_DOUBLE) != 0;
    let exponent = (bits >> FRACTION_OF_DOUBLE) as u32 - BIAS_OF_DOUBLE;
    exponent + u32::from(is_above)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// ⌈log2 x⌉ of x = m · 2^s, in whole numbers: the least k with m · 2^s <= 2^k.
    fn counted(x: f64) -> u32 {
        assert!((1.0..2f64.powi(70)).contains(&x));
        // x = whole / 2^52, exactly.
        let whole = (x as u128) << 52 | (x.fract() * 2f64.powi(52)) as u128;
        (0..128).find(|k| whole <= 1 << (k + 52)).unwrap()
    }

    #[test]
    fn ceil_log2_is_exact_at_powers_of_two_and_next_to_them() {
        for k in 0..70 {
            let power = (1u128 << k) as f64;
            assert_eq!(ceil_log2(power), k, "2^{k}");
            assert_eq!(ceil_log2(power.next_up()), k + 1, "above 2^{k}");
            assert_eq!(ceil_log2(power.next_down()), k, "below 2^{k}");
        }
        for x in [0.0, -1.0, f64::MIN_POSITIVE, f64::NAN, -f64::INFINITY] {
            assert_eq!(ceil_log2(x), 0, "{x}");
        }
        assert_eq!(ceil_log2(f64::MAX), 1024);
        assert_eq!(ceil_log2(f64::INFINITY), 1024);
    }

    proptest! {
        #[test]
        fn ceil_log2_is_that_of_whole_numbers(exponent in 0u64..70, fraction in 0u64..1 << 52) {
            let x = f64::from_bits((exponent + 1023) << 52 | fraction);
            prop_assert_eq!(ceil_log2(x), counted(x));
        }
    }
}
