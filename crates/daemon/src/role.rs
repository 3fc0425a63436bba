//! What the daemon is: a coordinator, or another server that computes with one.

use blindsum_net::coordinator::{Config, ConfigFile, Control, Coordinator};
use blindsum_net::follower::{Follower, FollowerConfig};
use blindsum_net::report::JobStatus;
use blindsum_net::{NetError, Reload};
use tokio::sync::watch;

/// A role with its configuration.
pub enum Role {
    Coordinator(Box<Config>),
    Server(Box<FollowerConfig>),
}

impl Role {
    /// Reads every file that the configuration names.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(file: ConfigFile) -> Result<Self, NetError> {
        Ok(match file.server {
            0 => Self::Coordinator(Box::new(file.load()?)),
            _ => Self::Server(Box::new(file.load_server()?)),
        })
    }

    /// Checks it without running anything; gives the number of jobs.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(self) -> Result<usize, NetError> {
        match self {
            Self::Coordinator(config) => Coordinator::check(*config),
            Self::Server(config) => Follower::check(&config).map(|()| 1),
        }
    }

    /// Starts it.
    ///
    /// # Errors
    /// Why it cannot start.
    pub async fn start(self) -> Result<Running, NetError> {
        Ok(match self {
            Self::Coordinator(config) => Running::Coordinator(Coordinator::start(*config).await?),
            Self::Server(config) => Running::Server(Follower::start(*config).await?),
        })
    }
}

/// The same, as it runs.
pub enum Running {
    Coordinator(Coordinator),
    Server(Follower),
}

impl Running {
    /// A way to make it read its certificates and the revocation list again.
    pub fn reload(&self) -> Reload {
        match self {
            Self::Coordinator(coordinator) => coordinator.reload(),
            Self::Server(server) => server.reload(),
        }
    }

    /// A way to give it orders, where it is a coordinator.
    pub fn control(&self) -> Option<Control> {
        match self {
            Self::Coordinator(coordinator) => Some(coordinator.control()),
            Self::Server(_) => None,
        }
    }

    /// Where its jobs stand; a server that is not the coordinator does not know.
    pub fn jobs(&self) -> Vec<watch::Receiver<JobStatus>> {
        match self {
            Self::Coordinator(coordinator) => coordinator.jobs(),
            Self::Server(_) => Vec::new(),
        }
    }

    /// Waits until there is nothing more to do.
    pub async fn finished(&mut self) {
        match self {
            Self::Coordinator(coordinator) => coordinator.finished().await,
            Self::Server(server) => server.finished().await,
        }
    }

    /// Ends it; the error of what went wrong.
    pub async fn stop(self) -> Result<(), NetError> {
        match self {
            Self::Coordinator(coordinator) => coordinator.stop().await,
            Self::Server(server) => server.stop().await,
        }
    }
}
