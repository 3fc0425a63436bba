//! A connection to etcd: the few calls that leases need.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use blindsum_job::foreign;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::address::Address;
use crate::connect::Target;
use crate::plain::status_words;
use crate::stream::Traffic;
use crate::tls::{EtcdSide, Renewed};
use blindsum_etcd as pb;
use blindsum_etcd::kv_client::KvClient;
use blindsum_etcd::lease_client::LeaseClient;
use blindsum_etcd::watch_client::WatchClient;
use blindsum_etcd::watch_request::RequestUnion;

/// Time for each step of a connection, and for each call.
const STEP_TIME: Duration = Duration::from_secs(5);

/// Renewals that wait for their connection.
const RENEWALS_AHEAD: usize = 1024;

/// Where a cluster is, and how this side shows who it is.
pub(crate) struct Endpoint {
    side: Arc<Renewed<EtcdSide>>,
    addresses: Vec<Address>,
    keepalive: Duration,
}

/// A connection to one server of a cluster.
pub(super) struct Client {
    target: Target,
    traffic: Arc<Traffic>,
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
    watch: WatchClient<Channel>,
}

impl Endpoint {
    pub fn new(side: Arc<Renewed<EtcdSide>>, addresses: Vec<Address>, keepalive: Duration) -> Self {
        Self {
            side,
            addresses,
            keepalive,
        }
    }

    /// Connects to the first server that answers, and takes this side's word: gives its connection, and who is a member
    /// under `prefix`, in which lease and in which state of the keys. Else why the last one did not.
    pub(super) async fn connect(&mut self, prefix: &[u8]) -> Result<(Client, Members), String> {
        let mut why = "there is no address".into();
        for _ in 0..self.addresses.len() {
            if let Some(address) = self.addresses.first() {
                match self.connect_to(address.clone(), prefix).await {
                    Ok(connected) => return Ok(connected),
                    Err(reason) => why = reason,
                }
            }
            // The next one is first in line now.
            self.addresses.rotate_left(1);
        }
        Err(why)
    }

    async fn connect_to(
        &self,
        address: Address,
        prefix: &[u8],
    ) -> Result<(Client, Members), String> {
        let place = format!("{}:{}", address.host, address.port);
        let told = |reason: String| format!("etcd at {place}: {reason}");
        let tls = self.side.current().config.clone();
        let target = Target::etcd(address, tls, self.keepalive);
        let target = target.map_err(|error| told(error.to_string()))?;
        let connected = target.connect(STEP_TIME).await;
        let connected = connected.map_err(|error| told(error.reason()))?;
        let mut client = Client {
            kv: KvClient::new(connected.channel.clone()),
            lease: LeaseClient::new(connected.channel.clone()),
            watch: WatchClient::new(connected.channel),
            traffic: connected.traffic,
            target,
        };
        let members = client.members(prefix).await;
        let members = members.map_err(|reason| told(client.at_once(reason)))?;
        Ok((client, members))
    }
}

/// The two ways of a stream, which stays open for as long as something may be asked.
pub(super) struct Both<A, B> {
    pub sender: mpsc::Sender<A>,
    pub heard: Streaming<B>,
}

/// Who is a member, with the lease, in a state of the keys.
pub(super) struct Members {
    pub leases: BTreeMap<Arc<str>, i64>,
    pub revision: i64,
}

/// The first key behind all that begin so.
fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

/// Whose key this is.
pub(super) fn name_in(prefix: &[u8], key: &[u8]) -> Option<Arc<str>> {
    let name = key.strip_prefix(prefix)?;
    std::str::from_utf8(name).ok().map(Arc::from)
}

/// A key for this member.
pub(super) fn key_of(prefix: &[u8], name: &str) -> Vec<u8> {
    [prefix, name.as_bytes()].concat()
}

