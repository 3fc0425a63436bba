//! Letting go of the interpreter and coming back to it, also while it exits.
//!
//! A thread that asks an exiting interpreter for the GIL never returns: CPython ends it, and doing so
//! through our frames ends the process. So when the interpreter is about to exit, threads that are out
//! in native code stay there for good, and [`prepare_exit`] waits for those on their way back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

static EXITING: AtomicBool = AtomicBool::new(false);
/// Threads that are coming back to the interpreter, or are in it for a callback.
static COMING: AtomicUsize = AtomicUsize::new(0);
/// The thread that ends the interpreter: it may come and go.
static LAST: Mutex<Option<ThreadId>> = Mutex::new(None);

/// How long an exit waits for callbacks to end.
const MOST: Duration = Duration::from_secs(2);

/// Runs `work` without the GIL.
pub fn released<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let result = py.detach(|| {
        let result = work();
        while !announce() {
            std::thread::park();
        }
        result
    });
    COMING.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Calls into the interpreter from a native thread; `None` where it is exiting.
pub fn with_python<T>(call: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    if !announce() {
        return None;
    }
    let result = Python::attach(call);
    COMING.fetch_sub(1, Ordering::SeqCst);
    Some(result)
}

/// Counts this thread as coming, unless it is too late for that.
fn announce() -> bool {
    COMING.fetch_add(1, Ordering::SeqCst);
    let last = || *LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if !EXITING.load(Ordering::SeqCst) || last() == Some(std::thread::current().id()) {
        return true;
    }
    COMING.fetch_sub(1, Ordering::SeqCst);
    false
}

/// Called by `atexit`: from now on no native thread comes back to the interpreter.
#[pyfunction]
pub fn prepare_exit(py: Python<'_>) {
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current().id());
    EXITING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let until = Instant::now() + MOST;
        while COMING.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}
