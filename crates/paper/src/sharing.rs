//! Packed sharing with transforms of radix 2 and 3, step by step.
//!
//! Values are put at the roots of unity of order 2^a by an inverse radix-2 transform, the 2^a coefficients are padded
//! with zeros to 3^b, and a radix-3 transform evaluates at the roots of order 3^b; one block at a time, no step left out.
//!
//! The trap: both groups of roots contain 1, so share 0 is value 0 in clear. [`blindsum_math::transform`] evaluates on
//! a coset instead.

use blindsum_math::MathError;
use blindsum_math::prime_field::NttField;

/// Sharing of 2^a values in 3^b shares.
pub struct PaperSharing<F> {
    /// Powers of the inverse of the root of order 2^a, 2^(a − 1) of them.
    inverse_powers: Vec<F>,
    /// Powers of the root of order 3^b.
    powers: Vec<F>,
    /// 1/2^a.
    scale: F,
    reversed_values: Vec<usize>,
    reversed_shares: Vec<usize>,
    values: usize,
}

impl<F: NttField> PaperSharing<F> {
    /// Prepares the sharing of 2^`log_values` values in 3^`log_shares` shares.
    ///
    /// # Errors
    /// [`MathError::RootOrder`] if the field lacks the roots, [`MathError::TransformSize`] if there are fewer shares
    /// than values.
    pub fn new(log_values: u32, log_shares: u32) -> Result<Self, MathError> {
        let value_root = F::root_of_unity(log_values)?;
        let share_root = F::root_of_unity_3(log_shares)?;
        let (values, shares) = (1_usize << log_values, 3_usize.pow(log_shares));
        if values > shares {
            return Err(MathError::TransformSize {
                coefficients: values,
                points: shares,
                largest: 3_usize.pow(F::THREE_ADICITY),
            });
        }
        Ok(Self {
            inverse_powers: powers(value_root.inverse(), values.div_ceil(2)),
            powers: powers(share_root, shares),
            scale: F::from_wide(values as u128).inverse(),
            reversed_values: reversed_digits(values, 2),
            reversed_shares: reversed_digits(shares, 3),
            values,
        })
    }

    /// The number 2^a of values.
    #[must_use]
    pub fn values(&self) -> usize {
        self.values
    }

    /// The number 3^b of shares.
    #[must_use]
    pub fn shares(&self) -> usize {
        self.powers.len()
    }

    /// Replaces the values of one block in `block[..2^a]` by its shares in `block[..3^b]`.
    ///
    /// # Panics
    /// If `block` does not have 3^b elements.
    pub fn share(&self, block: &mut [F]) {
        assert_eq!(block.len(), self.shares(), "one element a share");
        let (values, padding) = block.split_at_mut(self.values);
        self.interpolate(values);
        padding.fill(F::ZERO);
        self.evaluate(block);
    }

    /// The inverse radix-2 transform: values at the powers of the root of order 2^a in, coefficients out.
    ///
    /// # Panics
    /// If `values` does not have 2^a elements.
    pub fn interpolate(&self, values: &mut [F]) {
        assert_eq!(values.len(), self.values, "one element a value");
        reorder(values, &self.reversed_values);
        let mut size = 2;
        while size <= values.len() {
            let stride = values.len() / size;
            for block in values.chunks_exact_mut(size) {
                let (left, right) = block.split_at_mut(size / 2);
                for (j, (a, b)) in left.iter_mut().zip(right).enumerate() {
                    let product = *b * self.inverse_powers[j * stride];
                    (*a, *b) = (*a + product, *a - product);
                }
            }
            size *= 2;
        }
        for value in values {
            *value *= self.scale;
        }
    }

