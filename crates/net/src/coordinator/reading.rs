//! What one party sends: frames are passed on to the job, and messages are put together, within the limits.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use blindsum_job::server::{Hold, Input, LinkId};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};
use tonic::{Status, Streaming};
use tracing::debug;

use super::driver::{Event, JobHandle};
use super::memory::{Memory, Turn};
use super::pace::Pace;
use crate::chunks::{Assembly, CHUNK, ChunkError, Pushed};
use crate::pb::party_frame::Frame;
use crate::pb::{self, PartyFrame, RefusalCode};

/// Times that a party may send its answer to one stage: more than it is asked for it over one connection.
const MOST_REPEATS: u32 = 8;

/// How reading ended.
pub(super) enum End {
    Closed(String),
    Lost(String),
    /// `returns` says whether the party may come back to the round.
    Refused {
        code: RefusalCode,
        reason: String,
        returns: bool,
    },
}

/// The party sent what it must not send.
fn bad_frame(reason: impl Into<String>) -> End {
    End::Refused {
        code: RefusalCode::RefusalBadFrame,
        reason: reason.into(),
        returns: false,
    }
}

/// The party takes too long.
fn too_slow(reason: String, returns: bool) -> End {
    End::Refused {
        code: RefusalCode::RefusalTooSlow,
        reason: format!("too slow: {reason}"),
        returns,
    }
}

/// Reads one stream.
pub(super) struct Reader {
    pub link: LinkId,
    pub name: Arc<str>,
    pub job: JobHandle,
    pub pace: Arc<Pace>,
    pub memory: Memory,
    pub chunk_timeout: Duration,
    message: Option<PartMessage>,
    /// The place of the latest whole message, and how often one came for it.
    answered: ((u64, u32), u32),
}

/// A message that is being received.
struct PartMessage {
    place: (u64, u32),
    assembly: Assembly,
    memory: Option<OwnedSemaphorePermit>,
    /// When the next piece must have come.
    next_until: Instant,
    /// When it gives way to whoever waits.
    turn: Turn,
}

impl Reader {
    pub fn new(
        link: LinkId,
        name: Arc<str>,
        job: JobHandle,
        pace: Arc<Pace>,
        memory: Memory,
        chunk_timeout: Duration,
    ) -> Self {
        Self {
            link,
            name,
            job,
            pace,
            memory,
            chunk_timeout,
            message: None,
            answered: Default::default(),
        }
    }

    /// Reads to the end. The memory that was held is free then.
    pub async fn read_all(mut self, inbound: &mut Streaming<PartyFrame>) -> End {
        loop {
            let read = match self.in_time(inbound.message()).await {
                Ok(next) => match frame_of(next) {
                    Ok(frame) => self.frame(frame).await,
                    Err(end) => Err(end),
                },
                Err(end) => Err(end),
            };
            if let Err(end) = read {
                return end;
            }
        }
    }

    async fn frame(&mut self, frame: Frame) -> Result<(), End> {
        match frame {
            Frame::Chunk(chunk) => self.chunk(chunk).await,
            Frame::Hello(_) => Err(bad_frame("a second Hello")),
            frame => {
                let input = Input::Frame {
                    link: self.link,
                    frame,
                };
                let (pace, job) = (self.pace.clone(), self.job.clone());
                let pass = async move {
                    pace.frame().await;
                    pass(&job, input).await
                };
                self.in_time(pass).await?
            }
        }
    }

    /// Waits for something, and no longer than the message that is being received may wait for its next piece. That
    /// message is forgotten as soon as its stage is over.
    async fn in_time<T>(&mut self, work: impl Future<Output = T>) -> Result<T, End> {
        let mut work = pin!(work);
        while let Some(message) = &self.message {
            let (place, until) = (message.place, message.next_until);
            let turn_over = self.memory.clone().turn_over(message.turn);
            let mut gate = self.job.gate.clone();
            tokio::select! {
                // Time is over also where the next frame is always there.
                biased;
                _ = gate.wait_for(|gate| (gate.round, gate.stage) != place) => self.message = None,
                () = sleep_until(until) => {
                    let seconds = self.chunk_timeout.as_secs_f64();
                    let reason = format!("no chunk of {CHUNK} bytes within {seconds} s");
                    return Err(too_slow(reason, true));
                }
                () = turn_over, if message.memory.is_some() => {
                    let reason = "others wait for the memory that its message holds";
                    return Err(too_slow(reason.into(), false));
                }
                done = &mut work => return Ok(done),
            }
        }
        Ok(work.await)
    }

