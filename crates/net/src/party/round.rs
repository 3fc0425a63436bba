//! A round of a party, as its caller sees it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use blindsum_job::party::{Absence, Begun, Input, Metrics, RoundResult, Update, check_update};
use blindsum_protocol::{Job, Tag};
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

use crate::{JobError, Model, NetError, NoUpdateTaken};

/// What the caller has done with a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It must give an update.
    Open,
    /// An update was sent before the process was started.
    SentBefore,
    /// It has given an update.
    Submitted,
    /// It was told the end.
    Over,
}

/// A round that this party takes part in. Dropping it before an update was submitted sits the round out.
pub struct RoundHandle {
    begun: Begun,
    job: Arc<Job>,
    commands: UnboundedSender<Input>,
    results: Receiver<Result<RoundResult, NetError>>,
    early: Option<Result<RoundResult, NetError>>,
    stage: Stage,
    /// Why the caller gives no update, where it gives none.
    absence: Absence,
}

impl RoundHandle {
    pub(super) fn new(
        begun: Begun,
        job: Arc<Job>,
        commands: UnboundedSender<Input>,
        results: Receiver<Result<RoundResult, NetError>>,
    ) -> Self {
        Self {
            stage: match begun.needs_update {
                true => Stage::Open,
                false => Stage::SentBefore,
            },
            begun,
            job,
            commands,
            results,
            early: None,
            absence: Absence::SitsOut,
        }
    }

    /// The round's number; no number comes twice in a job.
    pub fn number(&self) -> u64 {
        self.begun.number
    }

    /// Why the round is over, where it is before anything was submitted. What has come already of a round whose update is out
    /// is kept, whatever it is: the caller must hear it.
    pub(super) fn over_already(&mut self) -> Option<NetError> {
        match self.results.try_recv() {
            // guard: an-early-end-is-kept-for-the-caller
            Ok(Err(error)) if self.needs_update() => Some(error),
            early => {
                self.early = early.ok();
                None
            }
        }
    }

    /// The model from which the round starts. It is the same for every party.
    pub fn model(&self) -> &Model {
        &self.begun.model
    }

    /// The step of the host that began the round; `None` where no host chose one.
    pub fn tag(&self) -> Option<Tag> {
        self.begun.tag
    }

    /// The certified parties of the round, by name.
    pub fn parties(&self) -> &[String] {
        &self.begun.parties
    }

    /// Whether an update must still be submitted: not if one was, even before a crash after which the round goes on.
    pub fn needs_update(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Gives this party's update, `[dim]`, with its weight. Returns once the update is checked and handed over;
    /// [`RoundHandle::result`] waits for the outcome. If an update was sent before a crash, that one counts and the
    /// first one given here is dropped, which the log says.
    ///
    /// # Errors
    /// [`JobError::Input`] for a wrong length, NaN, infinities or a weight above the job's `max_weight`: another update
    /// may be submitted then. [`JobError::Submission`] if an update was submitted before, or the result was given. Any
    /// other error means that the round is over, and says why.
    pub fn submit(&mut self, update: impl Into<Update>, weight: u32) -> Result<(), NetError> {
        self.submit_with(update, weight, &Metrics::new())
    }

    /// Like [`submit`](Self::submit), with metrics of the job: those that are not given are missing.
    ///
    /// # Errors
    /// As [`RoundHandle::submit`]; a name that no metric of the job has.
    pub fn submit_with(
        &mut self,
        update: impl Into<Update>,
        weight: u32,
        metrics: &Metrics,
    ) -> Result<(), NetError> {
        let round = self.begun.number;
        match self.stage {
            Stage::Open => {}
            Stage::SentBefore => {
                warn!(
                    round,
                    "an update was sent before this process was started: that one counts, and this one is dropped"
                );
                self.stage = Stage::Submitted;
                return Ok(());
            }
            Stage::Submitted => return Err(self.takes_none(NoUpdateTaken::Submitted)),
            Stage::Over => return Err(self.takes_none(NoUpdateTaken::Over)),
        }
        match self.results.try_recv() {
            Ok(Err(error)) => {
                self.stage = Stage::Over;
                return Err(error);
            }
            Ok(early) => self.early = Some(early),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) if self.early.is_none() => return Err(NetError::Left),
            Err(TryRecvError::Disconnected) => {}
        }
        let update = check_update(&self.job, update.into(), weight, metrics)?;
        self.stage = Stage::Submitted;
        let command = Input::Submit { round, update };
        self.commands.send(command).map_err(|_| NetError::Left)
    }

