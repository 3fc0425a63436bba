//! What parties give servers directly, as the network does it: each attempt has a connection of its own, and a party
//! tries again until the server has said what becomes of its part, or the round is over for the party.

use std::collections::BTreeMap;

use blindsum_job::follower::Uploaded;
use blindsum_protocol::ServerRole;
use bytes::Bytes;

use super::Transit;
use crate::engine::conditions::Conditions;
use crate::engine::event::{Event, Micros};

/// Who gives something to whom.
type Way = (usize, ServerRole);

/// All uploads that are under way.
#[derive(Default)]
pub(super) struct Uploads {
    /// What each party tries to give each server.
    tried: BTreeMap<Way, Upload>,
    /// Attempts that a server was handed and has not answered: whose they are, and for which round.
    waiting: BTreeMap<u64, (Way, u64)>,
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

impl Transit {
    /// A party begins to give something to a server.
    pub fn begin_upload(
        &mut self,
        by: &mut impl Conditions,
        of: Way,
        (round, message): (u64, Bytes),
    ) {
        let upload = Upload {
            round,
            message,
            attempt: 0,
        };
        self.uploads.tried.insert(of, upload);
        self.upload_after(by, of, 0);
    }

    /// Begins another attempt after a while.
    pub fn upload_after(&mut self, by: &mut impl Conditions, of: Way, pause: Micros) {
        let after = pause + by.way();
        self.uploads.latest += 1;
        let attempt = self.uploads.latest;
        if let Some(upload) = self.uploads.tried.get_mut(&of) {
            upload.attempt = attempt;
            self.agenda.after(after, Event::Upload { attempt });
        }
    }

    /// Whose attempt this is, unless the party has given it up.
    pub fn upload_of(&self, attempt: u64) -> Option<Way> {
        let mut tried = self.uploads.tried.iter();
        tried.find_map(|(of, upload)| (upload.attempt == attempt).then_some(*of))
    }

    /// The round of what a party tries to give a server, and what it is.
    pub fn upload(&self, of: Way) -> Option<(u64, Bytes)> {
        let upload = self.uploads.tried.get(&of)?;
        Some((upload.round, upload.message.clone()))
    }

    /// Attempts of the same upload that the server has not answered.
    pub fn earlier_uploads(&self, of: Way) -> Vec<u64> {
        let waiting = self.uploads.waiting.iter();
        let earlier = waiting.filter(|(_, (whose, _))| *whose == of);
        earlier.map(|(attempt, _)| *attempt).collect()
    }

    /// A server is handed an attempt. Nobody waits for its answer longer than `most`.
    pub fn hand_upload(&mut self, attempt: u64, of: (Way, u64), most: Micros) {
        self.uploads.waiting.insert(attempt, of);
        self.agenda.after(most, Event::UploadGone { attempt });
    }

    /// A server says what becomes of an attempt, or nobody waits for it any more: whose it is, and for which round, where
    /// somebody did wait.
    pub fn end_upload(&mut self, attempt: u64) -> Option<(Way, u64)> {
        self.uploads.waiting.remove(&attempt)
    }

    /// What becomes of an attempt is on its way to the party.
    pub fn answer_upload(
        &mut self,
        by: &mut impl Conditions,
        attempt: u64,
        what: Option<Uploaded>,
    ) {
        self.agenda
            .after(by.way(), Event::Uploaded { attempt, what });
    }

    /// A party has given something: for which round.
    pub fn uploaded(&mut self, of: Way) -> Option<u64> {
        self.uploads.tried.remove(&of).map(|upload| upload.round)
    }

    /// A party gives up its uploads of some rounds. The servers notice in their own time.
    pub fn give_up_uploads(
        &mut self,
        by: &mut impl Conditions,
        number: usize,
        of_round: impl Fn(u64) -> bool,
    ) {
        let given_up = self.uploads.tried.extract_if(.., |(party, _), upload| {
            *party == number && of_round(upload.round)
        });
        for (_, Upload { attempt, .. }) in given_up {
            self.agenda
                .after(by.notice(), Event::UploadGone { attempt });
        }
    }

    /// What a server has under way with others than the coordinator ends with its process: parties try again.
    pub fn silence(&mut self, by: &mut impl Conditions, role: ServerRole) {
        let waiting = &mut self.uploads.waiting;
        for (attempt, _) in waiting.extract_if(.., |_, ((_, at), _)| *at == role) {
            let what = None;
            self.agenda
                .after(by.way(), Event::Uploaded { attempt, what });
        }
        if let Some(place) = role.place() {
            self.end_lines(by, place);
        }
    }
}
