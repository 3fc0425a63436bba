//! Sequential code of one server, and the rounds in which it talks with the other two.
//!
//! The code says what to send to the others in a round, and waits for what they send in the same round. Parts that run
//! side by side ([`join`](crate::join)) share a round: its two messages consist of what all parts say before none of
//! them can go on. All three servers run the same code and its parts in the same order, so the parts of a message need
//! no names.
//!
//! Whoever drives a [`Script`] carries its messages to the others and brings theirs. There is no async runtime: the
//! code goes on whenever both messages of a round have come.

use std::fmt;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::{MpcError, ServerIndex};

/// The bytes that a part of the code sends in a round, and the number of bytes that it then receives.
#[derive(Default, PartialEq, Eq)]
pub struct Say {
    /// To the server with the next number.
    pub to_next: Vec<u8>,
    /// To the server with the number before.
    pub to_previous: Vec<u8>,
    /// Number of bytes from the next server to this part.
    pub from_next: usize,
    /// Number of bytes from the server before to it.
    pub from_previous: usize,
}

/// The bytes that a part of the code receives in a round.
#[derive(Default)]
pub struct Heard {
    /// From the server with the next number.
    pub from_next: Vec<u8>,
    /// From the server with the number before.
    pub from_previous: Vec<u8>,
    /// The first server, of the next one and the one before, whose message did not end with the same mark as this
    /// server's own. A mark is a hash of all values that were opened.
    pub differs: Option<ServerIndex>,
    /// The mark at the end of this server's own messages of the round; none where nothing is verified.
    pub(crate) mark: Option<Mark>,
}

/// Ends each message of servers that verify: a hash of all that was opened before this round.
pub(crate) type Mark = [u8; 32];

/// Bytes at the end of each message: the number of its round.
pub const TRAILER: usize = 4;

/// The messages of one round. Each ends with the round's number, so that servers notice when they are not in the same one.
#[derive(PartialEq, Eq)]
pub struct Round {
    /// Its number, from 0.
    pub number: u32,
    /// For the server with the next number.
    pub to_next: Vec<u8>,
    /// For the server with the number before.
    pub to_previous: Vec<u8>,
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths = [self.to_next.len(), self.to_previous.len()];
        write!(f, "Round {{ number: {}, bytes: {lengths:?} }}", self.number)
    }
}

/// What lies between the code and whoever carries its messages.
#[derive(Default)]
struct Table {
    round: u32,
    said: [Vec<u8>; 2],
    /// Bytes that the next server and the one before say in this round.
    expected: [usize; 2],
    /// What both said in the round before.
    heard: [Vec<u8>; 2],
    /// What ends messages from now on.
    mark: Option<Mark>,
    /// What ended those of the round under way.
    said_mark: Option<Mark>,
    /// What ended those of the round before.
    heard_mark: Option<Mark>,
    /// Who ended its message of the round before in another way.
    differs: Option<ServerIndex>,
    /// Something failed: nothing is said any more.
    has_ended: bool,
}

/// The message exchange of a server's code with the other two servers.
#[derive(Clone, Default)]
pub struct Line(Arc<Mutex<Table>>);

impl Line {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many rounds are over.
    pub fn rounds(&self) -> u32 {
        self.table().round
    }

    /// Ends messages with this from now on.
    pub(crate) fn set_mark(&self, mark: Mark) {
        self.table().mark = Some(mark);
    }

    /// Nothing is said here any more.
    pub(crate) fn end(&self) {
        self.table().has_ended = true;
    }

    /// Refuses to go on where something failed.
    ///
    /// # Errors
    /// [`MpcError::Ended`].
    pub(crate) fn goes_on(&self) -> Result<(), MpcError> {
        match self.table().has_ended {
            true => Err(MpcError::Ended),
            false => Ok(()),
        }
    }

    /// Says something in the round under way, and waits for what the others say in it. Who has nothing to say and nothing
    /// to hear does not wait. Who is given up while it waits ends the computation: what it said can not be taken back, and
    /// nobody would hear the answer.
    ///
    /// # Errors
    /// [`MpcError::Ended`] if the computation has ended before.
    pub async fn exchange(&self, say: Say) -> Result<Heard, MpcError> {
        self.goes_on()?;
        if say == Say::default() {
            return Ok(Heard::default());
        }
        let (round, next, previous) = {
            let mut table = self.table();
            append(&mut table.said[0], say.to_next);
            append(&mut table.said[1], say.to_previous);
            let next = part(&mut table.expected[0], say.from_next);
            let previous = part(&mut table.expected[1], say.from_previous);
            (table.round, next, previous)
        };
        let mut waiting = Waiting(Some(self));
        let heard = poll_fn(|_| {
            let mut table = self.table();
            if table.round == round {
                return Poll::Pending;
            }
            let [of_next, of_previous] = &mut table.heard;
            Poll::Ready(Heard {
                from_next: taken(of_next, &next),
                from_previous: taken(of_previous, &previous),
                differs: table.differs,
                mark: table.heard_mark,
            })
        });
        let heard = heard.await;
        waiting.0 = None;
        self.goes_on()?;
        Ok(heard)
    }
}

