//! Objects whose threads a forked child does not have.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

use crate::errors::raise;

/// The process in which something was made.
#[derive(Clone, Copy)]
struct Home(u32);

impl Home {
    /// This process.
    fn here() -> Self {
        Self(std::process::id())
    }

    /// Whether this is the process it was made in.
    fn is_here(self) -> bool {
        // guard: a-forked-child-is-a-stranger
        self.0 == std::process::id()
    }

    /// Refuses to go on in a forked child. To be asked before any lock: a thread of the parent may have held it when the
    /// process was forked, and then nobody lets go of it in the child.
    fn check(self, py: Python<'_>, what: &str) -> PyResult<()> {
        match self.is_here() {
            true => Ok(()),
            false => {
                let text = format!(
                    "the {what} was made before this process was forked, and works only in that process; make \
                     another one here, in a process that is started by \"spawn\""
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

/// Something with threads or connections: it may be used and dropped only in the process that made it. In a forked child its
/// threads do not exist, so that a call would wait for ever. Dropping could too: garbage is collected in a child as well.
pub struct Homed<T> {
    value: Option<T>,
    home: Home,
    what: &'static str,
}

impl<T> Homed<T> {
    /// Belongs to this process from now on; `what` it is called in errors.
    pub fn new(what: &'static str, value: T) -> Self {
        Self {
            value: Some(value),
            home: Home::here(),
            what,
        }
    }

    /// The value, if this is the process that made it.
    pub fn at_home(&self, py: Python<'_>) -> PyResult<&T> {
        self.home.check(py, self.what)?;
        self.value.as_ref().ok_or_else(|| closed(py))
    }

    /// Takes the value out to drop it; none in a forked child, where it stays for good.
    pub fn take(&mut self) -> Option<T> {
        match self.home.is_here() {
            true => self.value.take(),
            false => {
                // guard: a-forked-child-drops-nothing
                std::mem::forget(self.value.take());
                None
            }
        }
    }
}

impl<T> Drop for Homed<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The error of a session that was closed.
pub fn closed(py: Python<'_>) -> PyErr {
    raise(py, "SessionClosedError", ("the session was closed",))
}