    async fn chunk(&mut self, chunk: pb::Chunk) -> Result<(), End> {
        let place = (chunk.round, chunk.stage);
        let Some(limit) = self.limit_of(place)? else {
            return Ok(());
        };
        let wrong = |e: ChunkError| bad_frame(format!("chunk: {e}"));
        let (assembly, memory, turn) = match self.message.take() {
            Some(part) if part.place == place => (part.assembly, part.memory, part.turn),
            _ => {
                let assembly = Assembly::begin(chunk.total, limit).map_err(wrong)?;
                let Ok(memory) = self.memory_for(chunk.total, place).await else {
                    return Ok(());
                };
                (assembly, memory, self.turn(chunk.total))
            }
        };
        let pushed = assembly.push(chunk.offset, chunk.total, chunk.data);
        match pushed.map_err(wrong)? {
            Pushed::Part(assembly) => {
                self.message = Some(PartMessage {
                    place,
                    assembly,
                    memory,
                    next_until: Instant::now() + self.chunk_timeout,
                    turn,
                });
                Ok(())
            }
            Pushed::Whole(message) => {
                let times = match self.answered {
                    (known, times) if known == place => times + 1,
                    _ => 1,
                };
                self.answered = (place, times);
                let input = Input::Answer {
                    link: self.link,
                    round: place.0,
                    message,
                    hold: memory.map_or_else(Hold::default, Hold::of),
                };
                pass(&self.job, input).await
            }
        }
    }

    /// The turn of a message of so many bytes at the memory, which begins.
    fn turn(&self, bytes: u64) -> Turn {
        let gate = self.job.gate.borrow();
        Turn {
            begun: Instant::now(),
            bytes,
            messages: gate.members.len(),
            stage: gate.time,
        }
    }

    /// How long a message for this round and stage may be; none where it comes too late, or its sender
    /// has lost its place and may not have heard of it.
    fn limit_of(&mut self, place: (u64, u32)) -> Result<Option<u64>, End> {
        let gate = self.job.gate.borrow().clone();
        let (round, stage) = place;
        let limit = gate.judge(&self.name, place).map_err(bad_frame)?;
        if place < (gate.round, gate.stage) {
            debug!(party = %self.name, round, stage, "too late, dropped");
            self.message = None;
        }
        if limit.is_some() && self.answered == (place, MOST_REPEATS) {
            let reason = format!(
                "the answer to round {round}, stage {stage} came {MOST_REPEATS} times already"
            );
            return Err(bad_frame(reason));
        }
        Ok(limit)
    }

    /// Waits for memory where a message comes in several chunks; an error says that the message came
    /// too late meanwhile. The stream is not read while it waits, so the sender waits as well.
    async fn memory_for(
        &mut self,
        total: u64,
        place: (u64, u32),
    ) -> Result<Option<OwnedSemaphorePermit>, ()> {
        if total <= CHUNK as u64 {
            return Ok(None);
        }
        let mut gate = self.job.gate.clone();
        let stage = gate.borrow().time;
        let moved_on = gate.wait_for(|gate| (gate.round, gate.stage) != place);
        tokio::select! {
            memory = self.memory.take(total, stage) => Ok(memory),
            _ = moved_on => Err(()),
        }
    }
}

/// The frame that was read, or how the stream ended.
fn frame_of(next: Result<Option<PartyFrame>, Status>) -> Result<Frame, End> {
    match next {
        Ok(Some(PartyFrame { frame: Some(frame) })) => Ok(frame),
        Ok(Some(PartyFrame { frame: None })) => {
            Err(bad_frame("a frame that is empty or unknown here"))
        }
        Ok(None) => Err(End::Closed("closed by the party".into())),
        Err(status) if status.code() == tonic::Code::OutOfRange => Err(bad_frame(status.message())),
        Err(status) => Err(End::Lost(format!("lost: {}", status.message()))),
    }
}

async fn pass(job: &JobHandle, input: Input) -> Result<(), End> {
    let stopped = |_| End::Closed("the job has ended".into());
    let passed = job.events.send(Event::Input(input)).await;
    passed.map_err(stopped)
}
