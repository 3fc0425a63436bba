//! What a server holds of the parties' uploads, until it is known whose are summed.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::secret::Secret;
use blindsum_math::words::Words;
use blindsum_sharing::replicated::ComponentSum;

use super::TAG;
use super::upload::{Checked, Held, check};
use crate::{Fault, FaultKind, PartyId, PartySet, Round, ServerIndex};

/// The uploads that a server has checked.
pub(super) struct Holding {
    me: ServerIndex,
    round: Arc<Round>,
    uploads: BTreeMap<PartyId, Checked>,
}

impl Holding {
    pub fn new(round: Arc<Round>, me: ServerIndex) -> Self {
        Self {
            me,
            round,
            uploads: BTreeMap::new(),
        }
    }

    /// Takes the upload of a party, once.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn take(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let checked = check(&self.round, self.me, from, body)?;
        self.uploads.insert(from, checked);
        Ok(())
    }

    /// Whose uploads are here, each with what servers compare of it.
    pub fn headers(&self) -> BTreeMap<PartyId, [u8; 32]> {
        let headers = self.uploads.iter();
        headers
            .map(|(party, upload)| (*party, upload.header))
            .collect()
    }

    /// The sum of the survivors' vectors: this server's own component, then the next one.
    ///
    /// # Errors
    /// A survivor whose upload is not here.
    pub fn sums(&self, survivors: &PartySet) -> Result<[Words; 2], Fault> {
        let uploads = self.of(survivors)?;
        let (width, lanes) = (self.round.job().width(), self.round.job().lanes());
        let sum = |place: usize| {
            let mut sum = ComponentSum::new(width, lanes);
            let held = || uploads.iter().filter_map(|upload| upload.held.get(place));
            sum.add_seeds(held().filter_map(|held| match held {
                Held::Seed(seed) => Some(seed),
                Held::Explicit(_) => None,
            }));
            for held in held() {
                if let Held::Explicit(packed) = held {
                    sum.add_explicit(packed)
                        .map_err(|e| FaultKind::malformed("upload", e.to_string()))?;
                }
            }
            Ok(sum.into_words())
        };
        let (own, next) = rayon::join(|| sum(0), || sum(1));
        Ok([own.map_err(Fault::nobody)?, next.map_err(Fault::nobody)?])
    }

    /// The keys by which this server vouches for a sum towards the survivors.
    ///
    /// # Errors
    /// A survivor whose upload is not here.
    pub fn tag_keys(&self, survivors: &PartySet) -> Result<Vec<&Secret<TAG>>, Fault> {
        let uploads = self.of(survivors)?.into_iter();
        Ok(uploads
            .filter_map(|upload| upload.tag_key.as_ref())
            .collect())
    }

    fn of(&self, survivors: &PartySet) -> Result<Vec<&Checked>, Fault> {
        let missing = || FaultKind::malformed("survivors", "a party whose upload is not here");
        let upload = |party| self.uploads.get(&party);
        let uploads: Option<Vec<_>> = survivors.iter().map(upload).collect();
        uploads.ok_or_else(|| Fault::nobody(missing()))
    }
}
