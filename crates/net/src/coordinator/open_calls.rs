//! The calls of a host that a job has not ended yet, at the driver of the job.

use std::collections::BTreeMap;

use blindsum_job::calls::{CallEnd, CallError, CallId};
use tokio::sync::oneshot;

/// The calls of one job.
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
