//! One event after the other, each with all that it leads to at once.

use blindsum_job::coordinator::{self, Hold};
use blindsum_job::follower::{self, UploadId, Uploaded};
use blindsum_job::party::{self, LinkId};
use blindsum_job::pb::CoordinatorFrame;
use blindsum_protocol::ServerIndex;

use super::Engine;
use super::conditions::Conditions;
use super::coordinator::Lead;
use super::event::{Event, Micros, Who};
use super::parties::Party;
use super::transit::Connection;

/// What a connection to the coordinator tells.
enum News {
    Linked,
    Lost(String),
    Frame(CoordinatorFrame),
}

impl Engine {
    /// Lets the next thing happen. False where there is nothing more.
    ///
    /// # Errors
    /// What the conditions do not go on with.
    pub fn step<C: Conditions>(&mut self, by: &mut C) -> Result<bool, C::Broken> {
        let Some((at, event)) = self.transit.agenda.pop_if(Micros::MAX, |_| true) else {
            return Ok(false);
        };
        self.leases_until(by, at)?;
        self.transit.agenda.passes(at);
        self.steps += 1;
        self.happens(by, event)?;
        Ok(true)
    }

    fn happens<C: Conditions>(&mut self, by: &mut C, event: Event) -> Result<(), C::Broken> {
        match event {
            Event::AtServer { link, frame } => match self.transit.is_whole(link) {
                true => self.at_coordinator(by, link, frame),
                false => Ok(()),
            },
            Event::AtHost { link, frame } => self.at_host(by, link, frame),
            Event::Ends { link, at, reason } => self.link_ends(by, at, link, reason),
            Event::Connect(host) => self.connect(by, host),
            Event::TaskEnds { who, life } if self.lives(who, life) => match who {
                Who::Server => self.task_ends(by, Lead),
                Who::Party(number) => self.task_ends(by, Party(number)),
                Who::Follower(role) => self.task_ends(by, role),
            },
            Event::Wake { who, life } if self.lives(who, life) => {
                self.wakes.remove(&who);
                match who {
                    Who::Server => self.tick(by, Lead),
                    Who::Party(number) => self.tick(by, Party(number)),
                    Who::Follower(role) => self.tick(by, role),
                }
            }
            Event::TaskEnds { .. } | Event::Wake { .. } => Ok(()),
            Event::Start(Who::Server) => self.start(by, Lead),
            Event::Start(Who::Party(number)) => self.start(by, Party(number)),
            Event::Start(Who::Follower(role)) => self.start(by, role),
            Event::Errand {
                party,
                life,
                errand,
            } => {
                if self.lives(Who::Party(party), life) {
                    for input in by.runs_errand(self, party, errand)? {
                        self.hand(by, Party(party), input)?;
                    }
                }
                Ok(())
            }
            Event::Letter {
                from,
                to,
                line,
                round,
                letter,
            } => {
                if !self.transit.arrives(from, to, line) {
                    return Ok(());
                }
                match Who::at(to) {
                    Who::Follower(role) => {
                        let letter = follower::Input::Letter {
                            from,
                            round,
                            letter,
                        };
                        self.hand(by, role, letter)
                    }
                    _ => {
                        let letter = coordinator::Input::Letter {
                            from,
                            round,
                            letter,
                        };
                        self.hand(by, Lead, letter)
                    }
                }
            }
            Event::LineEnds { at, to, line } => self.line_lost(by, at, to, line),
            Event::Dial { from, to } => self.dial(by, from, to),
            Event::Upload { attempt } => self.upload_comes(by, attempt),
            Event::UploadGone { attempt } => self.upload_gone(by, attempt),
            Event::Uploaded { attempt, what } => self.uploaded(by, attempt, what),
        }
    }

    /// Whether this machine still lives the same life.
    fn lives(&self, who: Who, life: u32) -> bool {
        self.is_alive(who) && self.life_of(who) == life
    }

    /// A party, or another server, makes a connection, if it has none and there is somebody at the other end.
    fn connect<C: Conditions>(&mut self, by: &mut C, host: Who) -> Result<(), C::Broken> {
        if !self.is_alive(host) || self.link_of(host).is_some() {
            return Ok(());
        }
        if self.coordinator.machine.is_none() {
            self.transit.connect_later(by, host);
            return Ok(());
        }
        let peer = match host {
            Who::Server => None,
            Who::Party(number) => self.parties.get(number).map(|party| &party.peer),
            Who::Follower(role) => self.followers.get(&role).map(|server| &server.peer),
        };
        let Some(peer) = peer.cloned() else {
            return Ok(());
        };
        let link = self.transit.make_link(host);
        let connection = Connection::of(link, host, peer);
        self.coordinator.links.insert(link, connection);
        self.set_link(host, Some(link));
        self.hand_host(by, host, LinkId(link), News::Linked)
    }

    /// A host hears of its connection, where it lives, and does what follows.
    fn hand_host<C: Conditions>(
        &mut self,
        by: &mut C,
        host: Who,
        link: LinkId,
        news: News,
    ) -> Result<(), C::Broken> {
        match host {
            Who::Server => Ok(()),
            Who::Party(number) => {
                let input = match news {
                    News::Linked => party::Input::Linked(link),
                    News::Lost(reason) => party::Input::Lost(link, reason),
                    News::Frame(frame) => party::Input::Frame(link, frame),
                };
                self.hand(by, Party(number), input)
            }
            Who::Follower(role) => {
                let input = match news {
                    News::Linked => follower::Input::Linked(link),
                    News::Lost(reason) => follower::Input::Lost(link, reason),
                    News::Frame(frame) => follower::Input::Frame(link, frame),
                };
                self.hand(by, role, input)
            }
        }
    }

