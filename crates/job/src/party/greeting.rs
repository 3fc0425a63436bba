//! How a connection begins: what a party says about itself, and what it does with the answer.

use std::sync::Arc;

use blindsum_protocol::{Job, JobSpec};

use super::context::Context;
use super::first::{check_initial, kept_given};
use super::left::Ended;
use super::measuring::kept_measured;
use super::sparse::Sparse;
use super::spending::Spending;
use super::vault::SealedVault;
use crate::connection::hello;
use crate::pb::{self, RefusalCode};
use crate::{JobError, foreign};

impl Context {
    /// The first words over a new connection.
    pub(super) fn hello(&mut self) -> pb::Hello {
        let (live, me) = (self.memory.live.as_ref(), &mut self.introduction);
        me.connections += 1;
        pb::Hello {
            round: live.map_or(0, |live| live.round),
            answered: live.map_or(0, |live| live.answered),
            process: me.process.clone(),
            connection: me.connections,
            token: me.token.clone(),
            last_round: self.memory.last_round,
            location: self.settings.location.clone(),
            gives_model: self.settings.initial.is_some(),
            knows_held: true,
            ..hello(&self.settings.job, &self.identity.name)
        }
    }

    /// What a refusal means for the connection.
    pub(super) fn refused(&mut self, refused: pb::Refused, is_done: bool) -> Ended {
        let code = refused.code();
        let reason = foreign(&refused.reason);
        match code {
            // Of a refusal for its time one of the clocks may be the cause: the program that drives the party knows whether its
            // own agrees.
            RefusalCode::RefusalStopping
            | RefusalCode::RefusalTooSlow
            // guard: a-party-that-a-clock-expelled-comes-again
            | RefusalCode::RefusalOutOfTime
            | RefusalCode::RefusalBanned => Ended::Lost(reason),
            // It goes on once its coordinator is started again; a job that is done stays so.
            RefusalCode::RefusalJobFailed if !is_done => Ended::Lost(reason),
            RefusalCode::RefusalComeAgain => {
                self.introduction.token = refused.token;
                Ended::Lost(reason)
            }
            // guard: a-newer-certificate-comes-back, a-refused-certificate-stays-away
            RefusalCode::RefusalCertificate if self.connection.own.newer => Ended::Lost(reason),
            // Whoever was welcomed before has its name by right, and outwaits who has taken it.
            // guard: the-welcomed-outwait-others
            RefusalCode::RefusalNameTaken if self.job.is_some() => Ended::Lost(reason),
            // guard: refusals-are-final
            code => Ended::Failed(JobError::Refused { code, reason }),
        }
    }

    /// Reads and judges the job before anything is said in it.
    pub(super) async fn learn_job(&mut self, welcome: &pb::Welcome) -> Result<Arc<Job>, JobError> {
        let spec: JobSpec = serde_json::from_str(&welcome.job_spec).map_err(|e| {
            JobError::Coordinator(format!(
                "the job specification cannot be read ({}); {} and {} may be too far apart",
                foreign(&e.to_string()),
                foreign(&welcome.program),
                pb::PROGRAM
            ))
        })?;
        if spec.job != self.settings.job {
            let reason = format!("the job is called {:?}", spec.job);
            return Err(JobError::Coordinator(reason));
        }
        // Before the job is checked: that allocates by its numbers.
        // guard: policy-before-validation
        self.settings.policy.check_spec(&spec)?;
        let job = Arc::new(spec.validate()?);
        // guard: a-job-of-its-hash
        if welcome.job_hash != job.hash() {
            let reason = "the job specification does not have the hash announced".into();
            return Err(JobError::Coordinator(reason));
        }
        // guard: policy-of-the-job-is-asked
        self.settings.policy.check_job(&job)?;
        check_initial(self.settings.initial.as_ref(), &job)?;
        if let Some(folder) = self.store.folder.clone() {
            let hash = *job.hash();
            let read = move || {
                let opened = folder.enter(&hash)?;
                let (measured, given) = (kept_measured(&opened.state)?, kept_given(&opened.state)?);
                Ok::<_, JobError>((opened, measured, given))
            };
            let (opened, measured, given) = self.hand.work(read).await??;
            (self.given.measured, self.given.models) = (measured, given);
            let state = Arc::new(opened.state);
            self.vault = Arc::new(SealedVault::new(state.clone(), self.hand.random()));
            self.store.state = Some(state);
            // guard: survivors-of-all-jobs-of-a-name
            (self.memory, self.store.snapshot) = (opened.memory, opened.snapshot);
        }
        self.job = Some(job.clone());
        self.store.spending = Spending::open(&self.settings, &job, &self.hand).await?;
        self.model = self.kept_model().await?;
        self.given.sparse = Sparse::recall(&mut self.store, &job).await?;
        Ok(job)
    }
}
