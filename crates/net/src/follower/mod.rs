//! A server that computes with a coordinator: the second or the third of a job.
//!
//! What it does is decided in [`blindsum_job::follower`]; here are its clock, threads, sockets and files. `uplink`
//! keeps its connection to the coordinator, `uploads` takes what parties give it, `crate::computing` has its lines to
//! the others, and `driver` hands all of that to the machine.

mod config;
mod driver;
mod uplink;
mod uploads;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use blindsum_job::follower::Parts;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::NetError;
use crate::computing::{ChannelParts, ComputingService, ServerChannels, TakesUploads, computing};
use crate::observers::Observers;
use crate::party::FileRecords;
use crate::results::ResultFiles;
use crate::serving::{listen, make_room, serve};
use crate::tls::{Reload, Renewed, ServerSide};
use crate::watched::Watched;
use config::Checked;
pub use config::FollowerConfig;
pub(crate) use driver::{Driver, Inbox};
pub(crate) use uplink::Event;
use uplink::Uplink;
use uploads::Desk;

/// A server that runs. Dropping it ends it at once; [`Follower::stop`] answers who waits first.
pub struct Follower {
    address: SocketAddr,
    side: Arc<Renewed<ServerSide>>,
    stopping: watch::Sender<bool>,
    over: watch::Receiver<bool>,
    tasks: JoinSet<Result<(), NetError>>,
    watched: Watched,
}

/// Runs such a server until `shutdown` comes or its job is over. `ready` is called with the address once others can
/// connect.
///
/// # Errors
/// A configuration that cannot be used, or why the server could not go on.
pub async fn run(
    config: FollowerConfig,
    ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> Result<(), NetError> {
    let mut follower = Follower::start(config).await?;
    ready(follower.address());
    tokio::select! {
        () = shutdown => info!("stopping"),
        () = follower.finished() => info!("the job is over"),
    }
    follower.stop().await
}

impl Follower {
    /// Checks what [`start`](Self::start) would, short of the folder and the address.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(config: &FollowerConfig) -> Result<(), NetError> {
        config.check().map(drop)
    }

    /// Checks everything, opens the folder, listens, and connects to the coordinator, again and again until that is
    /// there.
    ///
    /// # Errors
    /// The first thing that is wrong: nothing runs then.
    pub async fn start(config: FollowerConfig) -> Result<Self, NetError> {
        let Checked {
            job,
            servers,
            place,
            role,
            side,
        } = config.check()?;
        let (limits, name) = (config.limits, job.spec().job.clone());
        let records = Arc::new(FileRecords::open(&config.state_dir, &name)?);
        let results_are_lost = !job.tells_parties() && config.results.is_none();
        let results = ResultFiles::open(config.results.as_deref(), &job)?;
        make_room(&limits);
        let listener = listen(&config.listen).await?;
        let address = listener.local_addr().map_err(NetError::system)?;
        let (stopping, stop) = watch::channel(false);
        let parts = ChannelParts {
            job: &job,
            me: place,
            servers: &servers,
            limits: &limits,
            side: Some(&side),
        };
        let lines = match role.place() {
            Some(_) => Some(ServerChannels::open(parts)?),
            None => None,
        };
        let (lines, heard) = lines.unzip();
        let acceptor = lines
            .as_ref()
            .map(|lines| (name.clone(), lines.acceptor(place)));
        let acceptors = BTreeMap::from_iter(acceptor);
        let (desk, visits) = Desk::new(place, &job, &limits, stop.clone());
        let anchor = side.anchor().clone();
        // Parties give their part to servers that compute, and none to one that only makes keys and opens sums.
        let desk = role
            .place()
            .map(|_| Arc::new(desk) as Arc<dyn TakesUploads>);
        let service = ComputingService::new(acceptors, desk, anchor.clone(), &limits);
        let of = side.clone();
        let parts = Parts {
            identity: Some(Arc::new(move || of.current().identity.clone())),
            job,
            role,
            name: servers.address(place).host.clone(),
            anchor,
            records,
            results,
        };
        if results_are_lost {
            let rule = "no folder for results was given: this server learns results that only servers learn, \
                and does not store them";
            warn!(job = %name, "{rule}");
        }
        let uplink = Uplink::new(servers.clone(), side.clone(), &limits);
        let inbox = Inbox {
            visits,
            heard,
            stopping: stop.clone(),
        };
        let (driver, over) = Driver::open(parts, lines, inbox, side.clock().clone())?;
        let mut tasks = JoinSet::new();
        tasks.spawn(driver.run(|events, given_up| uplink.keep(events, given_up)));
        let service = computing(service);
        let observers = Observers::default();
        let watched = Watched::new(
            Box::new(Vec::new),
            None,
            observers.counts.clone(),
            &side,
            stop.clone(),
        );
        tasks.spawn(serve(
            listener,
            side.clone(),
            Some(servers),
            limits,
            service,
            observers,
            stop,
        ));
        info!(%address, %role, job = %name, "server listening");
        Ok(Self {
            address,
            side,
            stopping,
            over,
            tasks,
            watched,
        })
    }

    /// The address at which others can connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes the server read its certificate, its key, the CA and the revocation list again, where they come from
    /// files. It does so by itself, within seconds, when one of the files changes.
    pub fn reload(&self) -> Reload {
        Reload::of(self.side.clone())
    }

    /// The observable state: bytes, refused connections, and the expiry of certificates.
    pub fn watched(&self) -> Watched {
        self.watched.clone()
    }

    /// Waits until the job is over, or the server cannot go on: [`stop`](Self::stop) says which.
    pub async fn finished(&mut self) {
        // Where nobody can say so any more it is.
        let _ = self.over.wait_for(|over| *over).await;
    }

    /// Answers who waits, and ends. A round under way goes on without this server, or not at all.
    ///
    /// # Errors
    /// Why it could not go on, where that was so.
    pub async fn stop(mut self) -> Result<(), NetError> {
        self.stopping.send_replace(true);
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            let ended = ended.map_err(NetError::system).and_then(|ended| ended);
            result = result.and(ended);
        }
        result
    }
}
