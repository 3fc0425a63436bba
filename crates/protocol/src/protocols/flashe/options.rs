//! What a job may say about FLASHE, and the rules of its sparse rounds.

use blindsum_encode::DensitySchedule;

use crate::core::options::{at_least, choice, positive, table};
use crate::core::sparsity::Sparsity;
use crate::{EncodingName, JobSpec, ModelUpdate, ProtocolChoice, SpecError};

table! {
    /// Additively symmetric encryption: the coordinator learns nothing (FLASHE).
    Flashe = "flashe";
    options {
        /// Number of masks of a word.
        masking: Masking = Masking::Cheaper;
        /// Rounds that a key of the job serves before another one is made; 0 means the whole job.
        key_rounds: u32 = 0;
        /// Part of the coordinates of each tensor that a party sends; 1 sends all. Below 1 rounds are sparse: a
        /// party sends its largest coordinates and adds the others to its next update.
        density: f64 = 1.0, positive(1.0);
        /// Density of the first sum, from which it falls to `density` in steps.
        density_start: f64 = 1.0, positive(1.0);
        /// Steps in which the density falls from `density_start`; 0 begins with `density`.
        density_steps: u32 = 0;
        /// Sums of a step.
        density_rounds: u32 = 1, at_least(1.0);
        /// Parties that must have sent a coordinate of a sparse round for its sum to be opened; 0 means 2.
        min_contributors: u32 = 0;
        /// Divisor of the sum of a coordinate in a sparse round.
        divisor: DivisorName = DivisorName::Parties;
    }
}

choice! {
    /// Number of masks of a word.
    Masking {
        /// The cheaper one of the two at the job's expected dropouts.
        Cheaper = "cheaper",
        /// Two, which cancel between neighbours.
        Double = "double",
        /// One.
        Single = "single",
    }
}

choice! {
    /// Divisor of the sum of a coordinate in a sparse round.
    DivisorName {
        /// All parties whose updates are in the round, so that late values count once.
        Parties = "parties",
        /// The parties that sent the coordinate.
        Senders = "senders",
    }
}

impl Flashe {
    /// The options of the job. A job of another protocol asks for nothing.
    pub(super) fn of(spec: &JobSpec) -> Self {
        match &spec.protocol {
            ProtocolChoice::Flashe(options) => options.clone(),
            _ => Self::default(),
        }
    }

    /// Whether parties send some of their coordinates only.
    fn is_sparse(&self) -> bool {
        self.density != 1.0
    }

    pub(super) fn sparsity(&self) -> Option<Sparsity> {
        let (first, last) = (self.density_start, self.density);
        let (steps, rounds) = (self.density_steps, self.density_rounds);
        let schedule = DensitySchedule::new(first, last, steps, rounds).ok();
        schedule
            .filter(|_| self.is_sparse())
            .map(|schedule| Sparsity {
                schedule,
                least_contributors: self.least_contributors(),
                counts_senders: self.divisor == DivisorName::Senders,
            })
    }

    fn least_contributors(&self) -> u32 {
        match self.min_contributors {
            0 => 2,
            chosen => chosen,
        }
    }

    /// Sparse rounds have quantised coordinates of equal weights. What only they use is refused elsewhere rather
    /// than ignored.
    pub(super) fn check(&self, spec: &JobSpec) -> Result<(), SpecError> {
        if !self.is_sparse() {
            return self.check_dense();
        }
        let needs = |field, rule: String| {
            let rule = format!("{rule} where density is below 1");
            Err(SpecError::new(field, rule))
        };
        if spec.encoding.name() != EncodingName::Quantised {
            let rule = format!("encoding = {} must be quantised", spec.encoding.name());
            return needs("encoding", rule);
        }
        if spec.encoding.max_weight() != 1 {
            let rule = format!("max_weight = {} must be 1", spec.encoding.max_weight());
            return needs("max_weight", rule);
        }
        if spec.model_update == ModelUpdate::Replace {
            let rule = "model_update = replace must be add or none";
            return needs("model_update", rule.into());
        }
        self.check_warm_up(spec)?;
        if self.least_contributors() > spec.parties {
            let (least, parties) = (self.least_contributors(), spec.parties);
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
        )?;
        if self.divisor == default.divisor {
            return Ok(());
        }
        let rule = format!(
            "divisor = {} must be left at {} where density is 1",
            self.divisor, default.divisor
        );
        Err(SpecError::new("divisor", rule))
    }

    fn check_warm_up(&self, spec: &JobSpec) -> Result<(), SpecError> {
        let (start, density) = (self.density_start, self.density);
        if density > start {
            let rule = format!("density = {density} <= density_start = {start} <= 1");
            return Err(SpecError::new("density_start", rule));
        }
        if self.density_steps == 0 && start != Self::default().density_start {
            let rule =
                format!("density_start = {start} must be left at 1 where density_steps is 0");
            return Err(SpecError::new("density_start", rule));
        }
        if self.density_steps > 0 && spec.model_update == ModelUpdate::Nothing {
            let rule = "density_steps must be 0 where model_update is none: \
                        how many rounds are done travels with the model";
            return Err(SpecError::new("density_steps", rule));
        }
        Ok(())
    }
}
