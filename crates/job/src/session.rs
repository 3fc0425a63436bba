//! The coordinator's side of one connection: it checks what a party sends, and makes inputs of the job from it.
//!
//! The program that drives a [`Session`] reads the frames, finds memory for messages that come in several chunks, and
//! ends the connection at the first error. Limits of time and memory are its own affair: a network needs them, a
//! simulation does not.

use std::sync::atomic::{AtomicU64, Ordering};

use tracing::debug;

use crate::chunks::{Assembly, CHUNK, ChunkError, Pushed};
use crate::coordinator::{Gate, Hold, Input, LinkId, Peer, Traffic};
use crate::pb::party_frame::Frame;
use crate::pb::{self, PartyFrame, RefusalCode, Refused};

/// How often a party may send its answer to one stage over one connection: more than it is ever asked to.
pub const MAX_REPEATS: u32 = 8;

/// The most frames that wait while the job checks the Hello. An honest party says nothing more before its Welcome.
pub const MAX_WAITING: usize = 8;

/// A round and a stage of it, by the chunks of an answer.
type Place = (u64, u32);

/// The coordinator's side of one connection.
pub struct Session {
    link: LinkId,
    peer: Peer,
    standing: Admission,
    /// A message that comes in several chunks, and the first of them, until there is room.
    begins: Option<(Place, Assembly, pb::Chunk)>,
    /// A message that is being put together.
    message: Option<Part>,
    /// The place of the latest whole message, and how often one came for it.
    answered: (Place, u32),
}

/// How the party stands with the job.
enum Admission {
    /// It has said nothing.
    Stranger,
    /// The job judges its Hello. What it says meanwhile waits.
    Asks(Vec<PartyFrame>),
    Admitted,
}

/// A message of which some chunks have come.
struct Part {
    place: Place,
    assembly: Assembly,
    hold: Hold,
}

/// What a frame leads to.
// It is used up at once, and nowhere are many of them.
#[allow(clippy::large_enum_variant)]
pub enum Heard {
    /// Nothing is to be done.
    Nothing,
    /// Nothing yet: the frame was a part of a message.
    Part,
    /// A message of several chunks begins. Call [`Session::go_on`] once there is memory for it, or [`Session::forget`].
    Begins {
        /// The round and the stage that it answers.
        place: (u64, u32),
        /// Bytes of the whole message.
        bytes: u64,
    },
    /// An input for the job.
    Input(Input),
}

impl Session {
    /// A new connection of a peer whose certificate was verified.
    pub fn new(link: LinkId, peer: Peer) -> Self {
        Self {
            link,
            peer,
            standing: Admission::Stranger,
            begins: None,
            message: None,
            answered: Default::default(),
        }
    }

    /// The number of the connection.
    pub fn link(&self) -> LinkId {
        self.link
    }

    /// Whether the job knows of the connection.
    pub fn is_known(&self) -> bool {
        !matches!(self.standing, Admission::Stranger)
    }

    /// The round and the stage of the message that is being received.
    pub fn receiving(&self) -> Option<(u64, u32)> {
        self.message.as_ref().map(|part| part.place)
    }

    /// Takes the first frame, which must be a Hello. The job checks it; when it lets the party in, call
    /// [`admit`](Self::admit).
    ///
    /// # Errors
    /// The frame is no Hello. The error is the last message on the connection.
    pub fn hello(&mut self, frame: PartyFrame) -> Result<pb::Hello, Refused> {
        let Some(Frame::Hello(hello)) = frame.frame else {
            return Err(bad_frame("the first frame must be a Hello"));
        };
        self.standing = Admission::Asks(Vec::new());
        Ok(hello)
    }

    /// The job has let the party in. Gives the frames that came meanwhile, to be given to [`take`](Self::take) now.
    pub fn admit(&mut self) -> Vec<PartyFrame> {
        match std::mem::replace(&mut self.standing, Admission::Admitted) {
            Admission::Asks(waiting) => waiting,
            Admission::Stranger | Admission::Admitted => Vec::new(),
        }
    }

    /// Takes a frame, if the job lets it in now.
    ///
    /// # Errors
    /// A frame that no party may send. The error is the last message on the connection.
    pub fn take(&mut self, gate: &Gate, frame: PartyFrame) -> Result<Heard, Refused> {
        let link = self.link;
        match &mut self.standing {
            Admission::Stranger => {
                let (hello, peer) = (self.hello(frame)?, self.peer.clone());
                Ok(Heard::Input(Input::Connected { link, peer, hello }))
            }
            // guard: nothing-piles-up-before-the-welcome
            Admission::Asks(waiting) if waiting.len() >= MAX_WAITING => {
                Err(bad_frame("it goes on without waiting for its Welcome"))
            }
            Admission::Asks(waiting) => {
                waiting.push(frame);
                Ok(Heard::Nothing)
            }
            Admission::Admitted => match frame.frame {
                None => Err(bad_frame("a frame that is empty or unknown here")),
                Some(Frame::Hello(_)) => Err(bad_frame("a second Hello")),
                Some(Frame::Chunk(chunk)) => self.chunk(gate, chunk),
                Some(frame) => Ok(Heard::Input(Input::Frame { link, frame })),
            },
        }
    }

