//! Mask streams: a 32-byte seed expanded to as many words as a vector has, and added to it.
//!
//! The stream is AES-256-CTR (NIST SP 800-38A): the key is the seed, the counter block a 128-bit
//! big-endian number that starts at 0. Lane d of a vector of `u32` lanes is the little-endian number at
//! bytes 4d..4d+4 of the stream, of `u64` lanes at bytes 8d..8d+8. So every lane can be computed on its
//! own, whatever tile or thread it falls to.
//!
//! A [`MaskKey`] makes many streams of one key, told apart by 12 bytes that the counter block begins with.
//! The other 4 bytes count the blocks, so such a stream has 2^36 bytes and no more.
//!
//! Masks are uniform modulo 2^32 or 2^64, hence modulo every smaller power of two: no rejection.

mod scattered;
mod software;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod vaes512;

pub use scattered::apply_masks_at;

use std::sync::Arc;

use aes::{Aes256Enc, cipher::KeyInit};
use blindsum_math::words::TileMut;

use crate::secret::Secret;

/// Computes the AES-256 rounds of about `bytes` of keystream on this core, with blocks in registers and nothing else.
/// Benches compare the expansion of masks with it. The number returned has no meaning. `None` where
/// [`Backend::Vaes512`] is not available: the best way to issue the rounds is known for that backend only.
pub fn aes_rounds_alone(bytes: usize) -> Option<i64> {
    #[cfg(target_arch = "x86_64")]
    return vaes512::rounds_alone(bytes);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = bytes;
        None
    }
}

/// The seed of one mask, used up by expanding it.
///
/// ```
/// use blindsum_crypto::{mask::{MaskSeed, MaskStream, Sign, apply_masks}, secret::Secret};
/// use blindsum_math::words::TileMut;
/// let mask = |sign| MaskStream::new(MaskSeed::from(Secret::from([7; 32])), sign);
/// let mut lanes = [1, 2, 3];
/// apply_masks(&[mask(Sign::Add)], 0, TileMut::W32(&mut lanes));
/// assert_ne!(lanes, [1, 2, 3]);
/// apply_masks(&[mask(Sign::Sub)], 0, TileMut::W32(&mut lanes));
/// assert_eq!(lanes, [1, 2, 3]);
/// ```
///
/// Expanding it twice does not compile:
///
/// ```compile_fail,E0382
/// use blindsum_crypto::{mask::{MaskSeed, MaskStream, Sign}, secret::Secret};
/// let seed = MaskSeed::from(Secret::from([7; 32]));
/// let added = MaskStream::new(seed, Sign::Add);
/// let again = MaskStream::new(seed, Sign::Add); // use of moved value
/// ```
///
/// It cannot be copied either:
///
/// ```compile_fail,E0599
/// use blindsum_crypto::{mask::MaskSeed, secret::Secret};
/// let copy = MaskSeed::from(Secret::from([7; 32])).clone();
/// ```
// guard: a-mask-seed-is-used-up
pub struct MaskSeed(Secret<32>);

impl From<Secret<32>> for MaskSeed {
    fn from(seed: Secret<32>) -> Self {
        MaskSeed(seed)
    }
}

/// Whether a mask is added to a vector or taken off it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// y = x + mask.
    Add,
    /// y = x - mask.
    Sub,
}

/// The code that expands masks. All backends give the same lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// One block and one lane at a time: what the others are tested against.
    Scalar,
    /// The `aes` crate, which picks AES instructions at run time, by tiles of 4 KiB.
    Portable,
    /// AVX-512 with VAES: 32 blocks in flight, added to the vector without touching memory.
    Vaes512,
}

impl Backend {
    /// Every backend, the slowest first.
    pub const ALL: [Backend; 3] = [Backend::Scalar, Backend::Portable, Backend::Vaes512];

