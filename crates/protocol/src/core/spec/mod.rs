//! The job specification: what is agreed before anything is sent.

mod rules;
mod tolerance;

pub use tolerance::{ceiling_of_fraction, floor_of_fraction};

use std::sync::Arc;

use blindsum_crypto::seal::StorageKey;
use blindsum_encode::{
    ClipSpec, DensitySchedule, EncodeError, Encoding, EncodingKind, EncodingSpec, Rounding,
    TensorSpec, UpdateHistory,
};
use blindsum_math::words::{Width, Words};
use serde::{Deserialize, Serialize};

use crate::FaultKind;
use crate::core::names::{
    Adversary, Clipping, EncodingName, Masking, ModelUpdate, ProtocolName, RoundingName, SuiteName,
};
use crate::core::plan::{Opens, Plan};
use crate::core::protocol::ProtocolInfo;
use crate::kit::vault::{KeyName, Vault};
use crate::protocols;

/// A run of coordinates with its own clipping bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorLayout {
    /// Name, for reports.
    pub name: String,
    /// Number of coordinates.
    pub len: u64,
    /// Bound on the absolute value of a coordinate.
    pub clip: f64,
}

/// What is agreed before anything is sent. Plain data; [`JobSpec::validate`] checks every rule once
/// and gives the [`Job`] that machines take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobSpec {
    /// Name of the job, `[a-z0-9._-]{1,64}`.
    pub job: String,
    /// The protocol.
    pub protocol: ProtocolName,
    /// Against whom it must hold.
    pub adversary: Adversary,
    /// Key agreement.
    pub suite: SuiteName,
    /// Largest number of parties in a round.
    pub parties: u32,
    /// Smallest number of survivors whose sum may be opened; 0 chooses the protocol's threshold.
    pub min_parties: u32,
    /// Number of coordinates of an update.
    pub dim: u64,
    /// Number of rounds; 0 goes on until the job is stopped.
    pub rounds: u32,
    /// How numbers become words.
    pub encoding: EncodingName,
    /// Bits of a quantised value, 2 to 32, or of an integer, 1 to 64.
    pub bits: u32,
    /// Bound on a coordinate or on the L2 norm, by `clipping`.
    pub clip: f64,
    /// What `clip` bounds.
    pub clipping: Clipping,
    /// How values are rounded.
    pub rounding: RoundingName,
    /// Largest weight of an update; 1 gives every party the same weight.
    pub max_weight: u32,
    /// Clipping bounds per tensor; empty applies `clip` to all coordinates.
    pub tensors: Vec<TensorLayout>,
    /// Neighbours of a party in the graph of `secagg+`; 0 finds the smallest safe number.
    pub neighbours: u32,
    /// Shares that reconstruct a party's secret; 0 finds it.
    pub threshold: u32,
    /// Words packed into one sharing polynomial of `fssa` and `pss`; 0 chooses.
    pub packing: u32,
    /// How many masks hide a word in `flashe`.
    pub masking: Masking,
    /// Rounds that a key of the job serves in `flashe` before another one is made; 0 keeps it for the job.
    pub key_rounds: u32,
    /// Part of the coordinates of each tensor that a party sends; 1 sends all. Below 1, rounds of `flashe` are
    /// sparse, and what a party does not send it adds to its next update.
    pub density: f64,
    /// Density of the first round, where it falls to `density` step by step.
    pub density_start: f64,
    /// Steps in which the density falls from `density_start`; 0 begins with `density`.
    pub density_steps: u32,
    /// Rounds of a step.
    pub density_rounds: u32,
    /// Parties that must have sent a coordinate of a sparse round for its sum to be opened; 0 means 2.
    pub min_contributors: u32,
    /// Fraction of the parties that may work together with the server.
    pub corrupt: f64,
    /// Fraction of the parties that may drop out of a round.
    pub dropout: f64,
    /// Seconds that a round waits for parties to join.
    pub join_deadline: f64,
    /// Seconds that a stage waits for answers.
    pub stage_deadline: f64,
    /// Seconds that the input stage waits: training happens in it.
    pub input_deadline: f64,
    /// What the mean does to the job's model.
    pub model_update: ModelUpdate,
}

impl Default for JobSpec {
    fn default() -> Self {
        Self {
            job: "job".into(),
            protocol: ProtocolName::SecAggPlus,
            adversary: Adversary::Active,
            suite: SuiteName::X25519,
            parties: 3,
            min_parties: 0,
            dim: 1,
            rounds: 1,
            encoding: EncodingName::Quantised,
            bits: 16,
            clip: 1.0,
            clipping: Clipping::Tensor,
            rounding: RoundingName::Stochastic,
            max_weight: 1,
            tensors: Vec::new(),
            neighbours: 0,
            threshold: 0,
            packing: 0,
            masking: Masking::Cheaper,
            key_rounds: 0,
            density: 1.0,
            density_start: 1.0,
            density_steps: 0,
            density_rounds: 1,
            min_contributors: 0,
            corrupt: 0.1,
            dropout: 0.1,
            join_deadline: 60.0,
            stage_deadline: 30.0,
            input_deadline: 600.0,
            model_update: ModelUpdate::Add,
        }
    }
}

