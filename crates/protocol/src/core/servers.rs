//! Servers that prove to parties, with which they have no connection, who they are: by the key in a certificate.

use std::fmt;
use std::sync::Arc;

use blindsum_crypto::certificate::{CertificateError, TrustAnchor};
use blindsum_crypto::sign::{IdentityKey, VerifyingKey};

use crate::{FaultKind, ServerRole};

/// The certificate of a server, and its key.
pub struct ServerIdentity {
    /// The certificate in DER, and behind it those between it and the CA.
    pub chain: Vec<Vec<u8>>,
    /// The key in the certificate.
    pub key: Arc<IdentityKey>,
}

impl fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerIdentity")
    }
}

/// By what a party knows servers: the CA of its job and the time. By default it knows none.
#[derive(Clone, Default)]
pub struct KnownServers(Option<(Arc<TrustAnchor>, u64)>);

impl KnownServers {
    /// Servers whose certificates come from this CA. `now` is in seconds since 1970.
    pub fn certified_by(anchor: Arc<TrustAnchor>, now: u64) -> Self {
        Self(Some((anchor, now)))
    }

    /// The key of the server of this host, whose certificate comes first in the chain.
    ///
    /// # Errors
    /// [`FaultKind::Unproved`]: a certificate that the CA did not sign for such a server, or for another host.
    pub(crate) fn key_of(
        &self,
        (role, host): (ServerRole, &str),
        chain: &[&[u8]],
    ) -> Result<VerifyingKey, FaultKind> {
        let unproved = |reason: String| FaultKind::Unproved { role, reason };
        let Some((anchor, now)) = &self.0 else {
            return Err(unproved("this party knows no CA of servers".into()));
        };
        let Some((own, between)) = chain.split_first() else {
            return Err(unproved("it shows no certificate".into()));
        };
        let server = anchor.verify_server(own, between, *now);
        let in_words = |error: CertificateError| {
            unproved(error.out_of_time(host).unwrap_or_else(|| error.to_string()))
        };
        let server = server.map_err(in_words)?;
        // guard: a-proof-is-of-the-host-in-the-job
        if !server.hosts.iter().any(|of| of.eq_ignore_ascii_case(host)) {
            let hosts = server.hosts;
            return Err(unproved(format!(
                "its certificate is for {hosts:?}, not for {host:?}"
            )));
        }
        Ok(server.key)
    }
}
