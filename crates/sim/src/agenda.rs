//! What is still to happen, by time and then in the order in which it was caused, and the time: nothing depends on threads.

use std::collections::BTreeMap;

/// Virtual time since the beginning, in the unit that the owner of the agenda counts in.
pub(crate) type Time = u64;

/// What is still to happen, and the time.
pub(crate) struct Agenda<E> {
    time: Time,
    events: BTreeMap<(Time, u64), E>,
    caused: u64,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self {
            time: 0,
            events: BTreeMap::new(),
            caused: 0,
        }
    }
}

impl<E> Agenda<E> {
    /// The time.
    pub fn time(&self) -> Time {
        self.time
    }

    /// It is this time at least.
    pub fn passes(&mut self, time: Time) {
        self.time = self.time.max(time);
    }

    /// Something happens at this time.
    pub fn at(&mut self, at: Time, event: E) {
        self.events.insert((at, self.caused), event);
        self.caused += 1;
    }

    /// Something happens so much later.
    pub fn after(&mut self, pause: Time, event: E) {
        self.at(self.time + pause, event);
    }

    /// The events until a time, the next one first.
    pub fn until(&self, end: Time) -> impl Iterator<Item = &E> {
        self.events
            .range(..=(end, u64::MAX))
            .map(|(_, event)| event)
    }

    /// Takes out the next event, with its time, if it happens until `end` and is `wanted`. The time stays what it is.
    pub fn pop_if(&mut self, end: Time, wanted: impl FnOnce(&E) -> bool) -> Option<(Time, E)> {
        let next = self.events.first_entry()?;
        let at = next.key().0;
        (at <= end && wanted(next.get())).then(|| (at, next.remove()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_then_by_cause() {
        let mut agenda = Agenda::default();
        for (event, at) in [(0, 5), (1, 3), (2, 5), (3, 9), (4, 3)] {
            agenda.at(at, event);
        }
        let until = |agenda: &Agenda<i32>, end| agenda.until(end).copied().collect::<Vec<_>>();
        assert_eq!(until(&agenda, 5), [1, 4, 0, 2]);
        assert!(until(&agenda, 2).is_empty());
        assert_eq!(agenda.pop_if(2, |_| true), None);
        assert_eq!(agenda.pop_if(3, |event| *event == 4), None);
        assert_eq!(agenda.pop_if(3, |_| true), Some((3, 1)));
        // An event that is caused at a moment that has come already is the last of that moment.
        agenda.passes(3);
        agenda.passes(1);
        agenda.after(0, 5);
        agenda.after(2, 6);
        assert_eq!(agenda.time(), 3);
        assert_eq!(until(&agenda, u64::MAX), [4, 5, 0, 2, 6, 3]);
    }
}
