//! Parties come and go: who is let in, what they need to go on, and what follows when one has left.

use std::sync::Arc;

use tracing::info;

use super::Lead;
use super::face::{Effect, LinkId, Peer};
use super::joining::MAX_SKIPPED;
use super::link::Link;
use super::members::Member;
use super::presence::ANOTHER_PROCESS;
use crate::foreign;
use crate::pb::{self, RefusalCode};
use crate::report::JobState;

/// The most characters of what a party says of where it is.
pub const LONGEST_LOCATION: usize = 64;

impl Lead {
    /// Lets a party in, or says why not.
    pub(super) async fn admit(&mut self, id: LinkId, peer: Peer, hello: pb::Hello) {
        let (name, hand) = (peer.name.clone(), self.context.hand.clone());
        let link = Link { id, peer, hand };
        match self.welcome(&hello, &link) {
            Ok(welcome) => {
                self.context.say(Effect::Admit(id));
                link.frame(welcome.into());
                self.enter(name, link, &hello).await;
            }
            Err(refusal) => self.context.say(Effect::Refuse(id, refusal)),
        }
    }

    /// What a party hears that is let in. The newer connection of one party replaces its older one; [`Presence`] says
    /// which one is newer, and refuses a second party with the same name.
    ///
    /// [`Presence`]: super::presence::Presence
    fn welcome(&mut self, hello: &pb::Hello, link: &Link) -> Result<pb::Welcome, pb::Refused> {
        let name = &link.peer.name;
        check_hello(hello, name)?;
        // guard: failed-jobs-tell-their-latest-sum
        if self.phase.state().has_broken_off() && !self.ended.owes(name, hello.round) {
            return Err(self.job_failed());
        }
        // guard: a-banned-party-is-not-let-in
        if let Some(refusal) = self.unfit(&link.peer).or_else(|| self.banned(name)) {
            return Err(refusal);
        }
        let grace = self.context.parts.settings.reconnect_grace;
        let is_another = self.members.judge(hello, link, grace)?;
        // guard: another-process-gets-the-model
        if is_another {
            self.models.sealed.forget_process(name);
        }
        if let Some(older) = self.members.get(name).map(|member| &member.link) {
            let reason = match older.peer.certificate == link.peer.certificate {
                _ if is_another => ANOTHER_PROCESS,
                false => "its certificate was renewed: it has a new connection",
                true => "the same process has a newer connection",
            };
            let last = pb::Refused::new(RefusalCode::RefusalReplaced, reason);
            older.cut(last);
            self.members.settle(name, self.phase.running_mut());
        }
        info!(job = %self.context.name, party = %name, address = %link.peer.address,
            key_exchange = link.peer.traffic.key_exchange(), program = %foreign(&hello.program), "party joined");
        self.welcome_frame()
    }

    /// What everybody hears who is let in.
    pub(super) fn welcome_frame(&self) -> Result<pb::Welcome, pb::Refused> {
        let spec = serde_json::to_string(self.context.spec())
            .map_err(|e| pb::Refused::new(RefusalCode::RefusalJobFailed, e.to_string()))?;
        Ok(pb::Welcome {
            version: *pb::WIRE_VERSIONS.end(),
            program: pb::PROGRAM.into(),
            job_spec: spec,
            job_hash: self.context.job().hash().to_vec(),
            model: Some(self.models.current.name()),
            held: self.operator.held(),
        })
    }

    /// A party has been let in.
    async fn enter(&mut self, name: Arc<str>, link: Link, hello: &pb::Hello) {
        self.rounds
            .skip_to(&self.context.name, hello.last_round, MAX_SKIPPED);
        link.grant();
        let member = Member::new(link, hello);
        self.members.enter(&name, member, self.context.now());
        self.members
            .watch_crowd(&self.context, self.calls.is_hosted);
        self.greet(&name, hello).await;
        // guard: who-was-asked-for-the-model-may-be-gone
        // What went over an older connection may be lost.
        self.forget_source(&name);
        self.context.news();
    }

