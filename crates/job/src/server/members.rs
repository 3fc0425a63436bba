//! The connected parties of a job: who comes in, what they need to go on, and who has gone.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::info;

use super::job::JobTask;
use super::presence::ANOTHER_PROCESS;
use super::session::{SessionHandle, refused, short};
use crate::limits::seconds;
use crate::outbox::Queued;
use crate::pb::{self, RefusalCode};
use crate::report::{self, JobState};

/// A connected party.
pub(super) struct Member {
    pub session: SessionHandle,
    /// Certificates that were sent over this connection.
    pub sent: HashSet<[u8; 32]>,
    /// Bytes of this connection that are accounted for.
    pub counted: report::Bytes,
    /// Whether the model was asked for and is being sent.
    pub model_sent: Option<u64>,
}

impl Member {
    /// The connection, and the bytes that came over it.
    pub fn heard(&self) -> (u64, u64) {
        (self.session.id, self.session.peer.traffic.read())
    }
}

impl JobTask {
    pub(super) fn is_current(&self, session: u64, name: &str) -> bool {
        self.members
            .get(name)
            .is_some_and(|member| member.session.id == session)
    }

    /// Lets a party in, or says why not. The newer connection of one party replaces its older one; [`Presence`] says
    /// which one is newer, and refuses a second party with the same name.
    ///
    /// [`Presence`]: super::presence::Presence
    pub(super) fn admit(
        &mut self,
        hello: pb::Hello,
        session: SessionHandle,
    ) -> Result<(), pb::Refused> {
        let name = session.peer.name.clone();
        if self.state == JobState::Failed && !self.ended.owes(&name, hello.round) {
            return Err(self.job_failed());
        }
        if let Some(refusal) = self.unfit(&session) {
            return Err(refusal);
        }
        let older = self.members.get(&name);
        let grace = seconds(self.parts.limits.reconnect_grace);
        self.presence.judge(&hello, &session, older, grace)?;
        if let Some(older) = older {
            let frame = refused(RefusalCode::RefusalReplaced, ANOTHER_PROCESS);
            older.session.outbox.end_now(frame.into());
            self.settle(&name);
        }
        info!(job = %self.name, party = %name, address = %session.peer.address,
            program = %short(&hello.program), "party joined");
        let spec = serde_json::to_string(self.parts.job.spec())
            .map_err(|e| refused(RefusalCode::RefusalJobFailed, e.to_string()))?;
        let welcome = pb::Welcome {
            version: *pb::WIRE_VERSIONS.end(),
            program: pb::PROGRAM.into(),
            job_spec: spec,
            job_hash: self.parts.job.hash().to_vec(),
            model: Some(self.model.name()),
        };
        session.outbox.frame(welcome.into());
        let member = Member {
            session,
            sent: HashSet::new(),
            counted: report::Bytes::default(),
            model_sent: None,
        };
        self.lost.remove(&name);
        if self.members.insert(name.clone(), member).is_none() {
            self.changed = Instant::now();
        }
        self.greet(&name, &hello);
        self.unpublished = true;
        Ok(())
    }

    fn job_failed(&self) -> pb::Refused {
        let reason = format!("the job has failed: {}", self.reason);
        refused(RefusalCode::RefusalJobFailed, reason)
    }

    /// A party that was let into a failed job to hear the latest result has heard it.
    pub(super) fn leave_failed(&self, name: &str) {
        let member = self.members.get(name);
        if let Some(member) = member.filter(|_| self.state == JobState::Failed) {
            member
                .session
                .outbox
                .put(Queued::Last(self.job_failed().into()));
        }
    }

    /// What a party that has just connected needs to go on.
    fn greet(&mut self, name: &Arc<str>, hello: &pb::Hello) {
        self.resume(name, hello);
        let Some(member) = self.members.get(name) else {
            return;
        };
        if self.state == JobState::Done {
            member.session.outbox.frame(self.job_done().into());
        }
        if let Some(joining) = &mut self.joining {
            if hello.round != joining.number {
                joining.forget(name);
            }
            let offer = pb::RoundOffer {
                round: joining.number,
                model: Some(self.model.name()),
            };
            member.session.outbox.frame(offer.into());
        }
    }

    /// A connection has ended. `returns` says whether the party does not know that, and will come back.
    pub(super) fn leave(&mut self, session: u64, name: &Arc<str>, reason: &str, returns: bool) {
        if !self.is_current(session, name) {
            return;
        }
        info!(job = %self.name, party = %name, %reason, "party left");
        self.settle(name);
        self.members.remove(name);
        if returns {
            self.lost.insert(name.clone());
        }
        if let Some(joining) = &mut self.joining {
            joining.forget(name);
        }
        self.forget_sealer(name);
        self.changed = Instant::now();
        if let Some(running) = &mut self.running {
            running.lost(name);
        }
        self.unpublished = true;
    }

    /// Ends the connection of a party that sent what it must not send.
    pub(super) fn refuse(&mut self, name: &str, reason: &str) {
        self.expel(name, refused(RefusalCode::RefusalBadFrame, reason));
    }

    /// Ends the connection of a party. It has gone at once: nothing that it says after this is heard, and nothing is
    /// queued for it, however slowly it reads.
    pub(super) fn expel(&mut self, name: &str, refusal: pb::Refused) {
        let Some((name, member)) = self.members.get_key_value(name) else {
            return;
        };
        let (name, session, reason) = (name.clone(), member.session.id, refusal.reason.clone());
        member.session.outbox.end_now(refusal.into());
        self.leave(session, &name, &reason, false);
    }

    /// Sends the current model, once a connection and version.
    pub(super) fn send_model(&mut self, name: &str, version: u64) {
        let current = self.model.version();
        let Some(member) = self.members.get_mut(name) else {
            return;
        };
        if version != current {
            // A round was finished meanwhile; the next offer names the newer version.
            return;
        }
        if member.model_sent == Some(version) {
            let reason = format!("model version {version} was sent over this connection already");
            return self.refuse(name, &reason);
        }
        member.model_sent = Some(version);
        if self.model.is_hidden() {
            return self.want_sealed_model(&name.into());
        }
        info!(job = %self.name, party = %name, version, bytes = self.model_bytes.len(), "model sent");
        member.session.outbox.put(Queued::Model {
            version,
            values: self.model_bytes.clone(),
        });
    }
}