    /// A frame of the coordinator reaches its party, or its server.
    fn at_host<C: Conditions>(
        &mut self,
        by: &mut C,
        link: u64,
        frame: CoordinatorFrame,
    ) -> Result<(), C::Broken> {
        let whole = self.transit.is_whole(link);
        let Some(host) = self.transit.host(link).filter(|_| whole) else {
            return Ok(());
        };
        by.reaches(host, &frame);
        self.hand_host(by, host, LinkId(link), News::Frame(frame))
    }

    /// One side of a connection learns that it has ended, where it thinks that it has this one.
    fn link_ends<C: Conditions>(
        &mut self,
        by: &mut C,
        at: Who,
        link: u64,
        reason: String,
    ) -> Result<(), C::Broken> {
        if at == Who::Server {
            if self.coordinator.links.remove(&link).is_none() {
                return Ok(());
            }
            let lost = coordinator::Input::Lost {
                link: coordinator::LinkId(link),
                reason,
                returns: true,
            };
            return self.hand(by, Lead, lost);
        }
        if self.link_of(at) != Some(link) {
            return Ok(());
        }
        self.set_link(at, None);
        self.transit.connect_later(by, at);
        self.hand_host(by, at, LinkId(link), News::Lost(reason))
    }

    /// A server makes a line, if there is somebody at the other end. That one may not have noticed yet that the line
    /// before it broke, and learns of it now.
    fn dial<C: Conditions>(
        &mut self,
        by: &mut C,
        from: ServerIndex,
        to: ServerIndex,
    ) -> Result<(), C::Broken> {
        let is_over = |engine: &Self, place| match Who::at(place) {
            Who::Follower(role) => engine.followers.get(&role).is_some_and(|it| it.over),
            _ => false,
        };
        let Some(number) = self.transit.dialled(from, to) else {
            return Ok(());
        };
        if is_over(self, from) {
            return Ok(());
        }
        self.line_lost(by, to, from, number)?;
        let both_live = self.is_alive(Who::at(from)) && self.is_alive(Who::at(to));
        let is_over = is_over(self, to);
        match both_live {
            true => self.transit.join(by, from, to),
            false if is_over => {}
            false => self.transit.dial_later(by, from, to),
        }
        Ok(())
    }

    /// A server learns that a line has broken.
    fn line_lost<C: Conditions>(
        &mut self,
        by: &mut C,
        at: ServerIndex,
        to: ServerIndex,
        line: u32,
    ) -> Result<(), C::Broken> {
        if !self.transit.loses_line(by, (at, to), line) {
            return Ok(());
        }
        let reason = "the connection broke".to_owned();
        match Who::at(at) {
            Who::Follower(role) => self.hand(by, role, follower::Input::LineLost { to, reason }),
            _ => self.hand(by, Lead, coordinator::Input::LineLost { to, reason }),
        }
    }

    /// An attempt to upload reaches its server. An earlier one of the party makes room for it.
    fn upload_comes<C: Conditions>(&mut self, by: &mut C, attempt: u64) -> Result<(), C::Broken> {
        let Some(of) = self.transit.upload_of(attempt) else {
            return Ok(());
        };
        let (number, role) = of;
        let server = self.followers.get(&role);
        let runs = server.is_some_and(|server| server.machine.is_some());
        if !runs || by.loses_upload() {
            self.transit.answer_upload(by, attempt, None);
            return Ok(());
        }
        for earlier in self.transit.earlier_uploads(of) {
            self.upload_gone(by, earlier)?;
        }
        let content = self.transit.upload(of);
        let (Some((round, message)), Some(party)) = (content, self.parties.get(number)) else {
            return Ok(());
        };
        let inputs = self.job.plan().answers().filter(|step| step.input);
        let limit = inputs.map(|step| step.largest).max().unwrap_or(0);
        if message.len() as u64 > limit {
            let refused = Uploaded::Refused("longer than any honest one".to_owned());
            self.transit.answer_upload(by, attempt, Some(refused));
            return Ok(());
        }
        let input = follower::Input::Upload {
            id: UploadId(attempt),
            name: party.peer.name.to_string(),
            round,
            message,
            hold: Hold::default(),
        };
        // Nobody waits longer than a round may take to begin and to collect uploads.
        let most = (self.job.spec().input_deadline * 1e6) as Micros;
        self.transit.hand_upload(attempt, (of, round), most);
        self.hand(by, role, input)
    }

    /// Nobody waits any more for what becomes of an upload.
    fn upload_gone<C: Conditions>(&mut self, by: &mut C, attempt: u64) -> Result<(), C::Broken> {
        let Some(((_, role), _)) = self.transit.end_upload(attempt) else {
            return Ok(());
        };
        self.transit.answer_upload(by, attempt, None);
        let gone = follower::Input::UploadGone(UploadId(attempt));
        self.hand(by, role, gone)
    }

    /// A party hears what became of its attempt.
    fn uploaded<C: Conditions>(
        &mut self,
        by: &mut C,
        attempt: u64,
        what: Option<Uploaded>,
    ) -> Result<(), C::Broken> {
        let Some(of) = self.transit.upload_of(attempt) else {
            return Ok(());
        };
        let Some(what) = what else {
            let pause = by.pause();
            self.transit.upload_after(by, of, pause);
            return Ok(());
        };
        let (number, role) = of;
        let Some(round) = self.transit.uploaded(of) else {
            return Ok(());
        };
        let input = match what {
            Uploaded::Taken => party::Input::Uploaded { round, role },
            Uploaded::Refused(reason) => party::Input::UploadRefused {
                round,
                role,
                reason,
            },
        };
        self.hand(by, Party(number), input)
    }
}
