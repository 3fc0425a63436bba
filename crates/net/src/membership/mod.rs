//! Where the leases of a coordinator's parties are kept: in the process, or in etcd.
//!
//! What a lease is, and what becomes of a party that loses it, is decided in [`blindsum_job::membership`].

mod etcd;

use std::sync::Arc;
use std::time::Duration;

use blindsum_job::membership::{Embedded, Leases};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::address::Address;
use crate::limits::Limits;
use crate::tls::{Credentials, EtcdSide, Renewed};
use crate::{NetError, seconds};
use etcd::Endpoint;

/// How leases are kept in the process, as a configuration says it.
const EMBEDDED: &str = "embedded";
const ETCD: &str = "etcd://";

/// Time for the last words to etcd of a coordinator that ends.
const FAREWELL: Duration = Duration::from_secs(2);

/// The membership manager, which holds the leases of parties.
#[derive(Clone)]
pub struct Membership {
    /// `embedded`: in the process; or `etcd://HOST:PORT`, with several addresses of one cluster joined by commas.
    pub place: String,
    /// The credentials for etcd, with the CA of its certificate; `None` uses the coordinator's own.
    pub credentials: Option<Credentials>,
}

impl Default for Membership {
    fn default() -> Self {
        Self {
            place: EMBEDDED.into(),
            credentials: None,
        }
    }
}

/// A place for leases that was checked.
pub(crate) enum Place {
    Embedded,
    Etcd(Arc<Renewed<EtcdSide>>, Vec<Address>),
}

impl Membership {
    /// The place, where it is one and can be reached with these credentials, or else with the coordinator's `own`.
    pub(crate) fn check(self, own: &Credentials) -> Result<Place, NetError> {
        let wrong = |rule: String| NetError::config("membership", rule);
        if self.place == EMBEDDED {
            return match self.credentials {
                None => Ok(Place::Embedded),
                Some(_) => Err(wrong(
                    "certificates for it are only for etcd://HOST:PORT: leave them out".into(),
                )),
            };
        }
        let place = &self.place;
        let hosts = place.strip_prefix(ETCD).ok_or_else(|| {
            wrong(format!(
                "{place:?} must be {EMBEDDED}, or {ETCD}HOST:PORT with more addresses of the same cluster joined by commas"
            ))
        })?;
        let addresses = hosts.split(',').map(|host| address(place, host));
        let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
        let credentials = self.credentials.unwrap_or_else(|| own.clone());
        let side = Renewed::new(credentials, EtcdSide::new);
        let side = side.map_err(|error| wrong(error.to_string()))?;
        Ok(Place::Etcd(Arc::new(side), addresses))
    }
}

/// One address of a cluster.
fn address(place: &str, host: &str) -> Result<Address, NetError> {
    if place.contains('@') {
        let rule = format!(
            "must be {ETCD}HOST:PORT, without user and password: etcd is shown a certificate"
        );
        return Err(NetError::config("membership", rule));
    }
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
    let rule = format!("{place:?}: {host:?} must be HOST:PORT, as in {ETCD}etcd.example:2379");
    let wrong = || NetError::config("membership", rule.clone());
    let is_bare = !host.contains(['/', '@', '?', '#']);
    match has_port && is_bare {
        true => Address::parse("membership", &format!("https://{host}")).map_err(|_| wrong()),
        false => Err(wrong()),
    }
}

/// The leases of one job.
pub(crate) struct Members {
    pub leases: Leases,
    /// Tells that leases may have run out, besides the times that they name.
    pub news: Arc<Notify>,
    /// What speaks with etcd.
    task: Option<JoinHandle<()>>,
}

impl Members {
    /// # Errors
    /// No etcd can be reached, or it does not take this side's word.
    pub async fn open(place: &Place, job: &str, limits: &Limits) -> Result<Self, NetError> {
        let (lease, news) = (seconds(limits.lease), Arc::new(Notify::new()));
        let (side, addresses) = match place {
            Place::Embedded => {
                let leases = Leases::new(Embedded::new(lease), lease);
                let task = None;
                return Ok(Self { leases, news, task });
            }
            Place::Etcd(side, addresses) => (side.clone(), addresses.clone()),
        };
        let endpoint = Endpoint::new(side, addresses, seconds(limits.keepalive));
        let (manager, keeper) = etcd::open(endpoint, job, lease, news.clone()).await?;
        Ok(Self {
            leases: Leases::new(manager, lease),
            news,
            task: Some(tokio::spawn(keeper.run())),
        })
    }

    /// Nobody is a member any more.
    pub async fn end(self) {
        let Self { leases, task, .. } = self;
        drop(leases);
        if let Some(mut task) = task
            && tokio::time::timeout(FAREWELL, &mut task).await.is_err()
        {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(place: &str) -> String {
        let own = Credentials::new("", "", "");
        let membership = Membership {
            place: place.into(),
            credentials: None,
        };
        match membership.check(&own) {
            Err(NetError::Config { field, rule }) if field == "membership" => rule,
            Err(other) => panic!("{place}: {other}"),
            Ok(_) => panic!("{place} was taken"),
        }
    }

    #[test]
    fn a_place_that_is_none_is_refused_by_its_rule() {
        for place in ["", "etcd", "https://localhost:2379", "Embedded"] {
            assert!(
                rule(place).contains("must be embedded, or etcd://HOST:PORT"),
                "{place}"
            );
        }
        for place in [
            "etcd://",
            "etcd://localhost",
            "etcd://localhost:0",
            "etcd://localhost:99999",
            "etcd://a:2379,",
            "etcd://a:2379,b",
            "etcd://a:2379/prefix",
            "etcd://two words:2379",
        ] {
            assert!(rule(place).contains("must be HOST:PORT"), "{place}");
        }
        let rule = rule("etcd://user:s3cret@a:2379");
        assert!(rule.contains("without user and password"), "{rule}");
        assert!(!rule.contains("s3cret"), "{rule}");
    }

    #[test]
    fn several_addresses_are_one_cluster() {
        let hosts = ["a.example:2379", "[::1]:1", "192.0.2.7:65535"];
        let parsed = hosts.map(|host| address("", host).unwrap());
        let parsed = parsed.map(|address| (address.host, address.port));
        let expected = [("a.example", 2379), ("::1", 1), ("192.0.2.7", 65535)];
        assert_eq!(parsed, expected.map(|(host, port)| (host.to_owned(), port)));
    }
}
