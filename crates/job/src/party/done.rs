//! A job that is done, while its party still waits for the last model, or for its caller.

use std::time::Duration;

use super::exchange::Over;
use crate::machine::Time;
use crate::{JobError, Model, pb};

/// How long a party asks for the last model of a job that is done, once its connection has broken.
const FAREWELL: Duration = Duration::from_secs(60);

/// A job that is done.
pub(super) struct Done {
    /// The last model.
    pub last: pb::ModelName,
    /// Why the job was done before its rounds were, as the coordinator says; empty where it was not.
    pub reason: String,
    /// Until when that model is asked for over further connections, once one has broken.
    pub farewell: Option<Time>,
}

impl Done {
    /// The connection has ended. What was lost on the way is asked for over the next one.
    pub fn connection_lost(&mut self, now: Time) {
        let until = now + FAREWELL;
        // guard: the-last-model-is-waited-for-a-minute
        self.farewell.get_or_insert(until);
    }

    /// A piece of the last model has come: the next one has as much time.
    pub fn put_off_farewell(&mut self, now: Time) {
        if let Some(farewell) = &mut self.farewell {
            *farewell = now + FAREWELL;
        }
    }

    /// The last model, if it is here.
    pub fn last_model<'a>(&self, model: Option<&'a Model>) -> Option<&'a Model> {
        model.filter(|model| model.is(&self.last))
    }

    /// How the party ends, with the last model if it is here.
    pub fn over(&self, model: Option<&Model>) -> Over {
        Over::JobDone {
            model: self.last_model(model).cloned(),
            reason: self.reason.clone(),
        }
    }
}

/// Whether an error is of no matter once the job is done: whoever answers now refuses this party, or is no coordinator
/// of the job.
pub(super) fn is_of_others(error: &JobError) -> bool {
    matches!(error, JobError::Refused { .. } | JobError::Coordinator(_))
}
