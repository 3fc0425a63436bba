//! Which sums may be opened.

use std::sync::Arc;

use blindsum_crypto::kdf::Context;
use blindsum_he::paillier::SecretKey;

use crate::{FaultKind, PartySet, Round};

/// Opens the sum of a round once, if it is declared to be of everybody in the round, and of no round that it has not opened.
#[derive(Default)]
pub(super) struct Decryptor {
    /// The number of the latest round.
    latest: u64,
    open: Option<Open>,
}

/// The latest round, while its sum was not opened.
struct Open {
    context: Context,
    key: Arc<SecretKey>,
}

fn refused<T>(rule: impl Into<String>) -> Result<T, FaultKind> {
    Err(FaultKind::Decryption(rule.into()))
}

impl Decryptor {
    /// Whether a round may begin: none does twice.
    pub fn may_open(&self, number: u64) -> Result<(), FaultKind> {
        let latest = self.latest;
        // guard: a-round-is-opened-once
        match number > latest {
            true => Ok(()),
            false => refused(format!(
                "round {number} is not after round {latest}, which was opened before"
            )),
        }
    }

    /// A round begins, and the one before it is over.
    pub fn open(&mut self, round: &Round, key: Arc<SecretKey>) {
        self.latest = round.number();
        self.open = Some(Open {
            context: *round.context(),
            key,
        });
    }

    /// The key that the sum of a round is opened with. It is given once.
    pub fn take(
        &mut self,
        round: &Round,
        declared: &[&PartySet],
    ) -> Result<Arc<SecretKey>, FaultKind> {
        let number = round.number();
        let is_it = |open: &mut Open| open.context == *round.context();
        // guard: a-sum-is-opened-once
        let Some(open) = self.open.take_if(is_it) else {
            return refused(format!(
                "round {number} is not open here, or its sum was opened before"
            ));
        };
        let need = round.parties();
        match declared.iter().map(|of| of.len()).min() {
            // guard: a-sum-is-of-all
            Some(have) if have == need => Ok(open.key),
            have => {
                let have = have.unwrap_or(0);
                refused(format!(
                    "the sum is declared to be of {have} parties, but the round has {need}"
                ))
            }
        }
    }
}