    /// Why there are no more rounds here: parties of a job that goes on elsewhere, or later, come again.
    pub(super) fn job_failed(&self) -> pb::Refused {
        let reason = self.phase.reason();
        match self.phase.state() == JobState::Stopped {
            true => {
                let reason = format!("the coordinator cannot go on, the job may: {reason}");
                pb::Refused::new(RefusalCode::RefusalStopping, reason)
            }
            false => {
                let reason = format!("the job has failed: {reason}");
                pb::Refused::new(RefusalCode::RefusalJobFailed, reason)
            }
        }
    }

    /// A party that was let into a failed job to hear the latest result has heard it.
    pub(super) fn leave_failed(&self, name: &str) {
        let member = self.members.get(name);
        if let Some(member) = member.filter(|_| self.phase.state().has_broken_off()) {
            member.link.close(self.job_failed());
        }
    }

    /// What a party that has just connected needs to go on.
    async fn greet(&mut self, name: &Arc<str>, hello: &pb::Hello) {
        if !self.resume_opening(name, hello.round) {
            self.resume(name, hello).await;
        }
        let Some(member) = self.members.get(name) else {
            return;
        };
        if self.phase.state() == JobState::Done {
            member.link.frame(self.job_done().into());
        }
        let is_called = self.calls.is_called(name);
        if let Some(joining) = self.phase.joining_mut().filter(|_| is_called) {
            if hello.round != joining.number {
                joining.forget(name);
            }
            let round = joining.number;
            let offer = self.models.offer(round, self.calls.tag());
            member.link.frame(offer.into());
        }
        self.call_came(name, hello.round);
    }

    /// A connection has ended. `returns` says whether the party does not know that, and will come back.
    pub(super) fn leave(&mut self, link: LinkId, reason: &str, returns: bool) {
        let Some(name) = self.members.name_at(link).cloned() else {
            return;
        };
        let (name, now) = (&name, self.context.now());
        // Whoever has left the job by itself is in the log already.
        if !self.members.departed.has(name) {
            info!(job = %self.context.name, party = %name, %reason, "party left");
        }
        self.members.settle(name, self.phase.running_mut());
        self.members.leave(link, now, returns);
        self.phase.lost(name, now);
        self.forget_source(name);
        if self.phase.joining().is_some() {
            self.calls.left(name, now);
        }
        self.context.news();
    }

    /// Ends the connection of a party that sent what it must not send.
    pub(super) fn refuse(&mut self, name: &str, reason: &str) {
        self.expel(name, pb::Refused::new(RefusalCode::RefusalBadFrame, reason));
    }

    /// Ends the connection of a party. It has gone at once: nothing that it says after this is heard, and nothing is
    /// queued for it, however slowly it reads.
    pub(super) fn expel(&mut self, name: &str, refusal: pb::Refused) {
        let Some(member) = self.members.get(name) else {
            return;
        };
        let (link, reason) = (member.link.id, refusal.reason.clone());
        // guard: rule-breakers-go-at-once
        member.link.cut(refusal);
        self.leave(link, &reason, false);
    }
}

/// Whether both speak one version of the wire, and the party is who its certificate says.
pub(super) fn check_hello(hello: &pb::Hello, name: &str) -> Result<(), pb::Refused> {
    let (first, last) = pb::WIRE_VERSIONS.into_inner();
    // guard: versions-meet
    if hello.first_version > last || hello.last_version < first {
        let reason = format!(
            "{} speaks wire versions {first} to {last}, {} speaks {} to {}: update the older one",
            pb::PROGRAM,
            foreign(&hello.program),
            hello.first_version,
            hello.last_version
        );
        return Err(pb::Refused::new(RefusalCode::RefusalVersion, reason));
    }
    if hello.location.chars().count() > LONGEST_LOCATION
        || hello.location.chars().any(char::is_control)
    {
        let rule = format!("location: must be a text of at most {LONGEST_LOCATION} characters");
        return Err(pb::Refused::new(RefusalCode::RefusalBadFrame, rule));
    }
    // guard: parties-are-called-as-certified
    if hello.name != name {
        let reason = format!(
            "the party calls itself {:?}, its certificate is that of {name:?}",
            foreign(&hello.name)
        );
        return Err(pb::Refused::new(RefusalCode::RefusalName, reason));
    }
    Ok(())
}
