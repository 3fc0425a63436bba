//! `never`: no metric ends the job.

use super::{Plateau, StopTable};
use crate::core::options::table;

table! {
    /// The job ends when its rounds are done, and no model is stored as the best one.
    NoStop = "never";
    options {
    }
}

impl StopTable for NoStop {
    fn plateau(&self) -> Option<&Plateau> {
        None
    }
}
