//! Parties of a round: their rank in the roster, and sets of them.

use std::fmt;

/// A party of one round, by its rank in the roster (0-based).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartyId(pub u32);

impl PartyId {
    /// The rank as an index.
    pub fn rank(self) -> usize {
        self.0 as usize
    }
}

/// What stands before the rank of a party in texts. No party's name has it.
pub(crate) const PARTY: &str = "party ";

impl fmt::Display for PartyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PARTY}{}", self.0)
    }
}

/// A subset of the roster, in rank order. On the wire it is a bitmap of `⌈n/8⌉` bytes: bit `i % 8` of byte `i / 8` is
/// party `i`, so that a set has one encoding and cannot name a party outside the roster.
#[derive(Clone, PartialEq, Eq)]
pub struct PartySet {
    roster: u32,
    bitmap: Vec<u8>,
}

impl PartySet {
    /// The empty set over a roster of `roster` parties.
    pub fn empty(roster: usize) -> Self {
        Self {
            roster: roster as u32,
            bitmap: vec![0; roster.div_ceil(8)],
        }
    }

    /// The set of the given parties; those outside the roster are left out.
    pub fn of(roster: usize, parties: impl IntoIterator<Item = PartyId>) -> Self {
        let mut set = Self::empty(roster);
        for party in parties {
            set.insert(party);
        }
        set
    }

    /// Adds a party. Gives `false` if it is in the set already or outside the roster.
    pub fn insert(&mut self, party: PartyId) -> bool {
        if party.0 >= self.roster || self.contains(party) {
            return false;
        }
        if let Some(byte) = self.bitmap.get_mut(party.rank() / 8) {
            *byte |= 1 << (party.0 % 8);
        }
        true
    }

    /// Whether the party is in the set.
    pub fn contains(&self, party: PartyId) -> bool {
        self.bitmap
            .get(party.rank() / 8)
            .is_some_and(|byte| byte >> (party.0 % 8) & 1 == 1)
    }

    /// How many parties are in the set.
    pub fn len(&self) -> usize {
        self.bitmap.iter().map(|b| b.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.bitmap.iter().all(|&b| b == 0)
    }

    /// The parties in rank order.
    pub fn iter(&self) -> impl Iterator<Item = PartyId> + '_ {
        (0..self.roster)
            .map(PartyId)
            .filter(|&party| self.contains(party))
    }

    /// The bitmap, `⌈n/8⌉` bytes.
    pub fn as_bitmap(&self) -> &[u8] {
        &self.bitmap
    }

    /// Reads a bitmap; `None` if its length is not that of the roster, or if it names a party outside the roster.
    pub fn from_bitmap(roster: usize, bitmap: &[u8]) -> Option<Self> {
        let set = Self {
            roster: roster as u32,
            bitmap: bitmap.to_vec(),
        };
        let last = bitmap.last().copied().unwrap_or(0);
        let used = if roster.is_multiple_of(8) {
            8
        } else {
            roster % 8
        };
        let clean = used == 8 || last >> used == 0;
        // guard: survivor-set-of-the-roster
        (bitmap.len() == roster.div_ceil(8) && clean).then_some(set)
    }
}

impl fmt::Debug for PartySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|p| p.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_have_one_encoding() {
        let set = PartySet::of(10, [PartyId(0), PartyId(9), PartyId(10)]);
        assert_eq!(set.as_bitmap(), [1, 2]);
        assert_eq!(set.len(), 2);
        assert_eq!(PartySet::from_bitmap(10, &[1, 2]), Some(set));
        assert_eq!(PartySet::from_bitmap(10, &[1, 4]), None);
        assert_eq!(PartySet::from_bitmap(10, &[1, 2, 0]), None);
        assert!(PartySet::from_bitmap(8, &[255]).is_some());
        assert!(PartySet::from_bitmap(0, &[]).is_some());
    }
}
