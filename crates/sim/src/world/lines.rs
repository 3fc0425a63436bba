//! The lines between servers that compute together, as the network has them: letters keep their order, take their time,
//! and are lost where a line breaks. The server with the higher place makes a line, and makes it again where it broke.
//! Letters that are said while it is not there wait for it; what waits when it breaks is dropped.

use std::collections::BTreeMap;

use blindsum_job::{coordinator, follower};
use blindsum_protocol::ServerIndex;
use bytes::Bytes;

use super::agenda::{Event, Micros, Who};
use super::{Broken, World};

/// All lines of a job.
#[derive(Default)]
pub(super) struct Lines {
    /// By the server that makes the line, and the other one.
    wires: BTreeMap<(ServerIndex, ServerIndex), Wire>,
    /// By the server that says something, and the one that hears it.
    sides: BTreeMap<(ServerIndex, ServerIndex), Side>,
}

/// Whether a line is there.
#[derive(Default)]
struct Wire {
    /// How often it was made.
    number: u32,
    /// Whether letters get through.
    whole: bool,
    /// Whether somebody is about to make it.
    is_dialled: bool,
}

/// What one server has of a line.
#[derive(Default)]
struct Side {
    /// Whether it thinks that the line is there.
    up: bool,
    /// When its latest letter arrives: none overtakes another.
    arrives: Micros,
    /// Letters that wait for the line, with their rounds.
    waiting: Vec<(u64, Bytes)>,
}

/// Who makes the line between two servers, and the other one.
fn ends(one: ServerIndex, other: ServerIndex) -> (ServerIndex, ServerIndex) {
    (one.max(other), one.min(other))
}

impl World {
    /// Whether servers compute together here.
    fn has_lines(&self) -> bool {
        !self.followers.is_empty()
    }

    /// A server was started: it makes its lines.
    pub(super) fn dial_from(&mut self, from: ServerIndex) {
        for to in ServerIndex::ALL.into_iter().filter(|to| *to < from) {
            self.dial_later(from, to);
        }
    }

    fn dial_later(&mut self, from: ServerIndex, to: ServerIndex) {
        let wire = self.lines.wires.entry((from, to)).or_default();
        if !std::mem::replace(&mut wire.is_dialled, true) {
            let at = self.time + self.pause();
            self.agenda.push(at, Event::Dial { from, to });
        }
    }

    /// A server makes a line, if there is somebody at the other end. That one may not have noticed yet that the line
    /// before it broke, and learns of it now.
    pub(super) fn dial(&mut self, from: ServerIndex, to: ServerIndex) -> Result<(), Broken> {
        let wire = self.lines.wires.entry((from, to)).or_default();
        wire.is_dialled = false;
        let number = wire.number;
        if self.lines.sides.entry((from, to)).or_default().up || self.is_over_at(from) {
            return Ok(());
        }
        self.line_lost(to, from, number)?;
        if !self.is_alive(Who::at(from)) || !self.is_alive(Who::at(to)) {
            if !self.is_over_at(to) {
                self.dial_later(from, to);
            }
            return Ok(());
        }
        let wire = self.lines.wires.entry((from, to)).or_default();
        wire.number += 1;
        wire.whole = true;
        for (me, other) in [(from, to), (to, from)] {
            let side = self.lines.sides.entry((me, other)).or_default();
            side.up = true;
            for (round, letter) in std::mem::take(&mut side.waiting) {
                self.send_letter(me, other, round, letter);
            }
        }
        Ok(())
    }

    /// Whether a server has heard that the job is done.
    fn is_over_at(&self, place: ServerIndex) -> bool {
        match Who::at(place) {
            Who::Follower(role) => self.followers.get(&role).is_some_and(|it| it.over),
            _ => false,
        }
    }

