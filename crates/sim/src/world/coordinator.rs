//! The coordinator of an episode, and its side of the connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use blindsum_job::chunks::{Assembly, Pushed, pieces};
use blindsum_job::pb::party_frame::Frame;
use blindsum_job::pb::{self, CoordinatorFrame, PartyFrame, RefusalCode};
use blindsum_job::report::{JobState, RoundReport, RoundState};
use blindsum_job::server::{
    Effect, Hold, Input, JobServer, LinkId, MemoryShelves, Parts, Peer, Say, Settings, Traffic,
};
use blindsum_job::store::{MemoryStore, Store};

use super::agenda::{Event, Who};
use super::promises::Kept;
use super::{Broken, Kind, World};
use crate::seeds::seed_bytes;

/// How a coordinator of a campaign waits: shorter than in the world outside, so that an episode is short.
const SETTINGS: Settings = Settings {
    patience: Duration::from_secs(3600),
    reconnect_grace: Duration::from_secs(2),
    chunk_timeout: Duration::from_secs(5),
    failed_rounds: 40,
};

/// The coordinator, alive or not.
#[derive(Default)]
pub(super) struct Coordinator {
    pub machine: Option<JobServer>,
    /// What outlives it, and backups of that from before each round.
    pub store: Option<Arc<MemoryStore>>,
    pub backups: Vec<MemoryStore>,
    pub life: u32,
    /// Whether it is to come back with a backup next.
    pub from_backup: bool,
    /// The connections that it knows of.
    pub links: BTreeMap<u64, Session>,
}

/// The coordinator's side of one connection.
pub(super) struct Session {
    pub party: usize,
    traffic: Arc<Count>,
    /// Whether the job has let the party in. What it says before waits.
    admitted: bool,
    waiting: Vec<PartyFrame>,
    /// A message that is being put together, of this round and stage.
    message: Option<((u64, u32), Assembly)>,
}

/// The frames of a connection, in place of its bytes.
#[derive(Default)]
struct Count {
    read: AtomicU64,
    written: AtomicU64,
}

impl Traffic for Count {
    fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl Session {
    pub fn of(party: usize) -> Self {
        Self {
            party,
            traffic: Arc::default(),
            admitted: false,
            waiting: Vec::new(),
            message: None,
        }
    }
}

impl World {
    pub(super) fn start_server(&mut self) -> Result<(), Broken> {
        let now = self.now();
        self.server.life += 1;
        // Where only the parties have the model, a coordinator of an earlier time cannot go on; nor where parties have
        // left because the job was done.
        let left = self.parties.iter().any(|party| party.over);
        let may_be = self.server.life > 1 && !self.job.hides_sum() && !left;
        let drawn = self.dice.chance(self.faults.restored);
        let meant = std::mem::take(&mut self.server.from_backup);
        if may_be && (drawn || meant) {
            let back = 1 + self.dice.below(3) as usize;
            let at = self.server.backups.len().saturating_sub(back);
            if let Some(backup) = self.server.backups.get(at) {
                let store = backup.snapshot();
                self.server.backups.truncate(at + 1);
                let known = store.rounds(&self.job.spec().job, u32::MAX);
                let known = known.unwrap_or_default();
                let done = known.iter().filter(|r| r.state == RoundState::Done);
                self.book
                    .forget_but(&done.map(|report| report.number).collect());
                self.server.store = Some(Arc::new(store));
                self.tally.restored += 1;
                self.log("the coordinator comes back with a store of an earlier time".into());
            }
        }
        let store = self
            .server
            .store
            .get_or_insert_with(|| Arc::new(MemoryStore::new(3)))
            .clone();
        let parts = Parts {
            job: self.job.clone(),
            initial: None,
            store,
            anchor: self.anchor.clone(),
            shelves: Arc::new(MemoryShelves),
            settings: SETTINGS,
        };
        let number = u64::from(self.server.life);
        let entropy = seed_bytes("coordinator", &[self.seed, number]);
        let opened = JobServer::open(parts, now, entropy);
        let machine = opened.map_err(|e| self.broken(format!("P6: the coordinator: {e}")))?;
        self.server.machine = Some(machine);
        self.note_rounds()?;
        self.serve_coordinator()
    }

    pub(super) fn hand_server(&mut self, input: Input) -> Result<(), Broken> {
        let now = self.now();
        if let Some(machine) = &mut self.server.machine {
            machine.handle(now, input);
        }
        self.serve_coordinator()
    }

    /// Does what the coordinator wants done, unless it is killed before.
    pub(super) fn serve_coordinator(&mut self) -> Result<(), Broken> {
        while let Some(effect) = self.server.machine.as_mut().and_then(JobServer::poll) {
            if self.dice.chance(self.faults.kill) {
                self.kill(Who::Server);
                return Ok(());
            }
            self.carry_out_server(effect)?;
        }
        let wake = self.server.machine.as_ref().and_then(JobServer::wake);
        self.wake_later(Who::Server, wake);
        Ok(())
    }

