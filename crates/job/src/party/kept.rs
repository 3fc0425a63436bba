//! What is written down between two steps: where the party stands, and the model, sealed. That is the one of the round
//! under way, without which nobody could go on in it after a crash; the coordinator may have a newer one by then. Where
//! only the parties have the model, it is always the latest one.

use std::sync::Arc;

use blindsum_protocol::Job;
use tracing::info;

use super::hidden::header;
use super::member::Member;
use super::state::JobState;
use crate::pb;
use crate::{JobError, Model};

/// The record of the model that a round starts from.
const MODEL: &str = "model";
/// That of the model after it, until the party is through with the round.
const NEXT: &str = "next-model";

/// A model as a record has it.
struct SealedModel {
    name: pb::ModelName,
    bytes: Vec<u8>,
}

impl Member {
    /// Writes down what must survive a crash.
    pub(super) async fn save(&mut self, snapshot: Option<Vec<u8>>) -> Result<(), JobError> {
        let Some(state) = self.state.clone() else {
            return Ok(());
        };
        let memory = self.memory.clone();
        self.hand
            .work(move || state.write(&memory, snapshot.as_deref()))
            .await??;
        match self.memory.live {
            Some(_) => Ok(()),
            None => self.forget_kept_model().await,
        }
    }

    /// Writes the model down, unless it is there already. When this returns it survives a crash.
    pub(super) async fn keep_model(&mut self) -> Result<(), JobError> {
        match self.sealed_model().await? {
            Some(sealed) => self.write_model(sealed).await,
            None => Ok(()),
        }
    }

    /// The round needs nothing more, and nobody but the parties has the model after it. At no moment is that model in
    /// no record; and none has it as the one that a round starts from, while a party that is killed goes on in this round.
    pub(super) async fn save_with_model(&mut self) -> Result<(), JobError> {
        let sealed = self.sealed_model().await?;
        if let (Some(state), Some(sealed)) = (self.state.clone(), sealed.clone()) {
            let write = move || sealed.write(&state, NEXT);
            self.hand.work(write).await??;
        }
        self.save(None).await?;
        match sealed {
            Some(sealed) => self.write_model(sealed).await,
            None => Ok(()),
        }
    }

    async fn write_model(&mut self, sealed: Arc<SealedModel>) -> Result<(), JobError> {
        let Some(state) = self.state.clone() else {
            return Ok(());
        };
        self.kept = Some(sealed.name.clone());
        let write = move || {
            sealed.write(&state, MODEL)?;
            state.remove(NEXT)
        };
        self.hand.work(write).await?
    }

    /// The model as records have it, where they do not have it yet.
    async fn sealed_model(&mut self) -> Result<Option<Arc<SealedModel>>, JobError> {
        let (Some(state), Some(model)) = (self.state.clone(), self.model.clone()) else {
            return Ok(None);
        };
        let name = model.name();
        if self.kept.as_ref() == Some(&name) {
            return Ok(None);
        }
        let mut rng = self.hand.random();
        let seal = move || {
            let bytes = state
                .key()
                .seal(&header(&name), &model.to_bytes(), &mut rng);
            Arc::new(SealedModel { name, bytes })
        };
        self.hand.work(seal).await.map(Some)
    }

    /// The round is over that needed the model. Where the coordinator has it nobody needs it any more.
    pub(super) async fn forget_kept_model(&mut self) -> Result<(), JobError> {
        if self.hides_sum() || self.kept.take().is_none() {
            return Ok(());
        }
        let Some(state) = self.state.clone() else {
            return Ok(());
        };
        self.hand.work(move || state.remove(MODEL)).await?
    }

    /// The model that was written down last, where it is of use: it is of this job, and either a round goes on or only
    /// the parties have it.
    pub(super) async fn kept_model(&mut self) -> Result<Option<Model>, JobError> {
        let of_use = self.memory.live.is_some() || self.hides_sum();
        let (Some(state), Some(job), true) = (self.state.clone(), self.job.clone(), of_use) else {
            return Ok(None);
        };
        // Killed on its way from one record to the other, the latest one is in the second.
        if self.memory.live.is_none()
            && let Some(next) = self.kept_in(&state, &job, NEXT).await?
        {
            return Ok(Some(next));
        }
        let model = self.kept_in(&state, &job, MODEL).await?;
        self.kept = model.as_ref().map(Model::name);
        Ok(model)
    }

    async fn kept_in(
        &mut self,
        state: &Arc<JobState>,
        job: &Job,
        record: &'static str,
    ) -> Result<Option<Model>, JobError> {
        let of = state.clone();
        let bytes = self.hand.work(move || of.read(record)).await??;
        let Some(bytes) = bytes else { return Ok(None) };
        let damaged = || state.failed(record, "damaged; remove it to go on without it");
        let (version, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
        let (hash, sealed) = rest.split_first_chunk::<32>().ok_or_else(damaged)?;
        let name = pb::ModelName {
            version: u64::from_be_bytes(*version),
            hash: hash.to_vec(),
            dim: 0,
        };
        let opened = state.key().open(&header(&name), sealed);
        let opened = opened.map_err(|_| damaged())?;
        let model = Model::from_holder(job, &name, &opened).map_err(|_| damaged())?;
        info!(party = %self.identity.name, version = name.version, "the model was kept");
        Ok(Some(model))
    }
}

impl SealedModel {
    fn write(&self, state: &JobState, record: &str) -> Result<(), JobError> {
        let version = self.name.version.to_be_bytes();
        state.replace(record, &[&version, &self.name.hash, &self.bytes])
    }
}
