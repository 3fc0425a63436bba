//! What is written down between two steps: where the party stands, and the model, sealed. That is the one of the round
//! under way, without which nobody could go on in it after a crash; the coordinator may have a newer one by then. Where
//! only the parties have the model, it is always the latest one.

use tracing::info;

use super::hidden::header;
use super::member::Member;
use crate::pb;
use crate::{JobError, Model};

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
        let (Some(state), Some(model)) = (self.state.clone(), self.model.clone()) else {
            return Ok(());
        };
        let name = model.name();
        if self.kept.as_ref() == Some(&name) {
            return Ok(());
        }
        let mut rng = self.hand.random();
        let (version, hash) = (name.version.to_be_bytes(), name.hash.clone());
        let of = header(&name);
        let write = move || {
            let sealed = state.key().seal(&of, &model.to_bytes(), &mut rng);
            state.replace("model", &[&version, &hash, &sealed])
        };
        self.hand.work(write).await??;
        self.kept = Some(name);
        Ok(())
    }

    /// The round is over that needed the model. Where the coordinator has it nobody needs it any more.
    pub(super) async fn forget_kept_model(&mut self) -> Result<(), JobError> {
        if self.hides_sum() || self.kept.take().is_none() {
            return Ok(());
        }
        let Some(state) = self.state.clone() else {
            return Ok(());
        };
        self.hand.work(move || state.remove("model")).await?
    }

    /// The model that was written down last, where it is of use: it is of this job, and either a round goes on or only
    /// the parties have it.
    pub(super) async fn kept_model(&mut self) -> Result<Option<Model>, JobError> {
        let of_use = self.memory.live.is_some() || self.hides_sum();
        let (Some(state), Some(job), true) = (self.state.clone(), &self.job, of_use) else {
            return Ok(None);
        };
        let of = state.clone();
        let bytes = self.hand.work(move || of.read("model")).await??;
        let Some(bytes) = bytes else { return Ok(None) };
        let damaged = || state.failed("model", "damaged; remove it to go on without it");
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
        self.kept = Some(model.name());
        Ok(Some(model))
    }
}
