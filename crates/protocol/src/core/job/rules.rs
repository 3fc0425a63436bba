//! Checking a job specification: every rule, once.

use std::sync::Arc;

use blindsum_encode::{EncodingSpec, TensorSpec};

use super::Job;
use crate::core::options::check_each;
use crate::core::plan::{Opens, Plan};
use crate::core::spec::{Metric, check_layout, check_metrics, check_names, places};
use crate::{JobSpec, SpecError};

impl JobSpec {
    /// Checks every rule of a job specification.
    ///
    /// # Errors
    /// The first field that breaks a rule, with the rule.
    pub fn validate(self) -> Result<Job, SpecError> {
        let (protocol, encoding) = (self.protocol.clone(), self.encoding.clone());
        self.check()
            .map_err(|error| places::located(error, protocol.table(), encoding.table()))
    }

    fn check(self) -> Result<Job, SpecError> {
        check_each(&self)?;
        check_layout(&self.layout, self.dim)?;
        check_each(self.protocol.table())?;
        check_each(self.encoding.table())?;
        self.encoding.view().check(&self)?;
        check_names(self.encoding.tensors())?;
        check_metrics(&self.metrics)?;
        let encoding = self.encoding_spec().validate()?;
        let info = self.info();
        let mut job = Job {
            hash: self.hash(),
            encoding: Arc::new(encoding),
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
        job.key_setup_plan = (info.key_setup)(&job.spec).map(|setup| (setup.plan)(&job, most));
        Ok(job)
    }

    fn encoding_spec(&self) -> EncodingSpec {
        let tensors = self.encoding.tensors().iter().map(|tensor| TensorSpec {
            len: tensor.len as usize,
            clip: tensor.clip,
        });
        EncodingSpec {
            dim: self.dim as usize,
            kind: self.encoding.kind(),
            max_weight: self.encoding.max_weight(),
            parties: self.parties as usize,
            tensors: tensors.collect(),
            tells_reach: self.encoding.view().learns_bounds(),
            metrics: self.metrics.iter().map(Metric::range).collect(),
        }
    }
}
