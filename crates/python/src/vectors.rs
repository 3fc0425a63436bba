//! Numpy vectors, read where they lie.

use blindsum_encode::Values;
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::errors::raise;
use crate::gil::released;

/// A flat, contiguous vector of `f32`, `f64`, `u32` or `u64` that nobody of ours writes to meanwhile.
pub enum Vector<'py> {
    F32(PyReadonlyArray1<'py, f32>),
    F64(PyReadonlyArray1<'py, f64>),
    U32(PyReadonlyArray1<'py, u32>),
    U64(PyReadonlyArray1<'py, u64>),
}

impl<'py> Vector<'py> {
    /// Borrows a numpy array of shape `(dim,)`.
    pub fn borrow(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = object.cast::<PyArray1<f32>>() {
            return Ok(Self::F32(array.try_readonly()?));
        }
        if let Ok(array) = object.cast::<PyArray1<f64>>() {
            return Ok(Self::F64(array.try_readonly()?));
        }
        if let Ok(array) = object.cast::<PyArray1<u32>>() {
            return Ok(Self::U32(array.try_readonly()?));
        }
        if let Ok(array) = object.cast::<PyArray1<u64>>() {
            return Ok(Self::U64(array.try_readonly()?));
        }
        let text = "update: must be a flat numpy array of float32, float64, uint32 or uint64";
        Err(raise(object.py(), "InputError", (text,)))
    }

    /// The numbers, in place.
    pub fn values(&self) -> PyResult<Values<'_>> {
        Ok(match self {
            Self::F32(array) => Values::F32(array.as_slice()?),
            Self::F64(array) => Values::F64(array.as_slice()?),
            Self::U32(array) => Values::from(array.as_slice()?),
            Self::U64(array) => Values::from(array.as_slice()?),
        })
    }
}

/// Index of the first coordinate that is NaN or infinite.
pub fn position_not_finite(values: Values<'_>) -> Option<usize> {
    match values {
        Values::F32(values) => values.iter().position(|value| !value.is_finite()),
        Values::F64(values) => values.iter().position(|value| !value.is_finite()),
        Values::Integers(_) => None,
    }
}

/// Sums of integers: an array of `uint64` where no sum of the job is larger, else of Python integers.
pub fn sums_array<'py>(
    py: Python<'py>,
    sums: Vec<u128>,
    fit_64_bits: bool,
) -> PyResult<Bound<'py, PyAny>> {
    if fit_64_bits {
        let sums: Vec<u64> = sums.into_iter().map(|sum| sum as u64).collect();
        return Ok(sums.into_pyarray(py).into_any());
    }
    let sums: PyResult<Vec<Py<PyAny>>> = sums
        .into_iter()
        .map(|sum| Ok(sum.into_pyobject(py)?.into_any().unbind()))
        .collect();
    Ok(PyArray1::from_vec(py, sums?).into_any())
}

/// Index of the first element of a flat array that is NaN or infinite.
#[pyfunction]
pub fn first_not_finite(py: Python<'_>, vector: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let vector = Vector::borrow(vector)?;
    let values = vector.values()?;
    Ok(released(py, || position_not_finite(values)))
}
