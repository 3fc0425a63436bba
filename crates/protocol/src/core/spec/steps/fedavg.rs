//! `fedavg`: the mean is added to the model.

use blindsum_encode::{Direction, ServerStep};

use super::{MAX_LEARNING_RATE, StepTable};
use crate::core::options::{positive, table};

table! {
    /// The mean, multiplied with the learning rate, is added to the model.
    FedAvg = "fedavg";
    options {
        /// Factor of the mean.
        learning_rate: f64 = 1.0, positive(MAX_LEARNING_RATE);
    }
}

impl StepTable for FedAvg {
    fn rule(&self) -> ServerStep {
        ServerStep {
            learning_rate: self.learning_rate,
            direction: Direction::Mean,
        }
    }
}
