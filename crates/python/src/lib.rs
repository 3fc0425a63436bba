//! The native module of the Python package: a thin binding, `blindsum._native`.
//!
//! Everything that a user sees has its form in `python/blindsum`; here values are converted,
//! errors become exceptions, and the GIL is released around work.
#![forbid(unsafe_code)]

mod admin;
mod calls;
mod campaign;
mod coordinator;
mod daemon;
mod errors;
mod feed;
mod follower;
mod gil;
mod ledger;
mod machines;
mod network;
mod party;
mod pki;
mod process;
mod results;
mod simulation;
mod spec;
mod steps;
mod store;
mod system;
#[cfg(feature = "timers")]
mod timers;
mod training;
mod vectors;
mod wait;

use pyo3::prelude::*;

/// Whether the module was built for use, for tests, or for the demo, hardly optimised: results of measurements name it.
const BUILD_PROFILE: &str = match (
    cfg!(debug_assertions),
    env!("BLINDSUM_OPT_LEVEL").as_bytes(),
) {
    (true, _) => "debug",
    (false, b"3") => "release",
    (false, _) => "demo",
};

/// The features that the module was built with. A wheel has none.
const BUILD_FEATURES: &[&str] = match (cfg!(feature = "testing"), cfg!(feature = "timers")) {
    (true, _) => &["testing", "timers"],
    (false, true) => &["timers"],
    (false, false) => &[],
};

/// The native part of Blindsum.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("build_profile", BUILD_PROFILE)?;
    module.add("build_features", BUILD_FEATURES)?;
    module.add_class::<spec::CheckedJob>()?;
    module.add_function(wrap_pyfunction!(spec::job_schema, module)?)?;
    module.add_function(wrap_pyfunction!(ledger::ledger, module)?)?;
    module.add_function(wrap_pyfunction!(spec::protocols, module)?)?;
    module.add_function(wrap_pyfunction!(spec::rules, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pki_create_authority, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pki_issue, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pki_request, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pki_sign, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pki_revoke, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pki_describe, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pki_describe_request, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pki_describe_key, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pki_describe_list, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pem_text, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pem_labels, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pki_has_signed, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pki_encrypt, module)?)?;
    module.add_function(wrap_pyfunction!(pki::pki_decrypt, module)?)?;
    module.add_class::<simulation::Simulated>()?;
    module.add_function(wrap_pyfunction!(simulation::simulate, module)?)?;
    module.add_class::<training::TrainedRound>()?;
    module.add_class::<training::TrainingSimulation>()?;
    module.add_class::<training::ModelSteps>()?;
    module.add_function(wrap_pyfunction!(campaign::campaign, module)?)?;
    module.add_class::<party::Party>()?;
    module.add_class::<party::Round>()?;
    module.add_function(wrap_pyfunction!(party::join, module)?)?;
    module.add_class::<machines::PartyMachine>()?;
    module.add_class::<machines::ServerMachine>()?;
    module.add_class::<admin::Admin>()?;
    module.add_function(wrap_pyfunction!(admin::admin_of, module)?)?;
    module.add_class::<coordinator::Coordinator>()?;
    module.add_class::<calls::PendingRound>()?;
    module.add_class::<follower::Follower>()?;
    module.add_function(wrap_pyfunction!(follower::follow, module)?)?;
    module.add_function(wrap_pyfunction!(coordinator::serve, module)?)?;
    module.add_function(wrap_pyfunction!(store::stored_jobs, module)?)?;
    module.add_function(wrap_pyfunction!(store::stored_rounds, module)?)?;
    module.add_function(wrap_pyfunction!(store::stored_job, module)?)?;
    module.add_function(wrap_pyfunction!(store::stored_faults, module)?)?;
    module.add_function(wrap_pyfunction!(store::stored_model, module)?)?;
    module.add_function(wrap_pyfunction!(store::stored_versions, module)?)?;
    module.add_function(wrap_pyfunction!(store::back_up_store, module)?)?;
    module.add_function(wrap_pyfunction!(daemon::daemon, module)?)?;
    module.add_function(wrap_pyfunction!(network::log_to_stderr, module)?)?;
    module.add_function(wrap_pyfunction!(network::log_to_feed, module)?)?;
    module.add_function(wrap_pyfunction!(network::next_log_line, module)?)?;
    module.add_function(wrap_pyfunction!(network::change_log, module)?)?;
    module.add_function(wrap_pyfunction!(vectors::first_not_finite, module)?)?;
    #[cfg(feature = "timers")]
    timers::add(module)?;
    let prepare_exit = wrap_pyfunction!(gil::prepare_exit, module)?;
    let atexit = module.py().import("atexit")?;
    atexit.call_method1("register", (prepare_exit,))?;
    Ok(())
}
