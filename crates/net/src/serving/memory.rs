//! Memory for messages that are being received, of all parties and jobs together. A message may hold its memory as long
//! as nobody waits for memory. If others wait, its turn ends early enough for all of them to have a turn within the
//! shortest of their stages.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};

/// The part of a stage's time that turns are cut from; the rest is for what comes late.
const PART_FOR_TURNS: f64 = 0.5;

/// What is there, and who waits for it: the time of each one's stage.
#[derive(Clone)]
pub(crate) struct Memory {
    free: Arc<Semaphore>,
    all: u32,
    waiting: Arc<watch::Sender<Vec<Duration>>>,
}

/// One that waits.
struct Waiting {
    stage: Duration,
    all: Arc<watch::Sender<Vec<Duration>>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.all.send_modify(|waiting| {
            if let Some(own) = waiting.iter().position(|stage| *stage == self.stage) {
                waiting.swap_remove(own);
            }
        });
    }
}

/// A message that is being received, of one stage.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    /// When it began.
    pub begun: Instant,
    /// Its bytes.
    pub bytes: u64,
    /// How many messages the stage has.
    pub messages: usize,
    /// How long the stage takes.
    pub stage: Duration,
}

impl Memory {
    /// So many bytes. They are counted in KiB, so that the count fits.
    pub fn new(bytes: u64) -> Self {
        let all = kib(bytes / 1024).clamp(1, Semaphore::MAX_PERMITS as u32);
        Self {
            free: Arc::new(Semaphore::new(all as usize)),
            all,
            waiting: Arc::new(watch::Sender::new(Vec::new())),
        }
    }

    /// Waits for memory for a message of a stage that takes so long; one always fits.
    pub async fn take(&self, bytes: u64, stage: Duration) -> Option<OwnedSemaphorePermit> {
        let permits = self.permits(bytes);
        // Whoever is served at once takes nobody's turn. What is free here no earlier one waits for.
        if let Ok(free) = self.free.clone().try_acquire_many_owned(permits) {
            return Some(free);
        }
        let all = self.waiting.clone();
        let _waiting = Waiting { stage, all };
        self.waiting.send_modify(|waiting| waiting.push(stage));
        self.free.clone().acquire_many_owned(permits).await.ok()
    }

    /// Waits until others wait and this message has had its turn.
    pub async fn turn_over(self, turn: Turn) {
        let mut waiting = self.waiting.subscribe();
        loop {
            let shortest = waiting.borrow_and_update().iter().min().copied();
            let changed = waiting.changed();
            match shortest {
                None => drop(changed.await),
                Some(stage) => {
                    let until = turn.begun + self.length(&turn, stage.min(turn.stage));
                    tokio::select! {
                        _ = changed => {}
                        () = sleep_until(until) => return,
                    }
                }
            }
        }
    }

    /// How long each of the messages of a stage may hold its memory so that all have their turn within this time.
    fn length(&self, turn: &Turn, stage: Duration) -> Duration {
        let at_once = self.all / self.permits(turn.bytes);
        let turns = turn.messages.div_ceil(at_once.max(1) as usize).max(1);
        stage.mul_f64(PART_FOR_TURNS / turns as f64)
    }

    fn permits(&self, bytes: u64) -> u32 {
        kib(bytes.div_ceil(1024)).clamp(1, self.all)
    }
}

fn kib(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(bytes: u64, messages: usize) -> Turn {
        Turn {
            begun: Instant::now(),
            bytes,
            messages,
            stage: Duration::from_secs(600),
        }
    }

    #[test]
    fn case_50_all_turns_fit_into_the_stage() {
        let memory = Memory::new(10 << 20);
        let stage = Duration::from_secs(60);
        let length = |bytes, messages| memory.length(&turn(bytes, messages), stage).as_secs();
        // Three fit at once: eight have three turns one after another.
        assert_eq!(length(3 << 20, 8), 10);
        assert_eq!(length(3 << 20, 3), 30);
        // One always fits.
        assert_eq!(length(30 << 20, 2), 15);
        assert_eq!(length(0, 0), 30);
    }

    /// A job with a long stage holds all the memory, one with a short stage waits for it.
    #[tokio::test]
    async fn case_50_a_long_stage_keeps_the_memory_from_no_short_one() {
        let memory = Memory::new(1 << 20);
        let held = memory.take(1 << 20, Duration::from_secs(600)).await;
        let over = tokio::spawn(memory.clone().turn_over(turn(1 << 20, 2)));
        let others = memory.clone();
        let waiting = tokio::spawn(async move {
            let stage = Duration::from_millis(400);
            others.take(1 << 20, stage).await.is_some()
        });
        // Far less than the turn in its own stage.
        let patience = Duration::from_secs(20);
        tokio::time::timeout(patience, over).await.unwrap().unwrap();
        drop(held);
        assert!(waiting.await.unwrap());
        assert!(memory.waiting.borrow().is_empty());
    }
}
