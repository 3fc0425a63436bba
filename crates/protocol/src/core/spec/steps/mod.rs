//! Server steps: how the mean of a round changes the model of the job. Each has its own table of options.

mod adaptive;
mod fedavg;
mod fedavgm;

use adaptive::{fedadagrad, fedadam, fedyogi};
use blindsum_encode::ServerStep;

use crate::core::spec::choose_table;

/// Largest learning rate.
const MAX_LEARNING_RATE: f64 = 1e6;

choose_table! {
    /// How the mean of a round changes the model, with its options.
    StepChoice,
    /// How the mean of a round changes the model.
    StepName, StepTable;
    fedavg::FedAvg,
    fedavgm::FedAvgM,
    fedadam::FedAdam,
    fedyogi::FedYogi,
    fedadagrad::FedAdagrad,
}

/// What the rest of this crate asks a step.
pub(crate) trait StepTable {
    /// The rule with its parameters.
    fn rule(&self) -> ServerStep;
}

impl StepChoice {
    /// The rule with its parameters.
    pub fn rule(&self) -> ServerStep {
        self.view().rule()
    }
}
