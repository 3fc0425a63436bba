//! What a party writes to disk between two steps: its state, and the sealed model of the round under way. Without that
//! model nobody could go on in the round after a crash, since the coordinator may have a newer one by then. If only the
//! parties have the model, it is always the latest one.

use std::sync::Arc;

use blindsum_protocol::{Client, ClientSetup, Job};
use tracing::info;

use super::context::Context;
use super::records::JobRecords;
use super::sealed::header;
use super::store::Store;
use crate::pb;
use crate::{JobError, Model};

/// The record of the model that a round starts from.
const MODEL: &str = "model";
/// The record of the model after the round, until the party is through with the round.
const NEXT: &str = "next-model";

/// A model, as it is in a record.
struct ModelRecord {
    name: pb::ModelName,
    bytes: Vec<u8>,
}

impl Context {
    /// Writes down what must survive a crash.
    pub(super) async fn save(&mut self, snapshot: Option<Vec<u8>>) -> Result<(), JobError> {
        let memory = self.memory.clone();
        let write = move |state: &JobRecords| state.write(&memory, snapshot.as_deref());
        self.store.with(write).await?;
        // Where the coordinator has the model nobody needs it once the round is over.
        match self.memory.live.is_some() || self.hides_sum() {
            true => Ok(()),
            // guard: the-model-of-the-round-goes-with-it
            false => self.store.forget_model().await,
        }
    }

    /// The round needs nothing more, and nobody but the parties has the model after it. At no moment is that model in
    /// no record; and none has it as the one that a round starts from, while a party that is killed goes on in this round.
    pub(super) async fn save_with_model(&mut self) -> Result<(), JobError> {
        let sealed = self.store.sealed_model(self.model.clone()).await?;
        if let Some(sealed) = sealed.clone() {
            // guard: campaign-nobody-goes-on-with-a-newer-model
            let write = move |state: &JobRecords| sealed.write(state, NEXT);
            self.store.with(write).await?;
        }
        self.save(None).await?;
        self.store.write_model(sealed).await
    }

    /// The model that was written down last, where it is of use: it is of this job, and either a round goes on or only
    /// the parties have it.
    pub(super) async fn kept_model(&mut self) -> Result<Option<Model>, JobError> {
        let goes_on = self.memory.live.is_some();
        let of_use = goes_on || self.hides_sum();
        let Some(job) = self.job.clone().filter(|_| of_use) else {
            return Ok(None);
        };
        let read = move |state: &JobRecords| kept_model(state, &job, goes_on);
        let Some((model, record)) = self.store.with(read).await?.flatten() else {
            return Ok(None);
        };
        info!(party = %self.identity.name, version = model.version(), "the model was kept");
        if record == MODEL {
            self.store.kept = Some(model.name());
        }
        Ok(Some(model))
    }
}

impl Store {
    /// The machine of the snapshot that the records had when the process began.
    pub(super) async fn unsealed(&mut self, setup: ClientSetup) -> Result<Client, String> {
        // It stays until the round is over: it shows that the update is out, also where it is of no use.
        // guard: a-snapshot-of-no-use-shows-that-the-update-is-out
        let snapshot = self.snapshot.clone();
        let unseal = move |state: &JobRecords| Ok(Client::unseal(setup, state.key(), &snapshot));
        let client = self.with(unseal).await.map_err(|e| e.to_string())?;
        let client = client.ok_or("this party has no state of it any more")?;
        client.map_err(|fault| fault.to_string())
    }

    /// Writes the model down, unless it is there already. When this returns it survives a crash.
    pub(super) async fn keep_model(&mut self, model: Option<Model>) -> Result<(), JobError> {
        let sealed = self.sealed_model(model).await?;
        self.write_model(sealed).await
    }

    async fn write_model(&mut self, sealed: Option<Arc<ModelRecord>>) -> Result<(), JobError> {
        let Some(sealed) = sealed else {
            return Ok(());
        };
        let name = sealed.name.clone();
        let write = move |state: &JobRecords| {
            sealed.write(state, MODEL)?;
            state.remove(NEXT)
        };
        self.with(write).await?;
        self.kept = Some(name);
        Ok(())
    }

