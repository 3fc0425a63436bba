//! The certificate and key that a side shows to others, checked beforehand as the others will check them.

use std::sync::Arc;

use blindsum_crypto::calendar::UnixSeconds;
use blindsum_crypto::certificate::{CertificateError, TrustAnchor, validity};
use blindsum_crypto::pem;
use blindsum_crypto::sign::IdentityKey;
use blindsum_crypto::usage::Role;
use blindsum_job::coordinator::CurrentTimes;
use blindsum_job::party::Identity;
use blindsum_protocol::ServerIdentity;
use rustls::{ClientConfig, ServerConfig};
use tokio::sync::watch;

use super::{Credentials, Part, Renewed};
use crate::NetError;

/// The coordinator's side of TLS.
pub(crate) struct CoordinatorSide {
    pub config: Arc<ServerConfig>,
    /// The host names and addresses that its certificate is for.
    pub hosts: Vec<String>,
    /// The first and the last second in which it is valid.
    pub times: (UnixSeconds, UnixSeconds),
    /// The last second of the CA's certificate.
    pub ca_until: UnixSeconds,
}

/// The sides of TLS of a server that computes with a coordinator.
pub(crate) struct ServerSide {
    pub config: Arc<ServerConfig>,
    /// Its certificate and key, with which it signs.
    pub identity: Arc<ServerIdentity>,
    /// For dialling the coordinator, and the other servers.
    pub to_coordinator: Arc<ClientConfig>,
    pub to_servers: Arc<ClientConfig>,
    /// The host names and addresses that its certificate is for.
    pub hosts: Vec<String>,
    /// The last second of its certificate, and of the CA's.
    pub until: UnixSeconds,
    pub ca_until: UnixSeconds,
}

/// A side that is dialled.
pub(crate) trait Accepting: Send + Sync + 'static {
    /// The last second of its certificate, and of the CA's.
    fn ends(&self) -> (UnixSeconds, UnixSeconds);

    /// What the next connection is shown.
    fn accepting(&self) -> Arc<ServerConfig>;
}

impl Accepting for CoordinatorSide {
    fn ends(&self) -> (UnixSeconds, UnixSeconds) {
        (self.times.1, self.ca_until)
    }

