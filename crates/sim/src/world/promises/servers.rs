//! What servers that compute together promise: P3, and P2 of the results that they learn themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_job::pb::party_frame::Frame;
use blindsum_job::pb::{self, PartyFrame};
use blindsum_job::records::Records;
use blindsum_job::released::Release;
use blindsum_job::report::RoundReport;
use blindsum_job::results::LearntResult;
use blindsum_protocol::{Job, ModelUpdate, ServerIndex, ServerRole};

use super::super::book::{Book, Kept, Spoken};
use super::super::plain::{Total, is_ruled};
use super::super::{Broken, Episode, Kind};
use crate::engine::{Engine, Who};

/// The record in which a server has the number of its latest round.
pub(in super::super) const LAST_ROUND: &str = "last-round";

/// The record in which a server has whose results it has opened.
const RELEASED: &str = "released";

/// What a server says to each other one in a round in which they add, at most: what it begins with, its list of uploads,
/// its part of the sum.
const LETTERS: u32 = 3;

impl Book {
    /// P3: no party gives a server two different parts for a round.
    pub fn uploads(&mut self, party: usize, to: ServerRole, round: u64, message: &[u8]) -> Kept {
        let hash = kdf::hash("uploaded", &[message]);
        let before = self
            .servers
            .uploaded
            .entry((party, round, to))
            .or_insert(hash);
        match *before == hash {
            true => Ok(()),
            false => Err(format!(
                "P3: party {party} gives the {to} two different uploads for round {round}"
            )),
        }
    }

    /// P2: what servers learn of a round that counts is the sum of what its survivors gave.
    fn learns(
        &mut self,
        job: &Arc<Job>,
        round: u64,
        survivors: &BTreeSet<usize>,
        learnt: &LearntResult,
    ) -> Kept {
        let unknown = |party: &usize| self.is_liar(*party) || self.is_exempt(*party, round);
        if survivors.iter().any(unknown) {
            return Ok(());
        }
        let survivors: Vec<usize> = survivors.iter().copied().collect();
        // No bound of such a job follows from a model.
        let of_rule = self.round_of(job, round, &survivors)?;
        let is_learnt = |total: &Total| {
            total.has_metrics(job, &learnt.metrics)
                && match &of_rule {
                    None => total.is_learnt_by(job, job.encoding(), learnt),
                    Some(round) => total.is_ruled(round, learnt.mean.iter().copied()),
                }
        };
        match self.adds_up(job, round, &survivors, is_learnt) {
            true => Ok(()),
            false => Err(format!(
                "P2: what servers learn of round {round} is not the sum of what the parties {survivors:?} gave"
            )),
        }
    }

    /// P3: a server takes uploads and says something in a round in one of its lives only.
    fn speaks(
        &mut self,
        from: ServerIndex,
        (round, epoch): (u64, u64),
        life: u32,
    ) -> Result<&mut Spoken, String> {
        let new = || Spoken {
            life,
            said: BTreeMap::new(),
            words: BTreeMap::new(),
        };
        let spoken = self
            .servers
            .spoken
            .entry((from, round, epoch))
            .or_insert_with(new);
        match spoken.life == life {
            true => Ok(spoken),
            false => Err(format!(
                "P3: {from} has a part in round {round} in its life {life}, and had one in its life {}",
                spoken.life
            )),
        }
    }
}

