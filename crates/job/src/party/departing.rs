//! How a party leaves the job: the coordinator is told why, so that nobody waits for it.

use super::context::Context;
use super::exchange::{Departure, Effect, Over};
use crate::connection::{Say, Standing};
use crate::pb::{self, LeavingCode};
use crate::{JobError, foreign};

impl Context {
    /// Sends the last frame of a party that leaves before the job is done, where there is a connection.
    pub(super) fn say_goodbye(&self, over: &Over, departure: &Departure) {
        if self.connection.standing() == Standing::Lost {
            return;
        }
        let (code, reason) = match over {
            Over::JobDone { .. } => return,
            Over::Left => left(departure),
            Over::Failed(error) => match failed(error) {
                Some(leaving) => leaving,
                // The coordinator has ended the connection itself.
                None => return,
            },
        };
        let leaving = pb::Leaving {
            code: code.into(),
            reason: foreign(&reason),
        };
        self.hand.say(Effect::Send(
            self.connection.id(),
            Say::Frame(leaving.into()),
        ));
    }
}

/// What the coordinator is told of a caller that leaves.
fn left(departure: &Departure) -> (LeavingCode, String) {
    match departure {
        Departure::Closed => (LeavingCode::LeavingClosed, String::new()),
        Departure::Stopped => (LeavingCode::LeavingStopped, String::new()),
        Departure::Failed(reason) => (LeavingCode::LeavingFailed, reason.clone()),
    }
}

/// What the coordinator is told of a party that cannot go on. Nothing of this machine is in it, such as a path.
fn failed(error: &JobError) -> Option<(LeavingCode, String)> {
    let reason = match error {
        JobError::Refused { .. } => return None,
        JobError::Policy(rule) => return Some((LeavingCode::LeavingPolicy, rule.to_string())),
        JobError::State { .. } => "its state folder cannot be used".into(),
        JobError::System(_) => "its program or its machine failed".into(),
        error => error.to_string(),
    };
    Some((LeavingCode::LeavingFailed, reason))
}
