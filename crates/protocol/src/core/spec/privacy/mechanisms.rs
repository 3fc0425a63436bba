//! The distributions of noise. They have the same options.

use blindsum_privacy::Mechanism;

use super::{AdjacencyName, NoiseOptions, PrivacyTable};
use crate::core::options::{table, within};

table! {
    /// Each party adds noise of a discrete Gaussian distribution to its update. The sum has the guarantee of the Gaussian
    /// mechanism. In jobs of mpc3 the servers add the noise to the sum.
    DiscreteGaussian = "discrete-gaussian";
    /// Each party adds noise of Skellam's distribution to its update. Its ε is a bound by Rényi divergences, a few percent
    /// above that of `discrete-gaussian`.
    Skellam = "skellam";
    options {
        /// The standard deviation of the noise that hides a party (of the honest survivors; of one component in `mpc3`), by the
        /// largest norm of an update; 0 finds the least one that meets `epsilon`. From 2^-6 to 2^10.
        noise_multiplier: f64 = 0.0, within(0.0, 1024.0);
        /// The largest ε after all rounds of the job, where it ends; 0 sets no target.
        epsilon: f64 = 0.0, within(0.0, 100.0);
        /// The δ of the guarantee, at most 0.01. It must be given.
        delta: f64 = 0.0, within(0.0, 0.01);
        /// Which two jobs must not be told apart.
        adjacency: AdjacencyName = AdjacencyName::ZeroOut;
        /// Rounds that may fail or be repeated, as a fraction of the job's rounds: `epsilon` has room for these, too.
        spare: f64 = 0.1, within(0.0, 10.0);
    }
}

macro_rules! mechanism {
    ($table:ident) => {
        impl PrivacyTable for $table {
            fn noise(&self) -> Option<NoiseOptions> {
                Some(NoiseOptions {
                    mechanism: Mechanism::$table,
                    multiplier: self.noise_multiplier,
                    epsilon: self.epsilon,
                    delta: self.delta,
                    adjacency: self.adjacency,
                    spare: self.spare,
                })
            }

            fn set_multiplier(&mut self, multiplier: f64) {
                self.noise_multiplier = multiplier;
            }
        }
    };
}
mechanism!(DiscreteGaussian);
mechanism!(Skellam);
