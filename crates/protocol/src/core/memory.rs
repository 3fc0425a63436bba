//! What a party or a server keeps of a job between rounds, in memory alone.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// State that a party, or a server other than the coordinator, keeps in memory between the rounds of one job. Give
/// the same object to its machines of all rounds of the job. It is nowhere but in this process: keys in it are lost,
/// and made anew, when the process ends.
#[derive(Default)]
pub struct JobMemory(Mutex<Option<Arc<dyn Any + Send + Sync>>>);

impl JobMemory {
    /// What the protocol keeps, empty at first. A job has one protocol, and that has one kind of thing to keep.
    pub(crate) fn kept<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = place.clone().and_then(|kept| kept.downcast().ok());
        known.unwrap_or_else(|| {
            let new = Arc::new(T::default());
            *place = Some(new.clone());
            new
        })
    }
}

impl fmt::Debug for JobMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobMemory")
    }
}
