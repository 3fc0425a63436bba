//! What goes into a round and comes out of it, for whatever drives the party.

use blindsum_encode::{LeftoverSize, Reals, Values};
use blindsum_job::hex;
use blindsum_job::party::{Clipped, PrivacySpent, RoundResult, Timings};
use blindsum_job::report::MetricReport;
use numpy::{Element, IntoPyArray, PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::raise;
use crate::gil::released;
use crate::vectors::{position_not_finite, sums_array};

/// Makes an instance of a class of the package, which describes its fields; here they have the same names.
macro_rules! instance {
    ($py:expr, $module:literal, $class:literal, $($field:ident: $value:expr),* $(,)?) => {{
        let fields = pyo3::types::PyDict::new($py);
        $(fields.set_item(stringify!($field), $value)?;)*
        $crate::results::make($py, $module, $class, fields)
    }};
}
pub(crate) use instance;

/// What [`instance`] does with the fields.
pub fn make<'py>(
    py: Python<'py>,
    module: &str,
    class: &str,
    fields: Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import(module)?.getattr(class)?;
    class.call((), Some(&fields))
}

/// A `blindsum.RoundResult`.
pub fn round_result(
    py: Python<'_>,
    result: RoundResult,
    sums_fit_64_bits: bool,
) -> PyResult<Bound<'_, PyAny>> {
    let mean = match result.mean {
        Reals::Single(mean) => mean.into_pyarray(py).into_any(),
        Reals::Double(mean) => mean.into_pyarray(py).into_any(),
    };
    let sums = result
        .sums
        .map(|sums| sums_array(py, sums, sums_fit_64_bits));
    let sum = sums.transpose()?;
    let Timings {
        ahead,
        protect,
        open,
    } = result.timings;
    let clipped = |clipped: Clipped| {
        instance!(py, "blindsum.rounds", "Clipped",
            coordinates: clipped.coordinates, scaled_by: clipped.scaled_by)
    };
    let leftover = |left: LeftoverSize| {
        instance!(py, "blindsum.rounds", "Leftover",
            norm: left.norm, coordinates: left.coordinates)
    };
    let spent = |spent: PrivacySpent| {
        instance!(py, "blindsum.privacy_claim", "PrivacySpent",
            unit: spent.unit, releases: spent.releases, epsilon: spent.epsilon, delta: spent.delta,
            max_epsilon: spent.max_epsilon, honest: spent.honest)
    };
    let (values, shares) = (PyDict::new(py), PyDict::new(py));
    for (name, MetricReport { value, share, .. }) in result.metrics {
        values.set_item(&name, value)?;
        shares.set_item(&name, share)?;
    }
    instance!(py, "blindsum.rounds", "RoundResult",
        mean: mean,
        total_weight: result.total_weight,
        survivors: PyTuple::new(py, result.survivors)?,
        metrics: values,
        reported: shares,
        model: read_only(py, result.model.values()),
        model_version: result.model.version(),
        sum: sum,
        timings: instance!(py, "blindsum.rounds", "Timings",
            ahead: ahead, protect: protect, open: open)?,
        contributors: result.contributors.map(|counts| counts.into_pyarray(py)),
        clipped: result.clipped.map(clipped).transpose()?,
        leftover: result.leftover.map(leftover).transpose()?,
        privacy: result.privacy.map(spent).transpose()?,
        warnings: PyTuple::new(py, result.warnings)?,
        result: hex(&result.result),
    )
}

/// Values as an array that nobody writes to.
pub fn read_only<'py>(py: Python<'py>, values: &Reals) -> Bound<'py, PyAny> {
    fn locked<'py, T: Element + Copy>(py: Python<'py>, values: &[T]) -> Bound<'py, PyAny> {
        let array = PyArray1::from_slice(py, values);
        array.readwrite().make_nonwriteable();
        array.into_any()
    }
    match values {
        Reals::Single(values) => locked(py, values),
        Reals::Double(values) => locked(py, values),
    }
}

/// The error of an update that breaks this rule.
pub fn unusable(py: Python<'_>, values: Values<'_>, rule: &str) -> PyErr {
    let index = released(py, || position_not_finite(values));
    raise(py, "InputError", ("update", rule, index))
}