impl Client {
    /// An answer in time, or why there is none.
    async fn told<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        match timeout(STEP_TIME, call).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded("no answer in time")),
        }
    }

    /// In words. With TLS 1.3 the word on this side's certificate comes only with the first answer.
    pub fn words(&self, status: &Status) -> String {
        let said = foreign(&status_words(status));
        self.target.broken(&self.traffic, said).reason()
    }

    /// Why the first call failed. A server that refuses a certificate may break the connection before its word on it is
    /// read.
    fn at_once(&self, reason: String) -> String {
        let is_said = self.traffic.alert().is_some();
        match self.traffic.error() {
            Some(_) if !is_said => format!(
                "{reason}: it broke the connection immediately, probably because it does not accept this side's \
                 certificate"
            ),
            _ => reason,
        }
    }

    async fn members(&mut self, prefix: &[u8]) -> Result<Members, String> {
        let request = pb::RangeRequest {
            key: prefix.to_vec(),
            range_end: behind(prefix),
            limit: 0,
        };
        let mut kv = self.kv.clone();
        let answer = self.told(kv.range(request)).await;
        let answer = answer.map_err(|status| self.words(&status))?;
        let keys = answer.kvs.iter();
        let leases = keys.filter_map(|kv| Some((name_in(prefix, &kv.key)?, kv.lease)));
        Ok(Members {
            leases: leases.collect(),
            revision: answer.header.map_or(0, |header| header.revision),
        })
    }

    /// A new lease of so many seconds; etcd may give more.
    pub async fn grant(&mut self, seconds: i64) -> Result<i64, String> {
        let request = pb::LeaseGrantRequest {
            ttl: seconds,
            id: 0,
        };
        let mut lease = self.lease.clone();
        let answer = self.told(lease.lease_grant(request)).await;
        let answer = answer.map_err(|status| self.words(&status))?;
        match answer.error.is_empty() {
            true => Ok(answer.id),
            false => Err(foreign(&answer.error)),
        }
    }

    /// Writes a key that lives as long as a lease; gives the state of the keys with it.
    pub async fn put(&mut self, key: Vec<u8>, lease: i64) -> Result<i64, String> {
        let value = Vec::new();
        let mut kv = self.kv.clone();
        let answer = self
            .told(kv.put(pb::PutRequest { key, value, lease }))
            .await;
        let answer = answer.map_err(|status| self.words(&status))?;
        Ok(answer.header.map_or(0, |header| header.revision))
    }

    /// Ends a lease, which may have ended before.
    pub async fn revoke(&mut self, id: i64) -> Result<(), String> {
        let mut lease = self.lease.clone();
        let revoked = self.told(lease.lease_revoke(pb::LeaseRevokeRequest { id }));
        match revoked.await {
            Err(status) if status.code() != Code::NotFound => Err(self.words(&status)),
            _ => Ok(()),
        }
    }

    /// What happens to keys from a state of them on.
    pub async fn watch(
        &mut self,
        prefix: &[u8],
        from: i64,
    ) -> Result<Both<pb::WatchRequest, pb::WatchResponse>, String> {
        let create = pb::WatchCreateRequest {
            key: prefix.to_vec(),
            range_end: behind(prefix),
            start_revision: from,
        };
        let (sender, asked) = mpsc::channel(1);
        let request = pb::WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(create)),
        };
        let _ = sender.try_send(request);
        let mut request = Request::new(ReceiverStream::new(asked));
        // A server that has lost its cluster ends the stream.
        let leader = MetadataValue::from_static("true");
        request.metadata_mut().insert("hasleader", leader);
        let mut watch = self.watch.clone();
        let stream = self.told(watch.watch(request)).await;
        let heard = stream.map_err(|status| self.words(&status))?;
        Ok(Both { sender, heard })
    }

    /// Where leases are renewed by their ids, and what is said of it.
    pub async fn renewals(
        &mut self,
    ) -> Result<Both<pb::LeaseKeepAliveRequest, pb::LeaseKeepAliveResponse>, String> {
        let (sender, asked) = mpsc::channel(RENEWALS_AHEAD);
        // Nothing is said before something is asked. There is no lease 0.
        let _ = sender.try_send(pb::LeaseKeepAliveRequest { id: 0 });
        let mut lease = self.lease.clone();
        let stream = self.told(lease.lease_keep_alive(ReceiverStream::new(asked)));
        let heard = stream.await.map_err(|status| self.words(&status))?;
        Ok(Both { sender, heard })
    }
}