    fn takes_none(&self, why: NoUpdateTaken) -> NetError {
        let round = self.begun.number;
        JobError::Submission { round, why }.into()
    }

    /// Gives no update in this round. The coordinator is notified with the reason, and the round goes on without this
    /// party. Nothing happens after an update was submitted.
    pub fn skip(mut self, why: Absence) {
        self.absence = why;
    }

    /// Waits for the result. The result or an error comes at the latest when every deadline of the round has passed.
    /// But once the update was sent, only the coordinator knows whether it counts: then the party asks the coordinator,
    /// until it has not reached it for `give_up_after`.
    ///
    /// # Errors
    /// The reason why the round gave no result, or none for this party. [`JobError::Unknown`] if the update was sent,
    /// and the session ended before the coordinator said whether it counts.
    pub fn result(&mut self) -> Result<RoundResult, NetError> {
        loop {
            if let Some(result) = self.wait_result(Duration::from_secs(3600)) {
                return result;
            }
        }
    }

    /// Waits for the result, but for at most `timeout`; `None` if nothing has come by then.
    pub fn wait_result(&mut self, timeout: Duration) -> Option<Result<RoundResult, NetError>> {
        let result = self.next_result(timeout)?;
        if result.is_ok() {
            // Until it has left here it is told again after a crash.
            let _ = self.commands.send(Input::Took(self.begun.number));
        }
        Some(result)
    }

    fn next_result(&mut self, timeout: Duration) -> Option<Result<RoundResult, NetError>> {
        match self.stage {
            Stage::Open if self.early.is_none() => {
                let rule = "submit an update before asking for the result".into();
                return Some(Err(JobError::Input(rule).into()));
            }
            Stage::Over => {
                let round = self.begun.number;
                let reason = format!("round {round}: its end was given already; keep it");
                return Some(Err(NetError::System(reason)));
            }
            Stage::Open | Stage::SentBefore | Stage::Submitted => {}
        }
        let result = match self.early.take() {
            Some(early) => early,
            None => match self.results.recv_timeout(timeout) {
                Ok(result) => result,
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => Err(self.unknown()),
            },
        };
        self.stage = Stage::Over;
        Some(result)
    }

    /// The session has ended without a word on the round.
    fn unknown(&self) -> NetError {
        JobError::unknown(self.begun.number, "the session has ended").into()
    }
}

impl Drop for RoundHandle {
    fn drop(&mut self) {
        let round = self.begun.number;
        let why = std::mem::replace(&mut self.absence, Absence::SitsOut);
        let _ = self.commands.send(match self.stage {
            Stage::Open => Input::Abandon { round, why },
            // Whoever drops the round does not want its result.
            Stage::SentBefore | Stage::Submitted | Stage::Over => Input::Took(round),
        });
    }
}

#[cfg(test)]
mod tests {
    use blindsum_protocol::{JobSpec, ProtocolName};
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    /// What became of an update that is out reaches the caller, also where it is known before the caller looks. Of a round in
    /// which nothing is out there is nothing to hear: the next one is looked at.
    #[test]
    fn case_54_an_early_end_is_kept_where_an_update_is_out() {
        let spec = JobSpec {
            protocol: ProtocolName::Plain.into(),
            dim: 1,
            ..JobSpec::default()
        };
        let job = Arc::new(spec.validate().unwrap());
        let ended = |needs_update| {
            let begun = Begun {
                number: 1,
                model: Model::initial(&job),
                parties: Vec::new(),
                tag: None,
                needs_update,
            };
            let (told, results) = std::sync::mpsc::channel();
            let mut round = RoundHandle::new(begun, job.clone(), unbounded_channel().0, results);
            told.send(Err(JobError::unknown(1, "gone").into())).unwrap();
            let over = round.over_already();
            (over, round)
        };
        let (over, _) = ended(true);
        assert!(matches!(
            over,
            Some(NetError::Job(JobError::Unknown { .. }))
        ));
        let (over, mut round) = ended(false);
        assert!(over.is_none());
        let heard = round.result();
        assert!(matches!(
            heard,
            Err(NetError::Job(JobError::Unknown { .. }))
        ));
    }
}
