//! What clipping did to this party's update, and to its metrics. It is for the party only: numbers that depend on one update never go to
//! the coordinator.

use blindsum_protocol::{Clipping, EncodingChoice, Job, JobSpec, Quantised, Round};
use tracing::{info, warn};

use super::context::Context;
use super::result::Clipped;

impl Context {
    /// Warns of clipping bounds that fall; gives the warnings for the caller as well.
    pub(super) fn watch_bounds(&mut self, round: &Round) -> Vec<String> {
        let warnings = self.given.falling.observe(round);
        for warning in &warnings {
            warn!(party = %self.identity.name, round = round.number(), "{warning}");
        }
        warnings
    }

    /// Tells the log what clipping did to an update that is sent: a warning with advice at first, then a line a
    /// round.
    pub(super) fn tell_clipping(&mut self, round: u64, clipped: Option<Clipped>) {
        let (Some(clipped), Some(job)) = (clipped, &self.job) else {
            return;
        };
        if clipped.is_nothing() {
            return;
        }
        let (party, spec) = (&self.identity.name, job.spec());
        let (coordinates, of) = (clipped.coordinates, spec.dim);
        let scaled_by = clipped.scaled_by.unwrap_or(1.0);
        if std::mem::replace(&mut self.given.clipping_told, true) {
            return info!(%party, round, coordinates, of, scaled_by, "this update was clipped");
        }
        let (advice, clip) = (advice(job), spec.encoding.clip());
        match job.density() {
            None => warn!(%party, round, coordinates, of, scaled_by, clip, advice,
                "this update was clipped: the mean lacks what was cut off"),
            Some(_) => warn!(%party, round, coordinates, of, scaled_by, clip, advice,
                "this update was clipped: of what had gathered the rest stays left over"),
        }
    }
}

/// What helps where the norm has a bound.
const LONGER: &str = "where coordinates were cut off, raise clip in the job; where the update was scaled, raise max_norm, \
    and clip as well where bound is l2, or take more bits, for rounding takes its part of the norm";

/// What a job may change so that less is clipped.
fn advice(job: &Job) -> String {
    let spec = job.spec();
    let raise = "raise clip in the job";
    let EncodingChoice::Quantised(options) = &spec.encoding else {
        return raise.into();
    };
    match options.clipping {
        Clipping::L2 => raise.into(),
        Clipping::Aciq => {
            "one round is meant to be where updates jump; if it goes on, take clipping = tensor"
                .into()
        }
        Clipping::Tensor if options.max_norm > 0.0 => LONGER.into(),
        Clipping::Tensor => {
            let others = [("\"aciq\"", Clipping::Aciq), ("\"l2\"", Clipping::L2)];
            let may_be = others.into_iter().filter(|(_, clipping)| {
                let changed = Quantised {
                    clipping: *clipping,
                    ..options.clone()
                };
                let encoding = changed.into();
                JobSpec {
                    encoding,
                    ..spec.clone()
                }
                .validate()
                .is_ok()
            });
            let names: Vec<&str> = may_be.map(|(name, _)| name).collect();
            match names.is_empty() {
                true => raise.into(),
                false => format!("{raise}, or take clipping = {}", names.join(" or ")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use blindsum_protocol::{ModelUpdate, ProtocolName};

    use super::*;

    fn advised(protocol: ProtocolName, model_update: ModelUpdate) -> String {
        let spec = JobSpec {
            protocol: protocol.into(),
            parties: 5,
            dim: 10,
            model_update,
            ..JobSpec::default()
        };
        advice(&spec.validate().unwrap())
    }

    #[test]
    fn a_job_is_advised_what_it_may_have() {
        let both = "raise clip in the job, or take clipping = \"aciq\" or \"l2\"";
        let norm = "raise clip in the job, or take clipping = \"l2\"";
        assert_eq!(advised(ProtocolName::SecAgg, ModelUpdate::Add), both);
        // Bounds of earlier rounds travel with the model.
        assert_eq!(advised(ProtocolName::SecAgg, ModelUpdate::Nothing), norm);
        // Neither has a bound of its own for what is sent.
        let encoding = Quantised {
            max_norm: 0.5,
            ..Quantised::default()
        };
        let spec = JobSpec {
            parties: 5,
            dim: 10,
            encoding: encoding.into(),
            ..JobSpec::default()
        };
        assert_eq!(advice(&spec.validate().unwrap()), LONGER);
        // Two of the servers have no model.
        assert_eq!(advised(ProtocolName::Mpc3, ModelUpdate::Add), norm);
    }
}
