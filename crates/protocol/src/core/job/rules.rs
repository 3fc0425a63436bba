//! Checking a job specification: every rule, once.

use std::sync::Arc;

use blindsum_encode::{EncodingSpec, ServerStep, TensorSpec};

use super::Job;
use crate::core::options::check_each;
use crate::core::plan::{Opens, Plan};
use crate::core::privacy::Privacy;
use crate::core::spec::{Metric, check_layout, check_metrics, check_names, places};
use crate::{InitialModel, JobSpec, ModelUpdate, SpecError};

impl JobSpec {
    /// Checks every rule of a job specification.
    ///
    /// # Errors
    /// The first field that breaks a rule, with the rule.
    pub fn validate(self) -> Result<Job, SpecError> {
        let spec = self.clone();
        self.check().map_err(|error| places::located(error, &spec))
    }

    fn check(mut self) -> Result<Job, SpecError> {
        check_each(&self)?;
        check_layout(&self.layout, self.dim)?;
        self.choices()
            .try_for_each(|(_, table)| check_each(table))?;
        self.check_step()?;
        self.check_initial()?;
        self.encoding.view().check(&self)?;
        check_names(self.encoding.tensors())?;
        check_metrics(&self.metrics)?;
        self.resolve_privacy()?;
        let encoding = self.encoding_spec()?.validate()?;
        let privacy = Privacy::of(&self, &encoding)?;
        let info = self.info();
        let mut job = Job {
            hash: self.hash(),
            encoding: Arc::new(encoding),
            privacy,
            plan: Plan::new(&self, Opens::Coordinator, []),
            key_setup_plan: None,
            spec: self,
        };
        (info.check)(&job)?;
        if job.min_parties() > job.spec.parties as usize {
            let rule = format!(
                "min_parties is {} and must be at most parties = {}; lower it or have more parties",
                job.min_parties(),
                job.spec.parties
            );
            return Err(SpecError::new("min_parties", rule));
        }
        let most = job.spec.parties as usize;
        job.plan = (info.plan)(&job, most);
        job.spec.check_stop(job.hides_sum())?;
        job.key_setup_plan = (info.key_setup)(&job.spec).map(|setup| (setup.plan)(&job, most));
        Ok(job)
    }

    /// Steps other than that of the default change a model by a difference.
    fn check_step(&self) -> Result<(), SpecError> {
        if self.model_update == ModelUpdate::Add || self.step.rule() == ServerStep::default() {
            return Ok(());
        }
        let (step, update) = (&self.step, self.model_update);
        let rule = format!(
            "step = {step} needs model_update = add (is {update}): a step is made of the mean of differences; leave step \
             out, or let parties send differences"
        );
        Err(SpecError::new("step", rule))
    }

    /// A job that keeps no model begins with none.
    fn check_initial(&self) -> Result<(), SpecError> {
        let initial = self.initial;
        if self.model_update != ModelUpdate::Nothing || initial == InitialModel::Coordinator {
            return Ok(());
        }
        let rule = format!(
            "initial = {initial} needs model_update = add or replace (is none): a job without a model has no \
             first model; leave initial out"
        );
        Err(SpecError::new("initial", rule))
    }

    pub(crate) fn encoding_spec(&self) -> Result<EncodingSpec, SpecError> {
        let tensors = self.encoding.tensors().iter().map(|tensor| TensorSpec {
            len: tensor.len as usize,
            clip: tensor.clip,
        });
        Ok(EncodingSpec {
            dim: self.dim as usize,
            kind: self.encoding.kind(),
            max_weight: self.encoding.max_weight(),
            parties: self.parties as usize,
            tensors: tensors.collect(),
            tells_reach: self.encoding.view().learns_bounds(),
            metrics: self.metrics.iter().map(Metric::range).collect(),
            noise: self.noise_share()?,
        })
    }
}
