//! What parties give other servers, and what servers that compute together say to each other.

use std::collections::BTreeMap;

use blindsum_job::coordinator::{self, Hold};
use blindsum_job::follower::{self, UploadId, Uploaded};
use blindsum_job::party::{self, Say};
use blindsum_job::pb::CoordinatorFrame;
use blindsum_protocol::{ServerIndex, ServerRole};
use bytes::Bytes;

use super::Ensemble;
use crate::hosts::Machine;

/// A party's part of an answer on its way.
#[derive(Clone)]
pub struct Upload {
    /// Whose it is, and which life of its.
    party: (usize, u64),
    role: ServerRole,
    round: u64,
    message: Bytes,
}

pub enum Event {
    Upload(Upload),
    Uploaded(Upload, Uploaded),
    /// From one server to another.
    Letter(ServerIndex, ServerIndex, u64, Bytes),
}

/// What servers have said to each other one, by round.
#[derive(Default)]
pub struct Lines {
    /// How many letters.
    pub letters: BTreeMap<(ServerIndex, ServerIndex, u64), usize>,
    /// Of how many uploads they told.
    pub notices: BTreeMap<(ServerIndex, ServerIndex, u64), usize>,
    /// Between which two servers this is held back.
    pub holds_notices: Option<(ServerIndex, ServerIndex)>,
    held: Vec<Event>,
}

impl Ensemble {
    fn server_with(&self, role: ServerRole) -> usize {
        let is = |host: &super::Host| host.role == Some(role);
        self.hosts.iter().position(is).unwrap()
    }

    /// A party gives a server its part.
    pub(super) fn uploads_to(
        &mut self,
        number: usize,
        round: u64,
        role: ServerRole,
        message: Bytes,
    ) {
        let upload = Upload {
            party: (number, self.hosts[number].lives),
            role,
            round,
            message,
        };
        self.events
            .push_back(super::Event::Computing(Event::Upload(upload)));
    }

    /// A server says what became of an upload.
    pub(super) fn upload_over(&mut self, id: UploadId, what: Uploaded) {
        if let Some(upload) = self.uploads.remove(&id.0) {
            let event = Event::Uploaded(upload, what);
            self.events.push_back(super::Event::Computing(event));
        }
    }

    /// A server says something to another one.
    pub(super) fn says(&mut self, from: ServerIndex, to: ServerIndex, round: u64, letter: Bytes) {
        // Behind the version stands the stage: in that of the uploads servers tell of these, in any order and number.
        let said = match letter.get(1) {
            Some(0) => &mut self.lines.notices,
            _ => &mut self.lines.letters,
        };
        *said.entry((from, to, round)).or_default() += 1;
        let is_notice = letter.get(1) == Some(&0);
        let event = Event::Letter(from, to, round, letter);
        match is_notice && self.lines.holds_notices == Some((from, to)) {
            true => self.lines.held.push(event),
            false => self.events.push_back(super::Event::Computing(event)),
        }
    }

    /// The stage that a party is about to answer.
    pub fn answers_stage(&self, number: usize) -> Option<u8> {
        let link = self.hosts[number].link;
        let mut answers = self.events.iter().filter_map(|event| match event {
            super::Event::ToServer(from, Say::Message { stage, .. }) => {
                (Some(*from) == link).then_some(*stage)
            }
            _ => None,
        });
        answers.next()
    }

    /// Notices that were held back arrive.
    pub fn release_notices(&mut self) {
        self.lines.holds_notices = None;
        let held = self.lines.held.drain(..).map(super::Event::Computing);
        self.events.extend(held);
    }

    pub(super) fn compute(&mut self, event: Event) {
        match event {
            Event::Upload(upload) => self.upload(upload),
            Event::Uploaded(upload, what) => self.uploaded(upload, what),
            Event::Letter(from, to, round, letter) => match ServerRole::at(to) {
                None => {
                    let letter = coordinator::Input::Letter {
                        from,
                        round,
                        letter,
                    };
                    self.server.handle(self.now, letter);
                    self.serve();
                }
                Some(role) => self.give(self.server_with(role), |machine, now| {
                    let letter = follower::Input::Letter {
                        from,
                        round,
                        letter,
                    };
                    if let Machine::Server(server) = machine {
                        server.handle(now, letter);
                    }
                }),
            },
        }
    }

    /// A byte of what this party is about to tell the coordinator in a stage is turned. False if it tells nothing now.
    pub fn spoil_answer(&mut self, number: usize) -> bool {
        let link = self.hosts[number].link;
        let mut answers = self.events.iter_mut().filter_map(|event| match event {
            super::Event::ToServer(from, Say::Message { message, .. }) if Some(*from) == link => {
                Some(message)
            }
            _ => None,
        });
        let Some(message) = answers.next() else {
            return false;
        };
        let mut changed = message.to_vec();
        changed[34] ^= 1;
        *message = changed.into();
        true
    }

