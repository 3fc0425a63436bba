//! The largest coordinates of a tensor, in time proportional to its length.

use blindsum_crypto::Zeroizing;

/// Values are counted by the bits of their magnitude, as a single, from this one on: the exponent and three bits more.
const SHIFT: u32 = 20;

/// Classes of magnitudes, whose highest bit is zero.
const CLASSES: usize = 1 << (u32::BITS - 1 - SHIFT);

/// Appends the indices of the `count` largest magnitudes of finite `values`, ascending; of equal ones the first.
/// Indices count from `first`; `count` is at least 1 and at most the number of values.
pub(super) fn largest(values: &[f64], count: usize, first: usize, indices: &mut Vec<u32>) {
    let Threshold {
        magnitude: threshold,
        mut equal,
    } = threshold(values, count);
    let mut at = indices.len();
    // Without a branch, which would be hard to predict: an index is overwritten unless it is kept. The last one has
    // a place too.
    indices.resize(at + count + 1, 0);
    for (index, value) in (first..).zip(values) {
        let magnitude = magnitude(value);
        let one_of_equal = (magnitude == threshold) & (equal > 0);
        equal -= usize::from(one_of_equal);
        indices[at] = index as u32;
        at += usize::from((magnitude > threshold) | one_of_equal);
    }
    indices.truncate(at);
}

/// Of finite numbers without their sign, the bits are in the order of the numbers.
fn magnitude(value: &f64) -> u64 {
    value.abs().to_bits()
}

/// The class that a value is counted in: never a lower one for a larger magnitude, because rounding to a single keeps the
/// order.
fn class(value: &f64) -> usize {
    ((value.abs() as f32).to_bits() >> SHIFT) as usize
}

/// The smallest of the largest magnitudes, and how many that are equal to it belong to them.
struct Threshold {
    magnitude: u64,
    equal: usize,
}

fn threshold(values: &[f64], count: usize) -> Threshold {
    // Several counters of a class: neighbours are often of one class, and must not wait for each other.
    let mut counters = vec![[0_usize; 4]; CLASSES];
    for values in values.chunks(4) {
        for (k, value) in values.iter().enumerate() {
            counters[class(value)][k] += 1;
        }
    }
    let sizes = counters.iter().map(|counters| counters.iter().sum());
    let sizes: Vec<usize> = sizes.collect();
    let (mut of_threshold, mut above) = (CLASSES - 1, 0);
    while above + sizes[of_threshold] < count {
        above += sizes[of_threshold];
        of_threshold -= 1;
    }
    // Only what is in the class of the threshold must be sorted out.
    let mut magnitudes = Zeroizing::new(vec![0; sizes[of_threshold] + 1]);
    let mut at = 0;
    for value in values {
        magnitudes[at] = magnitude(value);
        at += usize::from(class(value) == of_threshold);
    }
    let magnitudes = &mut magnitudes[..at];
    let wanted = count - above;
    let (_, &mut magnitude, larger) = magnitudes.select_nth_unstable(at - wanted);
    // All that are larger stand behind it, perhaps with some that are equal.
    let larger = larger.iter().filter(|&&m| m > magnitude).count();
    Threshold {
        magnitude,
        equal: wanted - larger,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By sorting all of them.
    fn by_sorting(values: &[f64], count: usize, first: usize) -> Vec<u32> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        // Stable: equal magnitudes stay in order.
        order.sort_by(|&a, &b| values[b].abs().total_cmp(&values[a].abs()));
        order.truncate(count);
        order.sort_unstable();
        order.iter().map(|index| (first + index) as u32).collect()
    }

    fn values() -> impl Strategy<Value = Vec<f64>> {
        let value = prop_oneof![
            -1e3..1e3_f64,
            // What is equal as a single is not equal as a double.
            prop::sample::select(vec![
                0.0,
                -0.0,
                1.0,
                -1.0,
                1.0_f64.next_up(),
                1e-45,
                1e-300,
                1e300,
                f64::MAX,
                f64::MIN
            ]),
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
