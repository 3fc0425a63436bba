//! Orders to a running coordinator, from the program that runs it or from an operator elsewhere.

use std::sync::{Arc, Weak};

use blindsum_job::coordinator::Input;
use blindsum_job::foreign;
use blindsum_job::orders::{Command, Order, OrderError, Outcome};
use tokio::sync::{oneshot, watch};
use tracing::{info, warn};

use super::checked::check_added;
use super::configured::Configured;
use super::driver::Event;
use super::hosting::{Host, ServedJob};
use super::{JobConfig, needed_servers};
use crate::audit::{Entry, OrderEntry};
use crate::report::JobStatus;
use crate::tls::Reload;
use crate::{Limits, NetError};

/// Gives orders to the jobs of a running coordinator. Clones give orders to the same one. It keeps nothing of a coordinator
/// that has stopped, such as its store.
#[derive(Clone)]
pub struct Control {
    host: Weak<Host>,
    pub(super) files: Reload,
    /// The configuration file, where there is one.
    pub(super) configured: Configured,
    drained: watch::Sender<bool>,
}

/// Limits that a running coordinator takes over; the others hold for connections and threads that are there already.
const CHANGEABLE: [&str; 5] = [
    "patience",
    "reconnect_grace",
    "failed_rounds",
    "farewell",
    "drain_deadline",
];

impl Control {
    pub(super) fn new(host: &Arc<Host>, files: Reload) -> Self {
        Self {
            host: Arc::downgrade(host),
            files,
            configured: Configured::default(),
            drained: watch::Sender::new(false),
        }
    }

    /// What takes jobs up; none once the coordinator has stopped.
    pub(super) fn host(&self) -> Option<Arc<Host>> {
        self.host.upgrade()
    }

    /// Orders something of a job. It is carried out, or refused, once the job has done what it is doing.
    ///
    /// # Errors
    /// Why it was refused; nothing has changed then.
    pub async fn order(&self, job: &str, order: Order) -> Result<Outcome, OrderError> {
        let host = self.host();
        let given = match &host {
            None => Err(OrderError::Stopping { job: foreign(job) }),
            Some(host) => {
                let closed = host.closed.read().await;
                match host.jobs.get(job) {
                    _ if *closed => Err(OrderError::Stopping { job: foreign(job) }),
                    None => Err(OrderError::UnknownJob { job: foreign(job) }),
                    Some(served) => give(&served, order.clone()).await,
                }
            }
        };
        match given {
            Ok(outcome) => outcome,
            Err(error) => {
                let outcome = Err(error.to_string());
                let name = order.command.name();
                self.record(job, &order.by, name, &order.reason, &outcome);
                Err(error)
            }
        }
    }

    /// Lets every job finish its round and offer none; ends once all of them have stopped. `within` is how many seconds
    /// a round may last at most; `None` is the limit `drain_deadline`, or the job's input deadline.
    pub async fn drain(&self, by: &str, reason: &str, within: Option<f64>) {
        let draining = self.begin_drain(by, reason, within).await;
        self.finish_drain(draining).await;
    }

    /// Gives every job the order to drain; gives what each of them said.
    async fn begin_drain(&self, by: &str, reason: &str, within: Option<f64>) -> Vec<Draining> {
        let host = self.host();
        let limit = host.as_ref().map(|host| host.shared.limits());
        let within = within.or(limit.and_then(|limits| limits.drain_deadline));
        let jobs = host.map_or_else(Vec::new, |host| host.jobs.all());
        let orders = jobs.into_iter().map(|job| {
            let order = Order {
                command: Command::Drain { within },
                by: by.into(),
                reason: reason.into(),
            };
            tokio::spawn(async move {
                let name = &job.job.spec().job;
                let said = match give(&job, order).await.and_then(|outcome| outcome) {
                    Ok(outcome) => outcome.to_string(),
                    Err(error) => format!("does not drain: {error}"),
                };
                info!(job = %name, "drain: {said}");
                let said = format!("job {name}: {said}");
                Draining { job, said }
            })
        });
        let mut draining = Vec::new();
        for order in orders.collect::<Vec<_>>() {
            draining.extend(order.await);
        }
        draining
    }

    /// Waits until these jobs have stopped.
    async fn finish_drain(&self, draining: Vec<Draining>) {
        for Draining { job, .. } in draining {
            job.handle.events.closed().await;
        }
        self.drained.send_replace(true);
    }

    /// Lets every job drain, as [`drain`](Self::drain) does, and says what each of them does, a line each.
    /// [`is_drained`](Self::is_drained) says when that is done.
    ///
    /// # Errors
    /// The order has no reason, or a value that is not allowed.
    pub(super) async fn drain_all(
        &self,
        order: &Order,
        within: Option<f64>,
    ) -> Result<String, OrderError> {
        if let Err(error) = order.check() {
            let outcome = Err(error.to_string());
            self.record("", &order.by, "drain", &order.reason, &outcome);
            return Err(error);
        }
        let (control, by, reason) = (self.clone(), order.by.clone(), order.reason.clone());
        let (answer, answered) = oneshot::channel();
        // It goes on also where the operator does not wait for the answer.
        tokio::spawn(async move {
            let draining = control.begin_drain(&by, &reason, within).await;
            let said = draining.iter().map(|job| job.said.clone());
            let _ = answer.send(said.collect::<Vec<_>>());
            control.finish_drain(draining).await;
        });
        let mut lines = answered.await.unwrap_or_default();
        lines.push("the coordinator stops then".into());
        Ok(lines.join("\n"))
    }

