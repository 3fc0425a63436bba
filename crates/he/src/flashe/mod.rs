//! FLASHE: words are encrypted by adding masks that all parties can compute and the server cannot.
//!
//! Source: Z. Jiang, W. Wang, Y. Liu, "FLASHE: Additively Symmetric Homomorphic Encryption for Cross-Silo
//! Federated Learning" (FLASHE §3). With F the pseudorandom function of the round, i the round, j the rank
//! of the party and d the lane,
//!
//! * double masking: E(m)_d = m_d + F(i‖j‖d) − F(i‖j+1‖d) mod 2^b. In the sum over a run of ranks a..=b
//!   all masks cancel but F(i‖a‖d) and F(i‖b+1‖d), so decryption needs two masks for each run.
//! * single masking: E(m)_d = m_d + F(i‖j‖d) mod 2^b. Decryption needs one mask for each survivor.
//!
//! F is AES-256-CTR under the key of the round. The counter block is the round (8 bytes), the rank (4) and
//! the number of the block (4), all big-endian; lane d is the little-endian number at bytes 4d..4d+4 of
//! that stream (8d..8d+8 if b > 32), reduced mod 2^b. So every lane can be computed on its own: neither
//! tiles nor threads nor instructions change a byte (FLASHE's own code gives other masks on machines with
//! other numbers of cores).
//!
//! **Checks** (ours, FLASHE has none). A ciphertext ends with 16 bytes that add up like the words. Decryption fails
//! unless the sum is that of exactly the named survivors' ciphertexts. A ciphertext that is missing, doubled or
//! changed, or words that the server added, escape notice with probability at most 2^-59. The module `check` has the
//! definition and the argument.
//!
//! **Who is trusted.** All parties hold one key, so one party together with the server reads everybody's
//! vector, and can make checks for other sums. FLASHE suits a few organisations that distrust the server, not
//! each other.
//!
//! ```
//! use blindsum_crypto::{kdf::Context, secret::Secret};
//! use blindsum_he::flashe::{FlasheError, HighWaterMark, JobKey, KeyState, Scheme, Shape, Survivors, sum};
//! use blindsum_math::words::{TileMut, Width};
//!
//! # fn main() -> Result<(), FlasheError> {
//! let key = JobKey::from(Secret::from([7; 32]));
//! let (round, context) = (0, Context([1; 32]));
//! let shape = Shape::new(Scheme::Double, Width::new(20)?, 1000)?;
//! let round_key = key.round(round, &context);
//!
//! // Each party of three encrypts the vector 0, 1, 2, ...
//! let encrypt = |rank| {
//!     let mut state = KeyState::new(&key);
//!     let ticket = state.reserve(round, rank, |_saved| Ok::<_, FlasheError>(()))?;
//!     round_key.encrypt(ticket, shape, |first, tile| {
//!         let TileMut::W32(lanes) = tile else { unreachable!("20 bits") };
//!         lanes.iter_mut().zip(first as u32..).for_each(|(lane, d)| *lane = d);
//!         Ok::<_, FlasheError>(())
//!     })
//! };
//! let ciphertexts = [encrypt(0)?, encrypt(2)?];
//!
//! // The server adds, the parties decrypt: rank 1 was lost.
//! let added = sum(shape, &ciphertexts.each_ref().map(|c| c.as_bytes()))?;
//! let survivors = Survivors::new(3, &[0, 2])?;
//! let words = round_key.decrypt(shape, &survivors, &added)?;
//! assert_eq!(words.get(999), 2 * 999);
//! # Ok(())
//! # }
//! ```

mod check;
mod cipher;
mod error;
mod key;
mod masks;
pub mod sparse;
mod state;
mod streams;
mod sum;
mod survivors;
#[cfg(test)]
mod tests;

pub use check::CHECK_LEN;
pub use cipher::{Ciphertext, HEADER_ROOM};
pub use error::FlasheError;
pub use key::{JobKey, KeyId, RoundKey};
pub use state::{EncryptionTicket, HighWaterMark, KeyState};
pub use sum::{EncryptedSum, sum};
pub use survivors::{ExpectedMasks, Survivors, expected_masks};

use blindsum_crypto::mask::NONCE_STREAM_BYTES;
use blindsum_math::words::Width;

/// Lanes of a tile; a multiple of 8 so that tiles meet at the ends of bytes, and small enough that a tile
/// and its packed form stay in the first-level cache. Checks depend on it.
const TILE: usize = 4096;

/// How many masks an encryption adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Adds the party's mask and subtracts its successor's: cheap to decrypt if few parties are lost.
    Double,
    /// Adds only the party's mask: cheaper if many are lost, or with sparse vectors.
    Single,
}

impl Scheme {
    /// The name in job specifications and reports.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Double => "double",
            Scheme::Single => "single",
        }
    }

    /// Masks that an encryption adds to each lane.
    pub fn masks_to_encrypt(self) -> u64 {
        match self {
            Scheme::Double => 2,
            Scheme::Single => 1,
        }
    }
}

/// Scheme, width and number of lanes of all vectors of a round, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    scheme: Scheme,
    width: Width,
    lanes: usize,
}

impl Shape {
    /// Vectors of `lanes` words of `width` bits.
    ///
    /// # Errors
    /// [`FlasheError::Lanes`] if 2^36 bytes of mask are not enough, at 4 bytes
    /// a lane up to 32 bits and 8 above.
    pub fn new(scheme: Scheme, width: Width, lanes: usize) -> Result<Self, FlasheError> {
        let bits = width.bits();
        let largest = NONCE_STREAM_BYTES / if width.fits_u32() { 4 } else { 8 };
        if lanes as u64 > largest {
            return Err(FlasheError::Lanes {
                lanes,
                largest,
                bits,
            });
        }
        Ok(Self {
            scheme,
            width,
            lanes,
        })
    }

    /// Single or double masking.
    pub fn scheme(self) -> Scheme {
        self.scheme
    }

    /// Bits of a word.
    pub fn width(self) -> Width {
        self.width
    }

    /// Words D of a vector.
    pub fn lanes(self) -> usize {
        self.lanes
    }

    /// Bytes of the packed words.
    pub fn packed_len(self) -> usize {
        self.width.packed_len(self.lanes)
    }

    /// Bytes of a ciphertext or sum: those of the packed words and [`CHECK_LEN`].
    pub fn ciphertext_len(self) -> usize {
        self.packed_len() + CHECK_LEN
    }
}
