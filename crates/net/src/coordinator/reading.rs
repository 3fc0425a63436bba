//! Reads what one party sends, with limits of time and memory, and passes it on to the job by way of [`Session`].

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use blindsum_job::coordinator::{Hold, Input, departure};
use blindsum_job::session::{Heard, Session};
use tokio::time::{Instant, sleep_until};
use tonic::{Status, Streaming};

use super::driver::{Event, JobHandle};
use crate::chunks::CHUNK;
use crate::outbox::Outbox;
use crate::pb::party_frame::Frame;
use crate::pb::{CoordinatorFrame, PartyFrame, RefusalCode, Refused};
use crate::serving::{Memory, Pace, Turn};

/// How reading ended.
pub(super) enum End {
    Closed(String),
    Lost(String),
    /// `returns` says whether the party may come back to the round.
    Refused {
        refused: Refused,
        returns: bool,
    },
}

/// The party sent what it must not send.
fn bad_frame(refused: Refused) -> End {
    End::Refused {
        refused,
        returns: false,
    }
}

/// The party takes too long.
fn too_slow(reason: String, returns: bool) -> End {
    let reason = format!("too slow: {reason}");
    End::Refused {
        refused: Refused::new(RefusalCode::RefusalTooSlow, reason),
        returns,
    }
}

/// Frames that come from one party or server.
pub(super) trait Inbound {
    /// The next one; none once the stream has ended. May be dropped and asked for again.
    fn next(&mut self) -> impl Future<Output = Result<Option<PartyFrame>, Status>> + Send;
}

impl Inbound for Streaming<PartyFrame> {
    async fn next(&mut self) -> Result<Option<PartyFrame>, Status> {
        self.message().await
    }
}

/// Reads one stream.
pub(super) struct Reader {
    session: Session,
    job: JobHandle,
    pace: Arc<Pace>,
    memory: Memory,
    chunk_timeout: Duration,
    outbox: Outbox<CoordinatorFrame>,
    /// How long the message may take that is being received.
    times: Option<Times>,
}

/// How long a message of several chunks may take.
struct Times {
    /// When the next piece must have come.
    next_until: Instant,
    /// When it gives way to whoever waits.
    turn: Turn,
}

impl Reader {
    /// Of a party that was let in.
    pub fn new(
        session: Session,
        job: JobHandle,
        pace: Arc<Pace>,
        memory: Memory,
        chunk_timeout: Duration,
        outbox: Outbox<CoordinatorFrame>,
    ) -> Self {
        Self {
            session,
            job,
            pace,
            memory,
            chunk_timeout,
            outbox,
            times: None,
        }
    }

    /// Reads to the end. The memory that was held is free then.
    pub async fn read_all(mut self, inbound: &mut impl Inbound) -> End {
        loop {
            let read = match self.in_time(inbound.next()).await {
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

    async fn frame(&mut self, frame: PartyFrame) -> Result<(), End> {
        let gate = self.job.gate.borrow().clone();
        let heard = self.session.take(&gate, frame).map_err(bad_frame)?;
        match heard {
            Heard::Nothing => Ok(()),
            Heard::Part => {
                let next_until = self.next_until();
                self.times
                    .iter_mut()
                    .for_each(|times| times.next_until = next_until);
                Ok(())
            }
            Heard::Begins { place, bytes } => self.begins(place, bytes).await,
            Heard::Input(input @ Input::Frame { .. }) => {
                if let Input::Frame {
                    frame: Frame::Leaving(leaving),
                    ..
                } = &input
                {
                    self.outbox.ends_because(&departure(leaving));
                }
                let (pace, job) = (self.pace.clone(), self.job.clone());
                let pass = async move {
                    pace.frame().await;
                    pass(&job, input).await
                };
                self.in_time(pass).await?
            }
            Heard::Input(input) => pass(&self.job, input).await,
        }
    }

    /// Waits for something, and no longer than the message that is being received may wait for its next piece. That
    /// message is forgotten as soon as its stage is over.
    async fn in_time<T>(&mut self, work: impl Future<Output = T>) -> Result<T, End> {
        let mut work = pin!(work);
        while let (Some(place), Some(times)) = (self.session.receiving(), &self.times) {
            // guard: small-talk-is-no-answer
            let until = times.next_until;
            let turn_over = self.memory.clone().turn_over(times.turn);
            let mut gate = self.job.gate.clone();
            tokio::select! {
                // Time is over also where the next frame is always there.
                biased;
                // guard: memory-goes-back-with-the-stage
                _ = gate.wait_for(|gate| (gate.round, gate.stage) != place) => self.session.forget(),
                () = sleep_until(until) => {
                    let seconds = self.chunk_timeout.as_secs_f64();
                    let reason = format!("no chunk of {CHUNK} bytes within {seconds} s");
                    return Err(too_slow(reason, true));
                }
                // guard: drips-give-way
                () = turn_over => {
                    let reason = "others wait for the memory that its message holds";
                    return Err(too_slow(reason.into(), false));
                }
                done = &mut work => return Ok(done),
            }
        }
        Ok(work.await)
    }

    /// A message of several chunks begins: it goes on once there is memory for it, unless its stage is over before. The
    /// stream is not read while it waits, so the sender waits as well.
    async fn begins(&mut self, place: (u64, u32), bytes: u64) -> Result<(), End> {
        let mut gate = self.job.gate.clone();
        let stage = gate.borrow().time;
        let moved_on = gate.wait_for(|gate| (gate.round, gate.stage) != place);
        let memory = tokio::select! {
            memory = self.memory.take(bytes, stage) => memory,
            _ = moved_on => {
                self.session.forget();
                return Ok(());
            }
        };
        let turn = self.turn(bytes);
        let hold = memory.map_or_else(Hold::default, Hold::of);
        self.session.go_on(hold).map_err(bad_frame)?;
        let next_until = self.next_until();
        self.times = Some(Times { next_until, turn });
        Ok(())
    }

    fn next_until(&self) -> Instant {
        // guard: slow-senders-go
        Instant::now() + self.chunk_timeout
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
}

/// The frame that was read, or how the stream ended.
fn frame_of(next: Result<Option<PartyFrame>, Status>) -> Result<PartyFrame, End> {
    match next {
        Ok(Some(frame)) => Ok(frame),
        Ok(None) => Err(End::Closed(
            "it closed its connection without a word".into(),
        )),
        Err(status) if status.code() == tonic::Code::OutOfRange => {
            let code = RefusalCode::RefusalBadFrame;
            Err(bad_frame(Refused::new(code, status.message())))
        }
        Err(_) => Err(End::Lost("its connection was lost".into())),
    }
}

async fn pass(job: &JobHandle, input: Input) -> Result<(), End> {
    let stopped = |_| End::Closed("the job has ended".into());
    let passed = job.events.send(Event::Input(input)).await;
    passed.map_err(stopped)
}
