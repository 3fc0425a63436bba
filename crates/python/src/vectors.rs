//! Numpy vectors, read where they lie.

use std::collections::TryReserveError;

use blindsum_encode::{Integers, Reals, Values};
use blindsum_job::party::Update;
use numpy::{Element, IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::errors::{IntoPyErr, OrRaise, raise};
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
        let rule = "must be a flat numpy array of float32, float64, uint32 or uint64";
        Err(raise(object.py(), "InputError", ("update", rule)))
    }

    /// The numbers, in place.
    pub fn values(&self) -> PyResult<Values<'_>> {
        Ok(match self {
            Self::F32(array) => Values::F32(slice(array)?),
            Self::F64(array) => Values::F64(slice(array)?),
            Self::U32(array) => Values::from(slice(array)?),
            Self::U64(array) => Values::from(slice(array)?),
        })
    }
}

/// The elements of an array, where they lie one behind the other.
fn slice<'a, T: Element>(array: &'a PyReadonlyArray1<'_, T>) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|_| {
        let rule = "must be contiguous and aligned: numpy.require(x, requirements=\"CA\")";
        raise(array.py(), "InputError", ("update", rule))
    })
}

/// A copy of an update: training may go on in the same memory.
///
/// # Errors
/// There is no memory for it.
pub fn copied(values: Values<'_>) -> Result<Update, TryReserveError> {
    Ok(match values {
        Values::F32(values) => Update::F32(copy(values)?),
        Values::F64(values) => Update::F64(copy(values)?),
        Values::Integers(Integers::U32(values)) => Update::U32(copy(values)?),
        Values::Integers(Integers::U64(values)) => Update::U64(copy(values)?),
    })
}

fn copy<T: Copy>(values: &[T]) -> Result<Vec<T>, TryReserveError> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(values.len())?;
    copy.extend_from_slice(values);
    Ok(copy)
}

impl IntoPyErr for TryReserveError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        let text = format!("update: no memory is left for a copy of it: {self}");
        raise(py, "MemoryLimitError", (text,))
    }
}

/// A copy of a model that a caller gives.
pub fn read_model(object: &Bound<'_, PyAny>) -> PyResult<Reals> {
    let vector = Vector::borrow(object)?;
    match copied(vector.values()?).or_raise(object.py())? {
        Update::F32(values) => Ok(values.into()),
        Update::F64(values) => Ok(values.into()),
        Update::U32(_) | Update::U64(_) => {
            let rule = "must be an array of float32 or float64, not of integers";
            Err(raise(object.py(), "InputError", ("model", rule)))
        }
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
