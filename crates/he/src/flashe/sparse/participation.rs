//! Which party has sent which coordinate, and how many masks that takes.

use blindsum_math::words::{Lane, add_chosen};

use super::{SparseMask, tile::TILE_PIECES};
use crate::flashe::{FlasheError, Scheme, Survivors, TILE};

/// The survivors and the coordinates that each of them has sent.
#[derive(Clone, Copy)]
pub struct Participation<'a> {
    survivors: &'a Survivors,
    masks: &'a [SparseMask],
}

/// How many masks of single words a round takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskCount {
    /// To encrypt: by all parties together.
    pub encrypt: u64,
    /// To decrypt: by each party.
    pub decrypt: u64,
}

/// How many masks a round takes with each scheme, exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskCounts {
    /// Survivors s, who all decrypt.
    pub survivors: u32,
    /// With double masking: two for each word that is sent; to decrypt, two for each run of parties at each coordinate.
    pub double: MaskCount,
    /// With single masking: one for each word that is sent; to decrypt, as many again.
    pub single: MaskCount,
}

impl<'a> Participation<'a> {
    /// The survivors and their masks, in order of rank.
    ///
    /// # Errors
    /// [`FlasheError::Masks`] unless there is one mask for each survivor; [`FlasheError::MaskLanes`] unless all are of
    /// vectors of the same length.
    pub fn new(survivors: &'a Survivors, masks: &'a [SparseMask]) -> Result<Self, FlasheError> {
        let (got, expected) = (masks.len(), survivors.count() as usize);
        if got != expected {
            return Err(FlasheError::Masks { got, expected });
        }
        let participation = Self { survivors, masks };
        let expected = participation.lanes();
        match masks
            .iter()
            .map(SparseMask::lanes)
            .find(|&lanes| lanes != expected)
        {
            Some(got) => Err(FlasheError::MaskLanes { got, expected }),
            None => Ok(participation),
        }
    }

    /// Dense coordinates D.
    pub fn lanes(&self) -> usize {
        // There is at least one survivor.
        self.masks.first().map_or(0, SparseMask::lanes)
    }

    /// Who survived.
    pub fn survivors(&self) -> &'a Survivors {
        self.survivors
    }

    /// The coordinates that anybody has.
    pub fn union(&self) -> SparseMask {
        let mut pieces = vec![0; self.lanes().div_ceil(64)];
        for mask in self.masks {
            let pairs = pieces.iter_mut().zip(mask.pieces());
            pairs.for_each(|(union, piece)| *union |= piece);
        }
        SparseMask::from_pieces(self.lanes(), pieces)
    }

    /// Writes how many of the survivors have each coordinate of a tile over `counts`.
    pub(super) fn count<L: Lane>(&self, tile: usize, counts: &mut [L]) {
        // In binary, for all coordinates at once: digit k of their numbers is a bitmap.
        let mut digits: Vec<[u64; TILE_PIECES]> = Vec::new();
        for mask in self.masks {
            let mut carry = mask.tile(tile);
            for digit in &mut digits {
                for (digit, carry) in digit.iter_mut().zip(&mut carry) {
                    (*digit, *carry) = (*digit ^ *carry, *digit & *carry);
                }
            }
            if carry.iter().any(|&piece| piece != 0) {
                digits.push(carry);
            }
        }
        counts.fill(L::default());
        for (k, digit) in digits.iter().enumerate() {
            add_chosen(digit, counts, &[L::truncate(1 << k); TILE]);
        }
    }

    /// The masks by rank.
    pub(super) fn by_rank(&self) -> impl Iterator<Item = (u32, &'a SparseMask)> + use<'a> {
        self.survivors.ranks().zip(self.masks)
    }

    /// How many masks of single words a round takes with each scheme (FLASHE §4.1).
    pub fn mask_counts(&self) -> MaskCounts {
        let sent: u64 = self.masks.iter().map(|mask| mask.count() as u64).sum();
        let mut runs = 0;
        let mut previous: Option<(u32, &SparseMask)> = None;
        for (rank, mask) in self.by_rank() {
            // A run begins where the rank before does not have the coordinate.
            let before = previous.filter(|&(before, _)| before + 1 == rank);
            runs += match before {
                Some((_, before)) => {
                    let pairs = mask.pieces().iter().zip(before.pieces());
                    pairs
                        .map(|(own, before)| u64::from((own & !before).count_ones()))
                        .sum()
                }
                None => mask.count() as u64,
            };
            previous = Some((rank, mask));
        }
        MaskCounts {
            survivors: self.survivors.count(),
            double: MaskCount {
                encrypt: 2 * sent,
                decrypt: 2 * runs,
            },
            single: MaskCount {
                encrypt: sent,
                decrypt: sent,
            },
        }
    }
}

impl MaskCounts {
    /// The scheme with which the parties together compute fewer masks; double masking if both cost the same.
    pub fn cheaper(&self) -> Scheme {
        let total = |count: MaskCount| {
            u128::from(count.encrypt) + u128::from(count.decrypt) * u128::from(self.survivors)
        };
        if total(self.single) < total(self.double) {
            Scheme::Single
        } else {
            Scheme::Double
        }
    }
}