    /// [`Self::take`] for a program that has memory for every message.
    ///
    /// # Errors
    /// A frame that no party may send. The error is the last message on the connection.
    pub fn hear(&mut self, gate: &Gate, frame: PartyFrame) -> Result<Option<Input>, Refused> {
        match self.take(gate, frame)? {
            Heard::Nothing | Heard::Part => Ok(None),
            Heard::Begins { .. } => self.go_on(Hold::default()).map(|()| None),
            Heard::Input(input) => Ok(Some(input)),
        }
    }

    /// Goes on with the message that begins, since there is memory for it: `hold` is kept until the message was taken.
    ///
    /// # Errors
    /// Its first chunk is wrong. The error is the last message on the connection.
    pub fn go_on(&mut self, hold: Hold) -> Result<(), Refused> {
        if let Some((place, assembly, chunk)) = self.begins.take() {
            self.push(place, assembly, hold, chunk)?;
        }
        Ok(())
    }

    /// Drops the message that begins or is being received, since nobody waits for it.
    pub fn forget(&mut self) {
        (self.begins, self.message) = (None, None);
    }

    fn chunk(&mut self, gate: &Gate, chunk: pb::Chunk) -> Result<Heard, Refused> {
        let place = (chunk.round, chunk.stage);
        let (round, stage) = place;
        let limit = gate.judge(&self.peer.who(), place).map_err(bad_frame)?;
        let Some(limit) = limit else {
            debug!(party = %self.peer.name, round, stage, "dropped: too late, or of who has lost its place");
            self.forget();
            return Ok(Heard::Nothing);
        };
        // guard: answers-a-few-times, equal-answers-are-quiet
        if self.answered == (place, MAX_REPEATS) {
            return Err(bad_frame(format!(
                "the answer to round {round}, stage {stage} came {MAX_REPEATS} times already"
            )));
        }
        if let Some(part) = self.message.take().filter(|part| part.place == place) {
            return self.push(place, part.assembly, part.hold, chunk);
        }
        let (assembly, bytes) = (Assembly::begin(chunk.total, limit), chunk.total);
        let assembly = assembly.map_err(wrong_chunk)?;
        if bytes <= CHUNK as u64 {
            return self.push(place, assembly, Hold::default(), chunk);
        }
        self.begins = Some((place, assembly, chunk));
        Ok(Heard::Begins { place, bytes })
    }

    fn push(
        &mut self,
        place: Place,
        assembly: Assembly,
        hold: Hold,
        chunk: pb::Chunk,
    ) -> Result<Heard, Refused> {
        let pushed = assembly.push(chunk.offset, chunk.total, chunk.data);
        match pushed.map_err(wrong_chunk)? {
            Pushed::Part(assembly) => {
                self.message = Some(Part {
                    place,
                    assembly,
                    hold,
                });
                Ok(Heard::Part)
            }
            Pushed::Whole(message) => {
                let times = match self.answered {
                    (known, times) if known == place => times + 1,
                    _ => 1,
                };
                self.answered = (place, times);
                Ok(Heard::Input(Input::Answer {
                    link: self.link,
                    round: place.0,
                    message,
                    hold,
                }))
            }
        }
    }
}

fn bad_frame(reason: impl Into<String>) -> Refused {
    Refused::new(RefusalCode::RefusalBadFrame, reason)
}

fn wrong_chunk(error: ChunkError) -> Refused {
    bad_frame(format!("chunk: {error}"))
}

/// Counts the bytes of a connection.
#[derive(Default)]
pub struct Count {
    read: AtomicU64,
    written: AtomicU64,
}