    /// The model as records have it, where there are some and they do not have it yet.
    async fn sealed_model(
        &mut self,
        model: Option<Model>,
    ) -> Result<Option<Arc<ModelRecord>>, JobError> {
        let is_new = |model: &Model| self.kept.as_ref() != Some(&model.name());
        let model = model.filter(|model| self.state.is_some() && is_new(model));
        let Some(model) = model else {
            return Ok(None);
        };
        let mut rng = self.hand.random();
        let seal = move |state: &JobRecords| {
            let name = model.name();
            let key = state.key();
            let bytes = key.seal(&header(&name), &model.to_bytes(), &mut rng);
            Ok(Arc::new(ModelRecord { name, bytes }))
        };
        self.with(seal).await
    }

    /// Forgets the model that a round needed.
    async fn forget_model(&mut self) -> Result<(), JobError> {
        if self.kept.take().is_some() {
            self.with(|state| state.remove(MODEL)).await?;
        }
        Ok(())
    }
}

/// The model in the records, and which of them has it. A round that goes on starts from the first; killed on its way from
/// one record to the other, a party may have the latest one in either.
fn kept_model(
    state: &JobRecords,
    job: &Job,
    goes_on: bool,
) -> Result<Option<(Model, &'static str)>, JobError> {
    let in_next = match goes_on {
        true => None,
        // guard: the-latest-model-is-in-a-record
        false => model_in(state, job, NEXT)?,
    };
    let in_model = model_in(state, job, MODEL)?;
    let both = [(in_next, NEXT), (in_model, MODEL)].into_iter();
    let both = both.filter_map(|(model, record)| Some((model?, record)));
    Ok(both.max_by_key(|(model, _)| model.version()))
}

fn model_in(state: &JobRecords, job: &Job, record: &str) -> Result<Option<Model>, JobError> {
    let Some(bytes) = state.read(record)? else {
        return Ok(None);
    };
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
    Ok(Some(model))
}

impl ModelRecord {
    fn write(&self, state: &JobRecords, record: &str) -> Result<(), JobError> {
        let version = self.name.version.to_be_bytes();
        state.replace(record, &[&version, &self.name.hash, &self.bytes])
    }
}

#[cfg(test)]
mod tests {
    use blindsum_protocol::{JobSpec, ProtocolName};

    use super::super::records::tests::state;
    use super::*;
    use crate::testing::rng;

    #[test]
    fn case_54_the_latest_model_is_in_a_record_at_every_moment() {
        let spec = JobSpec {
            protocol: ProtocolName::Flashe.into(),
            parties: 3,
            dim: 2,
            ..JobSpec::default()
        };
        let (job, state) = (spec.validate().unwrap(), state());
        let model = Model::initial(&job);
        let write = |version: u8, record: &str| {
            let name = pb::ModelName {
                version: version.into(),
                hash: vec![version; 32],
                dim: 2,
            };
            let key = state.key();
            let bytes = key.seal(&header(&name), &model.to_bytes(), &mut rng(1));
            ModelRecord { name, bytes }.write(&state, record).unwrap();
        };
        let version = |goes_on: bool| {
            let kept = kept_model(&state, &job, goes_on).unwrap();
            kept.map(|(model, _)| model.version())
        };
        assert_eq!(version(false), None);
        write(1, MODEL);
        assert_eq!((version(true), version(false)), (Some(1), Some(1)));
        // The party has come to the next model, and is killed before or after it is through with the round.
        write(2, NEXT);
        assert_eq!((version(true), version(false)), (Some(1), Some(2)));
        write(2, MODEL);
        assert_eq!(version(false), Some(2));
        // It is killed again before the record of the next one is gone, and later ones came meanwhile.
        write(3, MODEL);
        assert_eq!((version(true), version(false)), (Some(3), Some(3)));
        state.remove(NEXT).unwrap();
        assert_eq!(version(false), Some(3));
    }
}
