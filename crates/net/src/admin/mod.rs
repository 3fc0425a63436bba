//! The operator's side of the admin interface: how a coordinator's jobs stand, and orders to them, from elsewhere.

mod rounds;

use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::usage::Role;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use crate::address::Address;
use crate::connect::{CONNECT_TIME, ConnectError, Target};
use crate::pb::admin_client::AdminClient;
use crate::pb::{AddRequest, DescribeRequest, OrderReply, OrderRequest, ReloadRequest};
use crate::plain::{ENDED, status_words};
use crate::stream::Traffic;
use crate::{Credentials, NetError};
pub use rounds::{HostControl, HostedRound};

/// The time for an answer: an order waits for the work that a job is doing.
const ANSWER: Duration = Duration::from_secs(120);

/// What a coordinator says whom it lets in.
const OPERATORS_ONLY: &str = "the admin address accepts only certificates of operators that are not revoked \
    (made by `blindsum pki issue CA NAME --operator`); if yours is one, ask the coordinator's operator whether \
    this is the admin address";

/// What a coordinator says at another address.
const PARTIES_DOOR: &str = "this is the address of parties; operators use the one that `blindsum serve --admin` or `admin` in \
                            the configuration names";

/// Why an operator was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The coordinator was not reached, or does not let this operator in.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The coordinator has refused the order. Nothing has changed.
    #[error("{reason}")]
    Refused {
        /// A name for programs.
        code: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The coordinator begins no round. Nothing has changed.
    #[error("{reason}")]
    Call {
        /// A name for programs.
        code: String,
        /// The field of the call that breaks a rule; empty where none does.
        field: String,
        /// Why, and what to do.
        reason: String,
    },
}

/// Checks the address of an admin interface, before anything is connected.
///
/// # Errors
/// [`NetError::Config`] in the field `url`.
pub fn check_url(url: &str) -> Result<(), NetError> {
    Address::parse("url", url).map(drop)
}

/// A connection to the admin address of a coordinator.
pub struct Admin {
    client: AdminClient<Channel>,
    target: Target,
    traffic: Arc<Traffic>,
}

impl Admin {
    /// Connects with the certificate of an operator. `server_name` is the name in the coordinator's certificate, if that is
    /// not the host of `url`.
    ///
    /// # Errors
    /// The coordinator cannot be reached or is not trusted.
    pub async fn connect(
        url: &str,
        credentials: &Credentials,
        server_name: Option<&str>,
    ) -> Result<Self, NetError> {
        let tls = Arc::new(credentials.client(Role::Coordinator)?);
        let address = Address::parse("url", url)?;
        let target = Target::coordinator(address, server_name, tls, CONNECT_TIME)?;
        let connected = target.connect(CONNECT_TIME).await;
        let connected = connected.map_err(|error| match error {
            ConnectError::Never(error) | ConnectError::OutOfTime(error) => error,
            ConnectError::Later(reason) => unreachable(url, reason),
        })?;
        let client = AdminClient::new(connected.channel);
        Ok(Self {
            client: client.max_decoding_message_size(64 << 20),
            traffic: connected.traffic,
            target,
        })
    }

    /// One job, or all where the name is empty: a JSON array of
    /// [descriptions](crate::coordinator::Description).
    ///
    /// # Errors
    /// There is no such job, or the connection has ended.
    pub async fn describe(&mut self, job: &str) -> Result<String, AdminError> {
        let asked = DescribeRequest { job: job.into() };
        let reply = in_time(self.client.describe(asked)).await;
        Ok(reply
            .map_err(|status| self.failed(&status))?
            .into_inner()
            .jobs)
    }

    /// Orders something of a job, a [command](crate::orders::Command) as JSON; gives what was done. `drain` without a job is
    /// for the whole coordinator.
    ///
    /// # Errors
    /// The order was refused, or the connection has ended.
    pub async fn order(
        &mut self,
        job: &str,
        command: &str,
        reason: &str,
    ) -> Result<String, AdminError> {
        let order = OrderRequest {
            job: job.into(),
            command: command.into(),
            reason: reason.into(),
        };
        let reply = in_time(self.client.order(order)).await;
        self.answered(reply)
    }

    /// Adds a job, with its specification as JSON, and returns the outcome in words. If it is `hosted`, a host begins
    /// its rounds.
    ///
    /// # Errors
    /// As [`order`](Self::order).
    pub async fn add(
        &mut self,
        spec: &str,
        hosted: bool,
        reason: &str,
    ) -> Result<String, AdminError> {
        let added = AddRequest {
            job_spec: spec.into(),
            reason: reason.into(),
            hosted,
        };
        let reply = in_time(self.client.add(added)).await;
        self.answered(reply)
    }

    /// Makes the coordinator read its files again; gives what it did, and what it did not do, a line each.
    ///
    /// # Errors
    /// As [`order`](Self::order).
    pub async fn reload(&mut self, reason: &str) -> Result<String, AdminError> {
        let reload = ReloadRequest {
            reason: reason.into(),
        };
        let reply = in_time(self.client.reload(reload)).await;
        self.answered(reply)
    }

    fn answered(&self, reply: Result<Response<OrderReply>, Status>) -> Result<String, AdminError> {
        let reply = reply.map_err(|status| self.failed(&status))?.into_inner();
        match reply.refusal.is_empty() {
            true => Ok(reply.outcome),
            false => Err(AdminError::Refused {
                code: reply.refusal,
                reason: reply.reason,
            }),
        }
    }

    fn failed(&self, status: &Status) -> AdminError {
        match status.code() {
            Code::NotFound => AdminError::Refused {
                code: "unknown-job".into(),
                reason: status.message().into(),
            },
            Code::Unauthenticated => unreachable(self.target.url(), status.message().into()).into(),
            Code::Unimplemented => unreachable(self.target.url(), PARTIES_DOOR.into()).into(),
            _ => {
                let words = status_words(status);
                let is_ended = words == ENDED || std::error::Error::source(status).is_some();
                let error = match self.target.broken(&self.traffic, words.clone()) {
                    ConnectError::Never(error) | ConnectError::OutOfTime(error) => error,
                    ConnectError::Later(_) if is_ended => {
                        unreachable(self.target.url(), format!("{ENDED}: {OPERATORS_ONLY}"))
                    }
                    ConnectError::Later(_) => unreachable(self.target.url(), words),
                };
                error.into()
            }
        }
    }
}

/// An answer, which must come in time.
async fn in_time<T>(
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<Response<T>, Status> {
    let late = |_| Status::deadline_exceeded("no answer in time");
    tokio::time::timeout(ANSWER, answer).await.map_err(late)?
}

fn unreachable(url: &str, reason: String) -> NetError {
    NetError::Unreachable {
        url: url.into(),
        seconds: 0.0,
        reason,
    }
}
