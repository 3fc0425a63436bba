//! Sequential code without a runtime: a machine gets its inputs one by one and says which effects must be carried out.
//!
//! What a job does is easiest to read as code that goes from top to bottom and waits in the middle: for the next input,
//! for a computation, for a disk. Such code is an `async fn` here, and [`Machine`] polls it whenever something has come.
//! Nothing else wakes it: it has no threads, timers or sockets, and the same inputs at the same times with the same
//! seed lead to the same effects in the same order.
//!
//! The program that drives a machine hands in what has come ([`Machine::handle`], [`Machine::worked`], [`Machine::tick`]), and
//! then carries out its effects ([`Machine::poll`]) until there are no more. While a [`Task`] is under way, no effect
//! that comes after it in the code is given out: what must be durable before it is said is written to disk in a task.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use blindsum_crypto::Zeroizing;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use crate::JobError;

/// A time on a clock that never goes back, counted from an arbitrary beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

impl Time {
    /// The end of a wait that ends here, if it lasts `after` in place of `before`.
    pub fn moved(self, before: Duration, after: Duration) -> Self {
        Self(self.0.saturating_sub(before) + after)
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// How long after the other one; nothing where it is before.
    fn sub(self, before: Self) -> Duration {
        self.0.saturating_sub(before.0)
    }
}

/// The present time, on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The time by which deadlines are measured.
    pub time: Time,
    /// The time by which certificates and reports are dated: milliseconds since 1970-01-01 00:00 UTC.
    pub unix_millis: u64,
}

/// The number of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Work that takes long or waits for a disk. It may run on another thread. The machine goes on once [`Machine::worked`]
/// tells it that the work is done. A machine has one task under way at a time.
pub struct Task {
    /// The ticket to give to [`Machine::worked`] when the work is done.
    pub ticket: Ticket,
    work: Box<dyn FnOnce() + Send>,
}

impl Task {
    /// Does the work.
    pub fn run(self) {
        (self.work)();
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Task({})", self.ticket.0)
    }
}

/// What a machine gives out.
#[derive(Debug)]
pub enum Step<E> {
    /// Do this work, and then call [`Machine::worked`].
    Work(Task),
    /// Carry this out.
    Effect(E),
}

/// What lies between a machine's code and whoever drives it.
struct Desk<I, E> {
    now: Now,
    inbox: VecDeque<I>,
    steps: VecDeque<Step<E>>,
    /// The task under way.
    task: Option<Ticket>,
    tickets: u64,
    /// When the code goes on though nothing has come.
    wake: Option<Time>,
    seeds: ChaCha20Rng,
}

/// A machine: its code, what goes in and out, and what it shows meanwhile.
pub struct Machine<I, E, S = ()> {
    hand: Hand<I, E>,
    code: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// What its code and whoever drives it share.
    pub(crate) shown: S,
}

/// What a machine's code uses to get inputs, the time and randomness, and to give out effects.
pub struct Hand<I, E>(Arc<Mutex<Desk<I, E>>>);

impl<I, E> Clone for Hand<I, E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<I, E, S> Machine<I, E, S> {
    /// Starts a machine with this code. All its randomness comes from `entropy`, which must not be used a second time.
    pub(crate) fn start<F>(
        entropy: [u8; 32],
        now: Now,
        shown: S,
        code: impl FnOnce(Hand<I, E>) -> F,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let desk = Desk {
            now,
            inbox: VecDeque::new(),
            steps: VecDeque::new(),
            task: None,
            tickets: 0,
            wake: None,
            seeds: ChaCha20Rng::from_seed(entropy),
        };
        let hand = Hand(Arc::new(Mutex::new(desk)));
        let code: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(code(hand.clone()));
        let mut machine = Self {
            hand,
            code: Some(code),
            shown,
        };
        machine.go_on();
        machine
    }

