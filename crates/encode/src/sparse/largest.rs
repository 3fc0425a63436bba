//! The largest coordinates of a tensor, in time proportional to its length.

use blindsum_crypto::Zeroizing;

/// Appends the indices of the `count` largest magnitudes of finite `values`, ascending; of equal ones the first.
/// Indices count from `first`; `count` is at least 1 and at most the number of values.
pub(super) fn largest(values: &[f32], count: usize, first: usize, indices: &mut Vec<u32>) {
    // Of finite numbers without their sign, the bits are in the order of the numbers.
    let magnitude = |value: &f32| value.abs().to_bits();
    let mut magnitudes: Zeroizing<Vec<u32>> =
        Zeroizing::new(values.iter().map(magnitude).collect());
    let (_, &mut threshold, above) = magnitudes.select_nth_unstable(values.len() - count);
    // All that are larger stand behind the threshold, perhaps with some that are equal to it.
    let larger = above.iter().filter(|&&m| m > threshold).count();
    let mut equal = count - larger;
    indices.reserve(count);
    for (index, value) in (first..).zip(values) {
        let magnitude = magnitude(value);
        if magnitude > threshold {
            indices.push(index as u32);
        } else if magnitude == threshold && equal > 0 {
            equal -= 1;
            indices.push(index as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By sorting all of them.
    fn by_sorting(values: &[f32], count: usize, first: usize) -> Vec<u32> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        // Stable: equal magnitudes stay in order.
        order.sort_by(|&a, &b| values[b].abs().total_cmp(&values[a].abs()));
        order.truncate(count);
        order.sort_unstable();
        order.iter().map(|index| (first + index) as u32).collect()
    }

    fn values() -> impl Strategy<Value = Vec<f32>> {
        let value = prop_oneof![
            -1e3..1e3_f32,
            prop::sample::select(vec![0.0, -0.0, 1.0, -1.0, 1e-45, f32::MAX, f32::MIN]),
        ];
        prop::collection::vec(value, 1..300)
    }

    proptest! {
        #[test]
        fn they_are_those_that_sorting_finds(
            values in values(),
            count in any::<prop::sample::Index>(),
            first in 0..1000_usize,
        ) {
            let count = 1 + count.index(values.len());
            let mut found = vec![7];
            largest(&values, count, first, &mut found);
            prop_assert_eq!(found[0], 7);
            prop_assert_eq!(&found[1..], by_sorting(&values, count, first));
        }
    }

    #[test]
    fn the_first_of_equal_ones() {
        let mut found = Vec::new();
        largest(&[1.0, -2.0, 0.5, 2.0, -1.0, 1.0], 4, 10, &mut found);
        assert_eq!(found, [10, 11, 13, 14]);
        found.clear();
        largest(&[0.0; 5], 2, 0, &mut found);
        assert_eq!(found, [0, 1]);
    }
}
