//! A member of a job: a machine that joins, takes part in rounds, and computes the model.
//!
//! [`PartyMachine`] gets what its connection brings and what its caller wants, and says what to send, to compute and to
//! tell the caller. What it must not forget is in [`Records`]: a party that is restarted with them goes on in the round
//! that it was in, and says nothing twice.

mod ahead;
mod api;
mod clipping;
mod computed;
mod consent;
mod context;
mod done;
mod draws;
mod dropping;
mod event_loop;
mod exchange;
mod fetching;
mod first;
mod greeting;
mod guard;
mod held;
mod job_party;
mod joining;
mod left;
mod measured;
mod measuring;
mod metrics;
mod opened;
mod opening;
mod participation;
mod pledge;
mod policy;
mod records;
mod replay_log;
mod result;
mod resume;
mod rounds;
mod saving;
mod sealed;
mod sent;
mod sparse;
mod spending;
mod state;
mod stepping;
mod steps;
mod store;
mod sums;
mod suspended;
mod taking;
mod untaken;
mod vault;
mod wish;
mod working;

pub use blindsum_encode::{Judged, Update};

pub use crate::connection::{LinkId, Say};

pub use api::{Mark, PartyMachine};
pub use event_loop::RENEWED;
pub use exchange::{Absence, Begun, Departure, Effect, Identity, Input, Over, Settings, Told};
pub use metrics::Metrics;
pub use policy::{Cohort, Groups, Policy, PrivacyPolicy, RoundCost};
pub use result::{Clipped, PrivacySpent, RoundResult, Timings};
pub use sparse::kept_leftover;
pub use steps::check_update;

#[cfg(doc)]
use crate::records::Records;