    /// The name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Scalar => "scalar",
            Backend::Portable => "portable",
            Backend::Vaes512 => "vaes512",
        }
    }

    /// Whether this machine can run it.
    pub fn is_available(self) -> bool {
        match self {
            Backend::Scalar | Backend::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Backend::Vaes512 => vaes512::is_available(),
            #[cfg(not(target_arch = "x86_64"))]
            Backend::Vaes512 => false,
        }
    }
}

/// The backend that [`MaskStream::new`] takes on this machine: the fastest available.
pub fn backend() -> Backend {
    if Backend::Vaes512.is_available() {
        Backend::Vaes512
    } else {
        Backend::Portable
    }
}

/// Bytes of one stream of a [`MaskKey`]: 2^32 blocks.
pub const NONCE_STREAM_BYTES: u64 = 1 << 36;

/// An expanded key of many streams. Wiped when it and the last of its streams are dropped.
///
/// Two vectors masked with the same stream show their difference. Nothing here stops a nonce from being used twice: the
/// protocol that gives out nonces must.
pub struct MaskKey(Cipher);

impl MaskKey {
    /// Expands the key, for the fastest backend of this machine.
    pub fn new(seed: MaskSeed) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(keys) = vaes512::RoundKeys::expand(seed.0.expose()) {
            return Self(Cipher::Vaes512(Arc::new(keys)));
        }
        Self(Cipher::Portable(aes256(&seed)))
    }

    /// [`MaskKey::new`] with a given backend, for comparisons; `None` if this machine cannot run it.
    pub fn with_backend(seed: MaskSeed, backend: Backend) -> Option<Self> {
        Some(Self(match backend {
            Backend::Scalar => Cipher::Scalar(aes256(&seed)),
            Backend::Portable => Cipher::Portable(aes256(&seed)),
            #[cfg(target_arch = "x86_64")]
            Backend::Vaes512 => {
                Cipher::Vaes512(Arc::new(vaes512::RoundKeys::expand(seed.0.expose())?))
            }
            #[cfg(not(target_arch = "x86_64"))]
            Backend::Vaes512 => return None,
        }))
    }

    /// The stream with this nonce: block i is the encryption of `nonce`, then i as 4 bytes, big-endian.
    /// The expanded key is shared, not copied.
    pub fn stream(&self, nonce: [u8; 12], sign: Sign) -> MaskStream {
        let mut block = [0; 16];
        block[..12].copy_from_slice(&nonce);
        MaskStream {
            cipher: self.0.clone(),
            origin: u128::from_be_bytes(block),
            bytes: u128::from(NONCE_STREAM_BYTES),
            sign,
        }
    }
}

/// A mask ready to be applied: the expanded key and its sign. Wiped when dropped.
pub struct MaskStream {
    cipher: Cipher,
    /// The counter block of lane 0: 0 for a mask of its own key; a test vector may start elsewhere. Its
    /// lower half never wraps within a stream.
    origin: u128,
    /// Bytes that the stream has.
    bytes: u128,
    sign: Sign,
}

/// The expanded key, wiped with its last owner.
#[derive(Clone)]
enum Cipher {
    Scalar(Arc<Aes256Enc>),
    Portable(Arc<Aes256Enc>),
    #[cfg(target_arch = "x86_64")]
    Vaes512(Arc<vaes512::RoundKeys>),
}

impl MaskStream {
    /// Expands the key, for the fastest backend of this machine.
    pub fn new(seed: MaskSeed, sign: Sign) -> Self {
        Self::whole(MaskKey::new(seed), sign)
    }

    /// [`MaskStream::new`] with a given backend, for comparisons; `None` if this machine cannot run it.
    pub fn with_backend(seed: MaskSeed, sign: Sign, backend: Backend) -> Option<Self> {
        Some(Self::whole(MaskKey::with_backend(seed, backend)?, sign))
    }

    /// The one stream of a key that has no other.
    fn whole(MaskKey(cipher): MaskKey, sign: Sign) -> Self {
        MaskStream {
            cipher,
            origin: 0,
            bytes: u128::MAX,
            sign,
        }
    }

