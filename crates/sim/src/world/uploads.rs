//! What parties give servers directly, as the network does it: each attempt has a connection of its own, and a party
//! tries again until the server has said what becomes of its part, or the round is over for the party.

use std::collections::BTreeMap;

use blindsum_job::coordinator::Hold;
use blindsum_job::follower::{self, UploadId, Uploaded};
use blindsum_job::party;
use blindsum_protocol::ServerRole;
use bytes::Bytes;

use super::agenda::{Event, Micros};
use super::{Broken, World};

/// All uploads that are under way.
#[derive(Default)]
pub(super) struct Uploads {
    /// What each party tries to give each server.
    tried: BTreeMap<(usize, ServerRole), Upload>,
    /// Attempts that a server was handed and has not answered: whose they are, and for which round.
    waiting: BTreeMap<u64, ((usize, ServerRole), u64)>,
    /// The number of the latest attempt.
    latest: u64,
}

/// A party's part of an answer.
struct Upload {
    round: u64,
    message: Bytes,
    /// The attempt under way.
    attempt: u64,
}

impl World {
    /// A party has something for a server. Uploads of another round are of no use any more.
    pub(super) fn upload(
        &mut self,
        number: usize,
        role: ServerRole,
        (round, message): (u64, Bytes),
    ) -> Result<(), Broken> {
        let kept = self.book.uploads(number, role, round, &message);
        self.check(kept)?;
        self.give_up_uploads(number, |other| other != round);
        if let Some((round, message)) = self.perhaps_upload_other(number, (round, message)) {
            let upload = Upload {
                round,
                message,
                attempt: 0,
            };
            self.uploads.tried.insert((number, role), upload);
            self.try_upload((number, role), 0);
        }
        Ok(())
    }

    /// Begins another attempt after a while.
    fn try_upload(&mut self, of: (usize, ServerRole), pause: Micros) {
        let at = self.time + pause + self.delay();
        self.uploads.latest += 1;
        let attempt = self.uploads.latest;
        if let Some(upload) = self.uploads.tried.get_mut(&of) {
            upload.attempt = attempt;
            self.agenda.push(at, Event::Upload { attempt });
        }
    }

    /// Whose attempt this is, unless the party has given it up.
    fn trying(&self, attempt: u64) -> Option<(usize, ServerRole)> {
        let mut tried = self.uploads.tried.iter();
        tried.find_map(|(of, upload)| (upload.attempt == attempt).then_some(*of))
    }

    /// An attempt reaches its server. An earlier one of the party makes room for it.
    pub(super) fn upload_comes(&mut self, attempt: u64) -> Result<(), Broken> {
        let Some(of) = self.trying(attempt) else {
            return Ok(());
        };
        let (number, role) = of;
        if self.follower(role).is_none() || self.dice.chance(self.faults.cut) {
            self.answer_upload(attempt, None);
            return Ok(());
        }
        let earlier = self.uploads.waiting.iter();
        let earlier = earlier.filter(|(_, (whose, _))| *whose == of);
        for attempt in earlier.map(|(attempt, _)| *attempt).collect::<Vec<_>>() {
            self.upload_gone(attempt)?;
        }
        let (Some(upload), Some(party)) = (self.uploads.tried.get(&of), self.parties.get(number))
        else {
            return Ok(());
        };
        let (round, message) = (upload.round, upload.message.clone());
        let inputs = self.job.plan().answers().filter(|step| step.input);
        let limit = inputs.map(|step| step.largest).max().unwrap_or(0);
        if message.len() as u64 > limit {
            let reason = "longer than any honest one".to_owned();
            self.answer_upload(attempt, Some(Uploaded::Refused(reason)));
            return Ok(());
        }
        let name = party.name.to_string();
        self.uploads.waiting.insert(attempt, (of, round));
        // Nobody waits longer than a round may take to begin and to collect uploads.
        let until = self.time + (self.job.spec().input_deadline * 1e6) as Micros;
        self.agenda.push(until, Event::UploadGone { attempt });
        let input = follower::Input::Upload {
            id: UploadId(attempt),
            name,
            round,
            message,
            hold: Hold::default(),
        };
        self.hand_follower(role, input)
    }

    /// A server says what becomes of an upload.
    pub(super) fn upload_over(&mut self, id: UploadId, what: Uploaded) -> Result<(), Broken> {
        let Some(((_, role), round)) = self.uploads.waiting.remove(&id.0) else {
            return Ok(());
        };
        if what == Uploaded::Taken {
            self.note_taken(role, round)?;
        }
        let arrives = !self.dice.chance(self.faults.cut);
        self.answer_upload(id.0, Some(what).filter(|_| arrives));
        Ok(())
    }

    fn answer_upload(&mut self, attempt: u64, what: Option<Uploaded>) {
        let at = self.time + self.delay();
        self.agenda.push(at, Event::Uploaded { attempt, what });
    }

    /// Nobody waits any more for what becomes of an upload.
    pub(super) fn upload_gone(&mut self, attempt: u64) -> Result<(), Broken> {
        let Some(((_, role), _)) = self.uploads.waiting.remove(&attempt) else {
            return Ok(());
        };
        self.answer_upload(attempt, None);
        self.hand_follower(role, follower::Input::UploadGone(UploadId(attempt)))
    }

    /// A party hears what became of its attempt.
    pub(super) fn uploaded(&mut self, attempt: u64, what: Option<Uploaded>) -> Result<(), Broken> {
        let Some(of) = self.trying(attempt) else {
            return Ok(());
        };
        let Some(what) = what else {
            let pause = self.pause();
            self.try_upload(of, pause);
            return Ok(());
        };
        let (number, role) = of;
        let Some(Upload { round, .. }) = self.uploads.tried.remove(&of) else {
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
        self.hand_party(number, input)
    }

    /// A party gives up its uploads of some rounds. The servers notice in their own time.
    pub(super) fn give_up_uploads(&mut self, number: usize, of_round: impl Fn(u64) -> bool) {
        let given_up = self.uploads.tried.extract_if(.., |(party, _), upload| {
            *party == number && of_round(upload.round)
        });
        let attempts: Vec<u64> = given_up.map(|(_, upload)| upload.attempt).collect();
        for attempt in attempts {
            let at = self.time + self.notices();
            self.agenda.push(at, Event::UploadGone { attempt });
        }
    }

    /// The process of a server has ended: parties try again.
    pub(super) fn uploads_lost(&mut self, role: ServerRole) {
        let lost = self
            .uploads
            .waiting
            .extract_if(.., |_, ((_, at), _)| *at == role);
        for attempt in lost.map(|(attempt, _)| attempt).collect::<Vec<_>>() {
            self.answer_upload(attempt, None);
        }
    }
}
