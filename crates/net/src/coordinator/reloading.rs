//! What a running coordinator takes over from its configuration file when that is read again.

use std::collections::BTreeSet;
use std::path::Path;

use blindsum_job::difference::{Difference, differences};
use blindsum_job::foreign;
use tracing::{info, warn};

use super::Control;
use super::configured::{Also, Source};
use super::file::{ConfigFile, of_job};

/// The outcome of a reloaded configuration, a sentence each.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Parts that were applied.
    pub done: Vec<String>,
    /// Parts that were not applied, with advice.
    pub left: Vec<String>,
    /// Parts that cannot be used, with the reasons; the earlier values stay in use.
    pub wrong: Vec<String>,
}

/// How much of a configuration was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All that a running coordinator takes over.
    Done,
    /// Something of it cannot be used.
    InPart,
    /// Nothing: none of it can be used.
    Nothing,
}

impl Reloaded {
    /// What was taken over and what was not, a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let left = self.left.iter().chain(&self.wrong);
        let left = left.map(|line| format!("not done: {line}"));
        let lines = self.done.iter().cloned().chain(left);
        // The words of an error about a file may be lines themselves.
        lines.map(|line| line.replace('\n', " ")).collect()
    }

    pub(super) fn end(&self) -> End {
        match (self.wrong.is_empty(), self.done.is_empty()) {
            (true, _) => End::Done,
            (false, false) => End::InPart,
            (false, true) => End::Nothing,
        }
    }
}

impl Control {
    /// Records in the log and in the audit trail what became of the order to read files again.
    pub(super) fn record_reload(&self, by: &str, reason: &str, told: &Reloaded) {
        let (by, reason, order) = (foreign(by), foreign(reason), "reload");
        let items = told.lines().join("; ");
        let outcome = match told.end() {
            End::Done => {
                info!(%by, order, %reason, outcome = %items, "ordered");
                Ok(items)
            }
            End::InPart => {
                let outcome = format!("done in part: {items}");
                warn!(%by, order, %reason, %outcome, "ordered, and done in part");
                Ok(outcome)
            }
            End::Nothing => {
                warn!(%by, order, %reason, outcome = %items, "order refused");
                Err(items)
            }
        };
        self.audit("", by, order, reason, &outcome);
    }

    /// The coordinator was configured by this file, with these settings: [`reload_again`](Self::reload_again) reads it again,
    /// and `also` does what its program takes over.
    pub async fn configured_by(
        &self,
        path: Option<&Path>,
        settings: Vec<String>,
        read: ConfigFile,
        also: Also,
    ) {
        let path = path.map(Path::to_owned);
        *self.configured.0.lock().await = Some(Source {
            path,
            settings,
            before: read,
            also,
        });
    }

    /// Whether the configuration file, as it was read last, has a job of this name.
    pub(super) async fn configures(&self, job: &str) -> bool {
        let configured = self.configured.0.lock().await;
        let jobs = configured
            .as_ref()
            .map(|source| source.before.written_jobs());
        let jobs = jobs.and_then(Result::ok).unwrap_or_default();
        jobs.iter().any(|written| written.spec.job == job)
    }

    /// Reads the configuration file again, if there is one, and takes over what [`reload`](Self::reload) does; without one,
    /// certificates and the revocation list.
    pub async fn reload_again(&self) -> Reloaded {
        let mut configured = self.configured.0.lock().await;
        let mut told = Reloaded::default();
        let Some(Source {
            path,
            settings,
            before,
            also,
        }) = &mut *configured
        else {
            self.reload_credentials(&mut told);
            return told;
        };
        match ConfigFile::read(path.as_deref(), settings) {
            Ok(now) => {
                told = self.reload(before, &now).await;
                match also(&now) {
                    Ok(done) => told.done.extend(done),
                    Err(wrong) => told.wrong.push(wrong),
                }
                *before = now;
            }
            Err(error) => {
                self.reload_credentials(&mut told);
                told.wrong
                    .push(format!("limits and jobs stay as they are: {error}"));
            }
        }
        told
    }

