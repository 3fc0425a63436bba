//! `fedadam`, `fedyogi` and `fedadagrad` (Reddi et al. 2021, Algorithm 2): a learning rate for each coordinate.

use blindsum_encode::{Direction, SecondMoment, ServerStep};

use super::StepTable;

/// The step of one of them.
fn rule(learning_rate: f64, decay: f64, second: SecondMoment, tau: f64) -> ServerStep {
    ServerStep {
        learning_rate,
        direction: Direction::Adaptive { decay, second, tau },
    }
}

/// Adam.
pub(super) mod fedadam {
    use super::{SecondMoment, ServerStep, StepTable, rule};
    use crate::core::options::{fraction, positive, table, within};
    use crate::core::spec::steps::MAX_LEARNING_RATE;

    table! {
        /// Adam: each coordinate of the momentum is divided by the root of a moving average of the squared mean. There is
        /// no bias correction.
        FedAdam = "fedadam";
        options {
            /// Factor of the direction.
            learning_rate: f64 = 0.01, positive(MAX_LEARNING_RATE);
            /// The part of the momentum that remains after a round.
            beta1: f64 = 0.9, fraction();
            /// The part of the second moment that remains after a round.
            beta2: f64 = 0.99, fraction();
            /// Added to the root of the second moment. The second moment begins with its square.
            tau: f64 = 0.001, within(1e-12, 1e3);
        }
    }

    impl StepTable for FedAdam {
        fn rule(&self) -> ServerStep {
            let second = SecondMoment::Adam(self.beta2);
            rule(self.learning_rate, self.beta1, second, self.tau)
        }
    }
}

/// Yogi.
pub(super) mod fedyogi {
    use super::{SecondMoment, ServerStep, StepTable, rule};
    use crate::core::options::{fraction, positive, table, within};
    use crate::core::spec::steps::MAX_LEARNING_RATE;

    table! {
        /// Yogi: as `fedadam`, but the second moment moves towards the squared mean by a part of the squared mean, so
        /// that it falls slowly.
        FedYogi = "fedyogi";
        options {
            /// Factor of the direction.
            learning_rate: f64 = 0.01, positive(MAX_LEARNING_RATE);
            /// The part of the momentum that remains after a round.
            beta1: f64 = 0.9, fraction();
            /// 1 - beta2 is the part of the squared mean by which the second moment moves.
            beta2: f64 = 0.99, fraction();
            /// Added to the root of the second moment. The second moment begins with its square.
            tau: f64 = 0.001, within(1e-12, 1e3);
        }
    }

    impl StepTable for FedYogi {
        fn rule(&self) -> ServerStep {
            let second = SecondMoment::Yogi(self.beta2);
            rule(self.learning_rate, self.beta1, second, self.tau)
        }
    }
}

/// Adagrad.
pub(super) mod fedadagrad {
    use super::{SecondMoment, ServerStep, StepTable, rule};
    use crate::core::options::{fraction, positive, table, within};
    use crate::core::spec::steps::MAX_LEARNING_RATE;

    table! {
        /// Adagrad: each coordinate of the momentum is divided by the root of the sum of all squared means.
        FedAdagrad = "fedadagrad";
        options {
            /// Factor of the direction.
            learning_rate: f64 = 0.1, positive(MAX_LEARNING_RATE);
            /// The part of the momentum that remains after a round.
            beta1: f64 = 0.0, fraction();
            /// Added to the root of the second moment. The second moment begins with its square.
            tau: f64 = 0.001, within(1e-12, 1e3);
        }
    }

    impl StepTable for FedAdagrad {
        fn rule(&self) -> ServerStep {
            let second = SecondMoment::Adagrad;
            rule(self.learning_rate, self.beta1, second, self.tau)
        }
    }
}
