//! What one aggregation is bound to.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use blindsum_crypto::kdf::{self, Context};
use blindsum_crypto::roster::CertifiedRoster;

use crate::{Fault, FaultKind, Job, PartyId};

/// One aggregation: a job, a number that is never used again, the certified parties in order, and
/// the model that everybody starts from. Both machines are made from it.
pub struct Round {
    job: Arc<Job>,
    number: u64,
    roster: Arc<CertifiedRoster>,
    context: Context,
    derived: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Round {
    /// Binds a round. Its context is
    /// `H("blindsum round"; job hash, number, roster hash, model hash)`: two parties who were told
    /// different things derive different keys, and what one of them sends is useless to the other.
    ///
    /// # Errors
    /// A roster larger than `parties` or smaller than `min_parties`.
    pub fn new(
        job: Arc<Job>,
        number: u64,
        roster: Arc<CertifiedRoster>,
        model_hash: &[u8; 32],
    ) -> Result<Self, Fault> {
        let (least, most) = (job.min_parties(), job.spec().parties as usize);
        if roster.len() < least {
            let kind = FaultKind::TooFewSurvivors {
                have: roster.len(),
                need: least,
            };
            return Err(Fault::server(kind));
        }
        if roster.len() > most {
            let rule = format!(
                "parties in the roster = {} <= parties = {most}",
                roster.len()
            );
            return Err(Fault::server(FaultKind::Parameters(rule)));
        }
        let parts: [&[u8]; 4] = [
            job.hash(),
            &number.to_be_bytes(),
            &roster.hash(),
            model_hash,
        ];
        let context = Context(kdf::hash("blindsum round", &parts));
        Ok(Self {
            job,
            number,
            roster,
            context,
            derived: OnceLock::new(),
        })
    }

    /// The job.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// The number of the round.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The parties, in order.
    pub fn roster(&self) -> &Arc<CertifiedRoster> {
        &self.roster
    }

    /// How many parties there are.
    pub fn parties(&self) -> usize {
        self.roster.len()
    }

    /// What every key and signature of the round is derived from.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Everybody in the roster.
    pub fn everyone(&self) -> impl Iterator<Item = PartyId> + use<> {
        (0..self.roster.len() as u32).map(PartyId)
    }

    /// What the protocol derives from the round, made at the first call and kept: many machines of
    /// one process may share a round.
    pub(crate) fn derived<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce(&Self) -> Result<T, Fault>,
    ) -> Result<Arc<T>, Fault> {
        if let Some(kept) = self
            .derived
            .get()
            .and_then(|kept| kept.clone().downcast().ok())
        {
            return Ok(kept);
        }
        let made = Arc::new(make(self)?);
        let _ = self.derived.set(made.clone());
        Ok(made)
    }
}
