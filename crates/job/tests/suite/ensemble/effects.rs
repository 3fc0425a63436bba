//! What parties and the other servers want done.

use std::sync::Arc;

use blindsum_job::JobError;
use blindsum_job::coordinator;
use blindsum_job::follower;
use blindsum_job::machine::Step;
use blindsum_job::party::{self, LinkId, Over, Say, Told, Update};
use blindsum_job::pb::RefusalCode;
use blindsum_job::pb::coordinator_frame::Frame as DownFrame;
use blindsum_job::pb::party_frame::Frame as UpFrame;
use blindsum_job::pb::{self, CoordinatorFrame, PartyFrame};
use blindsum_job::records::MemoryRecords;
use blindsum_job::report::{JobStatus, RoundReport};
use blindsum_job::store::Store;
use blindsum_protocol::{Job, PartyId, ServerRole};
use rand_core::Rng;

use super::{Ensemble, Event};
use crate::hosts::{DIM, Machine, update};

fn submitted(job: &Job, party: usize, round: u64) -> party::Input {
    let update = update(party, round);
    let update = match job.spec().encoding.integer_bits() {
        Some(_) => Update::U32(update),
        None => Update::F32(update.into_iter().map(|it| it as f32 / 1000.0).collect()),
    };
    let update = party::check_update(job, update, 1, &party::Metrics::new()).unwrap();
    party::Input::Submit { round, update }
}

/// Whether records have the machine of a round: it is in none before its vector is out.
fn keeps_machine(records: &MemoryRecords) -> bool {
    let records = records.snapshot();
    let mut states = records.iter().filter(|(name, _)| name.ends_with("/state"));
    states.any(|(_, state)| {
        let header = u64::from_le_bytes(state[..8].try_into().unwrap());
        state.len() as u64 > 8 + header
    })
}

/// Whether the round that a connection brought last only gives parties the key of the job.
fn brings_keys(brought: Option<&Vec<CoordinatorFrame>>) -> bool {
    let latest = brought.into_iter().flatten().rev();
    let latest = latest.into_iter().find_map(|frame| match &frame.frame {
        Some(DownFrame::RoundStart(start)) => Some(start.kind()),
        _ => None,
    });
    latest == Some(pb::RoundKind::KeySetup)
}

impl Ensemble {
    pub(super) fn frame_to(&mut self, host: usize, link: u64, mut frame: CoordinatorFrame) {
        if self.lies_of_version
            && self.hosts[host].role.is_some()
            && let Some(DownFrame::RoundStart(start)) = &mut frame.frame
            && let Some(model) = &mut start.model
        {
            model.version = start.round;
        }
        self.note_roster(host, &frame);
        self.give(host, |machine, now| match machine {
            Machine::Party(party) => party.handle(now, party::Input::Frame(LinkId(link), frame)),
            Machine::Server(server) => {
                server.handle(now, follower::Input::Frame(LinkId(link), frame));
            }
        });
    }

    /// Whether a party hears that a round begins, and accuses somebody in the place of taking part.
    pub(super) fn accuse(&mut self, link: u64, frame: &CoordinatorFrame) -> bool {
        let accused = self
            .links
            .get(&link)
            .and_then(|host| self.accuses.get(host));
        let (Some(accused), Some(DownFrame::RoundStart(start))) = (accused, &frame.frame) else {
            return false;
        };
        let refused = pb::RoundRefused {
            round: start.round,
            code: pb::RoundRefusalCode::RoundRefusalFault.into(),
            reason: "it lied".into(),
            accused: accused.clone(),
            ..pb::RoundRefused::default()
        };
        let refused = Event::ToServer(link, Say::Frame(refused.into()));
        self.events.push_back(refused);
        true
    }

    /// The coordinator forgets what was opened.
    pub fn forget_released(&mut self) {
        self.store.released(&self.job.spec().job, &[]).unwrap();
    }

    /// The connection of a host ends, if it has one.
    pub(super) fn cut(&mut self, number: usize) {
        if let Some(link) = self.hosts[number].link.take() {
            self.links.remove(&link);
            self.closed.remove(&link);
            let lost = coordinator::Input::Lost {
                link: coordinator::LinkId(link),
                reason: "lost".into(),
                returns: true,
            };
            self.server.handle(self.now, lost);
            self.serve();
        }
    }

