//! What all jobs of a coordinator share.

use std::sync::{Arc, PoisonError, RwLock};

use blindsum_job::coordinator::{Choice, Settings};
use blindsum_protocol::Job;
use tokio::sync::watch;

use super::COORDINATOR;
use super::driver::Computing;
use crate::computing::{ChannelParts, ServerChannels};
use crate::limits::Limits;
use crate::observers::Observers;
use crate::relay::Spools;
use crate::servers::Servers;
use crate::store::Store;
use crate::tls::{CoordinatorSide, Renewed};
use crate::{NetError, seconds};

/// What all jobs share.
pub(crate) struct Shared {
    pub store: Arc<dyn Store>,
    pub side: Arc<Renewed<CoordinatorSide>>,
    /// Some of them may change.
    pub limits: RwLock<Limits>,
    pub spools: Arc<Spools>,
    pub observers: Observers,
    pub servers: Option<Arc<Servers>>,
    /// Which parties take part where more are ready than a round takes, and how many a choice changes at least.
    pub choice: (Choice, u32),
    pub stopping: watch::Receiver<bool>,
}

impl Shared {
    /// The limits that hold now.
    pub fn limits(&self) -> Limits {
        let limits = self.limits.read();
        limits.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_limits(&self, limits: Limits) {
        let now = self.limits.write();
        *now.unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// How long a job waits for what, by the limits that hold now.
    pub fn settings(&self) -> Settings {
        let limits = self.limits();
        Settings {
            patience: seconds(limits.patience),
            reconnect_grace: seconds(limits.reconnect_grace),
            chunk_timeout: seconds(limits.chunk_timeout),
            failed_rounds: limits.failed_rounds,
            choice: self.choice.0,
            change: self.choice.1,
        }
    }

    /// The lines to those that compute with the coordinator for a job, if there are any.
    pub fn lines(&self, job: &Job) -> Result<Option<Computing>, NetError> {
        let Some(servers) = self
            .servers
            .as_ref()
            .filter(|_| job.computing_servers().next().is_some())
        else {
            return Ok(None);
        };
        let parts = ChannelParts {
            job,
            me: COORDINATOR,
            servers,
            limits: &self.limits(),
            side: None,
        };
        let (lines, heard) = ServerChannels::open(parts)?;
        Ok(Some(Computing { lines, heard }))
    }
}
