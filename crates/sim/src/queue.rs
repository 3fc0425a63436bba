//! Messages on their way, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use blindsum_protocol::PartyId;

use crate::network::Time;
use crate::relay::Parcel;

/// Something that happens at a moment of virtual time.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A party's turn for the answer of `leads_to`: at the start of the round, or when a message of the
    /// server reaches it.
    AtClient {
        to: PartyId,
        leads_to: u8,
        /// `None` starts the party.
        message: Option<Parcel>,
    },
    /// A copy of an answer reaches the server.
    AtServer { letter: usize },
}

/// What happens next, by time and then in the order in which it was caused: nothing depends on threads.
#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    caused: u64,
}

pub(crate) struct Entry {
    pub(crate) at: Time,
    order: u64,
    pub(crate) arrival: Arrival,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Time, arrival: Arrival) {
        self.heap.push(Reverse(Entry {
            at,
            order: self.caused,
            arrival,
        }));
        self.caused += 1;
    }

    /// Puts back what was taken too early, in its old place.
    pub(crate) fn put_back(&mut self, entry: Entry) {
        self.heap.push(Reverse(entry));
    }

    /// The next entry, if it happens until `deadline` and `wanted` says so.
    pub(crate) fn pop_if(
        &mut self,
        deadline: Time,
        wanted: impl FnOnce(&Arrival) -> bool,
    ) -> Option<Entry> {
        let Reverse(next) = self.heap.peek()?;
        if next.at > deadline || !wanted(&next.arrival) {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(queue: &mut Queue, deadline: Time) -> Vec<usize> {
        let mut letters = Vec::new();
        while let Some(entry) = queue.pop_if(deadline, |_| true) {
            if let Arrival::AtServer { letter } = entry.arrival {
                letters.push(letter);
            }
        }
        letters
    }

    #[test]
    fn by_time_then_by_cause() {
        let mut queue = Queue::default();
        for (letter, at) in [(0, 5), (1, 3), (2, 5), (3, 9), (4, 3)] {
            queue.push(at, Arrival::AtServer { letter });
        }
        let first = queue.pop_if(9, |_| true).unwrap();
        assert_eq!(first.at, 3);
        queue.put_back(first);
        assert!(queue.pop_if(9, |_| false).is_none());
        assert_eq!(letters(&mut queue, 5), [1, 4, 0, 2]);
        assert_eq!(letters(&mut queue, 9), [3]);
    }
}
