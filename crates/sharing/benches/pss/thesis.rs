//! The transforms of the PSS thesis (§IV.1), one block after the other, in plain compiled code: what its
//! algorithm costs without vector instructions, pruning or batches.
//!
//! A block's values sit at the powers of a root of order d2 = 2^a, the shares at the powers of one of order
//! d3 = 3^b. Both sets have the point 1, so that the first share is the first value in the clear: a baseline
//! for speed, and no sharing to use.

use blindsum_math::field::Field;
use blindsum_math::prime_field::NttField;

/// The inverse transform of size 2^a by radix 2.
pub struct Radix2<F> {
    /// ω^−i for i < d2/2.
    roots: Vec<F>,
    scale: F,
    log_size: u32,
}

impl<F: NttField> Radix2<F> {
    pub fn inverse(log_size: u32) -> Self {
        let root = F::root_of_unity(log_size)
            .expect("the field has it")
            .inverse();
        let size = 1 << log_size;
        Self {
            roots: powers(root, size / 2),
            scale: F::from_wide(size as u128).inverse(),
            log_size,
        }
    }

    /// Values at ω^i in, coefficients out.
    pub fn run(&self, values: &mut [F]) {
        let size = 1_usize << self.log_size;
        for i in 0..size {
            let j = i.reverse_bits() >> (usize::BITS - self.log_size);
            if i < j {
                values.swap(i, j);
            }
        }
        let mut half = 1;
        while half < size {
            let step = size / (2 * half);
            for start in (0..size).step_by(2 * half) {
                for i in 0..half {
                    let (a, b) = (values[start + i], values[start + i + half]);
                    let b = b * self.roots[i * step];
                    values[start + i] = a + b;
                    values[start + i + half] = a - b;
                }
            }
            half *= 2;
        }
        for value in values {
            *value *= self.scale;
        }
    }
}

/// The transform of size 3^b by radix 3.
pub struct Radix3<F> {
    /// θ^i for i < d3.
    roots: Vec<F>,
    /// The cube root of unity θ^(d3/3).
    third: F,
    /// Where index i goes when its digits to base 3 are reversed.
    reversed: Vec<usize>,
}

impl<F: NttField> Radix3<F> {
    pub fn new(log_size: u32) -> Self {
        let size = 3_usize.pow(log_size);
        let root = F::root_of_unity_3(log_size).expect("the field has it");
        let reverse = |mut i: usize| {
            (0..log_size).fold(0, |reversed, _| {
                let digit = i % 3;
                i /= 3;
                3 * reversed + digit
            })
        };
        Self {
            roots: powers(root, size),
            third: root.power(size as u64 / 3),
            reversed: (0..size).map(reverse).collect(),
        }
    }

    pub fn size(&self) -> usize {
        self.roots.len()
    }

    /// Coefficients in, values at θ^i out; 1 + ζ + ζ² = 0 saves one product of a butterfly's four.
    pub fn run(&self, values: &mut [F]) {
        for (i, &j) in self.reversed.iter().enumerate() {
            if i < j {
                values.swap(i, j);
            }
        }
        let mut part = 1;
        while part < self.size() {
            let step = self.size() / (3 * part);
            for start in (0..self.size()).step_by(3 * part) {
                for i in 0..part {
                    let at = start + i;
                    let a = values[at];
                    let b = values[at + part] * self.roots[i * step];
                    let c = values[at + 2 * part] * self.roots[2 * i * step];
                    let turned = (b - c) * self.third;
                    values[at] = a + b + c;
                    values[at + part] = a - c + turned;
                    values[at + 2 * part] = a - b - turned;
                }
            }
            part *= 3;
        }
    }
}

fn powers<F: Field>(root: F, count: usize) -> Vec<F> {
    let next = |power: &F| Some(*power * root);
    std::iter::successors(Some(F::ONE), next)
        .take(count)
        .collect()
}

/// Panics unless the two transforms put the values on a polynomial and evaluate that one.
pub fn check<F: NttField>(log2: u32, log3: u32, values: &[F]) {
    let (inverse, forward) = (Radix2::<F>::inverse(log2), Radix3::<F>::new(log3));
    let horner = |coefficients: &[F], point: F| {
        let terms = coefficients.iter().rev();
        terms.fold(F::ZERO, |sum, &coefficient| sum * point + coefficient)
    };
    let mut shares = values.to_vec();
    inverse.run(&mut shares);
    let coefficients = shares.clone();
    shares.resize(forward.size(), F::ZERO);
    forward.run(&mut shares);
    let (omega, theta) = (F::root_of_unity(log2), F::root_of_unity_3(log3));
    let (omega, theta) = (omega.expect("checked"), theta.expect("checked"));
    for (i, &value) in values.iter().enumerate() {
        assert!(
            horner(&coefficients, omega.power(i as u64)) == value,
            "value {i}"
        );
    }
    for (j, &share) in shares.iter().enumerate() {
        assert!(
            horner(&coefficients, theta.power(j as u64)) == share,
            "share {j}"
        );
    }
    assert!(shares[0] == values[0], "the point that both sets have");
}
