//! Work that the GIL is released for, and that Ctrl-C reaches.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::gil::{released, with_python};

/// How often a waiting thread looks whether a signal came.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs `work` on another thread, without the GIL. When a signal handler raises (Ctrl-C), `cancel` is
/// called once, `work` is waited for, and the handler's exception is given.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    cancel: impl Fn() + Sync,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let mut interrupted = None;
    let result = released(py, || {
        std::thread::scope(|scope| {
            let (done, finished) = sync_channel(1);
            scope.spawn(move || done.send(work()));
            loop {
                match finished.recv_timeout(LOOK_EVERY) {
                    Ok(result) => return Some(result),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                match with_python(|py| py.check_signals()) {
                    Some(Err(error)) if interrupted.is_none() => {
                        interrupted = Some(error);
                        cancel();
                    }
                    Some(_) => {}
                    // The interpreter exits: nobody waits for the result.
                    None => cancel(),
                }
            }
        })
    });
    match (interrupted, result) {
        (Some(error), _) => Err(error),
        (None, Some(result)) => Ok(result),
        (None, None) => Err(no_result()),
    }
}

/// Calls `step(at_most)` without the GIL again and again, until it gives something or the time is over.
/// Between the calls signal handlers run.
pub fn patiently<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut step: impl FnMut(Duration) -> Option<T> + Send,
) -> PyResult<Option<T>> {
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = until.map_or(LOOK_EVERY, |until| {
            until.saturating_duration_since(Instant::now())
        });
        if let Some(found) = released(py, || step(left.min(LOOK_EVERY))) {
            return Ok(Some(found));
        }
        // guard: signals-reach-a-wait
        py.check_signals()?;
        if left.is_zero() {
            return Ok(None);
        }
    }
}

/// Runs `work` on another thread and waits for it. When a signal handler raises, its exception is given
/// at once and `work` goes on by itself; what it gives then is dropped.
pub fn abandonable<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, finished) = sync_channel(1);
    std::thread::spawn(move || done.send(work()));
    let finished = Mutex::new(finished);
    let result = patiently(py, None, |at_most| {
        match locked(&finished).recv_timeout(at_most) {
            Ok(result) => Some(Some(result)),
            Err(RecvTimeoutError::Disconnected) => Some(None),
            Err(RecvTimeoutError::Timeout) => None,
        }
    })?;
    result.flatten().ok_or_else(no_result)
}

/// The content of a lock, also after a panic elsewhere.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_result() -> PyErr {
    PyRuntimeError::new_err("a worker thread ended without a result")
}
