//! Bits of numbers that have a bound.

/// How a number from 0 to `most` is written in bits: the last bit counts so much that all together are exactly the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BoundedBits {
    /// The bound; at least 1.
    pub most: u64,
}

impl BoundedBits {
    /// How many bits there are.
    pub fn count(self) -> usize {
        (u64::BITS - self.most.leading_zeros()) as usize
    }

    /// What a bit counts; nothing behind the last one.
    pub fn weight(self, bit: usize) -> u64 {
        match (bit + 1).cmp(&self.count()) {
            std::cmp::Ordering::Less => 1 << bit,
            std::cmp::Ordering::Equal => self.most - (1 << bit) + 1,
            std::cmp::Ordering::Greater => 0,
        }
    }

    /// The bits of a number up to the bound.
    pub fn split(self, number: u64) -> Vec<u64> {
        self.bits_of(number).collect()
    }

    /// The bits of a number up to the bound, one after the other.
    pub fn bits_of(self, number: u64) -> impl Iterator<Item = u64> {
        let top = self.count() - 1;
        let last = number >> top & 1;
        let rest = number - last * self.weight(top);
        (0..=top).map(move |t| if t == top { last } else { rest >> t & 1 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_add_up_to_their_number_and_to_no_more_than_the_bound(most in 1u64..1 << 46, part in 0.0f64..=1.0) {
            let bounded = BoundedBits { most };
            let number = ((most as f64 * part) as u64).min(most);
            for number in [0, number, most] {
                let bits = bounded.split(number);
                prop_assert!(bits.iter().all(|bit| *bit < 2));
                prop_assert_eq!(bits.len(), bounded.count());
                let weights = (0..bits.len()).map(|t| bounded.weight(t));
                let sum: u64 = bits.iter().zip(weights.clone()).map(|(bit, weight)| bit * weight).sum();
                prop_assert_eq!(sum, number);
                prop_assert_eq!(weights.sum::<u64>(), most);
                prop_assert_eq!(bounded.weight(bits.len()), 0);
            }
        }
    }
}
