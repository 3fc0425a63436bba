//! The program that a party works for, as the party's driver sees it.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use blindsum_job::party::{Input, Over, RoundResult, Told};
use blindsum_protocol::Job;
use tokio::sync::mpsc::UnboundedSender;
use tracing::debug;

use super::{Holding, Notice, RoundHandle};
use crate::NetError;

/// Where the caller hears what becomes of its party.
pub(super) struct Caller {
    notices: Sender<Notice>,
    /// Where the rounds that it gets send its words.
    commands: UnboundedSender<Input>,
    /// The job, once it is known: the address and the certificates are right then.
    job: Option<Arc<Job>>,
    /// Where it hears what became of the round with this number.
    results: Option<(u64, Sender<Result<RoundResult, NetError>>)>,
    /// Where it sees why operators let no round begin.
    holding: Holding,
}

impl Caller {
    pub fn new(
        notices: Sender<Notice>,
        commands: UnboundedSender<Input>,
        holding: Holding,
    ) -> Self {
        Self {
            notices,
            commands,
            job: None,
            results: None,
            holding,
        }
    }

    /// Whether the caller has received its job.
    pub fn has_joined(&self) -> bool {
        self.job.is_some()
    }

    /// Passes on what the machine tells; its end has a call of its own.
    pub fn tell(&mut self, told: Told) {
        let notice = match told {
            Told::Joined(job) => {
                self.job = Some(job.clone());
                Notice::Joined(job)
            }
            Told::Round(begun) => {
                // It is known before any round begins.
                let Some(job) = self.job.clone() else { return };
                let (sender, results) = channel();
                self.results = Some((begun.number, sender));
                let handle = RoundHandle::new(begun, job, self.commands.clone(), results);
                Notice::Round(Box::new(handle))
            }
            Told::Refused(error) => Notice::Refused(error.into()),
            Told::Ended(round, result) => {
                let of_round = |(number, _): &mut (u64, _)| *number == round;
                if let Some((_, results)) = self.results.take_if(of_round) {
                    let _ = results.send(result.map(|result| *result).map_err(NetError::from));
                }
                return;
            }
            Told::Held(reason) => match self.holding.set(reason) {
                true => Notice::Held,
                false => return,
            },
            Told::Dropped(error) => {
                debug!(%error, "an update was dropped");
                return;
            }
            Told::Over(_) => return,
        };
        let _ = self.notices.send(notice);
    }

    /// The party's part in the job is over; `own` is why the driver gave up, if it did.
    pub fn over(&mut self, over: Over, own: Option<NetError>) {
        self.holding.set(String::new());
        let notice = match over {
            Over::Left => return,
            Over::JobDone { model, reason } => Notice::JobDone(model, reason),
            Over::Failed(error) => Notice::Failed(own.unwrap_or(error.into())),
        };
        let _ = self.notices.send(notice);
    }
}