impl Episode {
    /// A server says something to another one.
    pub(in super::super) fn note_letter(
        &mut self,
        engine: &Engine,
        from: ServerIndex,
        to: ServerIndex,
        round: u64,
        letter: &[u8],
    ) -> Result<(), Broken> {
        let (life, epoch) = (engine.life_of(Who::at(from)), self.tally.restored);
        let ruled = is_ruled(self.setting.job.spec());
        // Behind the version stands the stage; that of uploads is the first.
        let tells_of_upload = letter.get(1) == Some(&0);
        let most = match tells_of_upload {
            true => self.setting.job.spec().parties,
            false => LETTERS,
        };
        let lies = self.setting.kind == Kind::LyingServer && from == ServerIndex::ALL[0];
        let kept = self
            .book
            .speaks(from, (round, epoch), life)
            .and_then(|spoken| {
                let said = spoken.said.entry((to, tells_of_upload)).or_default();
                *said += 1;
                match *said <= most || ruled || lies {
                    true => Ok(()),
                    false => Err(format!(
                        "P3: {from} says more to {to} in round {round} than there is to say"
                    )),
                }
            });
        self.check(engine, kept)
    }

    /// P3: a server takes part in a round once. It writes down the number of each before that. Gives whether it has written
    /// down instead that it opens a result.
    pub(in super::super) fn note_written(
        &mut self,
        engine: &Engine,
        role: ServerRole,
    ) -> Result<bool, Broken> {
        let epoch = self.tally.restored;
        let (Some(place), Some(server)) = (role.place(), self.servers.get_mut(&role)) else {
            return Ok(false);
        };
        let written = server.disk.written();
        if std::mem::replace(&mut server.written, written) == written {
            return Ok(false);
        }
        let record = server.disk.read(LAST_ROUND).ok().flatten();
        let number = record.and_then(|bytes| bytes.try_into().ok());
        let Some(round) = number.map(u64::from_be_bytes) else {
            return Err(self.broken(
                engine,
                format!("P3: the {role} writes down no number of a round"),
            ));
        };
        if std::mem::replace(&mut server.begun, round) == round {
            return self.note_released(engine, role);
        }
        let again = self
            .book
            .servers
            .spoken
            .contains_key(&(place, round, epoch));
        let life = engine.life_of(Who::Follower(role));
        let kept = match again {
            true => Err(format!(
                "P3: the {role} takes part in round {round} again, in its life {life}"
            )),
            false => self.book.speaks(place, (round, epoch), life).map(drop),
        };
        self.check(engine, kept).map(|()| false)
    }

    /// P1: no server opens two results of one model whose survivors differ by few parties, also in different lives.
    fn note_released(&mut self, engine: &Engine, role: ServerRole) -> Result<bool, Broken> {
        let Some(server) = self.servers.get(&role) else {
            return Ok(false);
        };
        let record = server.disk.read(RELEASED).ok().flatten();
        let releases = record.and_then(|bytes| serde_json::from_slice::<Vec<Release>>(&bytes).ok());
        let Some(releases) = releases else {
            return Err(self.broken(
                engine,
                format!("P1: the {role} writes down nothing of what it opens"),
            ));
        };
        // Rounds that ask for other vectors than the one before have no model to tell them by.
        let has_models = self.setting.job.spec().model_update != ModelUpdate::Nothing
            || self.setting.job.hides_sum();
        if self.setting.kind == Kind::Rollback || !has_models {
            return Ok(true);
        }
        let bound = self.setting.job.spec().corrupt_parties() + 2;
        let of_server = self.book.servers.released.entry(role).or_default();
        let new: Vec<Release> = (releases.into_iter())
            .filter(|release| !of_server.contains(release))
            .collect();
        let mut kept = Ok(());
        for release in new {
            let is_near = |earlier: &&Release| {
                let differ = earlier
                    .survivors
                    .symmetric_difference(&release.survivors)
                    .count();
                earlier.model == release.model && differ > 0 && differ < bound
            };
            if let Some(earlier) = of_server.iter().find(is_near) {
                kept = Err(format!(
                    "P1: the {role} opens the result of {:?} after that of {:?} from the same model",
                    release.survivors, earlier.survivors
                ));
            }
            of_server.push(release);
        }
        self.tally.releases += 1;
        self.check(engine, kept).map(|()| true)
    }

