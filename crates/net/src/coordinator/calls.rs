//! Rounds that the program begins which runs the coordinator.

use std::collections::BTreeMap;

use blindsum_job::calls::{Call, CallEnd, CallError, CallId};
use blindsum_job::foreign;
use blindsum_job::server::Input;
use tokio::sync::{mpsc, oneshot};

use super::control::Control;
use super::driver::Event;

/// A round that was called and has not ended. Dropping it changes nothing: the round goes on.
pub struct PendingCall {
    control: CallControl,
    ended: oneshot::Receiver<CallEnd>,
}

/// What a host says of a round that it has called. Clones speak of the same one.
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

    /// A way to say something of the round while its end is waited for.
    pub fn control(&self) -> CallControl {
        self.control.clone()
    }
}

impl CallControl {
    /// Tells the coordinator that a party of the call has failed: nobody waits for it any more. The reason is for people, and
    /// the parties hear it.
    pub async fn report_failed(&self, party: &str, reason: &str) {
        let input = Input::PartyFailed {
            name: party.into(),
            reason: reason.into(),
        };
        // A coordinator that has ended waits for nobody.
        let _ = self.events.send(Event::Input(input)).await;
    }

    /// Ends the round without a result, unless it has one. The reason is for people, and the parties hear it.
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
        let served = host.jobs.get(job).ok_or_else(stopping)?;
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
}

/// The calls of one job, at its driver.
#[derive(Default)]
pub(super) struct Calls {
    /// Those that have not ended: where it is waited for the word on them, and for their end.
    open: BTreeMap<CallId, Open>,
    /// The number of calls.
    count: u64,
}

struct Open {
    taken: Option<oneshot::Sender<Result<CallId, CallError>>>,
    ended: oneshot::Sender<CallEnd>,
}

impl Calls {
    /// The number of a new call.
    pub fn begin(
        &mut self,
        taken: oneshot::Sender<Result<CallId, CallError>>,
        ended: oneshot::Sender<CallEnd>,
    ) -> CallId {
        let id = CallId(self.count);
        self.count += 1;
        let taken = Some(taken);
        self.open.insert(id, Open { taken, ended });
        id
    }

    /// The job takes a call, or refuses it.
    pub fn taken(&mut self, id: CallId, taken: Result<(), CallError>) {
        let refused = taken.is_err();
        let open = self.open.get_mut(&id);
        if let Some(waits) = open.and_then(|open| open.taken.take()) {
            // Perhaps nobody waits for it any more.
            let _ = waits.send(taken.map(|()| id));
        }
        if refused {
            self.open.remove(&id);
        }
    }

    /// A call has ended.
    pub fn ended(&mut self, id: CallId, end: CallEnd) {
        if let Some(open) = self.open.remove(&id) {
            let _ = open.ended.send(end);
        }
    }
}
