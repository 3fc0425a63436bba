//! Objects whose threads a forked child does not have.

use pyo3::prelude::*;

use crate::errors::raise;

/// Something that may be used and dropped only in the process that made it: its threads do not exist in
/// a forked child, where a call would wait for ever and dropping could too.
pub struct HomeOnly<T> {
    value: Option<T>,
    process: u32,
}

impl<T> HomeOnly<T> {
    /// Belongs to this process from now on.
    pub fn new(value: T) -> Self {
        let process = std::process::id();
        Self {
            value: Some(value),
            process,
        }
    }

    /// Whether this is the process it was made in.
    pub fn is_home(&self) -> bool {
        self.process == std::process::id()
    }

    /// The value; none after [`Self::take`] and in a forked child.
    pub fn get(&mut self) -> Option<&mut T> {
        if self.is_home() {
            self.value.as_mut()
        } else {
            None
        }
    }

    /// Takes the value out.
    pub fn take(&mut self) -> Option<T> {
        if self.is_home() {
            self.value.take()
        } else {
            None
        }
    }

    /// Why there is no value.
    pub fn missing(&self, py: Python<'_>) -> PyErr {
        let text = if self.is_home() {
            "the session was closed"
        } else {
            "the session was made before this process was forked; make another one here"
        };
        raise(py, "SessionClosedError", (text,))
    }
}

impl<T> Drop for HomeOnly<T> {
    fn drop(&mut self) {
        if !self.is_home() {
            std::mem::forget(self.value.take());
        }
    }
}
