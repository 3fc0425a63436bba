//! What a party's data costs in a job with noise: asked before the party is ready for a round, and charged before its update
//! leaves.

use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_protocol::{Job, Message, Round};
use tracing::warn;

use super::exchange::Settings;
use super::policy::RoundCost;
use super::result::PrivacySpent;
use crate::JobError;
#[cfg(doc)]
use crate::PolicyError;
use crate::ledger::{Balance, Budget, Ledger, MemoryLedger, Release};
use crate::machine::Hand;

/// The ledger of a party, and what a round of its job costs.
pub(super) struct Spending {
    ledger: Arc<Ledger>,
    of_round: RoundCost,
    budget: Option<Budget>,
    /// At which ε is told.
    delta: f64,
}

impl Spending {
    /// Opens the ledger of the party's data, if the job's sums have noise.
    pub async fn open<I, E>(
        settings: &Settings,
        job: &Job,
        hand: &Hand<I, E>,
    ) -> Result<Option<Arc<Self>>, JobError> {
        let policy = &settings.policy;
        let of_round = match policy.round_cost(job) {
            Ok(Some(of_round)) => of_round,
            Ok(None) => return Ok(None),
            // Where the policy asks for more the job was refused.
            Err(rule) => {
                warn!(job = %settings.job, "charged as if its sums had no noise: {rule}");
                RoundCost::unbounded()
            }
        };
        let budget = policy.privacy.budget();
        let of_job = job.privacy().map_or(0.0, |privacy| privacy.delta());
        let (unit, file) = (policy.privacy.privacy_unit.clone(), settings.ledger.clone());
        let file = file.unwrap_or_else(|| Arc::new(MemoryLedger::default()));
        let open = move || {
            let ledger = Ledger::open(unit, file)?;
            ledger.check_writable()?;
            Ok::<_, JobError>(ledger)
        };
        Ok(Some(Arc::new(Self {
            ledger: hand.work(open).await??,
            of_round,
            budget,
            delta: budget.map_or(of_job, |budget| budget.delta),
        })))
    }

    /// Checks that the party's data can afford one more round.
    ///
    /// # Errors
    /// [`PolicyError::Budget`], or the ledger cannot be read.
    pub async fn afford<I, E>(self: Arc<Self>, hand: &Hand<I, E>) -> Result<(), JobError> {
        // guard: what-cannot-be-afforded-is-not-begun
        let afford = move || {
            let Spending {
                ledger,
                of_round,
                budget,
                ..
            } = &*self;
            ledger.afford(&of_round.cost, *budget)
        };
        hand.work(afford).await?.map(drop)
    }

    /// Charges an update, before these messages with it are sent: what the data has cost with it.
    ///
    /// # Errors
    /// [`PolicyError::Budget`], or the ledger cannot be written. Nothing may be sent then.
    pub async fn charge<I, E>(
        self: Arc<Self>,
        hand: &Hand<I, E>,
        round: &Round,
        sent: Vec<Message>,
    ) -> Result<PrivacySpent, JobError> {
        let (context, job) = (round.context().0, *round.job().hash());
        let (number, time) = (round.number(), hand.unix_seconds());
        let charge = move || {
            let Spending {
                ledger,
                of_round,
                budget,
                ..
            } = &*self;
            let of_round = of_round.clone();
            let sent = sent.iter().map(|message| &message[..]);
            let named: Vec<&[u8]> = [&context[..]].into_iter().chain(sent).collect();
            let release = Release {
                job,
                round: number,
                key: kdf::hash("blindsum release", &named),
                cost: of_round.cost,
                honest: of_round.honest,
                time,
            };
            let balance = ledger.charge(release, *budget)?;
            Ok::<_, JobError>(self.told(&balance))
        };
        hand.work(charge).await?
    }

    /// What the party's data has cost, as far as this process knows.
    pub fn spent(&self) -> PrivacySpent {
        self.told(&self.ledger.known_balance())
    }

    fn told(&self, balance: &Balance) -> PrivacySpent {
        PrivacySpent {
            unit: self.ledger.unit().into(),
            releases: balance.releases,
            epsilon: (balance.spent.epsilon(self.delta)).unwrap_or(f64::INFINITY),
            delta: self.delta,
            max_epsilon: self.budget.map(|budget| budget.epsilon),
            honest: self.of_round.honest,
        }
    }
}
