//! One party's stream at the coordinator: the Hello is checked, the job lets the party in, and what the party sends is
//! read (`reading.rs`) until the stream ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use blindsum_crypto::certificate::{CertificateError, TrustAnchor};
use blindsum_crypto::kdf::sha256;
use blindsum_job::coordinator::{Input, LinkId};
use blindsum_job::foreign;
use blindsum_job::session::Session;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tonic::Streaming;
use tracing::info;

use super::driver::{Event, JobHandle};
use super::reading::{End, Reader};
use crate::audit::{Entry, Guest, Times};
use crate::limits::Limits;
use crate::line::Line;
use crate::observers::Observers;
use crate::outbox::{Outbox, Queued, SendEnd, send_all};
use crate::pb::{CoordinatorFrame, PartyFrame, RefusalCode, Refused};
use crate::serving::{LOOK_EVERY, Memory, Paces, Peer};
use crate::{hex, seconds};

/// What all sessions share.
pub(crate) struct Sessions<F> {
    pub limits: Limits,
    anchor: Arc<TrustAnchor>,
    memory: Memory,
    /// The job of a name.
    pub find: F,
    pub paces: Paces,
    next_id: AtomicU64,
    observers: Observers,
}

impl<F: Fn(&str) -> Option<JobHandle>> Sessions<F> {
    pub fn new(limits: Limits, anchor: Arc<TrustAnchor>, find: F, observers: Observers) -> Self {
        Self {
            anchor,
            memory: Memory::new(limits.message_memory),
            limits,
            find,
            paces: Paces::default(),
            next_id: AtomicU64::new(1),
            observers,
        }
    }

    /// Serves one stream to its end. Whoever does not take what ends it loses the connection, and with it all that
    /// HTTP/2 holds for the stream.
    pub async fn serve(&self, peer: Peer, inbound: Streaming<PartyFrame>, line: Line) {
        self.converse(&peer, inbound, &line).await;
        if !line.end(seconds(self.limits.chunk_timeout)).await {
            info!(party = %peer.name, address = %peer.address, "connection cut: it takes nothing");
            // guard: dead-weight-is-cut
            peer.cut();
        }
    }

    async fn converse(&self, peer: &Peer, mut inbound: Streaming<PartyFrame>, line: &Line) {
        let (chunk_timeout, stream) = (seconds(self.limits.chunk_timeout), &line.frames);
        let pace = self.paces.of(peer.who());
        tokio::select! {
            // guard: streams-take-turns
            () = pace.stream() => {}
            () = stream.closed() => return,
        }
        let (outbox, queue) = Outbox::before(line.waiting.clone());
        let (session, job, name) = match self.begin(peer, &mut inbound, &outbox).await {
            Ok(begun) => begun,
            Err(refused) => {
                info!(party = %peer.name, address = %peer.address, reason = %refused.reason,
                    "refused");
                self.observers.counts.refuse(refused.code().into());
                self.observers.audit.note(|| Entry::Refused {
                    who: guest(peer),
                    reason: refused.reason.clone(),
                    times: Times::default(),
                });
                outbox.put(Queued::Last(refused.into()));
                send_all(queue, stream, chunk_timeout).await;
                return;
            }
        };
        self.observers.audit.note(|| Entry::Joined {
            who: guest(peer),
            job: name.clone(),
            certificate: hex(&sha256(&peer.certificate)),
            times: Times::default(),
        });
        let (link, memory) = (session.link(), self.memory.clone());
        let reader = Reader::new(
            session,
            job.clone(),
            pace,
            memory,
            chunk_timeout,
            outbox.clone(),
        );
        let mut sending = Box::pin(send_all(queue, stream, chunk_timeout));
        let (reason, returns) = tokio::select! {
            end = &mut sending => match end {
                SendEnd::Finished => ("ended by the coordinator".into(), false),
                SendEnd::Closed => ("its connection was lost".into(), true),
                SendEnd::TooSlow => ("too slow: a chunk was not read in time".to_owned(), true),
            },
            end = reader.read_all(&mut inbound) => match end {
                End::Closed(reason) => (reason, false),
                End::Lost(reason) => (reason, true),
                End::Refused { refused, returns } => {
                    let reason = refused.reason.clone();
                    outbox.end_now(refused.into());
                    sending.await;
                    (reason, returns)
                }
            },
            refused = self.unfit_server(peer) => {
                let reason = refused.reason.clone();
                outbox.end_now(refused.into());
                sending.await;
                (reason, true)
            }
        };
        // Where party or coordinator have said why, how the connection then ended is of no interest.
        let reason = match (outbox.why(), peer.traffic.error()) {
            (Some(why), _) => why.to_owned(),
            (None, Some(error)) => format!("{reason} ({error})"),
            (None, None) => reason,
        };
        self.observers.audit.note(|| Entry::Left {
            who: guest(peer),
            job: name,
            reason: reason.clone(),
            times: Times::default(),
        });
        let lost = Input::Lost {
            link,
            reason,
            returns,
        };
        let _ = job.events.send(Event::Input(lost)).await;
    }

    /// Looks at the certificate of a server again and again, as the job does at those of parties; ends where it counts no more.
    /// A list that is out of date is nobody's fault.
    async fn unfit_server(&self, peer: &Peer) -> Refused {
        loop {
            sleep(LOOK_EVERY).await;
            match peer.verify(&self.anchor) {
                Err(CertificateError::RevocationListExpired { .. }) => {}
                Err(error) if peer.role.is_some() => {
                    let reason =
                        format!("this server's certificate is not accepted any more: {error}");
                    return Refused::new(RefusalCode::RefusalCertificate, reason);
                }
                _ => {}
            }
        }
    }

    /// The Hello, and the job's word on it.
    async fn begin(
        &self,
        peer: &Peer,
        inbound: &mut Streaming<PartyFrame>,
        outbox: &Outbox<CoordinatorFrame>,
    ) -> Result<(Session, JobHandle, String), Refused> {
        let first = match timeout(seconds(self.limits.hello_timeout), inbound.message()).await {
            // Where nothing can be read, that is no Hello either.
            Ok(read) => read.ok().flatten().unwrap_or_default(),
            Err(_) => {
                let reason = "no Hello in time";
                return Err(Refused::new(RefusalCode::RefusalTooSlow, reason));
            }
        };
        let link = LinkId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let mut session = Session::new(link, peer.into());
        let hello = session.hello(first)?;
        let job = (self.find)(&hello.job).ok_or_else(|| {
            let reason = format!(
                "there is no job {:?} here: check the name of the job, or ask the coordinator's operator for the name",
                foreign(&hello.job)
            );
            Refused::new(RefusalCode::RefusalUnknownJob, reason)
        })?;
        let name = hello.job.clone();
        let (admitted, answer) = oneshot::channel();
        let event = Event::Connected {
            link,
            peer: peer.into(),
            hello,
            outbox: outbox.clone(),
            admitted,
        };
        let reason = "the coordinator is stopping";
        let gone = || Refused::new(RefusalCode::RefusalStopping, reason);
        job.events.send(event).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())??;
        // Nothing was read meanwhile.
        session.admit();
        Ok((session, job, name))
    }
}

/// Somebody as the audit trail names them.
fn guest(peer: &Peer) -> Guest {
    Guest::new(&peer.name, peer.address)
}
