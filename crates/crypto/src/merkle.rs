//! Commitments to a list of hashes, of which single ones can be shown (Merkle, "A Digital Signature Based on a
//! Conventional Encryption Function", CRYPTO 1987).
//!
//! The leaves are filled up with zeros to a power of two. A node is the hash of its two children, [`hash`] with the label
//! "blindsum merkle node". The number of leaves is not part of the root: it must be known from elsewhere, and every leaf
//! must be a hash that says what it is, so that no node can pass for one.

use crate::kdf::hash;

/// A hash.
pub type Hash = [u8; 32];

const NODE: &str = "blindsum merkle node";

/// The tree over a list of hashes.
pub struct MerkleTree {
    /// The levels, leaves first, the root last.
    levels: Vec<Vec<Hash>>,
}

impl MerkleTree {
    /// The tree over these leaves.
    pub fn new(mut leaves: Vec<Hash>) -> Self {
        leaves.resize(leaves.len().next_power_of_two(), [0; 32]);
        let mut levels = vec![leaves];
        while let Some(level) = levels.last().filter(|level| level.len() > 1) {
            let nodes = level.chunks_exact(2).map(|pair| node(&pair[0], &pair[1]));
            levels.push(nodes.collect());
        }
        Self { levels }
    }

    /// The root.
    pub fn root(&self) -> Hash {
        let root = self.levels.last().and_then(|level| level.first());
        root.copied().unwrap_or_default()
    }

    /// The path from a leaf to the root: the sibling on each level, the lowest first; `None` where there is no such leaf.
    pub fn path(&self, leaf: usize) -> Option<Vec<Hash>> {
        let below = self.levels.len() - 1;
        let _ = self.levels.first()?.get(leaf)?;
        let siblings = self.levels.iter().take(below).enumerate();
        siblings
            .map(|(height, level)| level.get(leaf >> height ^ 1).copied())
            .collect()
    }
}

/// Hashes of a path where there are so many leaves.
pub fn path_len(leaves: usize) -> usize {
    leaves.next_power_of_two().trailing_zeros() as usize
}

/// The root that a path leads to from the leaf at `place`.
pub fn root_of_path(place: usize, leaf: Hash, path: &[Hash]) -> Hash {
    let steps = path.iter().enumerate();
    steps.fold(leaf, |below, (height, sibling)| match place >> height & 1 {
        0 => node(&below, sibling),
        _ => node(sibling, &below),
    })
}

fn node(left: &Hash, right: &Hash) -> Hash {
    hash(NODE, &[left, right])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_the_root_from_their_own_leaf_only() {
        for count in [1_usize, 2, 3, 5, 8, 13] {
            let leaf = |i: usize| hash("leaf", &[&[i as u8]]);
            let tree = MerkleTree::new((0..count).map(leaf).collect());
            for place in 0..count {
                let path = tree.path(place).unwrap();
                assert_eq!(path.len(), path_len(count));
                assert_eq!(root_of_path(place, leaf(place), &path), tree.root());
                let other = (place + 1) % count.next_power_of_two();
                if other != place {
                    assert_ne!(root_of_path(other, leaf(place), &path), tree.root());
                }
                assert_ne!(root_of_path(place, leaf(place + 1), &path), tree.root());
                for changed in 0..path.len() {
                    let mut path = path.clone();
                    path[changed][31] ^= 1;
                    assert_ne!(root_of_path(place, leaf(place), &path), tree.root());
                }
            }
            assert_eq!(tree.path(count.next_power_of_two()), None);
        }
    }
}
