//! The sequential code of a server, driven by the letters of the other two.
//!
//! In each round of the code a server says one letter to each of the others: the number of the round, 4 bytes, and what
//! the code says. No server is more than one round ahead of another, as it needs the letters of both to go on.

use std::collections::VecDeque;

use blindsum_mpc::MpcError;
use blindsum_mpc::line::{Line, Progress, Round, Script};

use super::open::blame;
use crate::core::round::stages::Letters;
use crate::{Fault, FaultKind, ServerIndex};

/// Rounds by which a letter may come before this server needs it.
const AHEAD: usize = 2;

/// Code of one server, before it begins, while it runs and once it is over.
pub(super) struct Talk<T> {
    me: ServerIndex,
    /// Letters of the next server and the one before that the code has not heard yet.
    inbox: [VecDeque<Vec<u8>>; 2],
    /// How many have come of each.
    come: [u32; 2],
    script: Option<Script<Result<T, Fault>>>,
    outbox: Letters,
    result: Option<T>,
}

impl<T> Talk<T> {
    pub fn new(me: ServerIndex) -> Self {
        Self {
            me,
            inbox: Default::default(),
            come: [0; 2],
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
    pub fn hear(&mut self, from: ServerIndex, body: &[u8]) -> Result<(), Fault> {
        let refused = |rule: &str| Err(blame(from, "letter", rule));
        let place = usize::from(from != self.me.next());
        let (Some((number, bytes)), true) = (body.split_first_chunk::<4>(), from != self.me) else {
            return refused("it is cut short, or of nobody who computes");
        };
        let (Some(come), Some(inbox)) = (self.come.get_mut(place), self.inbox.get_mut(place))
        else {
            return refused("it is of nobody who computes");
        };
        if u32::from_be_bytes(*number) != *come {
            return refused("it is of another round of the computation");
        }
        if inbox.len() >= AHEAD {
            return refused("it comes before this server has answered");
        }
        *come += 1;
        inbox.push_back(bytes.to_vec());
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
            let progress = script.hear(from_next, from_previous).map_err(broken)?;
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
        let letter = |bytes: Vec<u8>| [&round.number.to_be_bytes(), &bytes[..]].concat();
        self.outbox.push((self.me.next(), letter(round.to_next)));
        self.outbox
            .push((self.me.previous(), letter(round.to_previous)));
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

/// The computation cannot go on.
fn broken(error: MpcError) -> Fault {
    let text = error.to_string();
    match error {
        MpcError::Length { from, .. } | MpcError::Differs { from, .. } => {
            blame(from, "letter", &text)
        }
        _ => Fault::nobody(FaultKind::malformed("computation", text)),
    }
}
