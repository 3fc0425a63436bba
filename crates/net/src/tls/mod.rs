//! Mutual TLS: both sides show a certificate of the job's CA, and TLS 1.3 is the only version spoken.
//!
//! `roles` checks the certificate of who is dialled, `clients` that of who dials, `words` says what failed, `files` reads credentials from files, `own` checks them before they
//! are shown to anybody, `renewed` reads changed files again while a coordinator, server or party runs.

mod clients;
mod files;
mod own;
mod renewed;
mod roles;
#[cfg(test)]
mod tests;
mod words;

use std::sync::Arc;

pub(crate) use clients::{RefusedCertificate, noting_refusals};
pub use files::{CredentialFiles, Passphrase};
pub(crate) use own::{Accepting, CoordinatorSide, EtcdSide, OwnIdentity, PartySide, ServerSide};
pub use renewed::Reload;
pub(crate) use renewed::Renewed;
pub(crate) use words::{certificate_words, key_exchange, tls_error, words};

use blindsum_crypto::CryptoError;
use blindsum_crypto::calendar::UnixSeconds;
use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::pem;
use blindsum_crypto::usage::Role;
use clients::ClientVerifier;
use files::Source;
use roles::RoleVerifier;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::NetError;
use crate::system::WallClock;

/// Certificate, key and trusted CA of one side, in PEM. They contain a private key, so they cannot be printed.
#[derive(Clone)]
pub struct Credentials {
    /// This side's certificate.
    pub certificate: String,
    /// Its private key, PKCS#8.
    pub key: Arc<blindsum_crypto::Zeroizing<String>>,
    /// The certificate of the job's CA.
    pub ca: String,
    /// The CA's revocation list. If there is one, it must be up to date, and every certificate must be of a CA that has
    /// one.
    pub revoked: Option<String>,
    /// The files that all of them come from; none where they were given as text.
    source: Option<Arc<Source>>,
    /// By which certificates are in their time.
    clock: WallClock,
}

/// One of the four parts of credentials.
#[derive(Clone, Copy)]
enum Part {
    Certificate,
    Key,
    Ca,
    Revoked,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Certificate => "certificate",
            Part::Key => "private key",
            Part::Ca => "CA certificate",
            Part::Revoked => "revocation list",
        }
    }
}

impl Credentials {
    /// Certificate, key and CA in PEM, no revocation list.
    pub fn new(
        certificate: impl Into<String>,
        key: impl Into<String>,
        ca: impl Into<String>,
    ) -> Self {
        Self {
            certificate: certificate.into(),
            key: Arc::new(key.into().into()),
            ca: ca.into(),
            revoked: None,
            source: None,
            clock: WallClock::system(),
        }
    }

    /// The same credentials with the CA's revocation list, in PEM.
    pub fn with_revoked(mut self, list: impl Into<String>) -> Self {
        self.revoked = Some(list.into());
        self
    }

    /// The same credentials, checked by another clock than that of this machine: for tests and simulations.
    pub fn with_clock(mut self, clock: WallClock) -> Self {
        self.clock = clock;
        self
    }

    /// By which certificates are in their time.
    pub(crate) fn clock(&self) -> &WallClock {
        &self.clock
    }

    fn now(&self) -> UnixSeconds {
        self.clock.unix_seconds()
    }

    /// The fingerprint of the job's CA, the first one where there are several.
    pub(crate) fn ca_fingerprint(&self) -> Result<[u8; 32], NetError> {
        let certificates = pem::certificates(&self.ca).map_err(|why| self.wrong(Part::Ca, why))?;
        let first = certificates.first().map(AsRef::as_ref);
        Ok(crate::fingerprint(first.unwrap_or_default()))
    }

    /// The CA and its revocation list.
    fn anchor(&self) -> Result<TrustAnchor, NetError> {
        let anchor = TrustAnchor::from_pem(&self.ca, self.revoked.as_deref());
        anchor.map_err(|error| match error {
            CryptoError::Pem { what, why } if what == Part::Revoked.name() => {
                self.wrong(Part::Revoked, why)
            }
            CryptoError::Pem { why, .. } => self.wrong(Part::Ca, why),
            other => other.into(),
        })
    }

    /// What is wrong with one part, with the name of its file where it comes from one.
    fn wrong(&self, part: Part, reason: impl std::fmt::Display) -> NetError {
        match self.file_of(part) {
            None => NetError::credential(part.name(), reason),
            Some(file) => NetError::credential(part.name(), format!("{file}: {reason}")),
        }
    }

