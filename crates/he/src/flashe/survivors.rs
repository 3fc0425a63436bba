//! The parties whose vectors are in a sum, and how many masks it takes to decrypt it.

use super::Scheme;
use crate::flashe::FlasheError;

/// The parties whose ciphertexts were added, as runs of consecutive ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    parties: u32,
    count: u32,
    /// First and last rank of each run; runs increase and do not touch.
    runs: Vec<(u32, u32)>,
}

impl Survivors {
    /// The survivors of `parties` parties, by rank.
    ///
    /// # Errors
    /// [`FlasheError::Parties`], [`FlasheError::Rank`] for one that is no party's, [`FlasheError::Survivors`] unless the
    /// ranks increase (so that none is listed twice), [`FlasheError::NoSurvivors`].
    pub fn new(parties: u32, ranks: &[u32]) -> Result<Self, FlasheError> {
        if parties == 0 || parties == u32::MAX {
            return Err(FlasheError::Parties { parties });
        }
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for &rank in ranks {
            // guard: survivors-of-the-roster
            if rank >= parties {
                return Err(FlasheError::Rank { rank, parties });
            }
            match runs.last_mut() {
                // guard: survivors-increase
                Some(&mut (_, previous)) if rank <= previous => {
                    return Err(FlasheError::Survivors { rank, previous });
                }
                Some((_, last)) if rank == *last + 1 => *last = rank,
                _ => runs.push((rank, rank)),
            }
        }
        if runs.is_empty() {
            return Err(FlasheError::NoSurvivors);
        }
        Ok(Self {
            parties,
            count: ranks.len() as u32,
            runs,
        })
    }

    /// Parties n.
    pub fn parties(&self) -> u32 {
        self.parties
    }

    /// Survivors s.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// First and last rank of each run of consecutive survivors, in order.
    pub fn runs(&self) -> &[(u32, u32)] {
        &self.runs
    }

    /// The ranks in order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|&(first, last)| first..=last)
    }

    /// Masks for each lane that decryption adds or subtracts: two for each run with double masking, one for each
    /// survivor with single masking.
    pub fn masks_to_decrypt(&self, scheme: Scheme) -> u64 {
        match scheme {
            Scheme::Double => 2 * self.runs.len() as u64,
            Scheme::Single => u64::from(self.count),
        }
    }

    /// The scheme that costs each survivor fewer masks, encryption and decryption together; double masking
    /// if both cost the same.
    pub fn cheaper(&self) -> Scheme {
        let masks = |scheme: Scheme| scheme.masks_to_encrypt() + self.masks_to_decrypt(scheme);
        if masks(Scheme::Single) < masks(Scheme::Double) {
            Scheme::Single
        } else {
            Scheme::Double
        }
    }
}

/// Masks for each lane that a survivor computes in a round, encryption and decryption together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedMasks {
    /// With double masking.
    pub double: f64,
    /// With single masking.
    pub single: f64,
}