    /// Does what a party wants done.
    pub(super) fn of_party(&mut self, number: usize, step: Step<party::Effect>) {
        let (now, job, host) = (self.now, &self.job, &mut self.hosts[number]);
        let Some(Machine::Party(machine)) = &mut host.machine else {
            return;
        };
        let effect = match step {
            Step::Effect(effect) => effect,
            Step::Work(task) => {
                let ticket = task.ticket;
                let (kept, charged) = (keeps_machine(&host.records), host.ledger.bytes().len());
                match &mut host.trouble.breaks_task {
                    Some(0) => {
                        host.trouble.breaks_task = None;
                        drop(task);
                    }
                    left => {
                        *left = left.map(|left| left - 1);
                        task.run();
                    }
                }
                if host.trouble.dies_sending && !kept && keeps_machine(&host.records) {
                    return self.kill(number);
                }
                if host.trouble.dies_charged && host.ledger.bytes().len() > charged {
                    return self.kill(number);
                }
                return machine.worked(now, ticket);
            }
        };
        match effect {
            party::Effect::Send(link, say) => {
                if let Say::Message { round, stage, .. } = &say
                    && self.job.plan().input_stage_of(PartyId(0)) == Some(*stage)
                    && !brings_keys(self.brought.get(&link.0))
                {
                    self.vectors.insert((number, *round));
                    if self.job.privacy().is_some() {
                        let sent = self.vectors.iter().filter(|(host, _)| *host == number);
                        assert!(
                            sent.count() as u64 <= host.charged(),
                            "not charged: {round}"
                        );
                    }
                }
                if let Say::Frame(PartyFrame { frame: Some(said) }) = &say {
                    let reason = match said {
                        UpFrame::RoundRefused(refused) => Some(&refused.reason),
                        UpFrame::Leaving(leaving) => Some(&leaving.reason),
                        _ => None,
                    };
                    let reason = reason.map(|reason| (number, reason.clone()));
                    self.reasons.extend(reason);
                }
                if let Say::Frame(PartyFrame {
                    frame: Some(UpFrame::NonceOpening(opening)),
                }) = &say
                {
                    let opened = (number, opening.nonce.clone());
                    let rosters = self.opened.entry(opened).or_default();
                    rosters.push(self.fixed[&number].clone());
                    if host.trouble.dies_opening {
                        return self.kill(number);
                    }
                }
                self.events.push_back(Event::ToServer(link.0, say));
            }
            party::Effect::Upload {
                round,
                role,
                message,
            } => self.uploads_to(number, round, role, message),
            party::Effect::Reconnect(link, _) => {
                if host.link == Some(link.0) {
                    self.cut(number);
                    self.connect_later(number);
                }
            }
            party::Effect::Tell(told) => match told {
                Told::Joined(_) | Told::Held(_) => {}
                Told::Round(begun) if begun.needs_update => {
                    host.trouble.owes = Some(begun.number);
                    if !host.trouble.waits {
                        machine.handle(now, submitted(job, number, begun.number));
                    }
                }
                Told::Round(_) => {}
                Told::Ended(_, Ok(_)) if std::mem::take(&mut host.trouble.dies_telling) => {
                    self.kill(number);
                }
                Told::Ended(round, Ok(result)) => {
                    host.results.insert(round, *result);
                    machine.handle(now, party::Input::Took(round));
                    machine.handle(now, party::Input::WantRound);
                }
                Told::Ended(_, Err(error)) | Told::Refused(error) => {
                    self.failures.push((host.name.to_string(), error));
                    machine.handle(now, party::Input::WantRound);
                }
                Told::Dropped(error) => panic!("{}: {error}", host.name),
                Told::Over(Over::JobDone { .. }) => host.over = true,
                Told::Over(Over::Left) => panic!("{} leaves", host.name),
                Told::Over(Over::Failed(
                    error @ (JobError::Policy(_)
                    | JobError::State { .. }
                    | JobError::System(_)
                    // The ensemble has one process of each party: a test has said so.
                    | JobError::Refused {
                        code: RefusalCode::RefusalReplaced,
                        ..
                    }),
                )) => {
                    host.over = true;
                    self.failures.push((host.name.clone(), error));
                    self.cut(number);
                }
                Told::Over(Over::Failed(error)) => panic!("{} fails: {error}", host.name),
            },
        }
    }

    /// The caller of a party gives the update that it owes.
    pub fn submit(&mut self, number: usize) {
        if let Some(round) = self.hosts[number].trouble.owes.take() {
            let job = self.job.clone();
            self.give(number, |machine, now| {
                if let Machine::Party(party) = machine {
                    party.handle(now, submitted(&job, number, round));
                }
            });
        }
    }