    /// A server says something to another one.
    pub(super) fn say_letter(
        &mut self,
        from: ServerIndex,
        to: ServerIndex,
        round: u64,
        letter: Bytes,
    ) -> Result<(), Broken> {
        self.note_letter(from, to, round, &letter)?;
        let side = self.lines.sides.entry((from, to)).or_default();
        match side.up {
            true => self.send_letter(from, to, round, letter),
            false => side.waiting.push((round, letter)),
        }
        Ok(())
    }

    fn send_letter(&mut self, from: ServerIndex, to: ServerIndex, round: u64, letter: Bytes) {
        let earliest = self.time + self.delay();
        let Some(wire) = self.lines.wires.get(&ends(from, to)).filter(|it| it.whole) else {
            return;
        };
        let side = self.lines.sides.entry((from, to)).or_default();
        side.arrives = side.arrives.max(earliest);
        let event = Event::Letter {
            from,
            to,
            line: wire.number,
            round,
            letter,
        };
        self.agenda.push(side.arrives, event);
    }

    /// A letter arrives, unless its line broke meanwhile.
    pub(super) fn letter(
        &mut self,
        (from, to): (ServerIndex, ServerIndex),
        line: u32,
        round: u64,
        letter: Bytes,
    ) -> Result<(), Broken> {
        let wire = self.lines.wires.get(&ends(from, to));
        if !wire.is_some_and(|wire| wire.whole && wire.number == line) {
            return Ok(());
        }
        match Who::at(to) {
            Who::Follower(role) => self.hand_follower(
                role,
                follower::Input::Letter {
                    from,
                    round,
                    letter,
                },
            ),
            _ => self.hand_server(coordinator::Input::Letter {
                from,
                round,
                letter,
            }),
        }
    }

    /// Now and then a line breaks.
    pub(super) fn perhaps_break_line(&mut self) {
        if !self.has_lines() || !self.dice.chance(self.faults.cut) {
            return;
        }
        let whole = self.lines.wires.iter().filter(|(_, wire)| wire.whole);
        let whole: Vec<_> = whole.map(|(ends, _)| *ends).collect();
        if let Some((one, other)) = self.dice.pick(&whole) {
            self.tally.cuts += 1;
            self.log(format!("the line from {one} to {other} breaks"));
            self.break_line(one, other);
        }
    }

    /// A line breaks. What is on its way is lost, and each end learns of it in its own time.
    fn break_line(&mut self, one: ServerIndex, other: ServerIndex) {
        let Some(wire) = self.lines.wires.get_mut(&ends(one, other)) else {
            return;
        };
        wire.whole = false;
        let line = wire.number;
        for (at, to) in [(one, other), (other, one)] {
            let notices = self.time + self.notices();
            self.agenda.push(notices, Event::LineEnds { at, to, line });
        }
    }

    /// The process of a server has ended, and its lines with it: only the others learn of that.
    pub(super) fn lines_end(&mut self, of: ServerIndex) {
        if !self.has_lines() {
            return;
        }
        for other in ServerIndex::ALL.into_iter().filter(|other| *other != of) {
            let side = self.lines.sides.entry((of, other)).or_default();
            *side = Side {
                arrives: side.arrives,
                ..Side::default()
            };
            self.break_line(of, other);
        }
    }

    /// A server learns that a line has broken: letters may be lost, and those that wait are of no use without them.
    pub(super) fn line_lost(
        &mut self,
        at: ServerIndex,
        to: ServerIndex,
        line: u32,
    ) -> Result<(), Broken> {
        let number = self.lines.wires.get(&ends(at, to)).map(|wire| wire.number);
        let side = self.lines.sides.entry((at, to)).or_default();
        if number != Some(line) || !std::mem::take(&mut side.up) {
            return Ok(());
        }
        side.waiting.clear();
        if at > to {
            self.dial_later(at, to);
        }
        let reason = "the connection broke".to_owned();
        match Who::at(at) {
            Who::Follower(role) => {
                self.hand_follower(role, follower::Input::LineLost { to, reason })
            }
            _ => self.hand_server(coordinator::Input::LineLost { to, reason }),
        }
    }
}
