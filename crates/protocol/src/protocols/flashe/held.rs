//! The key of a job as a party holds it, and the record of the rounds it was used in.
//!
//! In the vault: version 1 (1 byte), K (32), the set-up in which K was made (8, big-endian), the saved
//! [`KeyState`] ([`KeyState::SAVED`]).

use blindsum_crypto::seal::StorageKey;
use blindsum_he::flashe::{EncryptionTicket, HighWaterMark, JobKey, KeyState};
use zeroize::Zeroizing;

use crate::core::vault::{Kept, KeyName, Vault};
use crate::kit::snapshot::{Reader, Writer};
use crate::protocols::flashe::Flashe;
use crate::{FaultKind, Job, Round};

const VERSION: [u8; 1] = [1];

/// The key of a job, with what is known of its use.
pub(super) struct HeldKey {
    pub key: JobKey,
    /// The number of the key set-up in which it was made.
    pub made: u64,
    state: KeyState,
}

impl HeldKey {
    /// A key that the party has just made or got, in the key set-up numbered `now`: no round up to it can be
    /// encrypted in, nor one below the vault's mark. Else a server that goes back to a lower number would leave
    /// the party with a vault that counts as rolled back from then on.
    pub fn new(key: JobKey, made: u64, now: u64, vault: &dyn Vault) -> Result<Self, FaultKind> {
        // guard: a-new-key-starts-behind-the-mark
        let mark = mark_of(&vault.read()?)?.max(HighWaterMark::after(now)?);
        let state = KeyState::starting_at(&key, mark);
        Ok(Self { key, made, state })
    }

    /// What the vault holds.
    ///
    /// # Errors
    /// [`FaultKind::Vault`] if it is damaged, [`FaultKind::RoundUsed`] if it is older than the vault's mark.
    pub fn load(vault: &dyn Vault) -> Result<Option<Self>, FaultKind> {
        let kept = vault.read()?;
        let mark = mark_of(&kept)?;
        let Some(contents) = kept.contents else {
            return Ok(None);
        };
        // guard: the-vault-keeps-the-mark
        match Self::parse(&contents, mark) {
            Err(FaultKind::Snapshot(rule)) => Err(FaultKind::Vault(rule)),
            held => held.map(Some),
        }
    }

    /// What the vault holds for a round.
    ///
    /// # Errors
    /// As [`load`](Self::load); [`FaultKind::NoKey`] if it is nothing that serves the round.
    pub fn of_round(round: &Round, vault: &dyn Vault) -> Result<Self, FaultKind> {
        let held = Self::load(vault)?.filter(|held| held.serves(round.job(), round.number()));
        held.ok_or(FaultKind::NoKey)
    }

    fn parse(contents: &[u8], mark: HighWaterMark) -> Result<Self, FaultKind> {
        let mut reader = Reader::new(contents);
        if reader.array()? != VERSION {
            return Err(FaultKind::Vault("of another version".into()));
        }
        let key = JobKey::from(reader.secret()?);
        let made = u64::from_be_bytes(reader.array()?);
        let state = KeyState::restore(&key, reader.rest(), mark)?;
        Ok(Self { key, made, state })
    }

    /// Writes the key down.
    pub fn store(&self, vault: &dyn Vault) -> Result<(), FaultKind> {
        let mark = self.state.mark().next_round();
        vault.write(&contents(&self.key, self.made, &self.state.save()), mark)
    }

    /// The right to encrypt once in this round, which counts as used before this returns.
    ///
    /// # Errors
    /// [`FaultKind::RoundUsed`], or a vault that cannot be written.
    pub fn reserve(
        &mut self,
        vault: &dyn Vault,
        round: u64,
        rank: u32,
    ) -> Result<EncryptionTicket, FaultKind> {
        let Self { key, made, state } = self;
        state.reserve(round, rank, |saved| {
            // guard: a-round-is-reserved-in-the-vault
            vault.write(&contents(key, *made, saved), round + 1)
        })
    }

