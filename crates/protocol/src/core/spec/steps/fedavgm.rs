//! `fedavgm`: a sum of the means, in which earlier means fade, is added to the model.

use blindsum_encode::{Direction, ServerStep};

use super::{MAX_LEARNING_RATE, StepTable};
use crate::core::options::{fraction, positive, table};

table! {
    /// The momentum, multiplied with the learning rate, is added to the model. The momentum is the mean and, multiplied
    /// with `momentum`, the momentum of the round before.
    FedAvgM = "fedavgm";
    options {
        /// Factor of the momentum when it is added to the model.
        learning_rate: f64 = 1.0, positive(MAX_LEARNING_RATE);
        /// The part of the momentum that remains after a round.
        momentum: f64 = 0.9, fraction();
    }
}

impl StepTable for FedAvgM {
    fn rule(&self) -> ServerStep {
        let decay = self.momentum;
        ServerStep {
            learning_rate: self.learning_rate,
            direction: Direction::Momentum { decay },
        }
    }
}
