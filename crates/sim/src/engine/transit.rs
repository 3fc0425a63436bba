//! What is on its way: frames on connections, letters on lines, uploads, and all else that is still to happen.

use blindsum_job::follower::Uploaded;
use blindsum_job::machine::Now;
use blindsum_job::pb::{CoordinatorFrame, PartyFrame};
use blindsum_protocol::{ServerIndex, ServerRole};
use bytes::Bytes;

use super::agenda::{Agenda, Event, Micros, Who};
use super::conditions::Conditions;
use super::lines::Lines;
use super::links::Links;
use super::uploads::Uploads;

/// What is on its way, and the time.
#[derive(Default)]
pub(crate) struct Transit {
    pub(super) agenda: Agenda,
    pub(super) links: Links,
    pub(super) lines: Lines,
    pub(super) uploads: Uploads,
}

impl Transit {
    /// The time.
    pub fn time(&self) -> Micros {
        self.agenda.time()
    }

    /// The time, as machines want to know it.
    pub fn now(&self) -> Now {
        self.agenda.now()
    }

    /// A machine is started after so long.
    pub fn start_after(&mut self, pause: Micros, who: Who) {
        self.agenda.after(pause, Event::Start(who));
    }

    /// A party, or another server, makes a connection after a while.
    pub(super) fn connect_later(&mut self, by: &mut impl Conditions, host: Who) {
        self.agenda.after(by.pause(), Event::Connect(host));
    }

    /// A connection breaks.
    pub fn cut(&mut self, by: &mut impl Conditions, link: u64, reason: &str) {
        self.links.cut(&mut self.agenda, by, link, reason);
    }

    /// The lines on which letters get through, by their ends.
    pub fn whole_lines(&self) -> Vec<(ServerIndex, ServerIndex)> {
        self.lines.whole()
    }

    /// A line between servers breaks.
    pub fn cut_line(&mut self, by: &mut impl Conditions, one: ServerIndex, other: ServerIndex) {
        self.lines.cut(&mut self.agenda, by, one, other);
    }

    /// A frame for the coordinator.
    pub(super) fn send_up(
        &mut self,
        by: &mut impl Conditions,
        link: Option<u64>,
        frame: PartyFrame,
    ) {
        self.links.send_up(&mut self.agenda, by, link, frame);
    }

    /// A frame of the coordinator.
    pub(super) fn send_down(
        &mut self,
        by: &mut impl Conditions,
        link: u64,
        frame: CoordinatorFrame,
    ) {
        self.links.send_down(&mut self.agenda, by, link, frame);
    }

    /// A letter from one server to another.
    pub(super) fn say(
        &mut self,
        by: &mut impl Conditions,
        way: (ServerIndex, ServerIndex),
        round: u64,
        letter: Bytes,
    ) {
        self.lines.say(&mut self.agenda, by, way, round, letter);
    }

    /// What becomes of an attempt to upload.
    pub(super) fn answer_upload(
        &mut self,
        by: &mut impl Conditions,
        attempt: u64,
        what: Option<Uploaded>,
    ) {
        self.uploads.answer(&mut self.agenda, by, attempt, what);
    }

    /// A party gives up its uploads of some rounds.
    pub(super) fn give_up_uploads(
        &mut self,
        by: &mut impl Conditions,
        number: usize,
        of_round: impl Fn(u64) -> bool,
    ) {
        self.uploads.give_up(&mut self.agenda, by, number, of_round);
    }

    /// The lines of a server end with its process.
    pub(super) fn end_lines(&mut self, by: &mut impl Conditions, of: ServerIndex) {
        self.lines.end(&mut self.agenda, by, of);
    }

    /// What a server has under way with others than the coordinator ends with its process.
    pub(super) fn silence(&mut self, by: &mut impl Conditions, role: ServerRole) {
        self.uploads.lost(&mut self.agenda, by, role);
        if let Some(place) = role.place() {
            self.end_lines(by, place);
        }
    }
}
