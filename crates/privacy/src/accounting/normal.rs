//! Tails of the normal distribution.

/// 1/√(2π).
const DENSITY_AT_0: f64 = 0.398_942_280_401_432_7;
/// Where the series ends and the continued fraction begins.
const SERIES_END: f64 = 2.0;
/// Terms of the continued fraction: enough for doubles from 2 on.
const TERMS: u32 = 220;

/// φ(x), with a relative error below 2^-45 for |x| up to 16 and below (x² + 8) · 2^-52 beyond, as long as it is no subnormal
/// number.
pub(super) fn density(x: f64) -> f64 {
    DENSITY_AT_0 * (-x * x / 2.0).exp()
}

/// Φ(−x), with a relative error below 2^-45 for x up to 16.
pub(super) fn upper_tail(x: f64) -> f64 {
    if x >= SERIES_END {
        return density(x) * mills(x);
    }
    if x <= -SERIES_END {
        return 1.0 - upper_tail(-x);
    }
    // Φ(x) = 1/2 + φ(x) (x + x³/3 + x⁵/(3·5) + …): all terms have one sign.
    let (mut term, mut sum, mut k) = (x, x, 1.0);
    while term.abs() > f64::EPSILON / 8.0 * sum.abs() {
        k += 2.0;
        term *= x * x / k;
        sum += term;
    }
    0.5 - density(x) * sum
}

/// Φ(−x) / φ(x), Mills' ratio, for x ≥ 0, with a relative error below 2^-46.
pub(super) fn mills(x: f64) -> f64 {
    if x < SERIES_END {
        return upper_tail(x) / density(x);
    }
    // 1/(x + 1/(x + 2/(x + 3/(x + …)))), Laplace: all terms are above 0.
    let inner = (1..=TERMS).rev().fold(x, |rest, k| x + f64::from(k) / rest);
    1.0 / inner
}
