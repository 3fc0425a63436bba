//! The job specification: what is agreed before anything is sent.

mod canonical;
mod choices;
pub(crate) mod encodings;
mod entries;
mod flat;
mod layout;
mod metrics;
mod parameters;
pub(crate) mod places;
pub(crate) mod privacy;
mod reading;
mod schema;
pub(crate) mod steps;
pub(crate) mod stops;
mod tensors;
mod tolerance;

pub use crate::core::options::SpecError;
pub(crate) use choices::{choose_table, chosen, set_all, whole_table};
pub(crate) use layout::check_layout;
pub(crate) use layout::{DTYPES, MAX_ENTRIES, MAX_ENTRY_NAME};
pub use metrics::Metric;
pub(crate) use metrics::check_metrics;
pub(crate) use parameters::MAX_PARAMETERS;
pub use parameters::Parameters;
pub use tensors::TensorLayout;
pub(crate) use tensors::check_names;
pub use tolerance::{ceiling_of_fraction, floor_of_fraction};

use crate::core::names::{Adversary, InitialModel, ModelUpdate, SuiteName};
use crate::core::options::{Declares, Table, check_each, fits, fraction, positive, table, within};
use crate::{ProtocolChoice, ProtocolName};
use encodings::{EncodingChoice, Quantised};
use privacy::{PrivacyChoice, PrivacyName};
use steps::{StepChoice, StepName};
use stops::{StopChoice, StopName};

/// Largest number of parties in a round.
pub const MAX_PARTIES: u32 = 100_000;
/// Largest number of coordinates.
pub const MAX_DIM: u64 = 1 << 32;
/// Longest deadline, in seconds.
pub const MAX_SECONDS: f64 = 1e6;

table! {
    /// What is agreed before anything is sent: what every job has, and the tables of what it chooses.
    JobSpec = "job";
    options {
        /// The protocol with its options: `"name"`, or a table with `name` and options.
        protocol: ProtocolChoice = ProtocolName::SecAggPlus.into();
        /// Largest number of parties in a round.
        parties: u32 = 3, within(1.0, MAX_PARTIES as f64);
        /// Number of coordinates of an update; where a `layout` is given, it follows from that.
        dim: u64 = 1, within(1.0, MAX_DIM as f64);
        /// Name of the job, `[a-z0-9._-]{1,64}`, not only dots.
        job: String = "job".into(), fits("^(?!\\.+$)[a-z0-9._-]{1,64}$", is_name, "a name is 1 to 64 of a-z 0-9 . _ -, not of dots alone");
        /// The adversary against which the job must protect updates.
        adversary: Adversary = Adversary::Active;
        /// Key agreement between parties.
        suite: SuiteName = SuiteName::X25519;
        /// Smallest number of survivors whose sum may be opened, and of parties in a round; 0 chooses, by the
        /// protocol, `parties`, `corrupt` and `dropout`.
        min_parties: u32 = 0;
        /// Number of rounds; 0 continues until the job is stopped.
        rounds: u32 = 1;
        /// The encoding of numbers as words, with its options: `"name"`, or a table with `name` and options.
        encoding: EncodingChoice = Quantised::default().into();
        /// Fraction of `parties` that may work together with the coordinator.
        corrupt: f64 = 0.1, fraction();
        /// Fraction of the parties that may drop out of a round.
        dropout: f64 = 0.1, fraction();
        /// Seconds that a round waits for parties to join.
        join_deadline: f64 = 60.0, positive(MAX_SECONDS);
        /// Seconds that a stage waits for answers.
        stage_deadline: f64 = 30.0, positive(MAX_SECONDS);
        /// Seconds that the input stage waits: training happens in it.
        input_deadline: f64 = 600.0, positive(MAX_SECONDS);
        /// The effect of the mean on the job's model. The default is `add`, and `none` for integers.
        model_update: ModelUpdate = ModelUpdate::Add;
        /// Values that parties may report beside an update, such as an accuracy: the weighted mean over the parties
        /// that report it is a part of the result.
        metrics: Vec<Metric> = Vec::new();
        /// The tensors of the model in the order of their coordinates, a line `NAME DTYPE SHAPE` for each, as in
        /// `conv1.weight float32 16x1x3x3`; a scalar has the shape `1`. A party with another model refuses the job.
        layout: Vec<String> = Vec::new();
        /// Hyperparameters for the parties' programs: a free table of numbers, text, booleans and lists of these.
        parameters: Parameters = Parameters::default();
        /// The formula for adding to the model, with its options: `"name"`, or a table with `name` and
        /// options.
        step: StepChoice = StepName::FedAvg.into();
        /// The source of the job's first model.
        initial: InitialModel = InitialModel::Coordinator;
        /// The rule that ends the job early and defines the best model, with its options: `"name"`, or a
        /// table with `name` and options. A table without `name` means `plateau`.
        stop: StopChoice = StopName::NoStop.into();
        /// What hides a party in the sum itself, with its options: `"name"`, or a table with `name` and options. A table
        /// without `name` means `discrete-gaussian`.
        privacy: PrivacyChoice = PrivacyName::NoPrivacy.into();
    }
}

impl JobSpec {
    /// The fields that choose a table, with the chosen tables.
    pub(crate) fn choices(&self) -> impl Iterator<Item = (&'static str, &dyn Table)> {
        let fields = Self::OPTIONS.iter();
        fields.filter_map(|field| Some((field.info.name, (field.table)(self)?)))
    }

    /// Checks the name of a job, which may be requested before its specification is known.
    ///
    /// # Errors
    /// The name breaks the rule of the field `job`.
    pub fn check_name(name: &str) -> Result<(), SpecError> {
        let named = Self {
            job: name.into(),
            ..Self::default()
        };
        check_each(&named)
    }
}

fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    // Of dots alone a state folder, which has the name of its job, would be another folder.
    let dots = text.bytes().all(|b| b == b'.');
    (1..=64).contains(&text.len()) && text.bytes().all(allowed) && !dots
}
