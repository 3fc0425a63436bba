//! Threads that do the parties' work, so that the CPU time of each party stays its own.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::SimError;
use crate::clock::Clock;

/// The threads of a run. Work of one party stays on one thread even where a machine uses rayon inside,
/// because each thread here is a pool of its own; work of the server spreads over all of them.
pub(crate) struct Workers<S> {
    /// One pool of one thread each, for parties; none where there is one thread in all.
    singles: Vec<ThreadPool>,
    /// One pool of all threads, for the run itself and the server.
    all: ThreadPool,
    /// What each worker keeps from one piece of work to the next.
    scratch: Vec<Mutex<S>>,
}

impl<S: Default + Send> Workers<S> {
    pub(crate) fn new(threads: usize) -> Result<Self, SimError> {
        let pool = |threads| {
            ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .map_err(|e| SimError::Threads(e.to_string()))
        };
        let singles = if threads > 1 { threads } else { 0 };
        Ok(Self {
            singles: (0..singles).map(|_| pool(1)).collect::<Result<_, _>>()?,
            all: pool(threads)?,
            scratch: (0..threads).map(|_| Mutex::default()).collect(),
        })
    }

    /// How many there are.
    pub(crate) fn threads(&self) -> usize {
        self.scratch.len()
    }

    /// Runs the whole simulation, so that rayon inside the machines finds this pool.
    pub(crate) fn install<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        self.all.install(run)
    }

    /// The clock that is right for work of the server.
    pub(crate) fn server_clock(&self) -> Clock {
        if self.threads() == 1 {
            Clock::Thread
        } else {
            Clock::Process
        }
    }

    /// Does `work` for every item. The order is not defined; which thread does what must not matter.
    pub(crate) fn each<T: Send>(&self, items: &mut [T], work: impl Fn(&mut S, &mut T) + Sync) {
        let few = items.len() <= 1;
        let mut in_turn = || {
            self.with_scratch(0, |scratch| {
                items.iter_mut().for_each(|item| work(scratch, item))
            })
        };
        match self.singles.first() {
            None => return in_turn(),
            Some(pool) if few => return pool.install(in_turn),
            Some(_) => {}
        }
        let next = AtomicUsize::new(0);
        let items: Vec<Mutex<&mut T>> = items.iter_mut().map(Mutex::new).collect();
        let (next, items, work) = (&next, &items, &work);
        std::thread::scope(|scope| {
            for (index, pool) in self.singles.iter().enumerate() {
                scope.spawn(move || {
                    pool.install(|| {
                        self.with_scratch(index, |scratch| {
                            drain(next, items, |item| work(scratch, item))
                        })
                    })
                });
            }
        });
    }

    fn with_scratch(&self, index: usize, work: impl FnOnce(&mut S)) {
        if let Some(scratch) = self.scratch.get(index) {
            let mut scratch = scratch
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            work(&mut scratch);
        }
    }
}

/// Takes items until none is left.
fn drain<T>(next: &AtomicUsize, items: &[Mutex<&mut T>], mut work: impl FnMut(&mut T)) {
    while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
        let mut item = item
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        work(&mut item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        for threads in [1, 3] {
            let workers = Workers::<Vec<u32>>::new(threads).unwrap();
            let mut items: Vec<u32> = (0..1000).collect();
            workers.each(&mut items, |scratch, item| {
                scratch.push(*item);
                *item += 1;
            });
            assert_eq!(items, (1..=1000).collect::<Vec<u32>>());
            let seen: usize = workers
                .scratch
                .iter()
                .map(|s| s.lock().unwrap().len())
                .sum();
            assert_eq!(seen, 1000);
        }
    }

    #[test]
    fn rayon_inside_stays_in_the_pool() {
        let workers = Workers::<()>::new(1).unwrap();
        assert_eq!(workers.install(rayon::current_num_threads), 1);
        let workers = Workers::<()>::new(2).unwrap();
        assert_eq!(workers.install(rayon::current_num_threads), 2);
        for count in [1, 3] {
            let mut pools = vec![0; count];
            workers.each(&mut pools, |(), threads| {
                *threads = rayon::current_num_threads()
            });
            assert_eq!(pools, vec![1; count]);
        }
    }
}