    /// All reports of rounds, the latest first.
    pub fn reports(&self) -> Vec<RoundReport> {
        self.store.rounds(&self.job.spec().job, u32::MAX).unwrap()
    }

    /// How the job stands at its coordinator.
    pub fn status(&self) -> Arc<JobStatus> {
        self.server.status()
    }

    /// A host that is over is started once more, with its records.
    pub fn start_again(&mut self, number: usize) {
        self.hosts[number].over = false;
        self.events.push_back(Event::Start(number));
    }

    /// Notes the roster that a host hears is fixed, whatever certificates its connection was sent already.
    pub(super) fn note_roster(&mut self, host: usize, frame: &CoordinatorFrame) {
        if let Some(DownFrame::RosterFixed(fixed)) = &frame.frame {
            let mut fixed = fixed.clone();
            fixed.certificates.clear();
            self.fixed.insert(host, fixed);
        }
    }

    /// Keeps what a connection brings, and brings something of it once more at times.
    pub(super) fn replay(&mut self, link: u64, frame: &CoordinatorFrame) {
        if matches!(frame.frame, Some(DownFrame::Refused(_))) {
            return;
        }
        self.brought.entry(link).or_default().push(frame.clone());
        if !self.chance(self.replay_one_in) {
            return;
        }
        let (brought, draw) = (&self.brought[&link], self.dice.next_u64());
        let older = brought[draw as usize % brought.len()].clone();
        if let Some(host) = self.links.get(&link).copied() {
            self.frame_to(host, link, older);
        }
    }

    /// The latest beginning of a round that a host's connection has brought.
    pub fn beginning(&self, number: usize) -> Option<pb::RoundStart> {
        let brought = self.brought.get(&self.hosts[number].link?)?;
        brought.iter().rev().find_map(|frame| match &frame.frame {
            Some(DownFrame::RoundStart(start)) => Some(start.clone()),
            _ => None,
        })
    }

    /// Whether a host's connection has brought anything.
    pub fn is_welcome(&self, number: usize) -> bool {
        self.hosts[number]
            .link
            .is_some_and(|link| self.brought.contains_key(&link))
    }

    /// Why a host is in a round no more, as the coordinator is about to hear it.
    pub fn refusals(&self, number: usize) -> Vec<pb::RoundRefused> {
        let link = self.hosts[number].link;
        let on_their_way = self.events.iter().filter_map(|event| match event {
            Event::ToServer(from, Say::Frame(said)) if Some(*from) == link => said.frame.clone(),
            _ => None,
        });
        let refusals = on_their_way.filter_map(|frame| match frame {
            UpFrame::RoundRefused(refused) => Some(refused),
            _ => None,
        });
        refusals.collect()
    }

    /// Does what another server wants done.
    pub(super) fn of_server(&mut self, number: usize, effect: follower::Effect) {
        let host = &mut self.hosts[number];
        match effect {
            follower::Effect::Send(link, say) => {
                self.events.push_back(Event::ToServer(link.0, say));
            }
            follower::Effect::Uploaded(id, what) => self.upload_over(id, what),
            follower::Effect::Letter { to, round, letter } => {
                let from = host.role.and_then(ServerRole::place);
                self.says(from.unwrap(), to, round, letter);
            }
            follower::Effect::Reconnect(link, _) => {
                if host.link == Some(link.0) {
                    self.cut(number);
                    self.connect_later(number);
                }
            }
            follower::Effect::Over(result) => {
                result.unwrap_or_else(|error| panic!("{} fails: {error}", host.name));
                host.over = true;
            }
        }
    }

    /// Every sum of integers is that of what its survivors gave, and the same for all who were told it.
    pub(super) fn check(&self) {
        let is_exact = self.job.spec().encoding.integer_bits().is_some();
        for host in self
            .hosts
            .iter()
            .filter(|_| is_exact && self.job.tells_parties())
        {
            for (round, result) in &host.results {
                let gave = |name: &String| {
                    let party = self.hosts.iter().position(|host| host.name == *name);
                    update(party.unwrap(), *round)
                };
                let gave: Vec<Vec<u32>> = result.survivors.iter().map(gave).collect();
                let sum = |d: usize| gave.iter().map(|update| u128::from(update[d])).sum();
                let sums: Vec<u128> = (0..DIM as usize).map(sum).collect();
                assert_eq!(*result.sums.as_ref().unwrap(), sums, "round {round}");
            }
        }
    }
}
