//! Work that the GIL is released for, and that Ctrl-C reaches.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::prelude::*;

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
    let result = py.detach(|| {
        std::thread::scope(|scope| {
            let (done, finished) = sync_channel(1);
            scope.spawn(move || done.send(work()));
            loop {
                match finished.recv_timeout(LOOK_EVERY) {
                    Ok(result) => return Some(result),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                let signals = Python::attach(|py| py.check_signals());
                if let (Err(error), None) = (signals, &interrupted) {
                    interrupted = Some(error);
                    cancel();
                }
            }
        })
    });
    match (interrupted, result) {
        (Some(error), _) => Err(error),
        (None, Some(result)) => Ok(result),
        (None, None) => {
            let text = "a worker thread ended without a result";
            Err(pyo3::exceptions::PyRuntimeError::new_err(text))
        }
    }
}