/// The masks that a round costs if any `survivors` of `parties` parties are equally likely to be left
/// (FLASHE Theorem 2, with the dropout rate (n − s)/n).
///
/// A rank begins a run if it survives and its predecessor does not: rank 0 with probability s/n, any of the
/// n − 1 others with probability (s/n)·(n − s)/(n − 1). That makes s(n − s + 1)/n runs, two masks each, and
/// two to encrypt; single masking takes one for each survivor and one to encrypt.
///
/// # Errors
/// [`FlasheError::SurvivorCount`] unless 1 <= s <= n.
pub fn expected_masks(parties: u32, survivors: u32) -> Result<ExpectedMasks, FlasheError> {
    if survivors == 0 || survivors > parties {
        return Err(FlasheError::SurvivorCount { survivors, parties });
    }
    let (n, s) = (f64::from(parties), f64::from(survivors));
    Ok(ExpectedMasks {
        double: 2.0 * (s * (n - s + 1.0) / n) + 2.0,
        single: s + 1.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks whose bit is set.
    fn ranks(set: u32) -> Vec<u32> {
        (0..32).filter(|rank| set >> rank & 1 == 1).collect()
    }

    #[test]
    fn runs_are_the_maximal_ones() {
        let survivors = Survivors::new(10, &[0, 1, 2, 5, 7, 8, 9]).unwrap();
        assert_eq!(survivors.runs(), [(0, 2), (5, 5), (7, 9)]);
        assert_eq!((survivors.parties(), survivors.count()), (10, 7));
        assert_eq!(survivors.masks_to_decrypt(Scheme::Double), 6);
        assert_eq!(survivors.masks_to_decrypt(Scheme::Single), 7);
    }

    #[test]
    fn every_set_of_ten_parties_is_kept() {
        for set in 1..1 << 10 {
            let survivors = Survivors::new(10, &ranks(set)).unwrap();
            assert_eq!(survivors.ranks().collect::<Vec<_>>(), ranks(set));
            // A run ends where a set bit is followed by an unset one.
            let ends = (set & !(set >> 1)).count_ones();
            assert_eq!(
                survivors.masks_to_decrypt(Scheme::Double),
                2 * u64::from(ends)
            );
        }
    }

    #[test]
    fn the_cheaper_scheme() {
        let cheaper = |ranks: &[u32]| Survivors::new(8, ranks).unwrap().cheaper();
        assert_eq!(cheaper(&[0, 1, 2, 3, 4, 5, 6, 7]), Scheme::Double); // 4 masks, or 9
        assert_eq!(cheaper(&[0, 2, 4, 6]), Scheme::Single); // 10 masks, or 5
        assert_eq!(cheaper(&[3]), Scheme::Single); // 4 masks, or 2
        assert_eq!(cheaper(&[3, 4, 5]), Scheme::Double); // 4 masks either way
    }

    /// Theorem 2 is exact: the mean over all sets of one size.
    #[test]
    fn theorem_2_against_enumeration() {
        for parties in 1..=12_u32 {
            for count in 1..=parties {
                let (mut sets, mut double, mut single) = (0, 0, 0);
                for set in (1..1 << parties).filter(|set: &u32| set.count_ones() == count) {
                    let survivors = Survivors::new(parties, &ranks(set)).unwrap();
                    sets += 1;
                    double += 2 + survivors.masks_to_decrypt(Scheme::Double);
                    single += 1 + survivors.masks_to_decrypt(Scheme::Single);
                }
                let expected = expected_masks(parties, count).unwrap();
                let mean = |sum: u64| sum as f64 / f64::from(sets);
                assert!((expected.double - mean(double)).abs() < 1e-9);
                assert!((expected.single - mean(single)).abs() < 1e-9);
                // The form in the paper, with the dropout rate d.
                let n = f64::from(parties);
                let d = f64::from(parties - count) / n;
                let paper = 2.0 * (-n * d * d + (n - 1.0) * d + 2.0);
                assert!((expected.double - paper).abs() < 1e-9);
                assert!((expected.single - (-n * d + n + 1.0)).abs() < 1e-9);
            }
        }
        for (survivors, parties) in [(0, 3), (4, 3)] {
            let refused = Err(FlasheError::SurvivorCount { survivors, parties });
            assert_eq!(expected_masks(parties, survivors), refused);
        }
    }

    /// Abuse case 34: a decryption set with somebody twice, out of order or unknown.
    #[test]
    fn case_34_what_is_no_set_of_parties_is_refused() {
        for (parties, ranks, error) in [
            (0, &[0][..], FlasheError::Parties { parties: 0 }),
            (u32::MAX, &[0], FlasheError::Parties { parties: u32::MAX }),
            (3, &[], FlasheError::NoSurvivors),
            (
                3,
                &[0, 3],
                FlasheError::Rank {
                    rank: 3,
                    parties: 3,
                },
            ),
            (
                3,
                &[1, 1],
                FlasheError::Survivors {
                    rank: 1,
                    previous: 1,
                },
            ),
            (
                3,
                &[0, 2, 1],
                FlasheError::Survivors {
                    rank: 1,
                    previous: 2,
                },
            ),
        ] {
            assert_eq!(Survivors::new(parties, ranks), Err(error));
        }
    }
}
