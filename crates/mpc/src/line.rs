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

/// What a part of the code says in a round, and how many bytes it hears then.
#[derive(Default, PartialEq, Eq)]
pub struct Say {
    /// To the server with the next number.
    pub to_next: Vec<u8>,
    /// To the server with the number before.
    pub to_previous: Vec<u8>,
    /// Bytes that the next server says to this part.
    pub from_next: usize,
    /// Bytes that the server before says to it.
    pub from_previous: usize,
}

/// What a part of the code hears in a round.
#[derive(Default)]
pub struct Heard {
    /// From the server with the next number.
    pub from_next: Vec<u8>,
    /// From the server with the number before.
    pub from_previous: Vec<u8>,
    /// The first server, of the next one and the one before, whose message did not end with the same mark as this
    /// server's own. A mark is a hash of all values that were opened.
    pub differs: Option<ServerIndex>,
}

/// Ends each message of servers that verify: a hash of all that was opened before this round.
pub(crate) type Mark = [u8; 32];

/// The messages of one round.
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
    /// Who ended its message of the round before in another way.
    differs: Option<ServerIndex>,
}

/// What a server's code talks to the other two with.
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

    /// Says something in the round under way, and waits for what the others say in it. If there is nothing to say and
    /// nothing to hear, it does not wait.
    pub async fn exchange(&self, say: Say) -> Heard {
        if say == Say::default() {
            return Heard::default();
        }
        let (round, next, previous) = {
            let mut table = self.table();
            table.said[0].extend(say.to_next);
            table.said[1].extend(say.to_previous);
            let next = part(&mut table.expected[0], say.from_next);
            let previous = part(&mut table.expected[1], say.from_previous);
            (table.round, next, previous)
        };
        poll_fn(|_| {
            let table = self.table();
            if table.round == round {
                return Poll::Pending;
            }
            Poll::Ready(Heard {
                from_next: table.heard[0][next.clone()].to_vec(),
                from_previous: table.heard[1][previous.clone()].to_vec(),
                differs: table.differs,
            })
        })
        .await
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

    /// Takes what the others said in the round under way, and runs the code until it waits or ends.
    ///
    /// # Errors
    /// [`MpcError::Length`] for a message that no honest server sends, and the error with which the code ends. After an
    /// error every call gives [`MpcError::Stuck`].
    pub fn hear(
        &mut self,
        from_next: Vec<u8>,
        from_previous: Vec<u8>,
    ) -> Result<Progress<T>, MpcError> {
        // Taken back where the code waits for another round.
        if std::mem::replace(&mut self.has_ended, true) {
            return Err(MpcError::Stuck);
        }
        {
            let mut table = self.line.table();
            let marks = table.said_mark.as_ref().map_or(0, |mark| mark.len());
            let lengths = [from_next.len(), from_previous.len()];
            let senders = [self.me.next(), self.me.previous()];
            for ((from, got), expected) in senders.into_iter().zip(lengths).zip(table.expected) {
                let expected = expected + marks;
                if got != expected {
                    return Err(MpcError::Length {
                        round: table.round,
                        from,
                        expected,
                        got,
                    });
                }
            }
            table.heard = [from_next, from_previous];
            let said = table.said_mark.take();
            let marked = senders.into_iter().zip(&table.heard);
            table.differs = marked
                .filter(|(_, heard)| said.is_some_and(|mark| !heard.ends_with(&mark)))
                .map(|(from, _)| from)
                .next();
            table.expected = [0; 2];
            table.round += 1;
        }
        self.go_on()
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
        if let Some(mark) = table.mark {
            to_next.extend(mark);
            to_previous.extend(mark);
        }
        self.has_ended = false;
        Ok(Progress::Says(Round {
            number: table.round,
            to_next,
            to_previous,
        }))
    }
}
