//! What keeps a party from encrypting twice under one mask: the state that outlives a restart, and tickets.
//!
//! Two ciphertexts under the same key, round and rank show the difference of their vectors. So rounds may
//! only grow, a round counts as used before its ticket is given out, and an encryption uses a ticket up.

use blindsum_crypto::{kdf::derive32, secret::Secret};
use subtle::ConstantTimeEq;

use super::{
    JobKey, KeyId,
    key::{NO_ROUND, first_half},
};
use crate::flashe::FlasheError;

const VERSION: u8 = 1;
const BODY: usize = 1 + 16 + 8;

/// The right to encrypt one vector: for one key, one round and one rank. It cannot be copied, and an
/// encryption uses it up, whether it succeeds or not.
///
/// ```compile_fail,E0599
/// # use blindsum_he::flashe::EncryptionTicket;
/// fn twice(ticket: EncryptionTicket) -> [EncryptionTicket; 2] {
///     [ticket.clone(), ticket]
/// }
/// ```
#[derive(Debug)]
pub struct EncryptionTicket {
    pub(super) id: KeyId,
    pub(super) round: u64,
    pub(super) rank: u32,
}

impl EncryptionTicket {
    /// The round i.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The rank j.
    pub fn rank(&self) -> u32 {
        self.rank
    }
}

/// The first round that may be unused, kept apart from the state so that a restored backup of the state is noticed. A
/// party may keep it in a database, or find it in a signed record of the rounds that it took part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HighWaterMark(u64);

impl HighWaterMark {
    /// The mark of a party that has never encrypted under the key.
    pub const ZERO: Self = Self(0);

    /// The mark of a party whose last used round is `round`.
    ///
    /// # Errors
    /// [`FlasheError::Round`] for round 2^64 - 1, which cannot be.
    pub fn after(round: u64) -> Result<Self, FlasheError> {
        let next = round.checked_add(1).ok_or(FlasheError::Round { round })?;
        Ok(Self(next))
    }

    /// The number of the first round that may be unused.
    pub fn next_round(self) -> u64 {
        self.0
    }
}

/// Which rounds a party has encrypted in under one key: all below the mark count as used.
///
/// It is made once for a key and from then on restored from what was saved; there is no copy of it.
///
/// Saved form, [`SAVED`](Self::SAVED) bytes: version 1 (1 byte), key id (16), the first round that may be
/// unused (8, big-endian), and the first 16 bytes of `derive32(S, 0, "flashe state tag", [all before])`,
/// with S = `derive32(K, 0, "flashe state", [])`. It is no secret.
pub struct KeyState {
    id: KeyId,
    next: u64,
    secret: Secret<32>,
}

impl KeyState {
    /// Bytes of the saved form.
    pub const SAVED: usize = BODY + 16;

    /// The state of a party that has just got the key and never used it.
    pub fn new(key: &JobKey) -> Self {
        Self::starting_at(key, HighWaterMark::ZERO)
    }

    /// The state of a party that has just got the key: all rounds below the mark count as used, whether the
    /// party has a record of them or lost it.
    pub fn starting_at(key: &JobKey, mark: HighWaterMark) -> Self {
        Self {
            id: key.id(),
            next: mark.0,
            secret: key.state_key(),
        }
    }

    /// The state that was saved last, after a restart.
    ///
    /// # Errors
    /// [`FlasheError::State`] if it was damaged or belongs to another key, [`FlasheError::CounterReuse`] if it is
    /// older than `mark`.
    pub fn restore(key: &JobKey, saved: &[u8], mark: HighWaterMark) -> Result<Self, FlasheError> {
        let state = Self::new(key);
        let body: &[u8; BODY] = saved.first_chunk().ok_or(FlasheError::State)?;
        let same = state.sealed(body).ct_eq(saved);
        let (Some(next), true) = (body.last_chunk(), bool::from(same)) else {
            return Err(FlasheError::State);
        };
        let next = u64::from_be_bytes(*next);
        // guard: an-old-state-is-refused
        if next < mark.0 {
            return Err(FlasheError::CounterReuse {
                round: next,
                next: mark.0,
            });
        }
        Ok(Self { next, ..state })
    }

    /// The saved form.
    pub fn save(&self) -> [u8; Self::SAVED] {
        let mut body = [0; BODY];
        body[0] = VERSION;
        body[1..17].copy_from_slice(&self.id.0);
        body[17..].copy_from_slice(&self.next.to_be_bytes());
        self.sealed(&body)
    }

    /// The first round that may be unused.
    pub fn mark(&self) -> HighWaterMark {
        HighWaterMark(self.next)
    }

    /// Gives out the ticket of `round`, in which the party has `rank`, after `persist` has stored the new state where
    /// it survives a loss of power. Rounds that are skipped count as used.
    ///
    /// If `persist` fails there is no ticket, and the round counts as used all the same: nobody knows whether the state
    /// was stored.
    ///
    /// # Errors
    /// [`FlasheError::CounterReuse`] for a round that counts as used, [`FlasheError::Round`] and [`FlasheError::Rank`]
    /// for the largest number of either, and the error of `persist`.
    pub fn reserve<E: From<FlasheError>>(
        &mut self,
        round: u64,
        rank: u32,
        persist: impl FnOnce(&[u8; Self::SAVED]) -> Result<(), E>,
    ) -> Result<EncryptionTicket, E> {
        if rank == u32::MAX {
            let parties = u32::MAX;
            return Err(FlasheError::Rank { rank, parties }.into());
        }
        // guard: rounds-only-grow
        if round < self.next {
            let next = self.next;
            return Err(FlasheError::CounterReuse { round, next }.into());
        }
        // guard: a-round-is-used-before-its-ticket
        self.next = HighWaterMark::after(round)?.0;
        persist(&self.save())?;
        Ok(EncryptionTicket {
            id: self.id,
            round,
            rank,
        })
    }

    /// `body` with its tag.
    fn sealed(&self, body: &[u8; BODY]) -> [u8; Self::SAVED] {
        let tag = derive32(&self.secret, &NO_ROUND, "flashe state tag", &[body]);
        let mut sealed = [0; Self::SAVED];
        sealed[..BODY].copy_from_slice(body);
        sealed[BODY..].copy_from_slice(&first_half(&tag));
        sealed
    }
}
