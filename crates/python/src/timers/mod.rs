//! Timers of single steps, for `benches/`. They are in no wheel: only the feature `timers` builds them.

mod flashe;
mod masks;
mod network;
mod sparse;

use pyo3::prelude::*;

/// Adds the timers to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(masks::mask_rate, module)?)?;
    module.add_function(wrap_pyfunction!(flashe::flashe_times, module)?)?;
    module.add_function(wrap_pyfunction!(flashe::flashe_masks, module)?)?;
    module.add_function(wrap_pyfunction!(flashe::flashe_expected_masks, module)?)?;
    module.add_function(wrap_pyfunction!(sparse::flashe_sparse, module)?)?;
    module.add_class::<network::Crowd>()?;
    module.add_function(wrap_pyfunction!(network::tls_transfers, module)?)?;
    Ok(())
}
