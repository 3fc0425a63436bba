//! Numpy vectors, read where they lie.

use blindsum_encode::Values;
use numpy::{PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::errors::raise;
use crate::gil::released;

/// A flat, contiguous vector of `f32` or `f64` that nobody of ours writes to meanwhile.
pub enum Vector<'py> {
    F32(PyReadonlyArray1<'py, f32>),
    F64(PyReadonlyArray1<'py, f64>),
}

impl<'py> Vector<'py> {
    /// Borrows a numpy array of shape `(dim,)`.
    pub fn borrow(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = object.cast::<numpy::PyArray1<f32>>() {
            return Ok(Self::F32(array.try_readonly()?));
        }
        if let Ok(array) = object.cast::<numpy::PyArray1<f64>>() {
            return Ok(Self::F64(array.try_readonly()?));
        }
        let text = "update: must be a flat numpy array of float32 or float64";
        Err(raise(object.py(), "InputError", (text,)))
    }

    /// The numbers, in place.
    pub fn values(&self) -> PyResult<Values<'_>> {
        Ok(match self {
            Self::F32(array) => Values::F32(array.as_slice()?),
            Self::F64(array) => Values::F64(array.as_slice()?),
        })
    }
}

/// Index of the first coordinate that is NaN or infinite.
pub fn position_not_finite(values: Values<'_>) -> Option<usize> {
    match values {
        Values::F32(values) => values.iter().position(|value| !value.is_finite()),
        Values::F64(values) => values.iter().position(|value| !value.is_finite()),
    }
}

/// Index of the first element of a flat array that is NaN or infinite.
#[pyfunction]
pub fn first_not_finite(py: Python<'_>, vector: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let vector = Vector::borrow(vector)?;
    let values = vector.values()?;
    Ok(released(py, || position_not_finite(values)))
}
