//! Jobs whose model the coordinator does not know: a party asks other parties for it.

use blindsum_crypto::seal::StorageKey;
use blindsum_protocol::{FaultKind, InitialModel, Job, KeyName};
use bytes::Bytes;
use tracing::{debug, warn};

use super::context::{Context, Requested};
use crate::connection::Say;
use crate::error::wrong;
use crate::pb;
use crate::{JobError, Model};

/// How often a party seals one version of the model over one connection. An honest coordinator asks again where a party could
/// not open it, or the next round is offered before it came.
const MAX_SEALED: u32 = 3;

/// What is authenticated with a sealed model.
pub(super) fn header(name: &pb::ModelName) -> Vec<u8> {
    [
        b"blindsum model",
        &name.version.to_be_bytes()[..],
        &name.hash,
    ]
    .concat()
}

/// The model out of what a party sealed.
fn opened(
    job: &Job,
    key: &StorageKey,
    name: &pb::ModelName,
    sealed: &[u8],
) -> Result<Model, String> {
    let bytes = key.open(&header(name), sealed);
    let bytes = bytes.map_err(|_| "it was not sealed by a holder of the key of the job")?;
    let model = Model::from_holder(job, name, &bytes)?;
    match (model.name().dim, name.dim) {
        (got, dim) if got != dim => Err(format!("it has {got} coordinates in place of {dim}")),
        _ => Ok(model),
    }
}

impl Context {
    /// Refuses to go back to an earlier model: what the parties have learnt would be lost, and the first model
    /// is the coordinator's choice. Another model of the version that this party has was named after another sum
    /// than the one it was told.
    pub(super) fn check_not_older(&self, name: &pb::ModelName) -> Result<(), JobError> {
        let Some(own) = self.model.as_ref().filter(|_| self.hides_sum()) else {
            return Ok(());
        };
        let (version, offered) = (own.version(), name.version);
        if version > offered {
            return Err(wrong(format!(
                "a return to model version {offered}, where this party has version {version}"
            )));
        }
        match version == offered && !own.is(name) {
            true => Err(wrong(format!(
                "a second model of version {offered}: parties were told different sums; compare results with them \
                 before anybody goes on"
            ))),
            false => Ok(()),
        }
    }

    /// The name of the key that this party holds for a round.
    pub(super) async fn held_key(&mut self, round: u64) -> Result<Option<KeyName>, JobError> {
        let Some(job) = self.job.clone().filter(|job| job.hides_sum()) else {
            return Ok(None);
        };
        let vault = self.vault.clone();
        let held = self.hand.work(move || job.held_key(&*vault, round)).await?;
        held.map_err(|fault| self.store.unusable(fault.to_string()))
    }

    /// A model that another party sealed. Where it does not open, or is none of the job, the coordinator is told so, and
    /// this party waits for one of somebody else.
    pub(super) async fn open_model(
        &mut self,
        name: pb::ModelName,
        sealed: Bytes,
    ) -> Result<Option<Model>, JobError> {
        let job = self.job()?.clone();
        let (vault, of) = (self.vault.clone(), name.clone());
        let open = move || {
            let key = job.storage_key(&*vault).map_err(|e| e.to_string())?;
            let key = key.ok_or("this party does not hold the key of the job")?;
            Ok(opened(&job, &key, &of, &sealed))
        };
        let opened: Result<_, String> = self.hand.work(open).await?;
        let reason = match opened.map_err(|reason| self.store.unusable(reason))? {
            Ok(model) => return Ok(Some(model)),
            Err(reason) => reason,
        };
        let version = name.version;
        warn!(party = %self.identity.name, version, %reason, "not the model; waiting for another one");
        self.send(pb::ModelRefused { version });
        // guard: rubbish-does-not-end-a-party
        self.connection.own.requested = Some(Requested { name, came: None });
        self.unopened = Some(version);
        Ok(None)
    }

    /// Another party needs the model: it goes out, sealed, if it is here. Or the coordinator asks for the first one.
    pub(super) async fn model_wanted(
        &mut self,
        wanted: pb::ModelWanted,
        in_round: bool,
    ) -> Result<(), JobError> {
        let job = self.job.as_ref();
        let takes_first = job.is_some_and(|job| job.spec().initial == InitialModel::FirstParty);
        if wanted.version == 0 && takes_first {
            return self.give_first(in_round).await;
        }
        let model = self.model.clone();
        let model = model.filter(|model| model.version() == wanted.version);
        let (Some(model), Some(job)) = (model, self.job.clone()) else {
            return Ok(());
        };
        // Each is as large as the model, and waits in memory for the connection.
        let own = &mut self.connection.own;
        if own.sealed != wanted.version {
            (own.sealed, own.sealed_times) = (wanted.version, 0);
        }
        let (version, times) = (own.sealed, own.sealed_times);
        if times >= MAX_SEALED {
            debug!(party = %self.identity.name, version, times, "asked again for the model: it was sealed often enough");
            return Ok(());
        }
        own.sealed_times += 1;
        let (vault, mut rng) = (self.vault.clone(), self.hand.random());
        let seal = move || {
            let key = job.storage_key(&*vault)?;
            Ok(key.map(|key| key.seal(&header(&model.name()), &model.to_bytes(), &mut rng)))
        };
        let sealed = self.hand.work(seal).await?;
        let sealed = sealed.map_err(|e: FaultKind| self.store.unusable(e.to_string()))?;
        if let Some(sealed) = sealed {
            let version = wanted.version;
            debug!(party = %self.identity.name, version, bytes = sealed.len(), "model sealed");
            self.say(Say::Model {
                version,
                values: sealed.into(),
            });
        }
        Ok(())
    }
}