    /// Hands in an input.
    pub fn handle(&mut self, now: Now, input: I) {
        {
            let mut desk = self.hand.desk();
            desk.now = now;
            desk.inbox.push_back(input);
        }
        self.go_on();
    }

    /// Tells the machine that a task is done. If the work ended without a result, the machine notices that.
    pub fn worked(&mut self, now: Now, ticket: Ticket) {
        {
            let mut desk = self.hand.desk();
            desk.now = now;
            desk.task.take_if(|task| *task == ticket);
        }
        self.go_on();
    }

    /// Tells the machine that time has passed.
    pub fn tick(&mut self, now: Now) {
        self.hand.desk().now = now;
        self.go_on();
    }

    /// The next thing to do, in the order in which the code gave them out.
    pub fn poll(&mut self) -> Option<Step<E>> {
        self.hand.desk().steps.pop_front()
    }

    /// The next effect to carry out. Work is done on the way, by this call.
    pub fn poll_working(&mut self, now: Now) -> Option<E> {
        self.poll_with(now, Task::run)
    }

    /// The next effect to carry out. On the way `work` does each task, or drops it.
    pub fn poll_with(&mut self, now: Now, mut work: impl FnMut(Task)) -> Option<E> {
        loop {
            match self.poll()? {
                Step::Effect(effect) => return Some(effect),
                Step::Work(task) => {
                    let ticket = task.ticket;
                    work(task);
                    self.worked(now, ticket);
                }
            }
        }
    }

    /// When to call [`tick`](Self::tick), unless something comes before.
    pub fn wake(&self) -> Option<Time> {
        self.hand.desk().wake
    }

    /// Whether a task is under way. Inputs wait for its end.
    pub fn is_busy(&self) -> bool {
        self.hand.desk().task.is_some()
    }

    /// Whether the code has ended.
    pub fn is_over(&self) -> bool {
        self.code.is_none()
    }

    fn go_on(&mut self) {
        let Some(code) = &mut self.code else {
            return;
        };
        let mut nobody = Context::from_waker(Waker::noop());
        if code.as_mut().poll(&mut nobody).is_ready() {
            self.code = None;
            self.hand.desk().wake = None;
        }
    }
}

impl<I, E> Hand<I, E> {
    fn desk(&self) -> MutexGuard<'_, Desk<I, E>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time by which deadlines are measured.
    pub fn now(&self) -> Time {
        self.desk().now.time
    }

    /// Milliseconds since 1970-01-01 00:00 UTC.
    pub fn unix_millis(&self) -> u64 {
        self.desk().now.unix_millis
    }

    /// Seconds since 1970-01-01 00:00 UTC.
    pub fn unix_seconds(&self) -> u64 {
        self.unix_millis() / 1000
    }

    /// A generator of fresh randomness.
    pub fn random(&self) -> ChaCha20Rng {
        ChaCha20Rng::from_seed(*self.seed())
    }

