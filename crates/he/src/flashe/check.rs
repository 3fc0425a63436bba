//! The check of a ciphertext: 16 bytes that add up like the words, and show whether a sum is what it claims.
//!
//! With lane d = 4096 t + i, and lanes of at most 32 bits taken in pairs as [`Coefficients`] says, let
//!
//! H(m) = Σ_t σ_t Σ_i ρ_i m_{t,i} modulo p1 = 2^61 − 1 and modulo p2 = 2^61 − 31,
//!
//! with the same integers 0 <= ρ_i, σ_t < 2^60 for both. The party of rank j sends H(m) + P_j, where the pad P_j
//! is uniform modulo both primes. The server adds checks as it adds words. The sum of the words does not wrap
//! mod 2^b, which encodings make sure of, so H of the decrypted sum is the sum of all H(m), and the pads of the
//! survivors are all that is left of the sum of the checks: otherwise the sum is refused.
//!
//! All numbers come from AES-256-CTR under the key `derive32(K_round, context, "flashe check", [])`. The counter block
//! begins with two big-endian numbers, the first of 8 bytes, the second of 4: 0 and 0 for ρ, 1 and 0 for σ, 2 and j for
//! P_j. ρ_i and σ_t are the low 60 bits of the little-endian number at bytes 8i..8i+8 or 8t..8t+8. The two numbers of
//! P_j are the little-endian ones at bytes 0..16 and 16..32, modulo p1 and p2; that is uniform up to a statistical
//! distance of 2^-66.
//!
//! **Why a server without the key cannot forge.** Masks and pads hide words and checks, so whatever the server does is
//! independent of ρ and σ. Say it makes the parties decrypt a wrong sum, by leaving out a ciphertext, adding one twice,
//! naming other survivors or changing bits. Then the result differs from the true sum by integers e_{t,i}, not all of
//! them zero, and the check by a Δ of the server's choice (for other survivors, by their unknown pads too). Words and
//! pairs of words are below 2^64 < p1 p2, so some e_{t,i} is nonzero modulo one of the primes, p. No two coefficients
//! agree modulo p, so each residue has probability at most 2^-60. Hence Σ_i ρ_i e_{t,i} is zero modulo p with
//! probability at most 2^-60, and if it is not, Σ_t σ_t (Σ_i ρ_i e_{t,i}) hits Δ with probability at most 2^-60. So a
//! try succeeds with probability at most 2^-59. A party accepts one result for each round, and every round has its own
//! coefficients, so there is one try for each party and round. One prime alone would not do for wide words: e = p would
//! pass.
//!
//! A party knows the key and can help the server to forge. A party that encrypts words so large that the sum
//! wraps makes its check fail: it can spoil a round, as it can by any wrong words.

use blindsum_crypto::{
    kdf::{Context, derive32},
    mask::{MaskKey, MaskSeed, Sign, apply_masks},
    secret::Secret,
};
use blindsum_math::{
    inner_product::{COEFFICIENT_BITS, Coefficients},
    twin_residue::TwinResidue,
    words::{TileMut, Width},
};
use zeroize::Zeroizing;

use super::{Survivors, TILE};

/// Bytes of a check.
pub const CHECK_LEN: usize = TwinResidue::BYTES;

/// What the streams are for.
#[derive(Clone, Copy)]
enum Purpose {
    Lanes = 0,
    Tiles = 1,
    Pad = 2,
    Contributors = 3,
}

/// Everything that checks of one round need.
pub(super) struct CheckKey {
    streams: MaskKey,
    rho: Coefficients,
}

/// Coefficients of as many tiles as a vector has.
pub(super) struct Fingerprint<'a> {
    rho: &'a Coefficients,
    sigma: Zeroizing<Vec<u64>>,
}

impl CheckKey {
    /// That of the round with this key.
    pub(super) fn new(round_key: &Secret<32>, context: &Context) -> Self {
        let key = derive32(round_key, context, "flashe check", &[]);
        let streams = MaskKey::new(MaskSeed::from(key));
        let rho = Coefficients::new(numbers(&streams, Purpose::Lanes, 0, TILE));
        Self { streams, rho }
    }

    /// H for vectors of `lanes` lanes.
    pub(super) fn fingerprint(&self, lanes: usize) -> Fingerprint<'_> {
        let mut sigma = numbers(&self.streams, Purpose::Tiles, 0, lanes.div_ceil(TILE));
        for sigma in &mut sigma {
            *sigma &= (1 << COEFFICIENT_BITS) - 1;
        }
        let (rho, sigma) = (&self.rho, Zeroizing::new(sigma));
        Fingerprint { rho, sigma }
    }

    /// τ, for the contributors of sparse vectors.
    pub(super) fn of_contributors(&self) -> u64 {
        let tau: u64 = numbers(&self.streams, Purpose::Contributors, 0, 1)
            .iter()
            .sum();
        tau & ((1 << COEFFICIENT_BITS) - 1)
    }

    /// P_j.
    pub(super) fn pad(&self, rank: u32) -> TwinResidue {
        let words = Zeroizing::new(numbers(&self.streams, Purpose::Pad, rank, 4));
        let wide = |k: usize| u128::from(words[k]) | u128::from(words[k + 1]) << 64;
        TwinResidue::from_each([wide(0), wide(2)])
    }

    /// Σ P_j over the survivors.
    pub(super) fn pads(&self, survivors: &Survivors) -> TwinResidue {
        let pads = survivors.ranks().map(|rank| self.pad(rank));
        pads.fold(TwinResidue::ZERO, |sum, pad| sum + pad)
    }
}

impl Fingerprint<'_> {
    /// Reduces the lanes of the tile that begins with lane `first`, and gives what it adds to H.
    pub(super) fn of_tile(&self, width: Width, first: usize, tile: TileMut<'_>) -> TwinResidue {
        self.rho.reduce_and_multiply(width, tile) * self.sigma[first / TILE]
    }
}

/// The first `count` little-endian numbers of a stream.
fn numbers(streams: &MaskKey, purpose: Purpose, rank: u32, count: usize) -> Vec<u64> {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&(purpose as u64).to_be_bytes());
    nonce[8..].copy_from_slice(&rank.to_be_bytes());
    let mut numbers = vec![0; count];
    let stream = streams.stream(nonce, Sign::Add);
    apply_masks(&[stream], 0, TileMut::W64(&mut numbers));
    numbers
}
