//! Which process speaks for a name: a Hello that comes late, or a process that has ended, must not take the place of
//! one that lives.
//!
//! A process counts its connections, so that one that it has given up is known by its number. Another process of the
//! same name is let in once it has shown that it lives: it brings a token that it was told just before. Where it has
//! another key than the one that is connected, it must wait besides until that one has gone; if that one lives, they
//! are two parties with one name.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rand_core::Rng;
use tokio::time::Instant;

use super::members::Member;
use super::session::{SessionHandle, refused};
use crate::pb::{self, RefusalCode};
use crate::system::random;

/// Bytes of the id of a process, and of a token.
const ID: usize = 16;

/// Processes of one name whose place another one has taken that are remembered.
const REPLACED: usize = 16;

/// What a process hears whose place another one has taken.
pub(super) const ANOTHER_PROCESS: &str =
    "another process of this party, with its name, has connected after this one";

/// Who was let in last, by name: as many as the CA has named.
#[derive(Default)]
pub(super) struct Presence(BTreeMap<Arc<str>, Seat>);

/// The process that was let in last under a name.
struct Seat {
    /// Its id; empty where it told none.
    process: Vec<u8>,
    /// Its latest connection.
    connection: u64,
    /// The processes before it, the latest last: none of them comes back.
    replaced: VecDeque<Vec<u8>>,
    /// What another process was told that asked to be let in.
    asked: Option<Asked>,
}

/// A process that must show that it lives.
struct Asked {
    process: Vec<u8>,
    token: [u8; ID],
    /// When it was told the token.
    since: Instant,
    /// The connection that was there when what had been on its way then had come, and the bytes that had come over it.
    before: Option<(u64, u64)>,
}

impl Presence {
    /// Whether a connection is let in in the place of `older`, the one that is there under its name. What a process had
    /// said that has ended since may come for so long as `grace`.
    pub fn judge(
        &mut self,
        hello: &pb::Hello,
        newer: &SessionHandle,
        older: Option<&Member>,
        grace: Duration,
    ) -> Result<(), pb::Refused> {
        let odd = |bytes: &[u8]| !(bytes.is_empty() || bytes.len() == ID);
        if odd(&hello.process) || odd(&hello.token) {
            let reason = "Hello: the process and the token must have 0 or 16 bytes";
            return Err(refused(RefusalCode::RefusalBadFrame, reason));
        }
        let name = &newer.peer.name;
        let other_key = older.filter(|older| older.session.peer.key != newer.peer.key);
        match self.0.get_mut(name) {
            _ if hello.process.is_empty() => other_key.map_or(Ok(()), |older| Err(taken(older))),
            Some(seat) if seat.replaced.contains(&hello.process) => {
                Err(refused(RefusalCode::RefusalReplaced, ANOTHER_PROCESS))
            }
            Some(seat) if seat.process != hello.process => seat.ask(hello)?.wait(other_key, grace),
            Some(seat) if hello.connection <= seat.connection => {
                let reason = "the same process has a newer connection";
                Err(refused(RefusalCode::RefusalReplaced, reason))
            }
            _ => Ok(()),
        }?;
        let seat = Seat {
            process: hello.process.clone(),
            connection: hello.connection,
            replaced: self
                .0
                .remove(name)
                .map_or_else(VecDeque::new, |seat| seat.left_to(hello)),
            asked: None,
        };
        self.0.insert(name.clone(), seat);
        Ok(())
    }
}

impl Seat {
    /// The processes that have had the seat before the one that has it now.
    fn left_to(mut self, next: &pb::Hello) -> VecDeque<Vec<u8>> {
        if !self.process.is_empty() && self.process != next.process {
            self.replaced.push_back(self.process);
        }
        if self.replaced.len() > REPLACED {
            self.replaced.pop_front();
        }
        self.replaced
    }

    /// Another process comes: it has shown that it lives, or is asked to.
    fn ask(&mut self, hello: &pb::Hello) -> Result<&mut Asked, pb::Refused> {
        let answers =
            |asked: &Asked| asked.process == hello.process && asked.token[..] == hello.token;
        if let Some(asked) = self.asked.take().filter(answers) {
            return Ok(self.asked.insert(asked));
        }
        let mut token = [0; ID];
        let rng = random().map_err(|e| refused(RefusalCode::RefusalStopping, e.to_string()));
        rng?.fill_bytes(&mut token);
        let asked = Asked {
            process: hello.process.clone(),
            token,
            since: Instant::now(),
            before: None,
        };
        let reason = "another process of this party was here before: come again with the token";
        Err(self.asked.insert(asked).again(reason))
    }
}

impl Asked {
    fn again(&self, reason: &str) -> pb::Refused {
        pb::Refused {
            token: self.token.to_vec(),
            ..refused(RefusalCode::RefusalComeAgain, reason)
        }
    }

    /// A process that lives has another key than the one that is connected: that one may have lost its link, or live.
    fn wait(&mut self, other_key: Option<&Member>, grace: Duration) -> Result<(), pb::Refused> {
        let Some(other) = other_key else {
            return Ok(());
        };
        let (session, bytes) = other.heard();
        match self.before.filter(|(before, _)| *before == session) {
            Some((_, heard)) if heard < bytes => return Err(taken(other)),
            None if self.since.elapsed() >= grace => self.before = Some((session, bytes)),
            _ => {}
        }
        Err(self
            .again("it is not known yet whether the party with this name that is connected lives"))
    }
}

fn taken(other: &Member) -> pb::Refused {
    let peer = &other.session.peer;
    let reason = format!(
        "two parties with one name: {:?} is connected from {} with another key; give each party a name of its own",
        peer.name, peer.address
    );
    refused(RefusalCode::RefusalNameTaken, reason)
}
