//! Letters that wait for their line.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// Letters of one round, with its number, in the order in which they were said.
#[derive(Default)]
pub(super) struct Queue {
    letters: Mutex<VecDeque<(u64, Bytes)>>,
    more: Notify,
}

impl Queue {
    /// One more. Nobody needs those of earlier rounds any more.
    pub fn put(&self, round: u64, letter: Bytes) {
        let mut letters = self.letters();
        letters.retain(|(of, _)| *of == round);
        letters.push_back((round, letter));
        self.more.notify_one();
    }

    /// Waits for the next one.
    pub async fn next(&self) -> (u64, Bytes) {
        loop {
            let more = self.more.notified();
            if let Some(letter) = self.letters().pop_front() {
                return letter;
            }
            more.await;
        }
    }

    /// Drops all of them.
    pub fn clear(&self) {
        self.letters().clear();
    }

    fn letters(&self) -> MutexGuard<'_, VecDeque<(u64, Bytes)>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn letters_of_one_round_wait_in_order() {
        let queue = Queue::default();
        for (round, letter) in [(1, "old"), (2, "first"), (2, "second")] {
            queue.put(round, Bytes::from_static(letter.as_bytes()));
        }
        assert_eq!(queue.next().await, (2, Bytes::from_static(b"first")));
        assert_eq!(queue.next().await, (2, Bytes::from_static(b"second")));
        queue.put(3, Bytes::new());
        queue.clear();
        let next = tokio::time::timeout(std::time::Duration::from_millis(5), queue.next());
        assert!(next.await.is_err());
    }
}