    /// Reads certificates and the revocation list again, and takes over the limits and the new jobs of a configuration.
    /// `before` is the configuration as it was read the last time.
    async fn reload(&self, before: &ConfigFile, now: &ConfigFile) -> Reloaded {
        let mut told = Reloaded::default();
        self.reload_credentials(&mut told);
        self.reload_limits(now, &mut told).await;
        self.reload_jobs(before, now, &mut told).await;
        for field in before.differing(now) {
            let left = format!("{field} has changed: start the coordinator again to use it");
            told.left.push(left);
        }
        told
    }

    /// Reads certificate, key, CA and revocation list again.
    fn reload_credentials(&self, told: &mut Reloaded) {
        match self.files.reload() {
            true => told
                .done
                .push("certificate, key, CA and revocation list were read again".into()),
            false => told.wrong.push(
                "certificate, key, CA and revocation list: one of the files cannot be used, the log has the \
                 reason; the earlier content stays in use"
                    .into(),
            ),
        }
    }

    async fn reload_limits(&self, now: &ConfigFile, told: &mut Reloaded) {
        match self.set_limits(&now.limits).await {
            Ok((changed, left)) => {
                told.done.extend(changed);
                told.left.extend(left.into_iter().map(|name| {
                    format!("limits.{name} has changed: start the coordinator again to use it")
                }));
            }
            Err(error) => told.wrong.push(error.to_string()),
        }
    }

    /// Adds the jobs that are new, and names what else is different.
    async fn reload_jobs(&self, before: &ConfigFile, now: &ConfigFile, told: &mut Reloaded) {
        let written = match now.written_jobs() {
            Ok(written) => written,
            Err(error) => return told.wrong.push(format!("no job was added: {error}")),
        };
        let Some(host) = self.host() else {
            return;
        };
        let mut named = BTreeSet::new();
        for (i, written) in written.into_iter().enumerate() {
            let name = written.spec.job.clone();
            named.insert(name.clone());
            if let Some(served) = host.jobs.get(&name) {
                match written.spec.validate() {
                    Ok(job) => {
                        let found = differences(served.job.spec(), job.spec());
                        let found = found.iter().map(|it| left_as_it_is(&name, it));
                        told.left.extend(found);
                    }
                    Err(error) => told.wrong.push(of_job(i, error.into()).to_string()),
                }
                continue;
            }
            let limits = host.shared.limits();
            let mut room = host.room();
            let added = match written.read(&limits, &mut room) {
                Ok(job) => self.add(job).await,
                Err(error) => Err(error),
            };
            match added {
                Ok(()) => told.done.push(format!("job {name} was added")),
                Err(error) => told.wrong.push(format!("job {name}: {}", of_job(i, error))),
            }
        }
        // A job that an operator has added was never there, and one that was taken out is named once.
        let written = before.written_jobs().unwrap_or_default();
        for served in host.jobs.all() {
            let name = &served.job.spec().job;
            let was_there = written.iter().any(|written| written.spec.job == *name);
            if was_there && !named.contains(name) {
                let left = format!(
                    "job {name} is not in the configuration any more and goes on: `blindsum admin end {name}` ends it"
                );
                told.left.push(left);
            }
        }
    }
}

fn left_as_it_is(job: &str, difference: &Difference) -> String {
    let advice = match difference.may_change() {
        true => format!("`blindsum admin extend {job}` changes it"),
        false => "it cannot change in a job: give the job a new name".into(),
    };
    format!("job {job}: {difference}: left as it is; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_over_and_what_was_not_is_a_line_each() {
        let mut told = Reloaded::default();
        told.wrong.push("limits and jobs: line 3:\nno value".into());
        assert_eq!(told.end(), End::Nothing);
        told.done.push("certificates were read again".into());
        told.left.push("listen has changed".into());
        assert_eq!(told.end(), End::InPart);
        let lines = [
            "certificates were read again",
            "not done: listen has changed",
            "not done: limits and jobs: line 3: no value",
        ];
        assert_eq!(told.lines(), lines);
        told.wrong.clear();
        assert_eq!(told.end(), End::Done);
    }
}
