//! The key of a job and the keys of its rounds.

use blindsum_crypto::{
    CryptoRng,
    kdf::{Context, derive32},
    mask::{MaskKey, MaskSeed},
    seal::StorageKey,
    secret::Secret,
};
use subtle::ConstantTimeEq;

use super::{check::CheckKey, masks::Slot, streams::RoundStreams};
use crate::flashe::FlasheError;

/// The context of what belongs to the key of a job and to no round.
pub(super) const NO_ROUND: Context = Context([0; 32]);

/// The key K that all parties of a job hold and the server does not. One party draws it and seals it to
/// the others.
pub struct JobKey(Secret<32>);

impl From<Secret<32>> for JobKey {
    fn from(key: Secret<32>) -> Self {
        JobKey(key)
    }
}

/// An identifier of a [`JobKey`] that reveals nothing about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyId(pub [u8; 16]);

impl JobKey {
    /// Draws a key from `rng`.
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        JobKey(Secret::generate(rng))
    }

    /// The 32 bytes, to be sealed to the other parties.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }

    /// The first 16 bytes of `derive32(K, 0, "flashe key id", [])`.
    pub fn id(&self) -> KeyId {
        KeyId(first_half(&derive32(
            &self.0,
            &NO_ROUND,
            "flashe key id",
            &[],
        )))
    }

    /// Shows another party that this one holds the same key in the same context, and tells nobody else anything:
    /// `derive32(K, context, "flashe confirm", [])`.
    pub fn confirmation(&self, context: &Context) -> [u8; 32] {
        *derive32(&self.0, context, "flashe confirm", &[]).expose()
    }

    /// Checks the confirmation of another party, in constant time.
    ///
    /// # Errors
    /// [`FlasheError::Confirmation`]: the other party holds another key or was told another context.
    pub fn confirm(&self, context: &Context, confirmation: &[u8; 32]) -> Result<(), FlasheError> {
        let same = self.confirmation(context).ct_eq(confirmation);
        if same.into() {
            Ok(())
        } else {
            Err(FlasheError::Confirmation)
        }
    }

    /// The key of round `round`: `derive32(K, context, "flashe round", [])`.
    pub fn round(&self, round: u64, context: &Context) -> RoundKey {
        // One is expanded for masks and used up by that, the other gives the keys of checks and of the
        // permutation.
        // guard: pads-of-their-context
        let [seed, secret] = [0; 2].map(|_| derive32(&self.0, context, "flashe round", &[]));
        let order = derive32(&secret, context, "flashe permutation", &[]);
        RoundKey {
            id: self.id(),
            streams: RoundStreams::new(round, MaskKey::new(MaskSeed::from(seed))),
            order: MaskKey::new(MaskSeed::from(order)),
            checks: CheckKey::new(&secret, context),
            to_encrypt: Slot::default(),
            to_decrypt: Slot::default(),
        }
    }

    /// The key that seals data of the job for everybody who holds K: `derive32(K, 0, "flashe job data", [])`.
    pub fn storage_key(&self) -> StorageKey {
        derive32(&self.0, &NO_ROUND, "flashe job data", &[]).into()
    }

    /// What authenticates saved state: `derive32(K, 0, "flashe state", [])`.
    pub(super) fn state_key(&self) -> Secret<32> {
        derive32(&self.0, &NO_ROUND, "flashe state", &[])
    }
}

/// The first 16 bytes.
pub(super) fn first_half(secret: &Secret<32>) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&secret.expose()[..16]);
    half
}

/// The key of one round: it encrypts against a ticket, decrypts and checks.
///
/// It depends on K and on the context of the round, that is on job, roster and starting model: to a party that was told
/// something else every sum looks wrong.
pub struct RoundKey {
    pub(super) id: KeyId,
    pub(super) streams: RoundStreams,
    pub(super) checks: CheckKey,
    /// What the permutation is drawn from.
    pub(super) order: MaskKey,
    /// Masks computed ahead.
    pub(super) to_encrypt: Slot,
    pub(super) to_decrypt: Slot,
}

impl RoundKey {
    /// The round i.
    pub fn round(&self) -> u64 {
        self.streams.round()
    }
}