    /// A server takes an upload.
    pub(in super::super) fn note_taken(
        &mut self,
        engine: &Engine,
        role: ServerRole,
        round: u64,
    ) -> Result<(), Broken> {
        let Some(place) = role.place() else {
            return Ok(());
        };
        let (life, epoch) = (engine.life_of(Who::Follower(role)), self.tally.restored);
        let kept = self.book.speaks(place, (round, epoch), life).map(drop);
        self.check(engine, kept)
    }

    /// A server gives the coordinator its word, or says that it is in the round no more.
    pub(in super::super) fn note_word(
        &mut self,
        engine: &Engine,
        role: ServerRole,
        frame: &PartyFrame,
    ) -> Result<(), Broken> {
        let (chunk, place) = match (&frame.frame, role.place()) {
            (Some(Frame::Chunk(chunk)), Some(place)) => (chunk, place),
            (Some(Frame::RoundRefused(refused)), _) => {
                return self.is_excusable(engine, role, refused);
            }
            _ => return Ok(()),
        };
        let (life, epoch) = (engine.life_of(Who::Follower(role)), self.tally.restored);
        let hash = kdf::hash("said", &[&chunk.data]);
        let kept = self
            .book
            .speaks(place, (chunk.round, epoch), life)
            .and_then(
                |spoken| match *spoken.words.entry(chunk.stage).or_insert(hash) == hash {
                    true => Ok(()),
                    false => Err(format!(
                        "P3: {place} answers stage {} of round {} in two ways",
                        chunk.stage, chunk.round
                    )),
                },
            );
        self.check(engine, kept)
    }

    /// P2: no server says that somebody did what nobody honest does, where nobody lies. A round that has lost its root ends in
    /// the same way.
    fn is_excusable(
        &self,
        engine: &Engine,
        role: ServerRole,
        refused: &pb::RoundRefused,
    ) -> Result<(), Broken> {
        let honest = !matches!(self.setting.kind, Kind::Liar | Kind::LyingServer)
            && self.setting.job.spec().root().is_none();
        match honest && refused.code() == pb::RoundRefusalCode::RoundRefusalFault {
            true => Err(self.broken(
                engine,
                format!(
                    "P2: somebody honest is blamed by the {role}: {}",
                    refused.reason
                ),
            )),
            false => Ok(()),
        }
    }

    /// P2: nor does a coordinator that computes with others.
    pub(in super::super) fn is_nobody_blamed(
        &self,
        engine: &Engine,
        rounds: &[RoundReport],
    ) -> Result<(), Broken> {
        let honest = !matches!(self.setting.kind, Kind::Liar | Kind::LyingServer);
        let fault = rounds.iter().find_map(|report| report.faults.first());
        match fault.filter(|_| honest && !self.servers.is_empty()) {
            Some(fault) => {
                Err(self.broken(engine, format!("P2: somebody honest is blamed: {fault}")))
            }
            None => Ok(()),
        }
    }

    /// P2: a round that counts has the same result at all three servers, where they learn it: what its survivors gave adds up
    /// to that.
    pub(in super::super) fn note_learnt(
        &mut self,
        engine: &Engine,
        round: u64,
        survivors: &BTreeSet<usize>,
    ) -> Result<(), Broken> {
        if self.setting.job.hides_sum() || !self.learnt.is_unchecked(round, self.tally.restored) {
            return Ok(());
        }
        let mut known: Option<LearntResult> = None;
        for (place, learnt) in self.learnt.round(round) {
            let Some(learnt) = learnt else {
                let what = format!("P2: {place} has no result of round {round}, which counts");
                return Err(self.broken(engine, what));
            };
            if *known.get_or_insert_with(|| learnt.clone()) != learnt {
                let what =
                    format!("P2: {place} has another result of round {round} than the others");
                return Err(self.broken(engine, what));
            }
        }
        let job = self.setting.job.clone();
        let kept = known.map_or(Ok(()), |learnt| {
            self.book.learns(&job, round, survivors, &learnt)
        });
        self.check(engine, kept)
    }
}