    /// A byte of what this party is about to give this server is turned. False if it gives nothing now.
    pub fn spoil_upload(&mut self, number: usize, of: ServerRole, at: usize) -> bool {
        let uploads = self.events.iter_mut().filter_map(|event| match event {
            super::Event::Computing(Event::Upload(upload)) => Some(upload),
            _ => None,
        });
        let mut its = uploads.filter(|upload| upload.party.0 == number && upload.role == of);
        let Some(upload) = its.next() else {
            return false;
        };
        let mut message = upload.message.to_vec();
        message[at] ^= 1;
        upload.message = message.into();
        true
    }

    /// What this party is about to give this server is refused. False if it gives nothing now.
    pub fn refuse_upload(&mut self, number: usize, of: ServerRole) -> bool {
        let is_its = |event: &super::Event| match event {
            super::Event::Computing(Event::Upload(upload)) => {
                upload.party.0 == number && upload.role == of
            }
            _ => false,
        };
        let place = self.events.iter().position(is_its);
        let event = place.and_then(|place| self.events.remove(place));
        let Some(super::Event::Computing(Event::Upload(upload))) = event else {
            return false;
        };
        let refused = Uploaded::Refused("the round is over here".into());
        let event = Event::Uploaded(upload, refused);
        self.events.push_back(super::Event::Computing(event));
        true
    }

    fn upload(&mut self, upload: Upload) {
        let (number, lives) = upload.party;
        let party = &self.hosts[number];
        if party.lives != lives || party.machine.is_none() {
            return;
        }
        let (name, server) = (party.name.clone(), self.server_with(upload.role));
        let takes = self.takes_no_uploads != Some(upload.role);
        if !takes || self.hosts[server].machine.is_none() {
            return self.happens_later(super::Event::Computing(Event::Upload(upload)));
        }
        self.latest_link += 1;
        let id = self.latest_link;
        let input = follower::Input::Upload {
            id: UploadId(id),
            name,
            round: upload.round,
            message: upload.message.clone(),
            hold: Hold::default(),
        };
        self.uploads.insert(id, upload);
        self.give(server, |machine, now| {
            if let Machine::Server(server) = machine {
                server.handle(now, input);
            }
        });
    }

    fn uploaded(&mut self, upload: Upload, what: Uploaded) {
        let Upload {
            party: (number, lives),
            role,
            round,
            ..
        } = upload;
        if self.hosts[number].lives != lives {
            return;
        }
        let input = match what {
            Uploaded::Taken => party::Input::Uploaded { round, role },
            Uploaded::Refused(reason) => party::Input::UploadRefused {
                round,
                role,
                reason,
            },
        };
        self.give(number, |machine, now| {
            if let Machine::Party(party) = machine {
                party.handle(now, input);
            }
        });
    }

    /// A host hears this over its connection, as if the coordinator had said it.
    pub fn say_to(&mut self, number: usize, frame: impl Into<CoordinatorFrame>) {
        let link = self.hosts[number].link.expect("the host is connected");
        self.frame_to(number, link, frame.into());
    }

    /// A host is killed: what it was given and has not answered is given again, and its lines are lost.
    pub(super) fn silence(&mut self, number: usize) {
        let Some(role) = self.hosts[number].role else {
            return;
        };
        let its = self.uploads.extract_if(.., |_, upload| upload.role == role);
        for (_, upload) in its.collect::<Vec<_>>() {
            self.happens_later(super::Event::Computing(Event::Upload(upload)));
        }
        if let Some(place) = role.place() {
            self.lose_lines(place);
        }
    }

    /// The lines of a server are lost, with all that is on its way over them.
    pub(super) fn lose_lines(&mut self, of: ServerIndex) {
        let is_its = |event: &super::Event| match event {
            super::Event::Computing(Event::Letter(from, to, ..)) => *from == of || *to == of,
            _ => false,
        };
        self.events.retain(|event| !is_its(event));
        for place in [of.next(), of.previous()] {
            let reason = "the server is gone".to_owned();
            match ServerRole::at(place) {
                None => {
                    let lost = coordinator::Input::LineLost { to: of, reason };
                    self.server.handle(self.now, lost);
                    self.serve();
                }
                Some(role) if self.job.servers().any(|needed| needed == role) => {
                    self.give(self.server_with(role), |machine, now| {
                        let lost = follower::Input::LineLost { to: of, reason };
                        if let Machine::Server(server) = machine {
                            server.handle(now, lost);
                        }
                    });
                }
                Some(_) => {}
            }
        }
    }
}