    /// Waits until all jobs have drained, whoever ordered it.
    pub async fn is_drained(&self) {
        let mut drained = self.drained.subscribe();
        // It lives as long as this.
        let _ = drained.wait_for(|drained| *drained).await;
    }

    /// Records an order that came to no job, in the log and in the audit trail: a job records its own.
    pub(super) fn record(
        &self,
        job: &str,
        by: &str,
        order: &'static str,
        reason: &str,
        outcome: &Result<String, String>,
    ) {
        let (by, reason) = (foreign(by), foreign(reason));
        match outcome {
            Ok(outcome) => info!(job = %foreign(job), %by, order, %reason, %outcome, "ordered"),
            Err(error) => {
                warn!(job = %foreign(job), %by, order, %reason, outcome = %error, "order refused");
            }
        }
        self.audit(job, by, order, reason, outcome);
    }

    pub(super) fn audit(
        &self,
        job: &str,
        by: String,
        order: &'static str,
        reason: String,
        outcome: &Result<String, String>,
    ) {
        let Some(host) = self.host() else {
            return;
        };
        let job = foreign(job);
        host.shared.observers.audit.note(|| {
            Entry::Order(OrderEntry {
                job,
                by,
                order,
                values: None,
                reason,
                outcome: outcome.clone().unwrap_or_else(|error| error),
                refused: outcome.is_err(),
            })
        });
    }

    /// Takes up one more job.
    ///
    /// # Errors
    /// The job breaks a rule, has the name of another one here, needs other servers, or the store has it with another
    /// specification.
    pub async fn add(&self, job: JobConfig) -> Result<(), NetError> {
        let stops = || {
            NetError::config(
                "jobs",
                "the coordinator stops: start it again with this job",
            )
        };
        let host = self.host().ok_or_else(stops)?;
        let closed = host.closed.read().await;
        if *closed {
            return Err(stops());
        }
        let name = &job.spec.job;
        if host.jobs.get(name).is_some() {
            let rule = format!("job {name:?} exists already: give the new one another name");
            return Err(NetError::config("jobs", rule));
        }
        let checked = check_added(job, &host.shared.limits(), host.room())?;
        let name = &checked.job.spec().job;
        if needed_servers(&checked.job) > 0 {
            let rule = format!(
                "job {name:?} has other servers, and the lines to them are made when the coordinator starts: add it to \
                 the configuration and start the coordinator again"
            );
            return Err(NetError::config("jobs", rule));
        }
        info!(job = %name, "job added");
        host.take_up(checked).await.map(drop)
    }

    /// Takes over other limits. Gives those that have changed, with both values, and the names of those that would need
    /// another start.
    ///
    /// # Errors
    /// A limit that breaks its rule. Nothing has changed then.
    pub async fn set_limits(
        &self,
        limits: &Limits,
    ) -> Result<(Vec<String>, Vec<String>), NetError> {
        let broken = |(field, rule)| NetError::config(format!("limits.{field}"), rule);
        limits.check().map_err(broken)?;
        let Some(host) = self.host() else {
            return Ok((Vec::new(), Vec::new()));
        };
        let before = host.shared.limits();
        let (changed, kept): (Vec<String>, Vec<String>) = before
            .differing(limits)
            .into_iter()
            .partition(|name| CHANGEABLE.contains(&&**name));
        let changed = changed
            .iter()
            .map(|name| before.change(limits, name))
            .collect();
        host.shared.set_limits(Limits {
            patience: limits.patience,
            reconnect_grace: limits.reconnect_grace,
            failed_rounds: limits.failed_rounds,
            farewell: limits.farewell,
            drain_deadline: limits.drain_deadline,
            ..before
        });
        let settings = host.shared.settings();
        for job in host.jobs.all() {
            // A job that has stopped waits for nothing.
            let _ = job
                .handle
                .events
                .send(Event::Input(Input::Settings(settings)))
                .await;
        }
        Ok((changed, kept))
    }

    /// How a job stands; `None` if there is no such job.
    pub fn status(&self, job: &str) -> Option<JobStatus> {
        Some(self.host()?.jobs.get(job)?.status.borrow().clone())
    }
}

/// A job that was ordered to drain.
struct Draining {
    job: ServedJob,
    /// What becomes of it, for people.
    said: String,
}

/// Gives an order to a job that is served, and waits for what becomes of it.
///
/// # Errors
/// It came to no job: that one has ended here.
async fn give(job: &ServedJob, order: Order) -> Result<Result<Outcome, OrderError>, OrderError> {
    let (answer, answered) = oneshot::channel();
    let event = Event::Order { order, answer };
    let stopping = || OrderError::Stopping {
        job: job.job.spec().job.clone(),
    };
    let sent = job.handle.events.send(event).await;
    sent.map_err(|_| stopping())?;
    answered.await.map_err(|_| stopping())
}
