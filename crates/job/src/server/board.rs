//! What can be looked at while the job goes on: where it stands, and which answers it lets in.

use std::sync::{Arc, Mutex, PoisonError};

use super::face::Gate;
use crate::report::JobStatus;

/// What is always there to be looked at: the latest of each, whoever has seen the one before.
pub(super) struct Board {
    gate: Mutex<Arc<Gate>>,
    status: Mutex<Arc<JobStatus>>,
}

impl Board {
    pub fn new(gate: Gate, status: JobStatus) -> Arc<Self> {
        Arc::new(Self {
            gate: Mutex::new(Arc::new(gate)),
            status: Mutex::new(Arc::new(status)),
        })
    }

    pub fn gate(&self) -> Arc<Gate> {
        latest(&self.gate)
    }

    pub fn status(&self) -> Arc<JobStatus> {
        latest(&self.status)
    }

    pub fn set_gate(&self, gate: Gate) {
        put(&self.gate, gate);
    }

    pub fn set_status(&self, status: JobStatus) {
        put(&self.status, status);
    }
}

fn latest<T>(of: &Mutex<Arc<T>>) -> Arc<T> {
    of.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn put<T>(of: &Mutex<Arc<T>>, value: T) {
    *of.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
}