    /// Whether the key may be used in round `number`: each serves `key_rounds` rounds after it was made, or
    /// the whole job.
    pub fn serves(&self, job: &Job, number: u64) -> bool {
        let rounds = u64::from(Flashe::of(job.spec()).key_rounds);
        let age = number.checked_sub(self.made);
        age.is_some_and(|age| age > 0 && (rounds == 0 || age <= rounds))
    }

    /// What is sealed to another party: `K ‖ made`.
    pub fn to_deliver(&self) -> Zeroizing<Vec<u8>> {
        let writer = Writer::default().bytes(self.key.expose());
        writer.bytes(&self.made.to_be_bytes()).finish()
    }
}

/// The first round that may be unused, as far as the vault's mark tells.
fn mark_of(kept: &Kept) -> Result<HighWaterMark, FaultKind> {
    Ok(match kept.mark.checked_sub(1) {
        None => HighWaterMark::ZERO,
        Some(last) => HighWaterMark::after(last)?,
    })
}

/// What goes into the vault.
fn contents(key: &JobKey, made: u64, saved: &[u8; KeyState::SAVED]) -> Zeroizing<Vec<u8>> {
    let writer = Writer::default().bytes(&VERSION).bytes(key.expose());
    writer.bytes(&made.to_be_bytes()).bytes(saved).finish()
}

/// Bytes of a delivered key.
pub(super) const DELIVERED: usize = 40;

/// Reads what [`HeldKey::to_deliver`] wrote, in the key set-up numbered `now`.
///
/// # Errors
/// [`FaultKind::NoKey`] for a key that does not serve the round after it.
pub(super) fn delivered(
    job: &Job,
    bytes: &[u8],
    now: u64,
    vault: &dyn Vault,
) -> Result<HeldKey, FaultKind> {
    let mut reader = Reader::new(bytes);
    let key = JobKey::from(reader.secret()?);
    let made = u64::from_be_bytes(reader.array()?);
    reader.end()?;
    let held = HeldKey::new(key, made, now, vault)?;
    match held.serves(job, now.saturating_add(1)) {
        true => Ok(held),
        false => Err(FaultKind::NoKey),
    }
}

/// The name of the key that the party can use in round `number`, if it holds one.
pub(super) fn key_id(
    job: &Job,
    vault: &dyn Vault,
    number: u64,
) -> Result<Option<KeyName>, FaultKind> {
    let held = HeldKey::load(vault)?;
    let usable = held.filter(|held| held.serves(job, number));
    Ok(usable.map(|held| held.key.id().0))
}

/// What seals data of the job for whoever holds the key in the vault.
pub(super) fn storage_key(vault: &dyn Vault) -> Result<Option<StorageKey>, FaultKind> {
    let held = HeldKey::load(vault)?;
    Ok(held.map(|held| held.key.storage_key()))
}

#[cfg(test)]
mod tests {
    use blindsum_crypto::secret::Secret;

    use super::*;
    use crate::{JobSpec, MemoryVault};

    #[test]
    fn a_key_that_is_too_old_or_of_the_future_is_not_taken() {
        let spec = JobSpec {
            protocol: Flashe {
                key_rounds: 4,
                ..Default::default()
            }
            .into(),
            parties: 3,
            ..JobSpec::default()
        };
        let (job, vault) = (spec.validate().unwrap(), MemoryVault::default());
        for (made, taken) in [(5, false), (6, true), (9, true), (10, false)] {
            let key = JobKey::from(Secret::from([3; 32]));
            let sent = HeldKey::new(key, made, 9, &vault).unwrap().to_deliver();
            let got = delivered(&job, &sent, 9, &vault);
            assert_eq!(got.is_ok(), taken, "made in {made}");
            assert!(got.err().is_none_or(|kind| kind == FaultKind::NoKey));
        }
    }
}
