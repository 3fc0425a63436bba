//! What a party's data costs in a job with noise: asked before the party is ready for a round, and charged before its update
//! leaves.

use std::fmt;
use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_protocol::{Message, Round};
use tracing::{info, warn};

use super::context::Context;
use super::left::Left;
use super::policy::RoundCost;
use crate::ledger::{Balance, Budget, Ledger, MemoryLedger, Release};
use crate::pb::{self, RoundRefusalCode};
use crate::{JobError, PolicyError};

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

impl Context {
    /// Opens the ledger of the party's data, if the job's sums have noise.
    pub(super) async fn open_ledger(&mut self) -> Result<(), JobError> {
        let job = self.job()?.clone();
        let policy = &self.settings.policy;
        let of_round = match policy.round_cost(&job) {
            Ok(Some(of_round)) => of_round,
            Ok(None) => return Ok(()),
            Err(rule) => {
                // Where the policy asks for more the job was refused.
                warn!(party = %self.identity.name, job = %self.settings.job, "not charged to a ledger: {rule}");
                return Ok(());
            }
        };
        let budget = policy.budget();
        let of_job = job.privacy().map_or(0.0, |privacy| privacy.delta());
        let (unit, file) = (policy.privacy_unit.clone(), self.settings.ledger.clone());
        let file = file.unwrap_or_else(|| Arc::new(MemoryLedger::default()));
        let ledger = self.hand.work(move || Ledger::open(unit, file)).await??;
        self.spending = Some(Arc::new(Spending {
            ledger,
            of_round,
            budget,
            delta: budget.map_or(of_job, |budget| budget.delta),
        }));
        Ok(())
    }

    /// Whether this party's data can afford one more round. Where it cannot the coordinator is told why.
    ///
    /// # Errors
    /// Its part in the job is over.
    pub(super) async fn afford(&self, round: u64) -> Result<(), JobError> {
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
        match self.hand.work(afford).await? {
            Ok(_) => Ok(()),
            Err(error) => {
                self.send(pb::RoundRefused {
                    round,
                    code: RoundRefusalCode::RoundRefusalPolicy.into(),
                    reason: told_to_others(&error),
                    ..pb::RoundRefused::default()
                });
                Err(error)
            }
        }
    }

    /// Charges an update, before these messages with it are sent.
    pub(super) async fn charge(&self, round: &Round, sent: Vec<Message>) -> Result<(), Left> {
        let Some(spending) = self.spending.clone() else {
            return Ok(());
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
        match self.hand.work(charge).await? {
            Ok(spent) => {
                info!(party = %self.identity.name, job = %self.settings.job, round = number, "{spent}");
                Ok(())
            }
            Err(error @ JobError::Policy(_)) => Err(Left::refused(error)),
            Err(error) => Err(Left::failed(error)),
        }
    }

    /// What this party's data has cost, as far as this process knows; none in a job without noise.
    pub(super) fn privacy_spent(&self) -> Option<PrivacySpent> {
        let spending = self.spending.as_ref()?;
        Some(spending.told(&spending.ledger.known_balance()))
    }
}

/// Others hear that the data cannot afford the round, not what it was used for.
fn told_to_others(error: &JobError) -> String {
    match error {
        // guard: others-do-not-learn-what-was-spent
        JobError::Policy(PolicyError::Budget { .. }) => {
            "this party's privacy budget does not allow another round".into()
        }
        error => error.for_others(),
    }
}