/// A rule of the job specification that a field breaks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("job specification: {field}: {rule}")]
pub struct SpecError {
    /// The field.
    pub field: String,
    /// The rule, as an inequality where it is one, with the values that break it.
    pub rule: String,
}

impl SpecError {
    pub(crate) fn new(field: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            rule: rule.into(),
        }
    }
}

/// The fields of an encoding have the names that they have in the job.
fn encoding_refused(error: EncodeError) -> SpecError {
    match error {
        EncodeError::Spec { field, rule } => SpecError::new(field, rule),
        other => SpecError::new("encoding", other.to_string()),
    }
}

/// Largest number of parties in a round.
pub const MAX_PARTIES: u32 = 100_000;
/// Largest number of coordinates.
pub const MAX_DIM: u64 = 1 << 32;

/// A checked job specification.
#[derive(Clone, Debug)]
pub struct Job {
    spec: JobSpec,
    encoding: Arc<Encoding>,
    hash: [u8; 32],
    plan: Plan,
    key_setup_plan: Option<Plan>,
}

impl JobSpec {
    /// Checks every rule.
    ///
    /// # Errors
    /// The first field that breaks a rule, with the rule.
    pub fn validate(self) -> Result<Job, SpecError> {
        self.check_name()?;
        self.check_numbers()?;
        let encoding = self.encoding_spec().validate().map_err(encoding_refused)?;
        if self.clipping == Clipping::Aciq {
            UpdateHistory::new(&encoding).map_err(encoding_refused)?;
        }
        let mut job = Job {
            hash: self.hash(),
            encoding: Arc::new(encoding),
            plan: Plan::star(&self, Opens::Coordinator, []),
            key_setup_plan: None,
            spec: self,
        };
        let info = job.info();
        (info.check)(&job)?;
        if job.min_parties() > job.spec.parties as usize {
            let rule = format!(
                "min_parties = {} <= parties = {}",
                job.min_parties(),
                job.spec.parties
            );
            return Err(SpecError::new("min_parties", rule));
        }
        job.plan = (info.plan)(&job);
        job.key_setup_plan = info.key_setup.as_ref().map(|setup| (setup.plan)(&job));
        Ok(job)
    }

    fn encoding_spec(&self) -> EncodingSpec {
        let clip = match self.clipping {
            Clipping::Tensor | Clipping::Aciq => ClipSpec::Tensor(self.clip),
            Clipping::L2 => ClipSpec::L2(self.clip),
        };
        let rounding = match self.rounding {
            RoundingName::Stochastic => Rounding::Stochastic,
            RoundingName::Nearest => Rounding::Nearest,
        };
        let kind = match self.encoding {
            EncodingName::Quantised => EncodingKind::Quantised {
                bits: self.bits,
                clip,
                rounding,
            },
            EncodingName::Fixed64 => EncodingKind::Fixed64 { clip: self.clip },
            EncodingName::Integers => EncodingKind::Integers { bits: self.bits },
        };
        EncodingSpec {
            dim: self.dim as usize,
            kind,
            max_weight: self.max_weight,
            parties: self.parties as usize,
            tensors: self
                .tensors
                .iter()
                .map(|t| TensorSpec {
                    len: t.len as usize,
                    clip: t.clip,
                })
                .collect(),
        }
    }

    /// Hash of every field, in the order of the struct: numbers as 8 bytes big-endian, `f64` by its
    /// bits, enumerations by their names, each part length-prefixed (docs/wire.md).
    fn hash(&self) -> [u8; 32] {
        let number = |n: u64| n.to_be_bytes().to_vec();
        let real = |x: f64| x.to_bits().to_be_bytes().to_vec();
        let text = |s: &str| s.as_bytes().to_vec();
        let mut parts: Vec<Vec<u8>> = vec![
            text(&self.job),
            text(self.protocol.as_str()),
            text(self.adversary.as_str()),
            text(self.suite.as_str()),
        ];
        parts.extend([self.parties, self.min_parties].map(|n| number(n.into())));
        parts.extend([
            number(self.dim),
            number(self.rounds.into()),
            text(self.encoding.as_str()),
        ]);
        parts.extend([
            number(self.bits.into()),
            real(self.clip),
            text(self.clipping.as_str()),
        ]);
        parts.extend([text(self.rounding.as_str()), number(self.max_weight.into())]);
        parts.push(number(self.tensors.len() as u64));
        for tensor in &self.tensors {
            parts.extend([text(&tensor.name), number(tensor.len), real(tensor.clip)]);
        }
        parts.extend([self.neighbours, self.threshold, self.packing].map(|n| number(n.into())));
        parts.extend([text(self.masking.as_str()), number(self.key_rounds.into())]);
        parts.extend([self.density, self.density_start].map(real));
        let warm_up = [self.density_steps, self.density_rounds];
        parts.extend(warm_up.map(|n| number(n.into())));
        parts.push(number(self.min_contributors.into()));
        parts.extend([self.corrupt, self.dropout].map(real));
        parts.extend([self.join_deadline, self.stage_deadline, self.input_deadline].map(real));
        parts.push(text(self.model_update.as_str()));
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        blindsum_crypto::kdf::hash("blindsum job", &parts)
    }
}

