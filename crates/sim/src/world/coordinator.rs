//! The coordinator of an episode, and its side of the connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use blindsum_job::coordinator::{
    Choice, CoordinatorMachine, Effect, Input, LinkId, MemoryShelves, Parts, Peer, Say, Settings,
};
use blindsum_job::frames::of_coordinator;
use blindsum_job::machine::Step;
use blindsum_job::pb::{self, CoordinatorFrame, PartyFrame};
use blindsum_job::report::{JobState, RoundReport, RoundState};
use blindsum_job::session::{Count, Session};
use blindsum_job::store::{MemoryStore, Store};
use blindsum_protocol::{FaultKind, ServerIndex};

use super::agenda::{Event, Who};
use super::book::Kept;
use super::{Broken, Kind, World};
use crate::seeds::seed_bytes;

/// How a coordinator of a campaign waits: shorter than in the world outside, so that an episode is short.
const SETTINGS: Settings = Settings {
    patience: Duration::from_secs(3600),
    reconnect_grace: Duration::from_secs(2),
    chunk_timeout: Duration::from_secs(5),
    failed_rounds: 40,
    choice: Choice::First,
    change: 1,
};

/// The coordinator, alive or not.
#[derive(Default)]
pub(super) struct Coordinator {
    pub machine: Option<CoordinatorMachine>,
    /// What outlives it, and backups of that from before each round.
    pub store: Option<Arc<MemoryStore>>,
    pub backups: Vec<MemoryStore>,
    pub life: u32,
    /// Whether it is to come back with a backup next.
    pub from_backup: bool,
    /// The connections that it knows of.
    pub links: BTreeMap<u64, Connection>,
}

/// The coordinator's side of one connection.
pub(super) struct Connection {
    pub host: Who,
    session: Session,
    /// Its frames, in place of their bytes.
    count: Arc<Count>,
}

impl Connection {
    /// A connection of somebody who was not heard yet.
    pub fn of(link: u64, host: Who, peer: Peer) -> Self {
        let count = Arc::<Count>::default();
        let peer = Peer {
            traffic: count.clone(),
            ..peer
        };
        Self {
            host,
            session: Session::new(LinkId(link), peer),
            count,
        }
    }

    /// Something comes that nobody sees but the network.
    pub fn came(&self) {
        self.count.came(1);
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
                let last = known.iter().map(|report| report.number).max();
                let done = known.iter().filter(|r| r.state == RoundState::Done);
                let done = done.map(|report| report.number).collect();
                self.book.forget_but(&done, last.unwrap_or(0));
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
            own: None,
            results: self.learnt.results(ServerIndex::ALL[0]),
            shelves: Arc::new(MemoryShelves),
            settings: SETTINGS,
            hosted: false,
        };
        self.open_leases();
        let number = u64::from(self.server.life);
        let entropy = seed_bytes("coordinator", &[self.seed, number]);
        let opened = CoordinatorMachine::open(parts, now, entropy);
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
        while let Some(step) = self
            .server
            .machine
            .as_mut()
            .and_then(CoordinatorMachine::poll)
        {
            if self.dice.chance(self.faults.kill) {
                self.kill(Who::Server);
                return Ok(());
            }
            match step {
                Step::Work(task) => {
                    self.back_up();
                    self.task_begins(Who::Server, task);
                }
                Step::Effect(effect) => self.carry_out_server(effect)?,
            }
        }
        let wake = self
            .server
            .machine
            .as_ref()
            .and_then(CoordinatorMachine::wake);
        self.wake_later(Who::Server, wake);
        Ok(())
    }

    fn carry_out_server(&mut self, effect: Effect) -> Result<(), Broken> {
        match effect {
            Effect::Admit(link) => self.admit(link.0)?,
            Effect::Refuse(link, refused) => self.last_word(link.0, refused, false),
            Effect::Send(link, say) => {
                let host = self.links.get(&link.0).map(|link| link.host);
                for frame in self.frames(say)? {
                    let frames = match host {
                        Some(Who::Follower(role)) => self.perhaps_mislead_follower(role, frame),
                        _ => self.perhaps_mislead(frame),
                    };
                    for frame in frames {
                        self.send_down(link.0, frame);
                    }
                }
            }
            Effect::Close(link, refused) | Effect::Cut(link, refused) => {
                self.last_word(link.0, refused, true);
            }
            Effect::Letter { to, round, letter } => {
                let letter = self.perhaps_mislead_server(letter);
                self.say_letter(ServerIndex::ALL[0], to, round, letter)?;
            }
            Effect::Lease(word) => {
                let now = self.now().time;
                if let Some(leases) = &mut self.membership.leases {
                    leases.carry_out(now, word);
                }
            }
            Effect::Over(Err(error)) if self.kind != Kind::LyingServer => {
                return Err(self.broken(format!("P5: the job fails: {error}")));
            }
            // Nobody gives orders.
            Effect::Ordered { .. }
            | Effect::Called { .. }
            | Effect::CallEnded { .. }
            | Effect::Over(_) => {}
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
        let connection = self.server.links.get_mut(&link);
        let waiting = connection.map(|connection| connection.session.admit());
        for frame in waiting.unwrap_or_default() {
            self.hear(link, frame)?;
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
        let host = self
            .server
            .links
            .get(&link)
            .map(|connection| connection.host);
        if let Some(host) = host {
            let at_host = Event::Ends {
                link,
                at: host,
                reason: reason.clone(),
            };
            self.agenda.push(at, at_host);
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

    /// A frame of a party, or of another server, reaches the coordinator.
    pub(super) fn at_server(&mut self, link: u64, frame: PartyFrame) -> Result<(), Broken> {
        if let Some(connection) = self.server.links.get(&link) {
            connection.count.came(1);
        }
        self.hear(link, frame)
    }

    fn hear(&mut self, link: u64, frame: PartyFrame) -> Result<(), Broken> {
        let (Some(machine), Some(connection)) =
            (&self.server.machine, self.server.links.get_mut(&link))
        else {
            return Ok(());
        };
        match connection.session.hear(&machine.gate(), frame) {
            Ok(None) => Ok(()),
            Ok(Some(input)) => self.hand_server(input),
            Err(refused) => {
                let known = connection.session.is_known();
                self.last_word(link, refused, known);
                Ok(())
            }
        }
    }

    /// What the coordinator says, as frames.
    fn frames(&self, say: Say) -> Result<Vec<CoordinatorFrame>, Broken> {
        of_coordinator(say).map_err(|error| self.broken(format!("what is passed on: {error}")))
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
        self.is_nobody_blamed(&rounds)?;
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
            let kept = self.book.counts(report.number, survivors.clone());
            self.check(kept)?;
            self.note_learnt(report.number, &survivors)?;
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
        // With another key than the others it need not have lied: it may have got it of somebody who did. And whoever shows
        // nothing may have been lost.
        let no_lies = [FaultKind::OtherKey, FaultKind::Unshown].map(|kind| kind.to_string());
        let mut before = rounds.iter().filter(|report| {
            let mut faults = report.faults.iter();
            faults.any(|fault| {
                fault.starts_with(&lied) && !no_lies.iter().any(|kind| fault.ends_with(kind))
            })
        });
        let least = self.job.least_roster();
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
        if let Some(connection) = self.server.links.get(&link) {
            connection.count.sent(1);
        }
    }
}
