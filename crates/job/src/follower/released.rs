//! What such a server remembers of results that it has opened with others.

use std::io;
use std::sync::Arc;

use blindsum_protocol::Round;
use tracing::info;

use super::Server;
use crate::pb::{self, RoundRefusalCode};
use crate::records::Records;
use crate::released::{Keep, Release, Releases};
use crate::{JobError, foreign, hex};

/// Bytes of names that a refusal has at most.
const MAX_NAMES: usize = 64 << 10;

/// The record with the releases.
const RELEASED: &str = "released";

/// Writes releases into the records of a server.
pub(super) fn keep_releases(records: &Arc<dyn Records>) -> Keep {
    let records = records.clone();
    Box::new(move |releases| {
        let written = serde_json::to_vec(releases).map_err(io::Error::from)?;
        records.replace(RELEASED, &[&written])
    })
}

impl Server {
    /// The releases that were recorded before.
    pub(super) async fn recall_releases(&mut self) -> Result<(), JobError> {
        let records = self.parts.records.clone();
        let read = self.hand.work(move || records.read(RELEASED)).await?;
        let bytes = read.map_err(|error| self.unusable(RELEASED, error))?;
        let Some(bytes) = bytes else {
            return Ok(());
        };
        let kept: Vec<Release> = serde_json::from_slice(&bytes).map_err(|error| {
            self.unusable(
                RELEASED,
                format!(
                    "damaged: {error}. Restore it from a backup, or remove it: this server then does not know any more \
                     of which survivors it has opened results"
                ),
            )
        })?;
        let keep = keep_releases(&self.parts.records);
        // guard: servers-recall-what-they-opened
        self.releases = Releases::new(&self.parts.job, kept, keep);
        Ok(())
    }

    /// A round that asks this server's memory.
    pub(super) fn remembering(&self, round: Round, start: &pb::RoundStart) -> Round {
        let model = start
            .model
            .as_ref()
            // guard: models-are-known-by-what-parties-sign
            .and_then(|model| (model.hash.len() == 32).then(|| hex(&model.hash)));
        // A round whose hash has another length was refused.
        let model = model.unwrap_or_default();
        let guard = self.releases.guard(&round, model);
        round.with_releases(guard)
    }

    /// The round is over, with or without a result.
    pub(super) async fn over(&mut self, over: pb::RoundAborted) -> Result<(), JobError> {
        let (round, reason) = (over.round, foreign(&over.reason));
        info!(role = %self.parts.role, round, %reason, "round over");
        self.active.take_if(|active| active.round.number() == round);
        if !over.counted {
            return Ok(());
        }
        let (releases, job) = (self.releases.clone(), self.parts.job.clone());
        let forgotten = self
            .hand
            .work(move || releases.counted(&job, round))
            .await?;
        forgotten.map_err(|error| self.unusable(RELEASED, error))
    }

    /// This server opens no result of the round. Nobody is to blame: the coordinator is told which earlier result is in the
    /// way.
    pub(super) fn refuse_to_open(&mut self, number: u64, earlier: u64, reason: String) {
        let earlier = self.releases.of_round(earlier);
        let survivors = earlier.iter().flat_map(|it| it.survivors.iter().cloned());
        let survivors: Vec<String> = survivors.collect();
        let bytes: usize = survivors.iter().map(String::len).sum();
        self.refuse_with(pb::RoundRefused {
            round: number,
            code: RoundRefusalCode::RoundRefusalPolicy.into(),
            reason,
            released_round: earlier.map_or(0, |it| it.round),
            released: if bytes > MAX_NAMES {
                Vec::new()
            } else {
                survivors
            },
            ..pb::RoundRefused::default()
        });
    }
}