    /// The seed of fresh randomness, for code that may have to draw it a second time.
    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        let mut seed = Zeroizing::new([0; 32]);
        self.desk().seeds.fill_bytes(&mut *seed);
        seed
    }

    /// Gives out an effect.
    pub fn say(&self, effect: E) {
        self.desk().steps.push_back(Step::Effect(effect));
    }

    /// Waits for the next input; `None` if the time `until` comes first.
    pub async fn next(&self, until: Option<Time>) -> Option<I> {
        poll_fn(|_| {
            let mut desk = self.desk();
            let input = desk.inbox.pop_front();
            let over = until.is_some_and(|until| until <= desk.now.time);
            let waits = input.is_none() && !over;
            desk.wake = until.filter(|_| waits);
            match waits {
                true => Poll::Pending,
                false => Poll::Ready(input),
            }
        })
        .await
    }

    /// Has `work` done as a task, because it takes long or waits for a disk, and waits for its result.
    ///
    /// # Errors
    /// The work ended without a result: it panicked, or was not done at all.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JobError> {
        let result = Arc::new(Mutex::new(None));
        let place = result.clone();
        let work = Box::new(move || {
            let done = work();
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        });
        {
            let mut desk = self.desk();
            desk.tickets += 1;
            let ticket = Ticket(desk.tickets);
            desk.task = Some(ticket);
            desk.wake = None;
            desk.steps.push_back(Step::Work(Task { ticket, work }));
        }
        poll_fn(|_| match self.desk().task.is_some() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
        let done = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        done.ok_or_else(|| JobError::System("internal error: a task gave no result".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        let time = Time(Duration::from_secs(seconds));
        let unix_millis = seconds * 1000;
        Now { time, unix_millis }
    }

    /// Doubles numbers in tasks, and counts the seconds in which nothing came.
    async fn code(hand: Hand<u32, String>) {
        loop {
            let until = hand.now() + Duration::from_secs(10);
            let said = match hand.next(Some(until)).await {
                Some(0) => return,
                Some(number) => match hand.work(move || number.checked_mul(2).unwrap()).await {
                    Ok(doubled) => doubled.to_string(),
                    Err(error) => error.to_string(),
                },
                None => format!("nothing until {}", hand.unix_seconds()),
            };
            hand.say(said);
        }
    }

    fn said(machine: &mut Machine<u32, String>) -> Vec<String> {
        std::iter::from_fn(|| machine.poll())
            .map(|step| match step {
                Step::Effect(text) => text,
                Step::Work(_) => panic!("work in the place of words"),
            })
            .collect()
    }

    fn task(machine: &mut Machine<u32, String>) -> Task {
        match machine.poll() {
            Some(Step::Work(task)) => task,
            other => panic!("{other:?} in the place of a task"),
        }
    }

    #[test]
    fn inputs_wait_for_the_end_of_a_task_and_keep_their_order() {
        let mut machine = Machine::start([1; 32], at(0), (), code);
        assert_eq!(machine.wake(), Some(at(10).time));
        machine.handle(at(1), 21);
        machine.handle(at(2), 4);
        assert!(machine.is_busy() && machine.wake().is_none());
        let first = task(&mut machine);
        assert!(machine.poll().is_none());
        let ticket = first.ticket;
        first.run();
        machine.worked(at(3), ticket);
        // An end that is told twice is not that of the next task.
        machine.worked(at(3), ticket);
        assert!(matches!(machine.poll(), Some(Step::Effect(text)) if text == "42"));
        let second = task(&mut machine);
        machine.worked(at(4), second.ticket);
        assert_eq!(
            said(&mut machine),
            ["internal error: a task gave no result"]
        );
        assert!(!machine.is_busy() && !machine.is_over());
    }

    #[test]
    fn time_passes_only_when_it_is_told() {
        let mut machine = Machine::start([1; 32], at(0), (), code);
        machine.tick(at(9));
        assert!(said(&mut machine).is_empty());
        machine.tick(at(25));
        assert_eq!(said(&mut machine), ["nothing until 25"]);
        assert_eq!(machine.wake(), Some(at(35).time));
        machine.handle(at(30), 0);
        assert!(machine.is_over() && machine.wake().is_none());
        // Nothing happens after the end.
        machine.handle(at(40), 7);
        machine.tick(at(90));
        assert!(machine.poll().is_none());
    }

    #[test]
    fn the_same_seed_gives_the_same_randomness_and_never_twice() {
        let draw = |entropy| {
            let mut machine: Machine<(), [u64; 2]> =
                Machine::start(entropy, at(0), (), |hand| async move {
                    hand.say([hand.random().next_u64(), hand.random().next_u64()]);
                });
            machine.poll_working(at(0)).unwrap()
        };
        let drawn = draw([1; 32]);
        assert_eq!(drawn, draw([1; 32]));
        assert_ne!(drawn, draw([2; 32]));
        assert_ne!(drawn[0], drawn[1]);
    }
}