    fn apply<L: Lane>(&self, first_lane: u64, lanes: &mut [L]) {
        let MaskStream {
            cipher,
            origin,
            sign,
            ..
        } = self;
        match cipher {
            Cipher::Scalar(cipher) => {
                software::apply_scalar(cipher, *origin, *sign, first_lane, lanes)
            }
            Cipher::Portable(cipher) => {
                software::apply_portable(cipher, *origin, *sign, first_lane, lanes)
            }
            #[cfg(target_arch = "x86_64")]
            Cipher::Vaes512(keys) => vaes512::apply(keys, *origin, *sign, first_lane, lanes),
        }
    }
}

fn aes256(seed: &MaskSeed) -> Arc<Aes256Enc> {
    Arc::new(Aes256Enc::new(seed.0.expose().into()))
}

/// Adds the lanes `first_lane..` of every stream to `tile`, or subtracts them, modulo 2^32 or 2^64.
///
/// The tile is worked off in pieces that stay in the first-level cache while all streams pass over them,
/// so many streams cost one pass over the vector. Any first lane and any length will do.
///
/// # Panics
///
/// If a stream of a [`MaskKey`] ends before the last lane.
pub fn apply_masks(streams: &[MaskStream], first_lane: u64, tile: TileMut<'_>) {
    match tile {
        TileMut::W32(lanes) => apply_by_pieces(streams, first_lane, lanes),
        TileMut::W64(lanes) => apply_by_pieces(streams, first_lane, lanes),
    }
}

/// Bytes of a piece: a third of a common first-level cache.
const PIECE_BYTES: usize = 16 * 1024;

fn apply_by_pieces<L: Lane>(streams: &[MaskStream], mut first_lane: u64, mut lanes: &mut [L]) {
    let end = (u128::from(first_lane) + lanes.len() as u128) * size_of::<L>() as u128;
    assert!(
        streams.iter().all(|stream| end <= stream.bytes),
        "a stream with a nonce has {NONCE_STREAM_BYTES} bytes"
    );
    let piece_lanes = PIECE_BYTES / size_of::<L>();
    while !lanes.is_empty() {
        // Pieces end where the stream has a multiple of their size, so that all but the first one and
        // the last one are whole blocks.
        let until_end = piece_lanes - (first_lane % piece_lanes as u64) as usize;
        let (piece, rest) = lanes.split_at_mut(until_end.min(lanes.len()));
        for stream in streams {
            stream.apply(first_lane, piece);
        }
        first_lane = first_lane.wrapping_add(piece.len() as u64);
        lanes = rest;
    }
}

/// A word of a vector: `u32` or `u64`.
trait Lane: Copy {
    /// Whether it is `u64`.
    const WIDE: bool = size_of::<Self>() == 8;

    /// The number whose little-endian bytes these are; they must be as many as the lane has.
    fn from_le_slice(bytes: &[u8]) -> Self;
    /// `self + mask` or `self - mask`, wrapping.
    fn masked(self, mask: Self, sign: Sign) -> Self;
}

impl Lane for u32 {
    fn from_le_slice(bytes: &[u8]) -> Self {
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn masked(self, mask: Self, sign: Sign) -> Self {
        match sign {
            Sign::Add => self.wrapping_add(mask),
            Sign::Sub => self.wrapping_sub(mask),
        }
    }
}

impl Lane for u64 {
    fn from_le_slice(bytes: &[u8]) -> Self {
        let [low, high] = [&bytes[..4], &bytes[4..]].map(u32::from_le_slice);
        u64::from(low) | u64::from(high) << 32
    }

    fn masked(self, mask: Self, sign: Sign) -> Self {
        match sign {
            Sign::Add => self.wrapping_add(mask),
            Sign::Sub => self.wrapping_sub(mask),
        }
    }
}