impl Count {
    /// Counts a frame of `bytes` bytes that has come.
    pub fn came(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts a frame of `bytes` bytes that is sent.
    pub fn sent(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Traffic for Count {
    fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use blindsum_crypto::sign::{Algorithm, IdentityKey};
    use bytes::Bytes;

    use super::*;
    use crate::coordinator::Who;
    use crate::testing::rng;

    /// Bytes of the answers: two chunks.
    const LENGTH: usize = CHUNK + 3;

    fn session() -> Session {
        let key = IdentityKey::generate(Algorithm::Ed25519, &mut rng(1)).unwrap();
        let peer = Peer {
            name: "alice".into(),
            role: None,
            address: "a test".into(),
            certificate: Arc::new([]),
            key: key.verifying_key().clone(),
            traffic: Arc::new(Count::default()),
        };
        Session::new(LinkId(1), peer)
    }

    /// A session of a party that was let in.
    fn admitted() -> Session {
        let mut session = session();
        session.hello(pb::Hello::default().into()).unwrap();
        session.admit();
        session
    }

    fn gate(stage: u32) -> Gate {
        Gate {
            round: 1,
            stage,
            limit: LENGTH as u64,
            time: Duration::from_secs(1),
            members: Arc::new(BTreeMap::from([(Who::Party("alice".into()), true)])),
        }
    }

    /// The chunk of a long answer at this place of it.
    fn chunk(stage: u32, offset: usize) -> PartyFrame {
        let data = vec![7; CHUNK.min(LENGTH - offset)];
        pb::Chunk {
            round: 1,
            stage,
            offset: offset as u64,
            total: LENGTH as u64,
            data: data.into(),
        }
        .into()
    }

    fn short(stage: u32) -> PartyFrame {
        pb::Chunk {
            round: 1,
            stage,
            offset: 0,
            total: 2,
            data: Bytes::from_static(b"ok"),
        }
        .into()
    }

    fn reason<T>(refused: Result<T, Refused>) -> String {
        refused.err().unwrap().reason
    }

    #[test]
    fn the_first_frame_is_a_hello_and_no_other_one() {
        let mut session = session();
        let early = session.take(&gate(0), short(0));
        assert!(reason(early).contains("the first frame must be a Hello"));
        assert!(!session.is_known());
        let heard = session.take(&gate(0), pb::Hello::default().into());
        assert!(matches!(
            heard,
            Ok(Heard::Input(Input::Connected {
                link: LinkId(1),
                ..
            }))
        ));
        assert!(session.is_known());
        session.admit();
        let again = session.take(&gate(0), pb::Hello::default().into());
        assert!(reason(again).contains("a second Hello"));
        let empty = session.take(&gate(0), PartyFrame::default());
        assert!(reason(empty).contains("empty"));
    }

    #[test]
    fn case_31_frames_before_the_welcome_wait_a_few_at_most() {
        let mut session = session();
        session.hello(pb::Hello::default().into()).unwrap();
        for _ in 0..MAX_WAITING {
            let heard = session.take(&gate(0), short(0));
            assert!(matches!(heard, Ok(Heard::Nothing)));
        }
        let more = session.take(&gate(0), short(0));
        assert!(reason(more).contains("without waiting for its Welcome"));
        let waited = session.admit();
        assert_eq!(waited, vec![short(0); MAX_WAITING]);
        let heard = session.take(&gate(0), short(0));
        assert!(matches!(heard, Ok(Heard::Input(Input::Answer { .. }))));
    }

    #[test]
    fn a_long_message_waits_for_room_and_holds_it() {
        let mut session = admitted();
        let Ok(Heard::Begins { place, bytes }) = session.take(&gate(0), chunk(0, 0)) else {
            panic!("a message begins");
        };
        assert_eq!((place, bytes), ((1, 0), LENGTH as u64));
        assert_eq!(session.receiving(), None);
        let room = Arc::new(());
        session.go_on(Hold::of(room.clone())).unwrap();
        assert_eq!(session.receiving(), Some((1, 0)));
        let Ok(Heard::Input(Input::Answer { message, hold, .. })) =
            session.take(&gate(0), chunk(0, CHUNK))
        else {
            panic!("the answer is whole");
        };
        assert_eq!(message, vec![7; LENGTH]);
        assert_eq!(Arc::strong_count(&room), 2);
        drop(hold);
        assert_eq!(Arc::strong_count(&room), 1);
    }

    #[test]
    fn a_message_whose_stage_is_over_holds_nothing() {
        let mut session = admitted();
        let room = Arc::new(());
        session.take(&gate(0), chunk(0, 0)).unwrap();
        session.go_on(Hold::of(room.clone())).unwrap();
        let late = session.take(&gate(1), chunk(0, CHUNK));
        assert!(matches!(late, Ok(Heard::Nothing)));
        assert_eq!((session.receiving(), Arc::strong_count(&room)), (None, 1));
        // Nor does one that gave way before there was room.
        session.take(&gate(1), chunk(1, 0)).unwrap();
        session.forget();
        session.go_on(Hold::of(room.clone())).unwrap();
        assert_eq!((session.receiving(), Arc::strong_count(&room)), (None, 1));
    }

    #[test]
    fn a_message_of_who_has_lost_its_place_holds_nothing() {
        let mut session = admitted();
        let room = Arc::new(());
        session.take(&gate(0), chunk(0, 0)).unwrap();
        session.go_on(Hold::of(room.clone())).unwrap();
        let lost = Gate {
            members: Arc::new(BTreeMap::from([(Who::Party("alice".into()), false)])),
            ..gate(0)
        };
        let heard = session.take(&lost, chunk(0, CHUNK));
        assert!(matches!(heard, Ok(Heard::Nothing)));
        assert_eq!((session.receiving(), Arc::strong_count(&room)), (None, 1));
    }

    #[test]
    fn an_answer_comes_a_few_times() {
        let mut session = admitted();
        for _ in 0..MAX_REPEATS {
            let heard = session.hear(&gate(0), short(0));
            assert!(matches!(heard, Ok(Some(Input::Answer { .. }))));
        }
        let again = session.hear(&gate(0), short(0));
        assert!(reason(again).contains("came 8 times already"));
        let next = session.hear(&gate(1), short(1));
        assert!(matches!(next, Ok(Some(Input::Answer { .. }))));
    }
}
