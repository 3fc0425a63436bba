//! Objects whose threads a forked child does not have.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

use crate::errors::raise;

/// The process in which something was made.
#[derive(Clone, Copy)]
pub struct Home(u32);

impl Home {
    /// This process.
    pub fn here() -> Self {
        Self(std::process::id())
    }

    /// Whether this is the process it was made in.
    pub fn is_here(self) -> bool {
        // guard: a-forked-child-is-a-stranger
        self.0 == std::process::id()
    }

    /// Refuses to go on in a forked child. To be asked before any lock: a thread of the parent may have held it when the
    /// process was forked, and then nobody lets go of it in the child.
    pub fn check(self, py: Python<'_>, what: &str) -> PyResult<()> {
        match self.is_here() {
            true => Ok(()),
            false => {
                let text = format!(
                    "the {what} was made before this process was forked, and works in that process alone; make another \
                     one here, in a process that is started by \"spawn\""
                );
                Err(raise(py, "ForkedError", (text,)))
            }
        }
    }
}

/// The first process that made something which computes with the threads of this module; 0 where none has.
static WORKS_IN: AtomicU32 = AtomicU32::new(0);

/// To be called where something is made that computes with the threads of this module.
///
/// # Errors
/// The process is a fork of one that has them: here they do not exist, and the first large vector would wait for ever.
pub fn begin_work(py: Python<'_>) -> PyResult<()> {
    let here = std::process::id();
    match WORKS_IN.compare_exchange(0, here, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => Ok(()),
        Err(works_in) if works_in == here => Ok(()),
        Err(_) => {
            let text = "this process was forked from one in which Blindsum has threads, and these are not here; start \
                        processes by \"spawn\" or \"forkserver\", or fork before the first job";
            Err(raise(py, "ForkedError", (text,)))
        }
    }
}

/// Something that may be used and dropped only in the process that made it: its threads do not exist in
/// a forked child, where a call would wait for ever and dropping could too.
pub struct HomeOnly<T> {
    value: Option<T>,
    home: Home,
}

impl<T> HomeOnly<T> {
    /// Belongs to this process from now on.
    pub fn new(value: T) -> Self {
        Self {
            value: Some(value),
            home: Home::here(),
        }
    }

    /// Whether this is the process it was made in.
    fn is_home(&self) -> bool {
        self.home.is_here()
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
}

/// The error of a session that was closed.
pub fn closed(py: Python<'_>) -> PyErr {
    raise(py, "SessionClosedError", ("the session was closed",))
}

impl<T> Drop for HomeOnly<T> {
    fn drop(&mut self) {
        if !self.is_home() {
            std::mem::forget(self.value.take());
        }
    }
}
