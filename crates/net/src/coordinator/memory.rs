//! Memory for messages that are being received, of all parties together. Whoever holds some of it may take long as long as
//! nobody waits. Where others do, its turn ends when everybody's would still fit into the stage.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// The part of a stage's time that turns are cut from; the rest is for what comes late.
const PART_FOR_TURNS: f64 = 0.5;

/// What is there, and how many wait for it.
#[derive(Clone)]
pub(super) struct Memory {
    free: Arc<Semaphore>,
    all: u32,
    waiting: Arc<watch::Sender<usize>>,
}

/// One that waits.
struct Waiting(Arc<watch::Sender<usize>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

impl Memory {
    /// So many bytes. They are counted in KiB, so that the count fits.
    pub fn new(bytes: u64) -> Self {
        let all = kib(bytes / 1024).clamp(1, Semaphore::MAX_PERMITS as u32);
        Self {
            free: Arc::new(Semaphore::new(all as usize)),
            all,
            waiting: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Waits for memory for a message; one always fits.
    pub async fn take(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let waiting = Waiting(self.waiting.clone());
        waiting.0.send_modify(|waiting| *waiting += 1);
        let permits = self.free.clone().acquire_many_owned(self.permits(bytes));
        permits.await.ok()
    }

    /// Waits until somebody waits for memory.
    pub async fn is_wanted(&self) {
        let mut waiting = self.waiting.subscribe();
        // Nobody will where the sender is gone, which is here.
        let _ = waiting.wait_for(|waiting| *waiting > 0).await;
    }

    /// How long each of so many messages of one stage may hold its memory so that all have their turn in time.
    pub fn turn(&self, bytes: u64, messages: usize, stage: Duration) -> Duration {
        let at_once = self.all / self.permits(bytes);
        let turns = messages.div_ceil(at_once.max(1) as usize).max(1);
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

    #[test]
    fn case_50_all_turns_fit_into_the_stage() {
        let memory = Memory::new(10 << 20);
        let stage = Duration::from_secs(60);
        // Three fit at once: eight have three turns one after another.
        assert_eq!(memory.turn(3 << 20, 8, stage), Duration::from_secs(10));
        assert_eq!(memory.turn(3 << 20, 3, stage), Duration::from_secs(30));
        // One always fits.
        assert_eq!(memory.turn(30 << 20, 2, stage), Duration::from_secs(15));
        assert_eq!(memory.turn(0, 0, stage), Duration::from_secs(30));
    }
}