    fn carry_out_server(&mut self, effect: Effect) -> Result<(), Broken> {
        match effect {
            Effect::Work(task) => {
                self.back_up();
                self.task_begins(Who::Server, task);
            }
            Effect::Admit(link) => self.admit(link.0)?,
            Effect::Refuse(link, refused) => self.last_word(link.0, refused, false),
            Effect::Send(link, say) => {
                for frame in self.frames(say)? {
                    for frame in self.perhaps_mislead(frame) {
                        self.send_down(link.0, frame);
                    }
                }
            }
            Effect::Close(link, refused) | Effect::Cut(link, refused) => {
                self.last_word(link.0, refused, true);
            }
            Effect::Over(Err(error)) if self.kind != Kind::LyingServer => {
                return Err(self.broken(format!("P5: the job fails: {error}")));
            }
            Effect::Over(_) => {}
        }
        Ok(())
    }

    /// Keeps a copy of the store now and then, where it may be needed.
    fn back_up(&mut self) {
        if self.faults.restored > 0.0
            && self.dice.chance(0.1)
            && let Some(store) = &self.server.store
        {
            self.server.backups.push(store.snapshot());
        }
    }

    fn admit(&mut self, link: u64) -> Result<(), Broken> {
        let Some(session) = self.server.links.get_mut(&link) else {
            return Ok(());
        };
        session.admitted = true;
        for frame in std::mem::take(&mut session.waiting) {
            self.at_server(link, frame)?;
        }
        Ok(())
    }

    /// The last word on a connection, after which it ends. `known` says whether the job knows of it.
    fn last_word(&mut self, link: u64, refused: pb::Refused, known: bool) {
        let reason = refused.reason.clone();
        self.log(format!("link {link} is ended by the coordinator: {reason}"));
        self.send_down(link, refused.into());
        let at = self.latest_down(link);
        let reason = "the coordinator closed the connection".to_owned();
        let party = self.server.links.get(&link).map(|session| session.party);
        if let Some(party) = party {
            let at_party = Event::Ends {
                link,
                at: Who::Party(party),
                reason: reason.clone(),
            };
            self.agenda.push(at, at_party);
        }
        match known {
            true => self.agenda.push(
                self.time,
                Event::Ends {
                    link,
                    at: Who::Server,
                    reason,
                },
            ),
            false => drop(self.server.links.remove(&link)),
        }
    }

    /// A frame of a party reaches the coordinator.
    pub(super) fn at_server(&mut self, link: u64, frame: PartyFrame) -> Result<(), Broken> {
        if self.server.machine.is_none() {
            return Ok(());
        }
        let Some(session) = self.server.links.get_mut(&link) else {
            return Ok(());
        };
        session.traffic.read.fetch_add(1, Ordering::Relaxed);
        let number = session.party;
        if !session.admitted {
            match frame.frame {
                Some(Frame::Hello(hello)) if session.waiting.is_empty() => {
                    let Some(party) = self.parties.get(number) else {
                        return Ok(());
                    };
                    if hello.name != *party.name {
                        let refused = refused("the name is another one");
                        self.last_word(link, refused, false);
                        return Ok(());
                    }
                    let peer = Peer {
                        name: party.name.clone(),
                        role: None,
                        address: format!("party {number}"),
                        certificate: party.certificate.clone(),
                        key: party.identity.key.verifying_key().clone(),
                        traffic: session.traffic.clone(),
                    };
                    let link = LinkId(link);
                    return self.hand_server(Input::Connected { link, peer, hello });
                }
                _ => session.waiting.push(frame),
            }
            return Ok(());
        }
        match frame.frame {
            Some(Frame::Chunk(chunk)) => self.chunk(link, chunk),
            Some(Frame::Hello(_)) | None => {
                self.last_word(link, refused("not now"), true);
                Ok(())
            }
            Some(frame) => self.hand_server(Input::Frame {
                link: LinkId(link),
                frame,
            }),
        }
    }

    /// A piece of an answer, which the gate lets in or not.
    fn chunk(&mut self, link: u64, chunk: pb::Chunk) -> Result<(), Broken> {
        let (Some(machine), Some(session)) =
            (&self.server.machine, self.server.links.get_mut(&link))
        else {
            return Ok(());
        };
        let Some(party) = self.parties.get(session.party) else {
            return Ok(());
        };
        let place = (chunk.round, chunk.stage);
        let limit = match machine.gate().judge(&party.name, place) {
            Ok(Some(limit)) => limit,
            Ok(None) => return Ok(()),
            Err(reason) => {
                self.last_word(link, refused(&reason), true);
                return Ok(());
            }
        };
        let assembly = match session.message.take() {
            Some((known, assembly)) if known == place => Ok(assembly),
            _ => Assembly::begin(chunk.total, limit),
        };
        let pushed =
            assembly.and_then(|assembly| assembly.push(chunk.offset, chunk.total, chunk.data));
        match pushed {
            Ok(Pushed::Part(assembly)) => session.message = Some((place, assembly)),
            Ok(Pushed::Whole(message)) => {
                let (link, round, hold) = (LinkId(link), place.0, Hold::default());
                return self.hand_server(Input::Answer {
                    link,
                    round,
                    message,
                    hold,
                });
            }
            Err(error) => self.last_word(link, refused(&error.to_string()), true),
        }
        Ok(())
    }

