//! What the sums over several sets of parties reveal together.
//!
//! Parties that were in the same sums cannot be told apart: they are one group, and whatever is computed from the sums
//! gives their vectors the same weight. So no result of such a computation contains fewer honest parties than the
//! smallest group. That holds whoever of the others is corrupt, and for any number of sums.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The names of a round's parties.
pub type Cohort = BTreeSet<String>;

/// The groups of parties that were in the same sums so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Groups(Vec<Group>);

/// Parties that were all in the same sums.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Their names.
    pub parties: Cohort,
    /// The number of parties of the smallest job that summed them: as many of the group are corrupt as of that job's
    /// parties, at most.
    pub of_job: u32,
}

impl Groups {
    /// The groups after one more sum, over `cohort`, in a job of `of_job` parties. Groups that are new, because the sum
    /// splits a group or has new parties, are among the fresh ones.
    pub fn refine(&self, cohort: &Cohort, of_job: u32) -> Refined {
        let mut refined = Refined::default();
        let mut new = cohort.clone();
        for group in &self.0 {
            let (inside, outside) = group.part(cohort, of_job);
            new.retain(|party| !inside.parties.contains(party));
            // guard: sums-of-all-rounds-together
            let parted = !inside.parties.is_empty() && !outside.parties.is_empty();
            // guard: groups-of-what-is-left-out
            let parts = [inside, outside].into_iter().filter(Group::is_some);
            refined.add(parts, parted);
        }
        let new = Group {
            parties: new,
            of_job,
        };
        // guard: groups-of-newcomers
        refined.add([new].into_iter().filter(Group::is_some), true);
        refined
    }

    /// How many parties each group has.
    pub fn sizes(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|group| group.parties.len())
    }
}

impl Group {
    fn part(&self, cohort: &Cohort, of_job: u32) -> (Self, Self) {
        let (inside, outside) = self
            .parties
            .iter()
            .cloned()
            .partition(|p| cohort.contains(p));
        let inside = Self {
            parties: inside,
            of_job: of_job.min(self.of_job),
        };
        let outside = Self {
            parties: outside,
            // guard: corrupt-parties-of-the-job-that-summed
            of_job: self.of_job,
        };
        (inside, outside)
    }

    fn is_some(&self) -> bool {
        !self.parties.is_empty()
    }
}

/// The groups after one more sum.
#[derive(Debug, Default)]
pub struct Refined {
    /// All groups.
    pub groups: Groups,
    /// The places of those that were no group before.
    fresh: Vec<usize>,
}

impl Refined {
    fn add(&mut self, groups: impl Iterator<Item = Group>, fresh: bool) {
        for group in groups {
            if fresh {
                self.fresh.push(self.groups.0.len());
            }
            self.groups.0.push(group);
        }
    }

    /// The groups that did not exist before.
    pub fn fresh(&self) -> impl Iterator<Item = &Group> {
        self.fresh
            .iter()
            .filter_map(|&place| self.groups.0.get(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cohort(parties: &[u32]) -> Cohort {
        parties.iter().map(|party| format!("{party:02}")).collect()
    }

    /// The sizes of the groups after these sets, and of those that the last one made.
    fn sizes(sets: &[&[u32]]) -> (Vec<usize>, Vec<usize>) {
        let (mut groups, mut fresh) = (Groups::default(), Vec::new());
        for set in sets {
            let refined = groups.refine(&cohort(set), 10);
            fresh = refined.fresh().map(|group| group.parties.len()).collect();
            groups = refined.groups;
        }
        let all = groups.0.iter().map(|group| group.parties.len());
        (all.collect(), fresh)
    }

    #[test]
    fn sets_part_groups() {
        assert_eq!(sizes(&[&[0, 1, 2, 3]]), (vec![4], vec![4]));
        // Once more, and others beside it.
        assert_eq!(sizes(&[&[0, 1, 2, 3], &[0, 1, 2, 3]]), (vec![4], vec![]));
        assert_eq!(sizes(&[&[0, 1], &[2, 3, 4]]), (vec![2, 3], vec![3]));
        assert_eq!(
            sizes(&[&[0, 1], &[2, 3, 4], &[0, 1, 2, 3, 4]]),
            (vec![2, 3], vec![])
        );
        // Two that overlap.
        let overlap: &[&[u32]] = &[&[0, 1, 2], &[1, 2, 3]];
        assert_eq!(sizes(overlap), (vec![2, 1, 1], vec![2, 1, 1]));
    }

    #[test]
    fn a_group_is_as_corrupt_as_the_smallest_of_its_jobs() {
        let before = Groups::default().refine(&cohort(&[0, 1, 2, 3]), 40).groups;
        let refined = before.refine(&cohort(&[0, 1]), 10);
        let jobs = refined.fresh().map(|group| group.of_job);
        assert_eq!(jobs.collect::<Vec<_>>(), [10, 40]);
    }

    /// Groups are all that is needed to know of the sets: two parties are in one group if and only if each set has both
    /// or neither.
    #[test]
    fn groups_are_those_that_no_set_parts() {
        use rand_core::{Rng, SeedableRng};
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(1);
        for _ in 0..200 {
            let sets: Vec<u32> = (0..1 + rng.next_u32() % 5)
                .map(|_| rng.next_u32() % (1 << 9))
                .collect();
            let members = |set: u32| (0..9).filter(move |party| set >> party & 1 == 1);
            let mut groups = Groups::default();
            for set in &sets {
                groups = groups
                    .refine(&cohort(&members(*set).collect::<Vec<_>>()), 10)
                    .groups;
            }
            let known = (0..9).filter(|party| sets.iter().any(|set| set >> party & 1 == 1));
            let known: Vec<u32> = known.collect();
            for (a, b) in known
                .iter()
                .flat_map(|a| known.iter().map(move |b| (*a, *b)))
            {
                let alike = sets.iter().all(|set| (set >> a ^ set >> b) & 1 == 0);
                let together = groups
                    .0
                    .iter()
                    .any(|group| cohort(&[a, b]).is_subset(&group.parties));
                assert_eq!(alike, together, "{a} {b} {sets:?}");
            }
            let parties: usize = groups.0.iter().map(|group| group.parties.len()).sum();
            assert_eq!(parties, known.len());
        }
    }
}
