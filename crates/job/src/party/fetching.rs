//! How a party comes to the model that a round starts from: it has it, or asks the coordinator for it.

use blindsum_protocol::ModelUpdate;
use tracing::debug;

use super::context::{Context, Requested};
use super::first::check_zeros;
use super::job_party::JobParty;
use crate::chunks::{Assembly, Pushed};
use crate::error::wrong;
use crate::pb;
use crate::{JobError, Model, model_len, sealed_len};

impl Context {
    /// Whether this model is here, as the one that a job begins with is wherever it was not given.
    pub(super) fn has_model(&mut self, name: &pb::ModelName) -> Result<bool, JobError> {
        self.check_not_older(name)
            // guard: zeros-are-zeros
            .and_then(|()| check_zeros(self.job.as_deref(), name))?;
        if self.model.as_ref().is_some_and(|model| model.is(name)) {
            return Ok(true);
        }
        let job = self.job()?;
        if name.version > 0 {
            return Ok(false);
        }
        let own = Model::initial(job);
        let begins = own.is(name);
        if begins {
            self.model = Some(own);
        }
        Ok(begins)
    }

    /// Whether this model is here; it is asked for where it is not.
    pub(super) fn have_model(&mut self, name: &pb::ModelName) -> Result<bool, JobError> {
        if self.has_model(name)? {
            return Ok(true);
        }
        let job = self.job()?;
        let (got, dim) = (name.dim, job.spec().dim);
        // A job that keeps no model has one without coordinates, which gets other names where sums are hidden.
        let has_none = got == 0 && job.spec().model_update == ModelUpdate::Nothing;
        if got != dim && !has_none {
            return Err(wrong(format!("a model of {got} coordinates, dim is {dim}")));
        }
        let requested = &mut self.connection.own.requested;
        if requested.as_ref().is_none_or(|asked| asked.name != *name) {
            debug!(party = %self.identity.name, version = name.version, "asking for the model");
            *requested = Some(Requested {
                name: name.clone(),
                came: None,
            });
            let version = name.version;
            self.send(pb::ModelRequest { version });
        }
        Ok(false)
    }
}

impl JobParty {
    pub(super) async fn model_chunk(&mut self, chunk: pb::ModelChunk) -> Result<(), JobError> {
        let asked = self
            .ctx
            .connection
            .own
            .requested
            .take_if(|asked| asked.name.version == chunk.version);
        let Some(Requested { name, came }) = asked else {
            return Ok(());
        };
        let length = model_len(self.ctx.job()?, name.dim);
        let limit = match self.ctx.comes_sealed(&name) {
            true => sealed_len(length),
            false => length,
        };
        let pushed = Assembly::next(came, limit, (chunk.offset, chunk.total, chunk.data));
        match pushed.map_err(|e| wrong(format!("model: {e}")))? {
            Pushed::Part(assembly) => {
                let came = Some(assembly);
                self.ctx.connection.own.requested = Some(Requested { name, came });
                // guard: a-last-model-that-comes-in-is-waited-for
                if let Some(done) = &mut self.done {
                    done.put_off_farewell(self.ctx.hand.now());
                }
                Ok(())
            }
            Pushed::Whole(bytes) => {
                let job = self.ctx.job()?.clone();
                self.ctx.model = Some(match self.ctx.comes_sealed(&name) {
                    true => match self.ctx.open_model(name, bytes).await? {
                        Some(model) => model,
                        // Perhaps the others have another key by now: it comes to whoever is ready.
                        None => return self.try_ready().await,
                    },
                    false => {
                        let read =
                            move || Model::from_bytes(&job, name.version, &bytes, &name.hash);
                        self.ctx.hand.work(read).await??
                    }
                });
                self.ctx.unopened = None;
                // The party is ready with it, also where it was ready without it before.
                if let Some(pledge) = self.state.ready_mut()
                    && std::mem::take(&mut pledge.ready.lacks_model)
                {
                    self.ctx.send(pledge.ready.clone());
                    return Ok(());
                }
                self.try_ready().await
            }
        }
    }
}