    /// What the coordinator says, as frames.
    fn frames(&mut self, say: Say) -> Result<Vec<CoordinatorFrame>, Broken> {
        let (round, stage, content) = match say {
            Say::Frame(frame) => return Ok(vec![frame]),
            Say::Model { version, values } => {
                let total = values.len() as u64;
                let chunk = |(offset, data)| pb::ModelChunk {
                    version,
                    offset,
                    total,
                    data,
                };
                return Ok(pieces(values).map(|piece| chunk(piece).into()).collect());
            }
            Say::Message {
                round,
                stage,
                content,
            } => (round, stage, content),
        };
        let whole = content.whole();
        let whole = whole.map_err(|e| self.broken(format!("what is passed on: {e}")))?;
        let message = whole.unwrap_or_default();
        let total = message.len() as u64;
        let chunk = |(offset, data)| pb::Chunk {
            round,
            stage: stage.into(),
            offset,
            total,
            data,
        };
        Ok(pieces(message).map(|piece| chunk(piece).into()).collect())
    }

    /// What the store says of rounds that are over.
    pub(super) fn note_rounds(&mut self) -> Result<(), Broken> {
        // Nobody has a promise from a coordinator that lies.
        let honest = self.kind != Kind::LyingServer;
        let Some(store) = self.server.store.clone().filter(|_| honest) else {
            return Ok(());
        };
        let name = self.job.spec().job.clone();
        let rounds = store.rounds(&name, 4);
        let rounds = rounds.map_err(|e| self.broken(e.to_string()))?;
        let mut claims = rounds.iter().flat_map(|report| &report.faults);
        self.claimed |= claims.any(|fault| fault.contains(" accuses "));
        let kept = self.liar_sits_out(&rounds);
        self.check(kept)?;
        for report in rounds {
            if report.state == RoundState::Aborted && self.kind == Kind::Liar {
                self.spoilt.insert(report.number);
            }
            if report.state != RoundState::Done || report.key_setup {
                continue;
            }
            let number_of = |name: &String| {
                let mut parties = self.parties.iter();
                parties.position(|party| *party.name == **name)
            };
            let survivors: BTreeSet<usize> =
                report.survivors.iter().filter_map(number_of).collect();
            let kept = self.book.counts(report.number, survivors);
            self.check(kept)?;
        }
        if let Some((JobState::Failed, reason)) = store.state(&name) {
            return Err(self.broken(format!("P5: the job has failed: {reason}")));
        }
        Ok(())
    }

    /// P5: who was shown to lie takes no part in the next round, where there are enough others. It is looked at as long as
    /// nobody is accused by another party: these two are kept apart besides.
    fn liar_sits_out(&self, rounds: &[RoundReport]) -> Kept {
        let Some(liar) = self.liar.and_then(|liar| self.parties.get(liar)) else {
            return Ok(());
        };
        let (name, lied) = (&*liar.name, format!("{}: ", liar.name));
        let mut before = rounds.iter().filter(|report| {
            let mut faults = report.faults.iter();
            faults.any(|fault| fault.starts_with(&lied))
        });
        let least = self.job.min_parties();
        let again = before.find_map(|report| {
            let next = rounds
                .iter()
                .find(|next| next.number == report.number + 1)?;
            let takes_part = next.parties.iter().any(|party| party == name);
            (takes_part && next.parties.len() > least).then_some(next.number)
        });
        match again.filter(|_| !self.claimed) {
            None => Ok(()),
            Some(round) => Err(format!(
                "P5: {name} was shown to lie in the round before {round}, and takes part in it"
            )),
        }
    }

    /// The coordinator's side of a connection has ended.
    pub(super) fn lost_at_server(&mut self, link: u64, reason: String) -> Result<(), Broken> {
        if self.server.links.remove(&link).is_none() {
            return Ok(());
        }
        let returns = true;
        self.hand_server(Input::Lost {
            link: LinkId(link),
            reason,
            returns,
        })
    }

    pub(super) fn sent_down(&self, link: u64) {
        if let Some(session) = self.server.links.get(&link) {
            session.traffic.written.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn refused(reason: &str) -> pb::Refused {
    pb::Refused {
        code: RefusalCode::RefusalBadFrame.into(),
        reason: reason.into(),
        ..pb::Refused::default()
    }
}
