//! Rounds that the program begins which runs the coordinator.

use blindsum_job::calls::{Call, CallEnd, CallError, CallId};
use blindsum_job::coordinator::Input;
use blindsum_job::foreign;
use tokio::sync::{mpsc, oneshot};

use super::control::Control;
use super::driver::Event;

/// A round that was called and has not ended. Dropping it changes nothing: the round goes on.
pub struct PendingCall {
    control: CallControl,
    ended: oneshot::Receiver<CallEnd>,
}

/// Sends commands of a host for a round that it has called. Clones control the same round.
#[derive(Clone)]
pub struct CallControl {
    id: CallId,
    events: mpsc::Sender<Event>,
}

impl PendingCall {
    /// Waits for what comes of the call; `None` if the coordinator ended before it did. To be asked until it has given
    /// something, and not after that. May be dropped and asked again.
    pub async fn end(&mut self) -> Option<CallEnd> {
        (&mut self.ended).await.ok()
    }

    /// Returns a handle that controls the round while its end is awaited.
    pub fn control(&self) -> CallControl {
        self.control.clone()
    }
}

impl CallControl {
    /// Reports to the coordinator that a party of the call has failed: the round does not wait for it any more. The
    /// reason is for people, and is sent to the parties.
    pub async fn report_failed(&self, party: &str, reason: &str) {
        let input = Input::PartyFailed {
            name: party.into(),
            reason: reason.into(),
        };
        // A coordinator that has ended waits for nobody.
        let _ = self.events.send(Event::Input(input)).await;
    }

    /// Ends the round without a result, unless it has one. The reason is for people, and is sent to the parties.
    pub async fn call_off(&self, reason: &str) {
        let (id, reason) = (self.id, reason.into());
        let input = Input::CallOff { id, reason };
        let _ = self.events.send(Event::Input(input)).await;
    }
}

impl Control {
    /// Begins a round of a job whose rounds a host begins ([`JobConfig::hosted`](super::JobConfig::hosted)).
    ///
    /// # Errors
    /// Why none begins.
    pub async fn call(&self, job: &str, call: Call) -> Result<PendingCall, CallError> {
        let stopping = || CallError::Stopping { job: foreign(job) };
        let host = self.host().ok_or_else(stopping)?;
        let unknown = || CallError::UnknownJob { job: foreign(job) };
        let served = host.jobs.get(job).ok_or_else(unknown)?;
        drop(host);
        let (taken, id) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let events = served.handle.events;
        let event = Event::Call {
            call,
            taken,
            ended: end,
        };
        events.send(event).await.map_err(|_| stopping())?;
        let id = id.await.map_err(|_| stopping())??;
        let control = CallControl { id, events };
        Ok(PendingCall { control, ended })
    }

    /// The coordinates of a job's vectors; none where there is no such job.
    pub(super) fn dim(&self, job: &str) -> Option<u64> {
        Some(self.host()?.jobs.get(job)?.job.spec().dim)
    }

    /// Whether exact sums of a job's integers are below 2^64.
    pub(super) fn sums_fit_64_bits(&self, job: &str) -> bool {
        let served = self.host().and_then(|host| host.jobs.get(job));
        served.is_some_and(|served| served.job.encoding().sums_fit_64_bits())
    }
}
