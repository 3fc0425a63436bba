//! Which process speaks for a name: a Hello that comes late, or from a process that has ended, must not replace a
//! process that is running.
//!
//! A process counts its connections, so that an older one is known by its number. Another process of the same name is
//! let in once it has shown that it is running: it returns a token that it was given just before. If its key is not
//! that of the connected process, it must also wait until that one has gone; if that one stays, they are two parties
//! with one name.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rand_core::Rng;

use super::api::LinkId;
use super::link::Link;
use crate::machine::Time;
use crate::pb::{self, RefusalCode};

/// Bytes of the id of a process, and of a token.
const ID: usize = 16;

/// The number of earlier processes of one name that are remembered.
const REPLACED: usize = 16;

/// What a process is told when another one has taken its place.
pub(super) const ANOTHER_PROCESS: &str =
    "another process of this party, with its name, has connected after this one";

/// The latest process that was let in, by name: as many as the CA has named.
#[derive(Default)]
pub(super) struct Presence(BTreeMap<Arc<str>, LatestProcess>);

/// The process that was let in last under a name.
struct LatestProcess {
    /// Its id; empty if it has none.
    process: Vec<u8>,
    /// Its latest connection.
    connection: u64,
    /// The earlier processes, the latest last. None of them may come back.
    replaced: VecDeque<Vec<u8>>,
    /// The other process that asked to be let in, and what it was told.
    asked: Option<Asked>,
}

/// A process that must show that it is running.
struct Asked {
    process: Vec<u8>,
    token: [u8; ID],
    /// When it was told the token.
    since: Time,
    /// The connection that was in place when everything sent before had arrived, and the bytes that had come over it.
    before: Option<(LinkId, u64)>,
}

impl Presence {
    /// Decides whether a new connection replaces `older`, the connection under its name, and gives whether it is of
    /// another process than before. Messages of a process that has ended may still arrive for up to `grace`.
    pub fn judge(
        &mut self,
        hello: &pb::Hello,
        newer: &Link,
        older: Option<&Link>,
        grace: Duration,
    ) -> Result<bool, pb::Refused> {
        // guard: ids-of-their-length
        let odd = |bytes: &[u8]| !(bytes.is_empty() || bytes.len() == ID);
        if odd(&hello.process) || odd(&hello.token) {
            let reason = "Hello: the process and the token must have 0 or 16 bytes";
            return Err(pb::Refused::new(RefusalCode::RefusalBadFrame, reason));
        }
        let name = &newer.peer.name;
        let other_key = older.filter(|older| older.peer.key != newer.peer.key);
        match self.0.get_mut(name) {
            _ if hello.process.is_empty() => other_key.map_or(Ok(()), |older| Err(taken(older))),
            // guard: the-replaced-stay-away
            Some(seat) if seat.replaced.contains(&hello.process) => {
                let code = RefusalCode::RefusalReplaced;
                Err(pb::Refused::new(code, ANOTHER_PROCESS))
            }
            Some(seat) if seat.process != hello.process => {
                let now = newer.hand.now();
                seat.ask(hello, newer)?.wait(other_key, now, grace)
            }
            // guard: late-connections-replace-nothing
            Some(seat) if hello.connection <= seat.connection => {
                let reason = "the same process has a newer connection";
                Err(pb::Refused::new(RefusalCode::RefusalReplaced, reason))
            }
            _ => Ok(()),
        }?;
        let before = self.0.get(name);
        let is_another = before.is_some_and(|seat| seat.process != hello.process);
        let seat = LatestProcess {
            process: hello.process.clone(),
            connection: hello.connection,
            replaced: self
                .0
                .remove(name)
                .map_or_else(VecDeque::new, |seat| seat.left_to(hello)),
            asked: None,
        };
        self.0.insert(name.clone(), seat);
        Ok(is_another)
    }
}

impl LatestProcess {
    /// The earlier processes, with the one that leaves the seat now.
    fn left_to(mut self, next: &pb::Hello) -> VecDeque<Vec<u8>> {
        if !self.process.is_empty() && self.process != next.process {
            self.replaced.push_back(self.process);
        }
        // guard: few-are-remembered
        if self.replaced.len() > REPLACED {
            self.replaced.pop_front();
        }
        self.replaced
    }

    /// Another process wants to be let in: it shows that it is running, or is asked to.
    fn ask(&mut self, hello: &pb::Hello, newer: &Link) -> Result<&mut Asked, pb::Refused> {
        let answers =
            // guard: a-token-is-of-one-process, another-process-shows-that-it-lives
            |asked: &Asked| asked.process == hello.process && asked.token[..] == hello.token;
        if let Some(asked) = self.asked.take().filter(answers) {
            return Ok(self.asked.insert(asked));
        }
        let mut token = [0; ID];
        newer.hand.random().fill_bytes(&mut token);
        let asked = Asked {
            process: hello.process.clone(),
            token,
            since: newer.hand.now(),
            before: None,
        };
        let reason = "another process of this party was here before: connect again with the token, as a party does by \
                      itself";
        Err(self.asked.insert(asked).again(reason))
    }
}

impl Asked {
    fn again(&self, reason: &str) -> pb::Refused {
        pb::Refused {
            token: self.token.to_vec(),
            ..pb::Refused::new(RefusalCode::RefusalComeAgain, reason)
        }
    }

    /// A running process has another key than the connected one, which may have lost its link or be running as well.
    fn wait(
        &mut self,
        other_key: Option<&Link>,
        now: Time,
        grace: Duration,
    ) -> Result<(), pb::Refused> {
        let Some(other) = other_key else {
            return Ok(());
        };
        let (link, bytes) = other.heard();
        match self.before.filter(|(before, _)| *before == link) {
            // guard: two-parties-have-two-names
            Some((_, heard)) if heard < bytes => return Err(taken(other)),
            // guard: late-bytes-are-no-life
            None if now - self.since >= grace => self.before = Some((link, bytes)),
            _ => {}
        }
        Err(self
            .again("it is not known yet whether the party with this name that is connected lives"))
    }
}

fn taken(other: &Link) -> pb::Refused {
    let peer = &other.peer;
    let reason = format!(
        "two parties with one name: {:?} is connected from {} with another key; give each party a name of its own",
        peer.name, peer.address
    );
    pb::Refused::new(RefusalCode::RefusalNameTaken, reason)
}
