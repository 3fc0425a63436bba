//! What watchers are told of a job: where it stands, and what keeps it from going on.

use tracing::warn;

use super::state::State;
use crate::hex;
use crate::machine::Time;
use crate::report::{JobState, JobStatus, PrivacyStatus, RoundReport};

impl State {
    /// Tells the watchers what has changed, not more often than they can look; gives the time of the next
    /// telling, where there is something to tell.
    pub(super) fn publish_progress(&mut self) -> Option<Time> {
        let due = self.context.board.is_due(self.context.now());
        if due.is_ok() {
            self.publish(self.phase.report());
        }
        due.err().flatten()
    }

    /// Tells the watchers where the job stands.
    pub(super) fn publish(&self, latest: Option<RoundReport>) {
        let (before, blocked) = (self.context.board.status(), blocked(self));
        let (warning, warnings) = warned(self, &blocked);
        let ready = self.phase.count();
        self.context.count(|totals| totals.ready = ready);
        if lacks_only_needed(self) && warning != before.warning {
            warn!(job = %self.context.name, "{warning}");
        }
        let waiting_for = self.phase.waiting_for(&self.connections, &self.calls);
        self.context.board.set_status(JobStatus {
            job: before.job.clone(),
            state: self.phase.state(),
            reason: self.phase.reason().into(),
            protocol: before.protocol.clone(),
            rounds_done: self.rounds.done,
            rounds: self.operator.terms.rounds.into(),
            model_version: self.models.current.version(),
            model_hash: hex(self.models.current.hash()),
            model_from: self.models.first.from.clone(),
            best: self.rounds.best.clone(),
            privacy: (self.rounds.releases)
                .and_then(|releases| PrivacyStatus::of(self.context.job(), releases)),
            connected: self
                .connections
                .names()
                .map(|name| name.to_string())
                .collect(),
            key_exchange: self.connections.key_exchange(),
            waiting_for,
            min_parties: before.min_parties,
            warning,
            warnings,
            blocked,
            unconfirmed: self.ended.unconfirmed(),
            lost: self.connections.lost(),
            left: self.connections.departed.reasons(),
            round: latest.or_else(|| before.round.clone()),
            held: self.operator.held(),
            ready: self.phase.ready(),
            banned: self.operator.banned(self.context.unix_millis()),
        });
    }
}

/// What the operator must know: of whom no round begins without, for whom the job waits, of the revocation list, of
/// bounds that fall: in one text, and one by one without for whom the job waits.
fn warned(state: &State, blocked: &str) -> (String, Vec<String>) {
    let lacks =
        lacks_only_needed(state).then(|| state.connections.lacks_needed(state.context.job()));
    let first = first_warning(state);
    let said = |texts: &[&str]| {
        let texts = texts.iter().filter(|text| !text.is_empty());
        texts.map(ToString::to_string).collect::<Vec<_>>()
    };
    let before = said(&[lacks.as_deref().unwrap_or_default(), &first]);
    let behind = said(&[
        &state.opened.warning,
        state.certificates.warning(),
        &state.bounds.warning,
    ]);
    let all = [before.as_slice(), &said(&[blocked]), &behind].concat();
    (all.join("; "), [before, behind].concat())
}

/// For whom or what the job waits after a round without a result; empty where rounds go on, operators hold them, or the
/// job has ended.
fn blocked(state: &State) -> String {
    let enough = state.connections.len() >= state.context.least_roster();
    let is_offered = state.phase.offered().is_some() && enough;
    match state.phase.state() == JobState::Running
        && state.operator.held().is_empty()
        && !is_offered
    {
        true => state.trouble.blocked(state.context.unix_millis()),
        false => String::new(),
    }
}

/// What the job waits for before round 1; empty where it does not wait for the first model.
fn first_warning(state: &State) -> String {
    let enough = state.connections.len() >= state.context.least_roster();
    match state.models.current.is_awaited() && state.phase.state() == JobState::Running && enough {
        true => state.models.first.warning(),
        false => String::new(),
    }
}

/// Whether there are enough parties for a round, and servers or the root are missing.
fn lacks_only_needed(state: &State) -> bool {
    let enough = state.connections.len() >= state.context.least_roster();
    enough
        && !state.connections.has_needed(state.context.job())
        && state.phase.state() == JobState::Running
}
