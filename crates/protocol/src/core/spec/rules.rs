//! The rules of a job specification that are those of no protocol alone.

use blindsum_encode::DensitySchedule;

use super::{JobSpec, MAX_DIM, MAX_PARTIES, SpecError};
use crate::core::names::{Clipping, EncodingName, Masking, ModelUpdate, ProtocolName};

impl JobSpec {
    /// The rule of protocols that share no packed words.
    pub(crate) fn check_unpacked(&self) -> Result<(), SpecError> {
        if self.packing == 0 {
            return Ok(());
        }
        let rule = format!(
            "packing = {} must be 0 for {}: it shares no packed words",
            self.packing, self.protocol
        );
        Err(SpecError::new("packing", rule))
    }

    pub(super) fn check_name(&self) -> Result<(), SpecError> {
        let fits = (1..=64).contains(&self.job.len())
            && self
                .job
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b));
        if fits {
            Ok(())
        } else {
            Err(SpecError::new("job", "a name is 1 to 64 of a-z 0-9 . _ -"))
        }
    }

    pub(super) fn check_numbers(&self) -> Result<(), SpecError> {
        if !(1..=MAX_PARTIES).contains(&self.parties) {
            let rule = format!("1 <= parties = {} <= {MAX_PARTIES}", self.parties);
            return Err(SpecError::new("parties", rule));
        }
        if !(1..=MAX_DIM).contains(&self.dim) {
            return Err(SpecError::new(
                "dim",
                format!("1 <= dim = {} <= 2^32", self.dim),
            ));
        }
        if self.encoding == EncodingName::Fixed64 && self.clipping != Clipping::Tensor {
            let rule = "clipping must be tensor where encoding is fixed64";
            return Err(SpecError::new("clipping", rule));
        }
        if self.encoding == EncodingName::Integers {
            self.check_integers()?;
        }
        self.check_shared_key()?;
        self.check_density()?;
        if self.clipping == Clipping::Aciq && self.model_update == ModelUpdate::Nothing {
            let rule = "clipping must not be aciq where model_update is none: \
                        what earlier rounds tell travels with the model";
            return Err(SpecError::new("clipping", rule));
        }
        for (field, value) in [("corrupt", self.corrupt), ("dropout", self.dropout)] {
            if !(0.0..1.0).contains(&value) || value.is_sign_negative() {
                return Err(SpecError::new(field, format!("0 <= {field} = {value} < 1")));
            }
        }
        let deadlines = [
            ("join_deadline", self.join_deadline),
            ("stage_deadline", self.stage_deadline),
            ("input_deadline", self.input_deadline),
        ];
        for (field, value) in deadlines {
            if !(value > 0.0 && value <= 1e6) {
                return Err(SpecError::new(
                    field,
                    format!("0 < {field} = {value} <= 1000000 seconds"),
                ));
            }
        }
        Ok(())
    }

    /// Integers are neither clipped nor rounded, and no model is made of them: what says how is refused rather
    /// than ignored.
    fn check_integers(&self) -> Result<(), SpecError> {
        let default = Self::default();
        let needs = |field, rule: &str| {
            let rule = format!("{rule} where encoding is integers");
            Err(SpecError::new(field, rule))
        };
        if self.clip != default.clip {
            let rule = format!("clip = {:e} must be left at {}", self.clip, default.clip);
            return needs("clip", &rule);
        }
        if self.clipping != default.clipping {
            return needs("clipping", "clipping must be left at tensor");
        }
        if self.rounding != default.rounding {
            return needs("rounding", "rounding must be left at stochastic");
        }
        if !self.tensors.is_empty() {
            return needs("tensors", "tensors must be empty");
        }
        if self.model_update != ModelUpdate::Nothing {
            let rule = format!("model_update = {} must be none", self.model_update);
            return needs("model_update", &rule);
        }
        Ok(())
    }

    /// Parties share a key in `flashe` only.
    fn check_shared_key(&self) -> Result<(), SpecError> {
        if self.protocol == ProtocolName::Flashe {
            return Ok(());
        }
        let needs = |field, rule: String| {
            Err(SpecError::new(
                field,
                format!("{rule} for {}", self.protocol),
            ))
        };
        if self.masking != Masking::Cheaper {
            let rule = format!("masking = {} must be cheaper", self.masking);
            return needs("masking", rule);
        }
        if self.key_rounds != 0 {
            let rule = format!("key_rounds = {} must be 0", self.key_rounds);
            return needs("key_rounds", rule);
        }
        Ok(())
    }

    /// Sparse rounds are those of `flashe` with quantised coordinates of equal weights. What only they use is
    /// refused elsewhere rather than ignored.
    fn check_density(&self) -> Result<(), SpecError> {
        if !(0.0 < self.density && self.density <= 1.0) {
            let rule = format!("0 < density = {} <= 1", self.density);
            return Err(SpecError::new("density", rule));
        }
        if !self.is_sparse() {
            return self.check_dense();
        }
        let needs = |field, rule: String| {
            let rule = format!("{rule} where density is below 1");
            Err(SpecError::new(field, rule))
        };
        if self.protocol != ProtocolName::Flashe {
            let rule = format!("density = {} must be 1 for {}", self.density, self.protocol);
            return Err(SpecError::new("density", rule));
        }
        if self.encoding != EncodingName::Quantised {
            let rule = format!("encoding = {} must be quantised", self.encoding);
            return needs("encoding", rule);
        }
        if self.max_weight != 1 {
            let rule = format!("max_weight = {} must be 1", self.max_weight);
            return needs("max_weight", rule);
        }
        if self.model_update == ModelUpdate::Replace {
            return needs(
                "model_update",
                "model_update = replace must be add or none".into(),
            );
        }
        self.check_warm_up()?;
        if self.least_contributors() > self.parties {
            let (least, parties) = (self.least_contributors(), self.parties);
            let rule = format!("1 <= min_contributors = {least} <= parties = {parties}");
            return Err(SpecError::new("min_contributors", rule));
        }
        Ok(())
    }

    fn check_dense(&self) -> Result<(), SpecError> {
        let default = Self::default();
        let left = |field: &str, value: f64, default: f64| {
            if value == default {
                return Ok(());
            }
            let rule = format!("{field} = {value} must be left at {default} where density is 1");
            Err(SpecError::new(field, rule))
        };
        let number = |field, value: u32, default: u32| left(field, value.into(), default.into());
        left("density_start", self.density_start, default.density_start)?;
        number("density_steps", self.density_steps, default.density_steps)?;
        number(
            "density_rounds",
            self.density_rounds,
            default.density_rounds,
        )?;
        number(
            "min_contributors",
            self.min_contributors,
            default.min_contributors,
        )
    }

    fn check_warm_up(&self) -> Result<(), SpecError> {
        let (start, density) = (self.density_start, self.density);
        if !(density <= start && start <= 1.0) {
            let rule = format!("density = {density} <= density_start = {start} <= 1");
            return Err(SpecError::new("density_start", rule));
        }
        if self.density_steps == 0 && start != Self::default().density_start {
            let rule =
                format!("density_start = {start} must be left at 1 where density_steps is 0");
            return Err(SpecError::new("density_start", rule));
        }
        if self.density_steps > 0 && self.model_update == ModelUpdate::Nothing {
            let rule = "density_steps must be 0 where model_update is none: \
                        how many rounds are done travels with the model";
            return Err(SpecError::new("density_steps", rule));
        }
        if self.density_rounds < 1 {
            let rule = "1 <= density_rounds = 0";
            return Err(SpecError::new("density_rounds", rule));
        }
        Ok(())
    }

    /// Whether parties send some of their coordinates only.
    pub fn is_sparse(&self) -> bool {
        self.density != 1.0
    }

    /// How many parties must have sent a coordinate of a sparse round for its sum to be opened.
    pub fn least_contributors(&self) -> u32 {
        match self.min_contributors {
            0 => 2,
            chosen => chosen,
        }
    }

    /// The part of the coordinates that parties send, by round, where rounds are sparse.
    pub(super) fn schedule(&self) -> Option<DensitySchedule> {
        let (first, last) = (self.density_start, self.density);
        let schedule = DensitySchedule::new(first, last, self.density_steps, self.density_rounds);
        schedule.ok().filter(|_| self.is_sparse())
    }
}
