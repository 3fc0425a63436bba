//! Errors of the Rust side as the exceptions of `blindsum.errors`.

use blindsum_crypto::CryptoError;
use blindsum_protocol::{Fault, SpecError};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

/// An instance of the exception class `name` of `blindsum.errors`.
pub fn raise<'py>(py: Python<'py>, name: &str, arguments: impl PyCallArgs<'py>) -> PyErr {
    let made = py
        .import("blindsum.errors")
        .and_then(|module| module.getattr(name))
        .and_then(|class| class.call1(arguments));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Turns an error of one of the crates into an exception.
pub trait IntoPyErr {
    /// The exception.
    fn into_py_err(self, py: Python<'_>) -> PyErr;
}

impl IntoPyErr for SpecError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        raise(py, "SpecError", (self.field, self.rule))
    }
}

impl IntoPyErr for CryptoError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        raise(py, "IdentityError", (self.to_string(),))
    }
}

impl IntoPyErr for Fault {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        raise(
            py,
            "Fault",
            (self.culprit.to_string(), self.kind.to_string()),
        )
    }
}

/// `result.or_raise(py)?` where the error is one of ours.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: IntoPyErr> OrRaise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| error.into_py_err(py))
    }
}
