//! What sums over several sets of parties give away together.

use std::collections::BTreeMap;

use blindsum_math::field::Field;
use blindsum_math::field61::Field61;

use super::Cohort;

/// The smallest group of parties whose own sum is a linear combination of the sums over these sets, if each party's
/// vector is the same in all of them.
///
/// Parties that are always in the same sets cannot be told apart: they are one group, and the group's sum comes out
/// exactly if its unit vector is in the row space of the sets. What several groups give away together is not looked for.
pub(super) fn smallest_group(sets: &[&Cohort]) -> Option<usize> {
    let groups = groups(sets);
    let sizes: Vec<usize> = groups.values().copied().collect();
    let mut rows: Vec<Vec<Field61>> = (0..sets.len())
        .map(|set| {
            let bits = groups.keys().map(|pattern| u64::from(pattern[set]));
            bits.filter_map(Field61::from_canonical).collect()
        })
        .collect();
    let pivots = reduce(&mut rows, sizes.len());
    let alone = rows.iter().zip(pivots).filter(|(row, _)| {
        let used = row.iter().filter(|entry| **entry != Field61::ZERO);
        used.count() == 1
    });
    alone
        .filter_map(|(_, pivot)| sizes.get(pivot).copied())
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

/// Reduced row echelon form; gives the pivot's column of each row that is not zero.
fn reduce(rows: &mut [Vec<Field61>], columns: usize) -> Vec<usize> {
    let mut pivots = Vec::new();
    for column in 0..columns {
        let done = pivots.len();
        let Some(found) = (done..rows.len()).find(|&row| rows[row][column] != Field61::ZERO) else {
            continue;
        };
        rows.swap(done, found);
        let scale = rows[done][column].inverse();
        rows[done].iter_mut().for_each(|entry| *entry *= scale);
        let pivot = rows[done].clone();
        for (at, row) in rows.iter_mut().enumerate() {
            let factor = row[column];
            if at == done || factor == Field61::ZERO {
                continue;
            }
            for (entry, of_pivot) in row.iter_mut().zip(&pivot) {
                *entry -= factor * *of_pivot;
            }
        }
        pivots.push(column);
    }
    pivots
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
