//! The sequential code of a server, driven by the letters of the other two.
//!
//! In each round of the code a server says one letter to each of the others: what the code says, which ends with the
//! number of the round. No server is more than one round ahead of another, as it needs the letters of both to go on.

use std::collections::VecDeque;

use blindsum_mpc::line::{Line, Progress, Round, Script};

use super::blame::{blame, broken};
use crate::core::round::stages::Letters;
use crate::{Fault, ServerIndex};

/// Rounds by which a letter may come before this server needs it.
const AHEAD: usize = 2;

/// Code of one server, before it begins, while it runs and once it is over.
pub(super) struct Talk<T> {
    me: ServerIndex,
    /// Letters of the next server and the one before that the code has not heard yet.
    inbox: [VecDeque<Vec<u8>>; 2],
    script: Option<Script<Result<T, Fault>>>,
    outbox: Letters,
    result: Option<T>,
}

impl<T> Talk<T> {
    pub fn new(me: ServerIndex) -> Self {
        Self {
            me,
            inbox: Default::default(),
            script: None,
            outbox: Letters::new(),
            result: None,
        }
    }

    /// Begins with the code.
    pub fn begin<F>(&mut self, code: impl FnOnce(Line) -> F) -> Result<(), Fault>
    where
        F: Future<Output = Result<T, Fault>> + Send + 'static,
        T: 'static,
    {
        let started = Script::start(self.me, |line| {
            let code = code(line);
            async { Ok(code.await) }
        });
        let (script, progress) = started.map_err(broken)?;
        self.script = Some(script);
        self.note(progress)?;
        self.go_on()
    }

    /// A letter of another server.
    pub fn receive_letter(&mut self, from: ServerIndex, body: &[u8]) -> Result<(), Fault> {
        let refused = |rule: &str| Err(blame(from, "letter", rule));
        let [next, previous] = &mut self.inbox;
        let inbox = match from == self.me.next() {
            true => next,
            false if from == self.me.previous() => previous,
            false => return refused("it is this server's own"),
        };
        // guard: few-letters-are-kept
        if inbox.len() >= AHEAD {
            return refused("it comes before this server has answered");
        }
        inbox.push_back(body.to_vec());
        self.go_on()
    }

    fn go_on(&mut self) -> Result<(), Fault> {
        while let (Some(script), None) = (&mut self.script, &self.result) {
            let [next, previous] = &mut self.inbox;
            if next.is_empty() || previous.is_empty() {
                break;
            }
            let heard = next.pop_front().zip(previous.pop_front());
            let (from_next, from_previous) = heard.unwrap_or_default();
            let progress = script.receive(from_next, from_previous).map_err(broken)?;
            self.note(progress)?;
        }
        Ok(())
    }

    fn note(&mut self, progress: Progress<Result<T, Fault>>) -> Result<(), Fault> {
        match progress {
            Progress::Says(round) => self.say(round),
            Progress::Done(result) => self.result = Some(result?),
        }
        Ok(())
    }

    fn say(&mut self, round: Round) {
        let to_both = [
            (self.me.next(), round.to_next),
            (self.me.previous(), round.to_previous),
        ];
        self.outbox.extend(to_both);
    }

    /// What is to be said, since this was asked last.
    pub fn letters(&mut self) -> Letters {
        std::mem::take(&mut self.outbox)
    }

    /// Whether the code has come to its end.
    pub fn is_over(&self) -> bool {
        self.result.is_some()
    }

    /// What it came to.
    pub fn result(self) -> Option<T> {
        self.result
    }
}
