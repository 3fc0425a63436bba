//! A member of a job.

mod policy;

pub use policy::{Cohort, Groups, Policy, PolicyError};
