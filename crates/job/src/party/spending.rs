//! What a party's data costs in a job with noise: asked before the party is ready for a round, and charged before its update
//! leaves.

use std::fmt;
use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_protocol::{Job, Message, Round};
use tracing::warn;

use super::exchange::Settings;
use super::policy::RoundCost;
use super::store::Store;
use crate::JobError;
#[cfg(doc)]
use crate::PolicyError;
use crate::ledger::{Balance, Budget, Ledger, MemoryLedger, Release};

/// The ledger of a party, and what a round of its job costs.
pub(super) struct Spending {
    ledger: Arc<Ledger>,
    of_round: RoundCost,
    budget: Option<Budget>,
    /// At which ε is told.
    delta: f64,
}

/// What a party's data has cost in all jobs of its ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct PrivacySpent {
    /// The name of the data: the policy's `privacy_unit`.
    pub unit: String,
    /// Releases: rounds for which an update was about to leave.
    pub releases: u64,
    /// ε of all of them together, not below.
    pub epsilon: f64,
    /// The δ that it is for: the policy's `max_delta`, or that of the job.
    pub delta: f64,
    /// The most that ε may be, by the policy.
    pub max_epsilon: Option<f64>,
    /// How many parties' noise a round of this job counts on; 0 where the servers add the noise.
    pub honest: usize,
}

impl fmt::Display for PrivacySpent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epsilon {:.4}", self.epsilon)?;
        if let Some(allowed) = self.max_epsilon {
            write!(f, " of {allowed}")?;
        }
        let Self {
            unit,
            releases,
            delta,
            honest,
            ..
        } = self;
        let whose = match honest {
            0 => "noise of the servers".into(),
            honest => format!("honest {honest}"),
        };
        write!(
            f,
            " at delta {delta:e} after {releases} releases of {unit} ({whose})"
        )
    }
}

impl Spending {
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

impl Store {
    /// Opens the ledger of the party's data, if the job's sums have noise.
    pub async fn open_ledger(&mut self, settings: &Settings, job: &Job) -> Result<(), JobError> {
        let policy = &settings.policy;
        let of_round = match policy.round_cost(job) {
            Ok(Some(of_round)) => of_round,
            Ok(None) => return Ok(()),
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
        let ledger = self.hand.work(open).await??;
        self.spending = Some(Arc::new(Spending {
            ledger,
            of_round,
            budget,
            delta: budget.map_or(of_job, |budget| budget.delta),
        }));
        Ok(())
    }

    /// Checks that the party's data can afford one more round.
    ///
    /// # Errors
    /// [`PolicyError::Budget`], or the ledger cannot be read.
    pub async fn afford_round(&self) -> Result<(), JobError> {
        let Some(spending) = self.spending.clone() else {
            return Ok(());
        };
        // guard: what-cannot-be-afforded-is-not-begun
        let afford = move || {
            let Spending {
                ledger,
                of_round,
                budget,
                ..
            } = &*spending;
            ledger.afford(&of_round.cost, *budget)
        };
        self.hand.work(afford).await?.map(drop)
    }

    /// Charges an update, before these messages with it are sent: what the data has cost with it, if the job has noise.
    ///
    /// # Errors
    /// [`PolicyError::Budget`], or the ledger cannot be written. Nothing may be sent then.
    pub async fn charge(
        &self,
        round: &Round,
        sent: Vec<Message>,
    ) -> Result<Option<PrivacySpent>, JobError> {
        let Some(spending) = self.spending.clone() else {
            return Ok(None);
        };
        let (context, job) = (round.context().0, *round.job().hash());
        let (number, time) = (round.number(), self.hand.unix_seconds());
        let charge = move || {
            let Spending {
                ledger,
                of_round,
                budget,
                ..
            } = &*spending;
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
            Ok::<_, JobError>(spending.told(&balance))
        };
        self.hand.work(charge).await?.map(Some)
    }

    /// What the party's data has cost, as far as this process knows; none in a job without noise.
    pub fn privacy_spent(&self) -> Option<PrivacySpent> {
        let spending = self.spending.as_ref()?;
        Some(spending.told(&spending.ledger.known_balance()))
    }
}
