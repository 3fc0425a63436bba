//! What sums over several sets of parties give away together.

use std::collections::BTreeMap;

use blindsum_math::field::Field;
use blindsum_math::field61::Field61;
use blindsum_math::row_space::unit_vectors;

use super::Cohort;

/// The smallest group of parties whose own sum is a linear combination of the sums over these sets, if each party's
/// vector is the same in all of them.
///
/// Parties that are always in the same sets cannot be told apart: they are one group, and the group's sum comes out
/// exactly if its unit vector is in the row space of the sets. What several groups give away together is not looked for.
pub(super) fn smallest_group(sets: &[&Cohort]) -> Option<usize> {
    let groups = groups(sets);
    let sizes: Vec<usize> = groups.values().copied().collect();
    let row = |set: usize| {
        let bits = groups.keys().map(|pattern| match pattern.get(set) {
            Some(true) => Field61::ONE,
            _ => Field61::ZERO,
        });
        bits.collect()
    };
    let alone = unit_vectors((0..sets.len()).map(row).collect());
    alone
        .into_iter()
        .filter_map(|group| sizes.get(group).copied())
        .min()
}

/// How many parties are in exactly these of the sets.
fn groups(sets: &[&Cohort]) -> BTreeMap<Vec<bool>, usize> {
    let parties: Cohort = sets.iter().flat_map(|set| set.iter().cloned()).collect();
    let mut groups = BTreeMap::new();
    for party in &parties {
        let pattern = sets.iter().map(|set| set.contains(party)).collect();
        *groups.entry(pattern).or_default() += 1;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smallest(sets: &[&[u32]]) -> Option<usize> {
        let sets: Vec<Cohort> = sets
            .iter()
            .map(|set| set.iter().map(u32::to_string).collect())
            .collect();
        smallest_group(&sets.iter().collect::<Vec<_>>())
    }

    #[test]
    fn one_set_gives_its_sum() {
        assert_eq!(smallest(&[&[0, 1, 2, 3]]), Some(4));
    }

    #[test]
    fn two_sets_give_both_sums_and_no_part_of_them() {
        assert_eq!(smallest(&[&[0, 1, 2, 3], &[2, 3, 4, 5]]), None);
        // One within the other: what is left over.
        assert_eq!(smallest(&[&[0, 1, 2, 3, 4], &[0, 1, 2]]), Some(2));
    }

    /// Ten parties; each pair of sets differs by three or more.
    #[test]
    fn four_sets_can_isolate_a_party() {
        let all: Vec<u32> = (0..10).collect();
        let without = |lost: [u32; 3]| -> Vec<u32> {
            let kept = all.iter().copied();
            kept.filter(|party| !lost.contains(party)).collect()
        };
        let [a, b, c] = [without([1, 2, 3]), without([4, 5, 6]), without([7, 8, 9])];
        assert_eq!(smallest(&[&all, &a, &b]), Some(3));
        assert_eq!(smallest(&[&all, &a, &b, &c]), Some(1));
    }

    #[test]
    fn a_sum_may_be_a_fraction_of_others() {
        // (S0 + S1 − S2) / 2 is the vector of party 0.
        assert_eq!(smallest(&[&[0, 1], &[0, 2], &[1, 2]]), Some(1));
    }
}
