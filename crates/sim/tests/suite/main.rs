//! Whole rounds in the simulator, for every protocol in the registry. Names give the number of the abuse
//! case that a test covers (docs/security).

mod campaigns;
mod campaigns_of_servers;
mod determinism;
mod dropouts;
mod exactness;
mod hostile;
mod metrics;
mod network;
mod operations;
mod ramp;
mod restarts;
mod rings;
mod servers;
mod sparse;
mod support;
