//! Leases that etcd keeps, as in MYSTIKO §VI: a key for each member, which lives as long as its lease.
//!
//! [`EtcdManager`] is what the job's leases speak with. It waits for nothing: what it is told goes to a [`Keeper`], which runs
//! beside it and speaks with etcd. `client` is a connection.
//!
//! While etcd cannot be reached, leases run in this process, and rounds go on. When it is back, leases are made there
//! again.

mod client;
mod keeper;
mod manager;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use crate::NetError;
pub(super) use client::Endpoint;
pub(super) use keeper::Keeper;
pub(super) use manager::EtcdManager;

/// What a manager tells its keeper of a member.
pub(super) enum Word {
    /// It has a lease, by a number that no other lease of it has.
    Grant(Arc<str>, u64),
    Renew(Arc<str>),
    Release(Arc<str>),
}

/// Reaches etcd and makes what keeps leases of a job there.
///
/// # Errors
/// No address answers, or what answers there is not what it should be: an error of the field `membership`.
pub(super) async fn open(
    endpoint: Endpoint,
    job: &str,
    lease: Duration,
    news: Arc<Notify>,
) -> Result<(EtcdManager, Keeper), NetError> {
    let (sender, words) = mpsc::unbounded_channel();
    let (manager, board) = EtcdManager::new(lease, sender, news);
    let keeper = Keeper::open(endpoint, job, lease, words, board).await?;
    Ok((manager, keeper))
}
