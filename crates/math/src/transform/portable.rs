//! The backend for machines whose floating-point units have fused multiply-add: eight lanes of `f64`.
//!
//! Residues are integers of either sign. w x is exact as the sum of the rounded product h and the error l = w x − h;
//! with q the integer next to x (w/p), the remainder (h − q p) + l is exact too, and at most p/2 in size but for the
//! rounding of q. A step down adds as much to residues, so 14 of them leave |x| < 2^51, where adding 1.5 · 2^52 rounds
//! to the next integer. Which code the loops over lanes become is the compiler's affair; the results are exact.

use super::Row;
use super::lanes::{Factor, Job, Lanes};

/// 1.5 · 2^52: added and taken off, it rounds anything below 2^51 in size to an integer.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// 2^52: added to a smaller integer, it leaves that in the low bits.
const LIFT: f64 = 4_503_599_627_370_496.0;
/// Those low bits.
const LOW_BITS: u64 = (1 << 52) - 1;

/// Whether this machine has the instructions.
pub(super) fn is_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    let available = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    let available = true;
    available
}

/// Runs a job modulo `modulus`.
///
/// # Panics
/// If the machine cannot.
pub(super) fn run<J: Job>(modulus: u64, job: J) {
    assert!(is_available(), "a machine with fused multiply-add");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the features are there.
    unsafe {
        run_detected(modulus, job);
    }
    #[cfg(not(target_arch = "x86_64"))]
    run_detected(modulus, job);
}

#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn run_detected<J: Job>(modulus: u64, job: J) {
    let modulus = modulus as f64;
    job.run(Portable {
        modulus,
        reciprocal: 1.0 / modulus,
    });
}

/// The factor `value`, below the modulus: w and w/p.
pub(super) fn factor(value: u64, modulus: u64) -> Factor {
    let value = value as f64;
    Factor(value.to_bits(), (value / modulus as f64).to_bits())
}

#[derive(Clone, Copy)]
struct Portable {
    modulus: f64,
    reciprocal: f64,
}

impl Portable {
    /// w x reduced to about p/2 in size, for w/p = `quotient`.
    #[inline(always)]
    fn times(self, x: f64, w: f64, quotient: f64) -> f64 {
        let high = x * w;
        let low = x.mul_add(w, -high);
        let multiple = x.mul_add(quotient, ROUNDER) - ROUNDER;
        multiple.mul_add(-self.modulus, high) + low
    }

    /// x reduced to about p/2 in size.
    #[inline(always)]
    fn reduce(self, x: f64) -> f64 {
        let multiple = x.mul_add(self.reciprocal, ROUNDER) - ROUNDER;
        multiple.mul_add(-self.modulus, x)
    }
}

impl Lanes for Portable {
    type Vector = [f64; 8];
    type Broadcast = (f64, f64);

    #[inline(always)]
    fn load(self, row: &Row) -> [f64; 8] {
        let mut vector = [0.0; 8];
        for (x, &value) in vector.iter_mut().zip(&row.0) {
            *x = f64::from_bits(value | LIFT.to_bits()) - LIFT;
        }
        vector
    }

    #[inline(always)]
    fn store(self, vector: [f64; 8], row: &mut Row) {
        for (value, x) in row.0.iter_mut().zip(vector) {
            let reduced = self.reduce(x);
            let lift = if reduced < 0.0 {
                LIFT + self.modulus
            } else {
                LIFT
            };
            *value = (reduced + lift).to_bits() & LOW_BITS;
        }
    }

    #[inline(always)]
    fn load_partial(self, row: &Row) -> [f64; 8] {
        let mut vector = [0.0; 8];
        for (x, &bits) in vector.iter_mut().zip(&row.0) {
            *x = f64::from_bits(bits);
        }
        vector
    }

    #[inline(always)]
    fn store_partial(self, vector: [f64; 8], row: &mut Row) {
        for (bits, x) in row.0.iter_mut().zip(vector) {
            *bits = x.to_bits();
        }
    }

    #[inline(always)]
    fn broadcast(self, factor: &Factor) -> (f64, f64) {
        (f64::from_bits(factor.0), f64::from_bits(factor.1))
    }

    #[inline(always)]
    fn down(self, mut a: [f64; 8], mut b: [f64; 8], w: (f64, f64)) -> ([f64; 8], [f64; 8]) {
        for (a, b) in a.iter_mut().zip(&mut b) {
            let product = self.times(*b, w.0, w.1);
            (*a, *b) = (*a + product, *a - product);
        }
        (a, b)
    }

    #[inline(always)]
    fn up(self, mut a: [f64; 8], mut b: [f64; 8], w: (f64, f64)) -> ([f64; 8], [f64; 8]) {
        for (a, b) in a.iter_mut().zip(&mut b) {
            let (sum, difference) = (*a + *b, *a - *b);
            (*a, *b) = (self.reduce(sum), self.times(difference, w.0, w.1));
        }
        (a, b)
    }

    #[inline(always)]
    fn scale(self, mut x: [f64; 8], w: (f64, f64)) -> [f64; 8] {
        for x in &mut x {
            *x = self.times(*x, w.0, w.1);
        }
        x
    }
}