/// Ends the computation if it is dropped before the answer has come.
struct Waiting<'a>(Option<&'a Line>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.0 {
            line.end();
        }
    }
}

/// Adds bytes; moves them where there are none yet.
fn append(all: &mut Vec<u8>, mut bytes: Vec<u8>) {
    match all.is_empty() {
        true => *all = bytes,
        false => all.append(&mut bytes),
    }
}

/// A part of a message; the message itself where that is all of it.
fn taken(message: &mut Vec<u8>, part: &Range<usize>) -> Vec<u8> {
    match part.len() == message.len() {
        true => std::mem::take(message),
        false => message.get(part.clone()).unwrap_or_default().to_vec(),
    }
}

/// Room for so many bytes behind those that are expected already.
fn part(expected: &mut usize, bytes: usize) -> Range<usize> {
    let begin = *expected;
    *expected += bytes;
    begin..*expected
}

/// How far a server's code has come.
#[derive(Debug)]
pub enum Progress<T> {
    /// It says this, and waits for the messages of both others.
    Says(Round),
    /// It has ended, with this result.
    Done(T),
}

type Code<T> = Pin<Box<dyn Future<Output = Result<T, MpcError>> + Send>>;

/// A server's code while it runs.
pub struct Script<T> {
    me: ServerIndex,
    line: Line,
    code: Code<T>,
    has_ended: bool,
}

impl<T> Script<T> {
    /// Runs the code until it waits.
    ///
    /// The error with which the code ends.
    /// What the code ends with.
    pub fn start<F>(
        me: ServerIndex,
        code: impl FnOnce(Line) -> F,
    ) -> Result<(Self, Progress<T>), MpcError>
    where
        F: Future<Output = Result<T, MpcError>> + Send + 'static,
    {
        let line = Line::default();
        let code: Code<T> = Box::pin(code(line.clone()));
        let mut script = Self {
            me,
            line,
            code,
            has_ended: false,
        };
        let progress = script.go_on()?;
        Ok((script, progress))
    }

    /// Receives the others' messages of the round under way, and runs the code until it waits or ends.
    ///
    /// # Errors
    /// [`MpcError::Length`] or [`MpcError::Round`] for a message that no honest server sends, and what the code ends with.
    /// It has ended then: [`MpcError::Ended`] from there on.
    pub fn receive(
        &mut self,
        from_next: Vec<u8>,
        from_previous: Vec<u8>,
    ) -> Result<Progress<T>, MpcError> {
        // Taken back where the code waits for another round.
        if std::mem::replace(&mut self.has_ended, true) {
            return Err(MpcError::Ended);
        }
        if let Err(error) = self.take([from_next, from_previous]) {
            self.line.end();
            return Err(error);
        }
        self.go_on()
    }

    /// Puts what the others said where the code finds it, if it is what honest servers say in this round.
    fn take(&self, mut messages: [Vec<u8>; 2]) -> Result<(), MpcError> {
        let mut table = self.line.table();
        let said_mark = table.said_mark.take();
        let marks = said_mark.map_or(0, |mark| mark.len());
        let senders = [self.me.next(), self.me.previous()];
        table.differs = None;
        let all = senders.into_iter().zip(&mut messages).zip(table.expected);
        for ((from, message), expected) in all {
            let (round, got) = (table.round, message.len());
            let expected = expected + marks + TRAILER;
            let length = MpcError::Length {
                round,
                from,
                expected,
                got,
            };
            let Some((body, number)) = message.split_last_chunk::<TRAILER>() else {
                return Err(length);
            };
            let (body, number) = (body.len(), u32::from_be_bytes(*number));
            // guard: messages-are-those-of-the-round
            if number != round {
                let got = number;
                return Err(MpcError::Round { round, from, got });
            }
            if got != expected {
                return Err(length);
            }
            message.truncate(body);
            if said_mark.is_some_and(|mark| !message.ends_with(&mark)) {
                table.differs.get_or_insert(from);
            }
            message.truncate(body - marks);
        }
        table.heard = messages;
        table.heard_mark = said_mark;
        table.expected = [0; 2];
        table.round += 1;
        Ok(())
    }

    fn go_on(&mut self) -> Result<Progress<T>, MpcError> {
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(ended) = self.code.as_mut().poll(&mut cx) {
            self.has_ended = true;
            return ended.map(Progress::Done);
        }
        let mut table = self.line.table();
        let [mut to_next, mut to_previous] = std::mem::take(&mut table.said);
        if to_next.is_empty() && to_previous.is_empty() && table.expected == [0; 2] {
            return Err(MpcError::Stuck);
        }
        table.said_mark = table.mark;
        for message in [&mut to_next, &mut to_previous] {
            message.reserve_exact(TRAILER + size_of::<Mark>());
            message.extend(table.mark.into_iter().flatten());
            message.extend(table.round.to_be_bytes());
        }
        self.has_ended = false;
        Ok(Progress::Says(Round {
            number: table.round,
            to_next,
            to_previous,
        }))
    }
}
