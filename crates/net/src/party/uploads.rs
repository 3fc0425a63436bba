//! What a party gives the servers of its job that are not the coordinator: one task for each of them, which tries until
//! the part is taken, or never will be, or the round is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use blindsum_job::foreign;
use blindsum_job::party::Input;
use blindsum_protocol::ServerRole;
use bytes::Bytes;
use rustls::ClientConfig;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tonic::{Code, Status};
use tracing::{debug, warn};

use super::PartyConfig;
use crate::address::Address;
use crate::chunks::pieces;
use crate::connect::{CONNECT_TIME, ConnectError, PAUSES, Target};
use crate::pb::{UploadAnswer, UploadChunk};
use crate::plain::status_words;
use crate::servers::Servers;
use crate::{NetError, seconds};

/// The uploads of a party. Those under way end when this is dropped.
pub(super) struct Uploads {
    servers: Option<Servers>,
    job: String,
    tls: Arc<ClientConfig>,
    keepalive: Duration,
    commands: UnboundedSender<Input>,
    /// The round of the latest upload to each server, its task, and whether any was answered there yet.
    tasks: BTreeMap<ServerRole, (u64, Running)>,
    known: BTreeMap<ServerRole, Arc<AtomicBool>>,
}

/// A task that ends when this is dropped.
struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Uploads {
    /// # Errors
    /// A list of servers that is none.
    pub fn new(
        config: &PartyConfig,
        tls: Arc<ClientConfig>,
        commands: UnboundedSender<Input>,
    ) -> Result<Self, NetError> {
        let servers = match config.servers.is_empty() {
            true => None,
            false => Some(Servers::new(&config.servers)?),
        };
        Ok(Self {
            servers,
            job: config.job.clone(),
            tls,
            keepalive: seconds(config.keepalive),
            commands,
            tasks: BTreeMap::new(),
            known: BTreeMap::new(),
        })
    }

    /// Whether the party knows where other servers are.
    pub fn has_servers(&self) -> bool {
        self.servers.is_some()
    }

    /// Shows something else from the next upload on.
    pub fn set_tls(&mut self, tls: Arc<ClientConfig>) {
        self.tls = tls;
    }

    /// Gives a server its part. Uploads of another round are of no use any more.
    pub fn begin(&mut self, round: u64, role: ServerRole, message: Bytes) {
        self.tasks.retain(|_, (of, _)| *of == round);
        let address = self.address(role);
        let upload = address.and_then(|address| self.upload(address, round, role, message));
        match upload {
            Ok(upload) => {
                let task = Running(tokio::spawn(upload.run(self.commands.clone())));
                self.tasks.insert(role, (round, task));
            }
            Err(reason) => {
                let refused = Input::UploadRefused {
                    round,
                    role,
                    reason,
                };
                let _ = self.commands.send(refused);
            }
        }
    }

    /// The round is over.
    pub fn end(&mut self, round: u64) {
        self.tasks.retain(|_, (of, _)| *of != round);
    }

    fn address(&self, role: ServerRole) -> Result<Address, String> {
        let place = role.place();
        let found = self.servers.as_ref().zip(place);
        found
            .map(|(servers, place)| servers.address(place).clone())
            .ok_or_else(|| format!("the party has no address of the {role}"))
    }

    fn upload(
        &mut self,
        address: Address,
        round: u64,
        role: ServerRole,
        message: Bytes,
    ) -> Result<Upload, String> {
        let target = Target::server(address, self.tls.clone(), self.keepalive);
        Ok(Upload {
            target: target.map_err(|error| error.to_string())?,
            job: self.job.clone(),
            round,
            role,
            message,
            known: self.known.entry(role).or_default().clone(),
        })
    }
}

/// One upload.
struct Upload {
    target: Target,
    job: String,
    round: u64,
    role: ServerRole,
    message: Bytes,
    /// Whether the server has answered one before: its address and the certificates are right then.
    known: Arc<AtomicBool>,
}

/// What became of one attempt.
enum Attempt {
    Taken,
    Refused(String),
    /// The list of servers is wrong, in words.
    Misplaced(String),
    /// It may go better later.
    Again(String),
}

impl Upload {
    /// Tries until the server has said what becomes of it.
    async fn run(self, commands: UnboundedSender<Input>) {
        let (round, role) = (self.round, self.role);
        let (mut pause, mut told) = (PAUSES.0, false);
        let said = loop {
            match self.attempt().await {
                Attempt::Taken => break Input::Uploaded { round, role },
                Attempt::Refused(reason) => {
                    warn!(%role, round, %reason, "upload refused");
                    break Input::UploadRefused {
                        round,
                        role,
                        reason,
                    };
                }
                Attempt::Misplaced(reason) => {
                    // Out of the round first: whoever has this part now must not get the next server's, too.
                    let _ = commands.send(Input::UploadRefused {
                        round,
                        role,
                        reason: reason.clone(),
                    });
                    break Input::GiveUp(reason);
                }
                Attempt::Again(reason) if told => debug!(%role, round, %reason, "uploading again"),
                Attempt::Again(reason) => {
                    told = true;
                    warn!(%role, round, %reason, "no upload yet; trying again as long as the round goes on");
                }
            }
            sleep(seconds(pause)).await;
            pause = (pause * 2.0).min(PAUSES.1);
        };
        let _ = commands.send(said);
    }

    async fn attempt(&self) -> Attempt {
        let connected = match self.target.connect(CONNECT_TIME).await {
            Ok(connected) => connected,
            Err(error) => return self.not_reached(error),
        };
        let traffic = connected.traffic.clone();
        let (job, round, total) = (self.job.clone(), self.round, self.message.len() as u64);
        let chunk = move |(offset, data)| UploadChunk {
            job: job.clone(),
            round,
            offset,
            total,
            data,
        };
        let chunks = tokio_stream::iter(pieces(self.message.clone()).map(chunk));
        let reply = match connected.computing().upload(chunks).await {
            Ok(reply) => reply.into_inner(),
            Err(status) if is_final(&status) => {
                return Attempt::Refused(foreign(status.message()).to_string());
            }
            Err(status) => {
                return self.not_reached(self.target.broken(&traffic, status_words(&status)));
            }
        };
        if let Some(reason) = self.misplaced(reply.place) {
            return Attempt::Misplaced(reason);
        }
        self.known.store(true, Ordering::Relaxed);
        let reason = foreign(&reply.reason).to_string();
        match reply.answer() {
            UploadAnswer::Taken => Attempt::Taken,
            UploadAnswer::Refused => Attempt::Refused(reason),
            UploadAnswer::Again | UploadAnswer::Unspecified => Attempt::Again(reason),
        }
    }

    /// What is wrong with the list of servers, where the one that answers is in another place of it.
    fn misplaced(&self, place: u32) -> Option<String> {
        let expected = self.role.place()?;
        let url = self.target.url();
        (place != u32::from(expected.number())).then(|| {
            format!(
                "{url} is server {place} of the job, and {expected} in the list: give the URLs in the order of \
                 the servers' list, the coordinator's first"
            )
        })
    }

    /// What was in the way passes, where the server was reached before.
    fn not_reached(&self, error: ConnectError) -> Attempt {
        let is_known = self.known.load(Ordering::Relaxed);
        let passes = is_known || matches!(error, ConnectError::Later(_));
        let reason = error.reason();
        match passes {
            true => Attempt::Again(reason),
            false => Attempt::Refused(reason),
        }
    }
}

/// Whether what answers will never take any upload of this party.
fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented
            | Code::InvalidArgument
    )
}
