//! What systemd is told (`Type=notify`): that the server is ready, what it does, that it lives, that it is stopping. Nothing
//! is said where the program was not started by a service manager that listens.

use std::io;
use std::time::Duration;

use blindsum_net::report::{JobStatus, RoundState};
use blindsum_net::watched::Watched;
use sd_notify::NotifyState;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::warn;

/// Time between two looks at what the server does.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Jobs that a line of status names.
const NAMED: usize = 3;

/// Tells a service manager how the server stands, until it is told that the server stops.
pub struct Notices(Option<JoinHandle<()>>);

impl Notices {
    /// The server is ready. From now on its state is told, and where the unit has `WatchdogSec=` that it lives.
    pub fn ready(watched: Watched) -> Self {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Self(None);
        }
        tell(&[NotifyState::Ready]);
        Self(Some(tokio::spawn(keep(watched))))
    }

    /// The server is stopping.
    pub fn stopping(self) {
        if let Some(keeping) = self.0 {
            keeping.abort();
            tell(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
        }
    }
}

async fn keep(watched: Watched) {
    // Twice in the time that systemd waits, so that one may come late.
    let sign_every = sd_notify::watchdog_enabled().map(|time| time / 2);
    let mut looks = interval(sign_every.map_or(LOOK_EVERY, |time| time.min(LOOK_EVERY)));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut told, mut signed) = (String::new(), None::<Instant>);
    loop {
        looks.tick().await;
        let now = status(&watched);
        if now != told {
            tell(&[NotifyState::Status(&now)]);
            told = now;
        }
        let is_due = |every: Duration| signed.is_none_or(|signed| signed.elapsed() >= every);
        if sign_every.is_some_and(is_due) {
            tell(&[NotifyState::Watchdog]);
            signed = Some(Instant::now());
        }
    }
}

/// What the server does, in a line.
fn status(watched: &Watched) -> String {
    let jobs = watched.jobs();
    let mut lines: Vec<String> = jobs
        .iter()
        .take(NAMED)
        .map(|job| line(&job.status.borrow()))
        .collect();
    match jobs.len().saturating_sub(NAMED) {
        0 => {}
        more => lines.push(format!("and {more} more jobs")),
    }
    match lines.is_empty() {
        true => "waiting for the coordinator".into(),
        false => lines.join("; "),
    }
}

fn line(status: &JobStatus) -> String {
    let (job, here) = (&status.job, status.connected.len());
    let round = status.round.as_ref();
    match round.filter(|round| round.state == RoundState::Running) {
        None => format!("{job}: {}, {here} parties connected", status.state.as_str()),
        Some(round) => {
            let stage = round.stages.last().map_or("", |stage| &*stage.name);
            let number = round.number;
            format!("{job}: round {number}, stage {stage}, {here} parties connected")
        }
    }
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        told_in_vain(&error);
    }
}

fn told_in_vain(error: &io::Error) {
    warn!(%error, "the service manager cannot be notified of the server's state (NOTIFY_SOCKET)");
}
