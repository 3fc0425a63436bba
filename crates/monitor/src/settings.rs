//! What is opened at the start of a server, and shown once it runs.

use std::net::SocketAddr;
use std::path::PathBuf;

use blindsum_net::NetError;
use blindsum_net::coordinator::check_address;
use blindsum_net::watched::Watched;

use crate::dashboard::{self, Dashboard, Token};
use crate::metrics::{Metrics, Monitor};

/// Where to answer whom; nowhere where there is no address.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `HOST:PORT` for metrics and health.
    pub metrics: Option<String>,
    /// `HOST:PORT` for the dashboard.
    pub dashboard: Option<String>,
    /// The file whose first line is the token of the dashboard.
    pub dashboard_token_file: Option<PathBuf>,
}

/// Addresses that were taken, on which nobody answers yet.
pub struct Opened {
    metrics: Option<Metrics>,
    dashboard: Option<Dashboard>,
}

/// What answers. Dropping it ends it.
pub struct Shown {
    metrics: Option<Monitor>,
    dashboard: Option<dashboard::Shown>,
}

impl Settings {
    /// Whether [`open`](Self::open) would take these settings, short of the addresses being free.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn check(&self) -> Result<(), NetError> {
        let addresses = [("metrics", &self.metrics), ("dashboard", &self.dashboard)];
        for (setting, address) in addresses {
            address
                .as_deref()
                .map_or(Ok(()), |address| check_address(setting, address))?;
        }
        self.token().map(drop)
    }

    /// The token of the dashboard, where there is one.
    fn token(&self) -> Result<Option<Token>, NetError> {
        match (&self.dashboard, &self.dashboard_token_file) {
            (Some(_), file) => Token::read(file.as_deref()).map(Some),
            (None, None) => Ok(None),
            (None, Some(_)) => {
                let rule = "there is no dashboard: give its address, or leave the token out";
                Err(NetError::config("dashboard_token_file", rule))
            }
        }
    }

    /// Takes the addresses, and reads the token.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub async fn open(&self) -> Result<Opened, NetError> {
        let metrics = match &self.metrics {
            Some(address) => Some(Metrics::listen(address).await?),
            None => None,
        };
        let dashboard = match (&self.dashboard, self.token()?) {
            (Some(address), Some(token)) => Some(Dashboard::listen(address, token).await?),
            _ => None,
        };
        Ok(Opened { metrics, dashboard })
    }
}

impl Opened {
    /// Shows a server from now on.
    pub fn show(self, watched: &Watched) -> Shown {
        Shown {
            metrics: self.metrics.map(|it| it.show(watched.clone())),
            dashboard: self.dashboard.map(|it| it.show(watched.clone())),
        }
    }
}

impl Shown {
    /// Where metrics and health are answered.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(Monitor::address)
    }

    /// Where the dashboard is.
    pub fn dashboard(&self) -> Option<SocketAddr> {
        self.dashboard.as_ref().map(dashboard::Shown::address)
    }
}