    fn accepting(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

impl Accepting for ServerSide {
    fn ends(&self) -> (UnixSeconds, UnixSeconds) {
        (self.until, self.ca_until)
    }

    fn accepting(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

/// A party's side of TLS.
pub(crate) struct PartySide {
    pub config: Arc<ClientConfig>,
    /// For dialling servers that compute with the coordinator.
    pub to_servers: Arc<ClientConfig>,
    pub name: String,
    /// The own certificate in DER.
    pub certificate: Vec<u8>,
    pub key: Arc<IdentityKey>,
}

/// Who a party is in its job.
pub(crate) struct OwnIdentity {
    pub name: String,
    /// The certificate, in DER, that its connection shows.
    pub certificate: Vec<u8>,
    pub key: Arc<IdentityKey>,
    /// The CA and its revocation list, for checking members of rounds.
    pub anchor: Arc<TrustAnchor>,
    /// The credentials of the next connection.
    pub side: Arc<Renewed<PartySide>>,
    /// Tells when that may be something else.
    pub renewals: watch::Receiver<Arc<PartySide>>,
}

impl CoordinatorSide {
    /// # Errors
    /// What parties would refuse a coordinator for, with the name of the file and what to do.
    pub fn new(credentials: &Credentials, anchor: &TrustAnchor) -> Result<Self, NetError> {
        let chain = credentials.chain()?;
        let (own, between) = chain.split_first().unzip();
        let (own, between) = (own.map(AsRef::as_ref), between.unwrap_or_default());
        let hosts = anchor
            .verify_coordinator(own.unwrap_or_default(), between, credentials.now())
            // guard: own-certificates-of-coordinators-are-checked-at-start
            .map_err(|error| credentials.unusable(&error))?;
        if hosts.is_empty() {
            let reason = "has no host name, so parties cannot connect to it: have the CA make one with --host \
                for each";
            return Err(credentials.wrong(Part::Certificate, reason));
        }
        let times = validity(own.unwrap_or_default());
        let times = times.map_err(|error| credentials.unusable(&error))?;
        let config = Arc::new(credentials.server()?);
        Ok(Self {
            config,
            hosts,
            times,
            ca_until: credentials.ca_until()?,
        })
    }
}

impl Renewed<CoordinatorSide> {
    /// When the certificate is valid that is shown now.
    pub fn times(self: &Arc<Self>) -> CurrentTimes {
        let side = self.clone();
        Arc::new(move || side.current().times)
    }
}

impl ServerSide {
    /// # Errors
    /// What others would refuse such a server for, with the name of the file and what to do.
    pub fn new(credentials: &Credentials, anchor: &TrustAnchor) -> Result<Self, NetError> {
        let chain = credentials.chain()?;
        let (own, between) = chain.split_first().unzip();
        let (own, between) = (own.map(AsRef::as_ref), between.unwrap_or_default());
        let server = anchor
            .verify_server(own.unwrap_or_default(), between, credentials.now())
            .map_err(|error| credentials.unusable(&error))?;
        let key = IdentityKey::from_pem(&credentials.key)
            .map_err(|error| credentials.wrong(Part::Key, error))?;
        if server.key != *key.verifying_key() {
            return Err(credentials.key_of_another());
        }
        Ok(Self {
            identity: Arc::new(ServerIdentity {
                chain: chain.iter().map(|der| der.to_vec()).collect(),
                key: Arc::new(key),
            }),
            config: Arc::new(credentials.server()?),
            to_coordinator: Arc::new(credentials.client(Role::Coordinator)?),
            to_servers: Arc::new(credentials.client(Role::Server)?),
            hosts: server.hosts,
            until: validity(own.unwrap_or_default())
                .map_err(|error| credentials.unusable(&error))?
                .1,
            ca_until: credentials.ca_until()?,
        })
    }
}

impl PartySide {
    /// # Errors
    /// What others would refuse a party for, with the name of the file and what to do.
    pub fn new(credentials: &Credentials, anchor: &TrustAnchor) -> Result<Self, NetError> {
        let certificate = credentials.chain()?.into_iter().next();
        let certificate = certificate.map_or(Vec::new(), |der| der.to_vec());
        let key = IdentityKey::from_pem(&credentials.key)
            .map_err(|error| credentials.wrong(Part::Key, error))?;
        // guard: own-certificates-are-checked-at-start
        let party = anchor
            .verify_party(&certificate, credentials.now())
            .map_err(|error| credentials.unusable(&error))?;
        if party.key != *key.verifying_key() {
            return Err(credentials.key_of_another());
        }
        Ok(Self {
            config: Arc::new(credentials.client(Role::Coordinator)?),
            to_servers: Arc::new(credentials.client(Role::Server)?),
            name: party.name,
            certificate,
            key: Arc::new(key),
        })
    }
}

/// The side of TLS of who dials etcd.
pub(crate) struct EtcdSide {
    pub config: Arc<ClientConfig>,
}

impl EtcdSide {
    /// # Errors
    /// What etcd would refuse this side for, with the name of the file and what to do.
    pub fn new(credentials: &Credentials, _: &TrustAnchor) -> Result<Self, NetError> {
        let chain = credentials.chain()?;
        let own = chain.first();
        if own.is_some_and(|own| Role::Coordinator.check(own).is_ok()) {
            let reason = "is that of a coordinator, whose only extended key usage is server authentication: \
                etcd accepts certificates with client authentication; have one made for this, and name it \
                beside the address";
            return Err(credentials.wrong(Part::Certificate, reason));
        }
        let config = Arc::new(credentials.client_of_others()?);
        Ok(Self { config })
    }
}

impl Credentials {
    /// A party's identity, with its certificate in DER, for a machine over another transport. It is checked as others
    /// will check it. Files are read once, and not again when they change.
    ///
    /// # Errors
    /// What others would refuse a party for, with the name of the file and what to do.
    pub fn party(&self) -> Result<(Identity, Vec<u8>), NetError> {
        let anchor = self.anchor()?;
        let side = PartySide::new(self, &anchor)?;
        let identity = Identity {
            name: side.name,
            key: side.key,
            anchor: Arc::new(anchor),
            ca: self.ca_fingerprint()?,
        };
        Ok((identity, side.certificate))
    }

    /// A party's identity, and what keeps it current.
    pub(crate) fn identity(&self) -> Result<OwnIdentity, NetError> {
        let side = Renewed::new(self.clone(), PartySide::new)?;
        let now = side.current();
        Ok(OwnIdentity {
            name: now.name.clone(),
            certificate: now.certificate.clone(),
            key: now.key.clone(),
            anchor: side.anchor().clone(),
            renewals: side.renewals(),
            side: Arc::new(side),
        })
    }

    /// The last second of the CA's certificate; of several that of the first to end.
    fn ca_until(&self) -> Result<UnixSeconds, NetError> {
        let certificates = pem::certificates(&self.ca).map_err(|why| self.wrong(Part::Ca, why))?;
        let ends = certificates.iter().map(|der| validity(der));
        let ends = ends.collect::<Result<Vec<_>, _>>();
        let ends = ends.map_err(|error| self.wrong(Part::Ca, error))?;
        let first = ends.iter().map(|(_, until)| *until).min();
        Ok(first.unwrap_or_default())
    }

    /// Why the own certificate cannot be used, and what to do.
    fn unusable(&self, error: &CertificateError) -> NetError {
        use CertificateError as E;
        let ca = self.file_of(Part::Ca).unwrap_or("the CA's".into());
        let (part, advice) = match error {
            E::Expired { .. } => (Part::Certificate, "let the CA issue a new one: blindsum pki".into()),
            E::NotYetValid { .. } => (
                Part::Certificate,
                "set the clock of this machine right, or wait".into(),
            ),
            E::UnknownIssuer => (
                Part::Certificate,
                format!(
                    "the CA certificate given is {ca}: give the one of the CA that signed this certificate, or a \
                     certificate that this CA has signed"
                ),
            ),
            E::Revoked => (Part::Certificate, "ask the CA for a new one".into()),
            E::Usage => (
                Part::Certificate,
                "a party's is made by: blindsum pki sign CA NAME.csr".into(),
            ),
            E::CoordinatorUsage => (
                Part::Certificate,
                "this is the certificate of a party, or made by something else; a coordinator's is made by: \
                 blindsum pki issue CA NAME --coordinator --host HOST (of three servers, the second and third are started \
                 with --server 1 and 2)"
                    .into(),
            ),
            E::ServerUsage => (
                Part::Certificate,
                "this is the certificate of a party or a coordinator, or of another tool; make one for a server \
                 that computes with a coordinator by: blindsum pki issue CA NAME --server --host HOST"
                    .into(),
            ),
            E::RevocationUnknown | E::RevocationListForeign => (
                Part::Revoked,
                format!("the CA certificate given is {ca}: give the list of the CA that signed the certificate"),
            ),
            E::RevocationListExpired { .. } => (
                Part::Revoked,
                "let the CA write a new one: blindsum pki revoke CA".into(),
            ),
            _ => (Part::Certificate, String::from("ask the CA for another one")),
        };
        self.wrong(part, format!("{error}; {advice}"))
    }
}
