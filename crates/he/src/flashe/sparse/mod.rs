//! Sparse vectors: each party encrypts the coordinates that it has, and sends which ones (FLASHE §4, Alg. 1).
//!
//! 1. A party selects coordinates of its vector of D. All parties permute coordinates in the same way, by a
//!    [`Permutation`] that is drawn from the key for each round: what the server sees of a coordinate says nothing
//!    about its place in the model, nor does it recognise the coordinate in another round.
//! 2. It sends its [`SparseMask`], the set of its permuted coordinates. From all masks the server counts how many
//!    masks single and double masking take ([`Participation::mask_counts`]) and announces the cheaper one.
//! 3. The party sends the compacted ciphertext ([`RoundKey::encrypt_sparse`]): the words of its coordinates in
//!    order, each with F of the *dense* coordinate, packed, and the check. The server adds up
//!    ([`EncryptedSparseSum`]) and sends the words of the union of the coordinates.
//! 4. The parties decrypt ([`RoundKey::decrypt_sparse`]), knowing the survivors' masks. At each coordinate, masks
//!    cancel within runs of parties that have it.
//!
//! The check of a sparse vector is H(m) + τ H(1). H is that of dense vectors, taken over the party's coordinates; H(1)
//! is H of a vector that is one at each of them. So the sum of the checks covers the number of contributors of each
//! coordinate, too, and sets of coordinates that are not those that the parties sent are noticed even where no word
//! changes. τ is the low 60 bits of the little-endian number at bytes 0..8 of the stream 3 and 0. If numbers of
//! contributors differ by e', not all of them zero, H(e') is zero with probability at most 2^-59, and if it is not, τ
//! H(e') hits what is left with probability at most 2^-60.
//!
//! **What the server learns**: how many coordinates each party has and which they share, up to the permutation.

mod decrypt;
mod encrypt;
mod mask;
mod participation;
mod permutation;
mod sum;
mod tile;
mod wire;

pub use decrypt::SparseSum;
pub use mask::SparseMask;
pub use participation::{MaskCount, MaskCounts, Participation};
pub use permutation::Permutation;
pub use sum::EncryptedSparseSum;

#[cfg(doc)]
use super::RoundKey;
