//! The lines between servers that compute together, as the network has them: letters keep their order, take their time,
//! and are lost where a line breaks. The server with the higher place makes a line, and makes it again where it broke.
//! Letters that are said while it is not there wait for it; what waits when it breaks is dropped.

use std::collections::BTreeMap;

use blindsum_protocol::ServerIndex;
use bytes::Bytes;

use super::Transit;
use crate::engine::conditions::Conditions;
use crate::engine::event::{Event, Micros};

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

impl Lines {
    fn wire(&mut self, from: ServerIndex, to: ServerIndex) -> &mut Wire {
        self.wires.entry((from, to)).or_default()
    }

    fn side(&mut self, me: ServerIndex, other: ServerIndex) -> &mut Side {
        self.sides.entry((me, other)).or_default()
    }
}

impl Transit {
    /// A server was started: it makes its lines.
    pub fn dial_from(&mut self, by: &mut impl Conditions, from: ServerIndex) {
        for to in ServerIndex::ALL.into_iter().filter(|to| *to < from) {
            self.dial_later(by, from, to);
        }
    }

    /// A server makes a line after a while.
    pub fn dial_later(&mut self, by: &mut impl Conditions, from: ServerIndex, to: ServerIndex) {
        let wire = self.lines.wire(from, to);
        if !std::mem::replace(&mut wire.is_dialled, true) {
            self.agenda.after(by.pause(), Event::Dial { from, to });
        }
    }

    /// A server is about to make a line: the number of the one before, if the server does not think that it is there.
    pub fn dialled(&mut self, from: ServerIndex, to: ServerIndex) -> Option<u32> {
        let wire = self.lines.wire(from, to);
        wire.is_dialled = false;
        let number = wire.number;
        (!self.lines.side(from, to).up).then_some(number)
    }

    /// A line is made: what waited for it goes out.
    pub fn join(&mut self, by: &mut impl Conditions, from: ServerIndex, to: ServerIndex) {
        let wire = self.lines.wire(from, to);
        wire.number += 1;
        wire.whole = true;
        for (me, other) in [(from, to), (to, from)] {
            let side = self.lines.side(me, other);
            side.up = true;
            for (round, letter) in std::mem::take(&mut side.waiting) {
                self.say(by, (me, other), round, letter);
            }
        }
    }

    /// A server says something to another one.
    pub fn say(
        &mut self,
        by: &mut impl Conditions,
        (from, to): (ServerIndex, ServerIndex),
        round: u64,
        letter: Bytes,
    ) {
        let side = self.lines.side(from, to);
        if !side.up {
            return side.waiting.push((round, letter));
        }
        let earliest = self.time() + by.way();
        let wire = self.lines.wires.get(&ends(from, to));
        let Some(line) = wire.filter(|it| it.whole).map(|it| it.number) else {
            return;
        };
        let side = self.lines.side(from, to);
        side.arrives = side.arrives.max(earliest);
        let (at, event) = (
            side.arrives,
            Event::Letter {
                from,
                to,
                line,
                round,
                letter,
            },
        );
        self.agenda.at(at, event);
    }

    /// Whether a letter that was said on this line arrives.
    pub fn arrives(&self, from: ServerIndex, to: ServerIndex, line: u32) -> bool {
        let wire = self.lines.wires.get(&ends(from, to));
        wire.is_some_and(|wire| wire.whole && wire.number == line)
    }

    /// The lines on which letters get through, by their ends.
    pub fn whole_lines(&self) -> Vec<(ServerIndex, ServerIndex)> {
        let whole = self.lines.wires.iter().filter(|(_, wire)| wire.whole);
        whole.map(|(ends, _)| *ends).collect()
    }

    /// A line breaks. What is on its way is lost, and each end learns of it in its own time.
    pub fn cut_line(&mut self, by: &mut impl Conditions, one: ServerIndex, other: ServerIndex) {
        let Some(wire) = self.lines.wires.get_mut(&ends(one, other)) else {
            return;
        };
        wire.whole = false;
        let line = wire.number;
        for (at, to) in [(one, other), (other, one)] {
            self.agenda
                .after(by.notice(), Event::LineEnds { at, to, line });
        }
    }

    /// The process of a server has ended, and its lines with it: only the others learn of that.
    pub fn end_lines(&mut self, by: &mut impl Conditions, of: ServerIndex) {
        for other in ServerIndex::ALL.into_iter().filter(|other| *other != of) {
            let side = self.lines.side(of, other);
            *side = Side {
                arrives: side.arrives,
                ..Side::default()
            };
            self.cut_line(by, of, other);
        }
    }

    /// A server learns that a line has broken, unless it has another one by now: letters may be lost, and those that wait
    /// are of no use without them. True where it learns of it.
    pub fn loses_line(
        &mut self,
        by: &mut impl Conditions,
        (at, to): (ServerIndex, ServerIndex),
        line: u32,
    ) -> bool {
        let number = self.lines.wires.get(&ends(at, to)).map(|wire| wire.number);
        let side = self.lines.side(at, to);
        if number != Some(line) || !std::mem::take(&mut side.up) {
            return false;
        }
        side.waiting.clear();
        if at > to {
            self.dial_later(by, at, to);
        }
        true
    }
}
