//! What a party says of itself when it connects, and what it makes of a refusal.

use super::member::{Ended, Member};
use crate::JobError;
use crate::pb::{self, RefusalCode};

/// By what a coordinator tells a late Hello from a new one, and this process from another one of the same party.
pub(super) struct Introduction {
    pub process: [u8; 16],
    /// Connections that were begun.
    pub connections: u64,
    /// What the coordinator told this process to bring, to see that it lives.
    pub token: Vec<u8>,
}

impl Introduction {
    /// Of a process that begins.
    pub fn of(process: [u8; 16]) -> Self {
        Self {
            process,
            connections: 0,
            token: Vec::new(),
        }
    }
}

impl Member {
    /// The first words over a new connection.
    pub(super) fn hello(&mut self) -> pb::Hello {
        let (first_version, last_version) = pb::WIRE_VERSIONS.into_inner();
        let (live, me) = (self.memory.live.as_ref(), &mut self.introduction);
        me.connections += 1;
        pb::Hello {
            first_version,
            last_version,
            program: pb::PROGRAM.into(),
            job: self.settings.job.clone(),
            name: self.identity.name.clone(),
            round: live.map_or(0, |live| live.round),
            answered: live.map_or(0, |live| live.answered),
            process: me.process.to_vec(),
            connection: me.connections,
            token: me.token.clone(),
            last_round: self.memory.last_round,
        }
    }

    /// What a refusal means for the connection.
    pub(super) fn refused(&mut self, refused: pb::Refused) -> Ended {
        let code = refused.code();
        let reason = refused.reason;
        match code {
            RefusalCode::RefusalStopping | RefusalCode::RefusalTooSlow => Ended::Lost(reason),
            RefusalCode::RefusalComeAgain => {
                self.introduction.token = refused.token;
                Ended::Lost(reason)
            }
            RefusalCode::RefusalCertificate if self.newer => Ended::Lost(reason),
            // Whoever was welcomed before has its name by right, and outwaits who has taken it.
            RefusalCode::RefusalNameTaken if self.job.is_some() => Ended::Lost(reason),
            code => Ended::Failed(JobError::Refused { code, reason }),
        }
    }
}