    /// The radix-3 transform: 3^b coefficients in, values at the powers of the root of order 3^b out.
    ///
    /// # Panics
    /// If `block` does not have 3^b elements.
    pub fn evaluate(&self, block: &mut [F]) {
        let shares = self.shares();
        assert_eq!(block.len(), shares, "one element a share");
        reorder(block, &self.reversed_shares);
        let third = self.powers[shares / 3];
        let mut size = 3;
        while size <= shares {
            let stride = shares / size;
            for block in block.chunks_exact_mut(size) {
                let (first, rest) = block.split_at_mut(size / 3);
                let (second, last) = rest.split_at_mut(size / 3);
                for (j, ((a, b), c)) in first.iter_mut().zip(second).zip(last).enumerate() {
                    let x = *b * self.powers[j * stride];
                    let y = *c * self.powers[2 * j * stride];
                    // 1 + ζ + ζ² = 0 for the third root of unity saves one product of three.
                    let turned = (x - y) * third;
                    *b = *a - y + turned;
                    *c = *a - x - turned;
                    *a += x + y;
                }
            }
            size *= 3;
        }
    }
}

/// 1, root, root^2, ..
fn powers<F: NttField>(root: F, count: usize) -> Vec<F> {
    std::iter::successors(Some(F::ONE), |&power| Some(power * root))
        .take(count)
        .collect()
}

/// Where every index of `size` goes when its digits in this base are reversed; `size` is a power of the base.
fn reversed_digits(size: usize, base: usize) -> Vec<usize> {
    let reverse = |mut index: usize| {
        let (mut reversed, mut digits) = (0, 1);
        while digits < size {
            reversed = reversed * base + index % base;
            index /= base;
            digits *= base;
        }
        reversed
    };
    (0..size).map(reverse).collect()
}

/// Moves every element to its place.
fn reorder<F>(elements: &mut [F], places: &[usize]) {
    for (i, &place) in places.iter().enumerate() {
        if i < place {
            elements.swap(i, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blindsum_math::polynomial::Polynomial;
    use blindsum_math::prime_field::{Field31, Field47, Field48};

    /// Values of the polynomial with coefficients 3, 10, 29, .. (i^3 + 2 i + 3 and so on), shared and by Horner's rule.
    fn check<F: NttField>(log_values: u32, log_shares: u32) {
        let sharing = PaperSharing::<F>::new(log_values, log_shares).expect("such roots");
        let coefficient = |i: usize| F::from_wide((i as u128 + 3).pow(9));
        let polynomial = Polynomial::new((0..sharing.values()).map(coefficient).collect());
        let value_root = F::root_of_unity(log_values).expect("such a root");
        let share_root = F::root_of_unity_3(log_shares).expect("such a root");
        let mut block: Vec<F> = (0..sharing.shares() as u64)
            .map(|i| polynomial.evaluate(value_root.power(i)))
            .collect();
        let value_0 = block[0];
        sharing.share(&mut block);
        for (j, &share) in block.iter().enumerate() {
            assert!(share == polynomial.evaluate(share_root.power(j as u64)));
        }
        assert!(block[0] == value_0, "the trap is there");
    }

    #[test]
    fn shares_are_values_of_the_interpolant() {
        for (log_values, log_shares) in [(0, 0), (0, 2), (1, 1), (3, 2), (4, 4), (6, 6), (8, 6)] {
            check::<Field47>(log_values, log_shares);
            check::<Field48>(log_values, log_shares);
        }
    }

    #[test]
    fn missing_roots_and_shares_are_refused() {
        let refusal =
            |log_values, log_shares| PaperSharing::<Field47>::new(log_values, log_shares).err();
        assert!(matches!(
            refusal(4, 2),
            Some(MathError::TransformSize {
                coefficients: 16,
                points: 9,
                ..
            })
        ));
        assert!(matches!(
            refusal(4, 8),
            Some(MathError::RootOrder { base: 3, .. })
        ));
        assert!(matches!(
            refusal(20, 7),
            Some(MathError::RootOrder { base: 2, .. })
        ));
        assert!(PaperSharing::<Field31>::new(1, 1).is_err());
    }
}
