//! Whether a server can do its work, for load balancers and for people.
//!
//! A server is ready if parties may come. Which parties are here does not matter: a coordinator that was out of the way until
//! they are would never get any. A job is ready if its rounds can go on, and for that parties must be here.

use std::fmt::Write;

use blindsum_net::report::{JobState, JobStatus};
use blindsum_net::watched::Watched;
use http::StatusCode;

/// An answer about health.
pub(crate) struct Health {
    is_well: bool,
    pub text: String,
}

impl Health {
    pub fn status(&self) -> StatusCode {
        match self.is_well {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Whether the server takes parties: it is not stopping, its certificates are in their time, and no job has broken off.
pub(crate) fn ready(watched: &Watched) -> Health {
    let now = watched.unix_seconds();
    let (own, ca) = watched.certificates_end();
    let mut wrong = Vec::new();
    if watched.is_stopping() {
        wrong.push("it is stopping".to_owned());
    }
    if own < now {
        wrong.push("its certificate has expired: let the CA issue a new one".into());
    }
    if ca < now {
        wrong.push("a certificate of the CA has expired: replace the CA".into());
    }
    if watched.list_ends().is_some_and(|end| end <= now) {
        wrong.push("the revocation list is out of date: let the CA write a new one".into());
    }
    let mut lines = String::new();
    for job in watched.jobs() {
        let status = job.status.borrow();
        if status.state.has_broken_off() {
            wrong.push(format!("job {} has {}", status.job, status.state.as_str()));
        }
        line(&mut lines, &status);
    }
    health(wrong, &lines)
}

/// Whether the rounds of a job can go on, or it is done; `None` if there is no such job.
pub(crate) fn ready_job(watched: &Watched, name: &str) -> Option<Health> {
    let mut jobs = watched.jobs().into_iter();
    let job = jobs.find(|job| job.status.borrow().job == name)?;
    let status = job.status.borrow();
    let mut wrong = Vec::new();
    if status.state.has_broken_off() {
        wrong.push(format!(
            "it has {}: {}",
            status.state.as_str(),
            status.reason
        ));
    }
    let has_too_few = status.connected.len() < status.min_parties;
    // Where operators let no round begin, parties are not missed.
    if status.state == JobState::Running && status.held.is_empty() && has_too_few {
        wrong.push("too few parties are connected".into());
    }
    if status.state == JobState::Running && !status.held.is_empty() {
        wrong.push(format!("operators let no round begin: {}", advice(name)));
    }
    if status.state == JobState::Running && !status.blocked.is_empty() {
        wrong.push(blocked(name));
    }
    let mut lines = String::new();
    line(&mut lines, &status);
    Some(health(wrong, &lines))
}

/// What is said of a job that waits. Whom it waits for is a name: that is in the log and in the status.
fn blocked(job: &str) -> String {
    format!("it waits for a party, a server or a disk: {}", advice(job))
}

/// Where the names are: this page is open to everybody who reaches it.
fn advice(job: &str) -> String {
    format!("blindsum admin describe {job} has details")
}

fn line(lines: &mut String, status: &JobStatus) {
    let (here, least) = (status.connected.len(), status.min_parties);
    let state = status.state.as_str();
    let done = status.rounds_done;
    // Writing to a string cannot fail.
    let _ = writeln!(
        lines,
        "job {}: {state}, {here} parties connected, {least} needed, {done} rounds done",
        status.job
    );
}

fn health(wrong: Vec<String>, lines: &str) -> Health {
    let is_well = wrong.is_empty();
    let first = match is_well {
        true => "ready".to_owned(),
        false => format!("not ready: {}", wrong.join("; ")),
    };
    let text = format!("{first}\n{lines}");
    Health { is_well, text }
}
