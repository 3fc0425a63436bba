//! P8: models. Everybody who is told a model of one name is told the same model, and it is the one that follows from
//! the sums and the model before, even if the coordinator must not know it.

use blindsum_job::Model;
use blindsum_job::party::RoundResult;
use blindsum_protocol::{InitialModel, Job, ModelUpdate};

use super::super::book::{Book, Kept};
use super::super::parties::FIRSTS;
use super::super::steps::{numbers_after, state_of};

impl Book {
    /// A round begins for a party with a model: that after the latest round that counts.
    pub fn starts_from(&mut self, job: &Job, (party, round): (usize, u64), model: &Model) -> Kept {
        self.is_one(party, model)?;
        self.models.starts.insert((party, round), model.clone());
        if self.is_exempt(party, round) {
            return Ok(());
        }
        self.is_latest(job, party, round, model)
    }

    /// The job is done for a party, with this model.
    pub fn ends_with(&mut self, job: &Job, party: usize, model: Option<&Model>) -> Kept {
        let Some(model) = model else {
            // Who could seal it may have gone; and nobody waits for who lies.
            return match job.hides_sum() || self.misled || self.is_liar(party) {
                true => Ok(()),
                false => Err(format!(
                    "P8: the job is done for party {party}, without a model"
                )),
            };
        };
        self.is_one(party, model)?;
        match self.misled {
            true => Ok(()),
            false => self.is_latest(job, party, u64::MAX, model),
        }
    }

    /// One name has one model.
    fn is_one(&mut self, party: usize, model: &Model) -> Kept {
        let (version, name) = (model.version(), (model.version(), *model.hash()));
        let known = self
            .models
            .named
            .entry(name)
            .or_insert_with(|| model.clone());
        match known == model {
            true => Ok(()),
            false => Err(format!(
                "P8: party {party} is told another model of version {version} than the others, under the same name"
            )),
        }
    }

    /// Whether this is the first model, in a job that takes it from a party: one that a party gives, and the same for all
    /// parties while the coordinator has not forgotten it.
    fn is_first(&self, job: &Job, party: usize, model: &Model) -> Kept {
        let given = FIRSTS.iter().any(|value| {
            let values = vec![*value; job.spec().dim as usize];
            Model::first(job, values).is_ok_and(|first| first == *model)
        });
        let of_start = self
            .models
            .named
            .keys()
            .filter(|(version, _)| *version == 0);
        let (version, firsts) = (model.version(), of_start.count());
        // A liar may give any model.
        if !given && self.liar.is_none() {
            return Err(format!(
                "P8: party {party} is told model version {version} as the first one, which no party gave"
            ));
        }
        match firsts == 1 || self.models.has_forgotten() {
            true => Ok(()),
            false => Err(format!(
                "P8: party {party} is told one of {firsts} first models"
            )),
        }
    }

    /// Whether this is the model after the latest round that counts before another one.
    fn is_latest(&self, job: &Job, party: usize, before: u64, model: &Model) -> Kept {
        let latest = self.counted.range(..before).next_back();
        let expected = match latest {
            None if job.spec().initial == InitialModel::FirstParty => {
                return self.is_first(job, party, model);
            }
            None => Some(Model::initial(job)),
            Some((round, _)) => self.models.after.get(round).cloned(),
        };
        // That of a round whose sum nobody has told yet is not known here; that of one that the coordinator has
        // forgotten is not compared.
        let forgotten = self.models.is_forgotten(model);
        match expected.is_none_or(|expected| expected == *model) || forgotten {
            true => Ok(()),
            false => Err(format!(
                "P8: party {party} is told model version {}, which is not that after the latest round before {before}",
                model.version()
            )),
        }
    }

    /// The model after a round is what its mean makes of the one before.
    pub fn makes(&mut self, job: &Job, (party, round): (usize, u64), result: &RoundResult) -> Kept {
        self.is_one(party, &result.model)?;
        let Some(start) = self.models.start(party, round) else {
            return Err(format!(
                "P8: party {party} tells a sum of round {round}, which never began for it"
            ));
        };
        let wrong = |why: &str| {
            Err(format!(
                "P8: the model of party {party} after round {round}: {why}"
            ))
        };
        let mean = result.mean.to_doubles();
        let (values, state) = numbers_after(job, start, &mean);
        let same = job.spec().model_update == ModelUpdate::Nothing && !job.hides_sum();
        let version = start.version() + u64::from(!same);
        let (model, hash) = (&result.model, result.model.hash());
        if model.version() != version {
            return wrong("another version");
        }
        if **model.values() != values {
            return wrong("not what the mean makes of the one before");
        }
        if state_of(job, model) != state {
            return wrong("another state of the step than the mean makes of the one before");
        }
        if !job.hides_sum() && Model::from_bytes(job, version, &model.to_bytes(), hash).is_err() {
            return wrong("another hash");
        }
        if !self.is_exempt(party, round) {
            self.models.after.insert(round, model.clone());
        }
        Ok(())
    }
}