impl Job {
    /// The specification.
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// The checked encoding. A round may have other bounds: see [`Round::encoding`](crate::Round::encoding).
    pub fn encoding(&self) -> &Arc<Encoding> {
        &self.encoding
    }

    /// What is known about updates before the first round, for jobs whose bounds are found from earlier
    /// rounds (`clipping` = `aciq`).
    pub fn new_history(&self) -> Option<UpdateHistory> {
        match self.spec.clipping {
            Clipping::Aciq => UpdateHistory::new(&self.encoding).ok(),
            Clipping::Tensor | Clipping::L2 => None,
        }
    }

    /// The part of the coordinates that a party sends, by round, where rounds are sparse (`density` below 1).
    pub fn density(&self) -> Option<DensitySchedule> {
        self.spec.schedule()
    }

    /// The most coordinates that a party sends in a round.
    pub(crate) fn most_coordinates(&self) -> usize {
        let Some(schedule) = self.density() else {
            return self.encoding.dim();
        };
        let tensors = self.encoding.tensors();
        tensors.map(|(run, _)| schedule.kept(0, run.len())).sum()
    }

    /// Hash of every field; part of every key and signature.
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// Words of a vector: the coordinates and whatever the encoding adds to them.
    pub fn lanes(&self) -> usize {
        self.encoding.lanes()
    }

    /// Bits of a word, so wide that no sum can wrap.
    pub fn width(&self) -> Width {
        self.encoding.width()
    }

    /// A vector of zeros.
    pub fn zeros(&self) -> Words {
        Words::zeros(self.width(), self.lanes())
    }

    /// Bytes of one packed vector.
    pub fn packed_len(&self) -> usize {
        self.width().packed_len(self.lanes())
    }

    /// Smallest number of survivors whose sum may be opened: `min_parties`, or the protocol's own
    /// smallest number where that is 0.
    pub fn min_parties(&self) -> usize {
        self.spec.least_survivors()
    }

    /// What may happen in a round.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What may happen in a key set-up, where parties need a key that the coordinator has not; see
    /// [`Round::key_setup`](crate::Round::key_setup).
    pub fn key_setup_plan(&self) -> Option<&Plan> {
        self.key_setup_plan.as_ref()
    }

    /// What the protocol chose for a full cohort where the job leaves it open, by name: thresholds,
    /// neighbours, packing. Empty where there is nothing to choose.
    pub fn parameters(&self) -> Vec<(&'static str, usize)> {
        self.parameters_for(self.spec.parties as usize)
            .unwrap_or_default()
    }

    /// The same for a round of `n` parties. A checked job has them for every n from
    /// [`min_parties`](Self::min_parties) to `parties`.
    ///
    /// # Errors
    /// Another number of parties.
    pub fn parameters_for(&self, n: usize) -> Result<Vec<(&'static str, usize)>, SpecError> {
        let (least, most) = (self.min_parties(), self.spec.parties as usize);
        if !(least..=most).contains(&n) {
            let rule = format!("min_parties = {least} <= roster = {n} <= parties = {most}");
            return Err(SpecError::new("roster", rule));
        }
        (self.info().parameters)(self, n)
    }

    /// Whether only the parties learn the sum.
    pub fn hides_sum(&self) -> bool {
        self.plan.opens() == Opens::Parties
    }

    /// The name of the key that a party can use in round `number`, if it holds one: no secret. Who holds none
    /// takes part in a key set-up first.
    ///
    /// # Errors
    /// A vault that cannot be read.
    pub fn held_key(&self, vault: &dyn Vault, number: u64) -> Result<Option<KeyName>, FaultKind> {
        match &self.info().key_setup {
            Some(setup) => (setup.held)(self, vault, number),
            None => Ok(None),
        }
    }

    /// What seals data of the job for the other parties, where they share a key and this one holds it.
    ///
    /// # Errors
    /// A vault that cannot be read.
    pub fn storage_key(&self, vault: &dyn Vault) -> Result<Option<StorageKey>, FaultKind> {
        match &self.info().key_setup {
            Some(setup) => (setup.storage_key)(vault),
            None => Ok(None),
        }
    }

    pub(crate) fn info(&self) -> &'static ProtocolInfo {
        protocols::info(self.spec.protocol)
    }
}
