//! The other servers of a job, where its protocol needs some. They connect to the coordinator as parties do, each for its
//! role; they are in no roster, and a round waits for them in the stages in which they speak.

use blindsum_protocol::{Seat, ServerRole};
use tracing::{info, warn};

use super::Lead;
use super::admitting::check_hello;
use super::face::{Effect, LinkId, Peer};
use super::job::Event;
use super::link::Link;
use super::members::{Member, over};
use crate::MAX_AHEAD;
use crate::foreign;
use crate::pb::party_frame::Frame;
use crate::pb::{self, RefusalCode};
use crate::report::JobState;
use crate::totals::LossCause;

/// The name of a key service in the coordinator's process. No certificate has it.
pub const KEY_SERVICE: &str = "key service";

/// What a server is told when another one has taken its place.
const ANOTHER_SERVER: &str =
    "another process with the certificate of this server has connected after this one";

impl Lead {
    /// The place in the round under way of whoever is at the other end of a connection.
    pub(super) fn seat_at(&self, link: LinkId) -> Option<Seat> {
        if let Some(role) = self.members.server_at(link) {
            return Some(role.into());
        }
        let name = self.members.name_at(link)?;
        Some(self.phase.running()?.id(name)?.into())
    }

    /// Lets a server in, or says why not. The newer connection of one replaces its older one.
    pub(super) fn admit_server(
        &mut self,
        id: LinkId,
        peer: Peer,
        role: ServerRole,
        hello: &pb::Hello,
    ) {
        let link = Link {
            id,
            peer,
            hand: self.context.hand.clone(),
        };
        let welcome = check_hello(hello, &link.peer.name).and_then(|()| {
            match self
                .context
                .parts
                .job
                .servers()
                .any(|needed| needed == role)
            {
                true if !self.is_of_job(role, &link.peer.name) => {
                    let reason = format!("{} is not the {role} of this job", link.peer.name);
                    Err(pb::Refused::new(RefusalCode::RefusalName, reason))
                }
                true => self.welcome_frame(),
                false => {
                    let reason = format!("job {:?} needs no {role}", self.context.name);
                    Err(pb::Refused::new(RefusalCode::RefusalUnknownJob, reason))
                }
            }
        });
        let welcome = match welcome {
            Ok(welcome) => welcome,
            Err(refusal) => return self.context.say(Effect::Refuse(id, refusal)),
        };
        info!(job = %self.context.name, server = %link.peer.name, %role, address = %link.peer.address,
            key_exchange = link.peer.traffic.key_exchange(), "server joined");
        self.rounds
            .skip_to(&self.context.name, hello.last_round, MAX_AHEAD);
        self.context.say(Effect::Admit(id));
        link.frame(welcome.into());
        let (server, now) = (Member::new(link, hello), self.context.now());
        if let Some(older) = self.members.enter_server(role, server, now) {
            let last = pb::Refused::new(RefusalCode::RefusalReplaced, ANOTHER_SERVER);
            older.link.cut(last);
        }
        self.context.news();
        self.resume_server(role, hello);
        // guard: what-a-server-said-goes-with-its-process
        self.opened.begins_anew(role);
        if let Some(counted) = self.last_counted() {
            self.members
                .tell_server(role, over(counted, "it has a result", true).into());
        }
        if self.phase.state() == JobState::Done {
            self.members.tell_server(role, self.job_done().into());
        }
    }

    /// Whether a server is the one that the job names for its role, where it names one.
    fn is_of_job(&self, role: ServerRole, name: &str) -> bool {
        match (role, self.context.spec().decryptor()) {
            (ServerRole::Decryptor, Some(host)) => name == host,
            (ServerRole::Decryptor, None) if self.context.job().needs_everybody() => {
                name == KEY_SERVICE
            }
            _ => true,
        }
    }

    /// The connection of a server has ended.
    pub(super) fn leave_server(&mut self, role: ServerRole, reason: &str) {
        match self.phase.state() {
            JobState::Done => info!(job = %self.context.name, %role, %reason, "server left"),
            _ => warn!(job = %self.context.name, %role, %reason, "server left"),
        }
        let now = self.context.now();
        self.members.leave_server(role, now);
        if let Some(running) = self.phase.running_mut() {
            running.lost_seat(role.into(), now);
        }
        self.context.news();
    }

    /// A frame of a server: it says nothing between rounds, and in one only that it cannot go on.
    pub(super) fn server_frame(&mut self, role: ServerRole, frame: Frame) -> Option<Event> {
        match frame {
            Frame::RoundRefused(refusal) => {
                let number = self.phase.running().map(|running| running.number());
                if number == Some(refusal.round) {
                    self.refuses_to_open(role, &refusal);
                    let reason = format!("refused by the server: {}", foreign(&refusal.reason));
                    let seat = Seat::Server(role);
                    self.drop_seat(seat, LossCause::Refused, &reason);
                }
            }
            _ => {
                let reason = "a frame that no server sends";
                if let Some(server) = self.members.server(role) {
                    let last = pb::Refused::new(RefusalCode::RefusalBadFrame, reason);
                    server.link.cut(last);
                }
                self.leave_server(role, reason);
            }
        }
        None
    }
}
