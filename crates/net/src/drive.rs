//! A machine of a job with what drives it: a clock, and a thread for its work.

use blindsum_job::machine::{Machine, Step, Ticket};
use tokio::task::JoinHandle;
use tracing::error;

use crate::system::{Clock, begin};

/// A machine that is driven.
pub(crate) struct Drive<I, E, S = ()> {
    pub machine: Machine<I, E, S>,
    pub clock: Clock,
    /// Whose machine it is, for the log.
    name: String,
    /// The task under way, on a thread that may wait.
    working: Option<(Ticket, JoinHandle<()>)>,
}

impl<I, E, S> Drive<I, E, S> {
    pub fn new(machine: Machine<I, E, S>, clock: Clock, name: String) -> Self {
        Self {
            machine,
            clock,
            name,
            working: None,
        }
    }

    /// Hands in an input.
    pub fn handle(&mut self, input: I) {
        self.machine.handle(self.clock.now(), input);
    }

    /// The next effect to carry out. Work is begun on the way.
    pub fn poll(&mut self) -> Option<E> {
        loop {
            match self.machine.poll()? {
                Step::Effect(effect) => return Some(effect),
                Step::Work(task) => self.working = Some(begin(task)),
            }
        }
    }

    /// Waits until the machine goes on by itself: its work has ended, or its time has come. This may be given up at any
    /// moment, and begun again. What has come counts before a deadline, so it is the last thing to look at.
    pub async fn goes_on(&mut self) {
        let Some((ticket, work)) = &mut self.working else {
            self.clock.until(self.machine.wake()).await;
            return self.machine.tick(self.clock.now());
        };
        if let Err(error) = work.await {
            error!(of = %self.name, %error, "work ended without a result");
        }
        let ticket = *ticket;
        self.working = None;
        self.machine.worked(self.clock.now(), ticket);
    }
}