    /// The name of the file that a part comes from.
    fn file_of(&self, part: Part) -> Option<String> {
        let path = self.source.as_ref()?.files.path(part)?;
        Some(path.display().to_string())
    }

    /// The side of TLS of who is dialled: only certificates of the CA for who dials are let in.
    pub(crate) fn server(&self) -> Result<ServerConfig, NetError> {
        self.server_by(provider())
    }

    fn server_by(&self, crypto: Arc<CryptoProvider>) -> Result<ServerConfig, NetError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots()?, provider())
            // guard: revoked-parties
            .with_crls(self.lists()?)
            .only_check_end_entity_revocation()
            .enforce_revocation_expiration()
            // guard: no-party-without-a-certificate
            .build()
            .map_err(|e| self.wrong(Part::Ca, e))?;
        let verifier = ClientVerifier::new(verifier, self.anchor()?);
        let clock = Arc::new(self.clock.clone());
        let mut config = ServerConfig::builder_with_details(crypto, clock)
            // guard: tls-1-3-only
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(NetError::system)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(self.chain()?, self.private_key()?)
            .map_err(|e| self.not_a_pair(e))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session skips the check of the certificate: none is offered.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// The side of TLS of who dials somebody of this role.
    pub(crate) fn client(&self, role: Role) -> Result<ClientConfig, NetError> {
        let tls = self.verifier()?;
        self.client_with(Arc::new(RoleVerifier { tls, role }))
    }

    /// The side of TLS of who dials a server that has no role in a job, such as etcd.
    pub(crate) fn client_of_others(&self) -> Result<ClientConfig, NetError> {
        self.client_with(self.verifier()?)
    }

    fn verifier(&self) -> Result<Arc<WebPkiServerVerifier>, NetError> {
        WebPkiServerVerifier::builder_with_provider(self.roots()?, provider())
            .with_crls(self.lists()?)
            .only_check_end_entity_revocation()
            .enforce_revocation_expiration()
            .build()
            .map_err(|e| self.wrong(Part::Ca, e))
    }

    fn client_with(&self, verifier: Arc<dyn ServerCertVerifier>) -> Result<ClientConfig, NetError> {
        self.client_by(verifier, provider())
    }

    fn client_by(
        &self,
        verifier: Arc<dyn ServerCertVerifier>,
        crypto: Arc<CryptoProvider>,
    ) -> Result<ClientConfig, NetError> {
        let clock = Arc::new(self.clock.clone());
        let mut config = ClientConfig::builder_with_details(crypto, clock)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(NetError::system)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_auth_cert(self.chain()?, self.private_key()?)
            .map_err(|e| self.not_a_pair(e))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }

    fn not_a_pair(&self, error: rustls::Error) -> NetError {
        match error {
            rustls::Error::InconsistentKeys(_) => self.key_of_another(),
            other => self.wrong(Part::Certificate, other),
        }
    }

    fn key_of_another(&self) -> NetError {
        let of = self.file_of(Part::Certificate);
        let of = of.map_or(String::new(), |file| format!(" {file}"));
        let reason =
            format!("is not the key of the certificate{of}; give the two that belong together");
        self.wrong(Part::Key, reason)
    }

    /// The own certificate, and those between it and the CA.
    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, NetError> {
        pem::certificates(&self.certificate).map_err(|why| self.wrong(Part::Certificate, why))
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, NetError> {
        let (label, section) = pem::key(&self.key).map_err(|why| self.wrong(Part::Key, why))?;
        PrivateKeyDer::from_pem_slice(section.as_bytes())
            .map_err(|_| self.wrong(Part::Key, pem::convert(&label)))
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, NetError> {
        let mut roots = RootCertStore::empty();
        for der in pem::certificates(&self.ca).map_err(|why| self.wrong(Part::Ca, why))? {
            roots.add(der).map_err(|e| self.wrong(Part::Ca, e))?;
        }
        Ok(Arc::new(roots))
    }

    fn lists(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, NetError> {
        let lists = self.revoked.as_deref().unwrap_or_default();
        pem::lists(lists).map_err(|why| self.wrong(Part::Revoked, why))
    }
}

/// The cryptography of TLS. Its first key exchange is X25519MLKEM768 (feature `prefer-post-quantum` of rustls), which both
/// sides of ours agree on; X25519 alone stays for others.
fn provider() -> Arc<CryptoProvider> {
    // guard: tls-agrees-on-a-post-quantum-exchange
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
