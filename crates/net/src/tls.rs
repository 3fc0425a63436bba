//! Mutual TLS: both sides show a certificate of the job's CA, and TLS 1.3 is the only version spoken.

use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::sign::IdentityKey;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::NetError;
use crate::system::unix_seconds;

/// Certificate, key and trust of one side, in PEM. Holds a private key: it cannot be printed.
#[derive(Clone)]
pub struct Credentials {
    /// The own certificate.
    pub certificate: String,
    /// Its private key, PKCS#8.
    pub key: Arc<blindsum_crypto::Zeroizing<String>>,
    /// The certificate of the job's CA.
    pub ca: String,
    /// The CA's revocation list. With one, every certificate must be covered by it, and it must be
    /// current.
    pub revoked: Option<String>,
}

/// What a party's own certificate says, checked like the others will check it.
pub(crate) struct OwnIdentity {
    pub name: String,
    pub certificate: Vec<u8>,
    pub key: Arc<IdentityKey>,
    pub anchor: Arc<TrustAnchor>,
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
        }
    }

    /// With the CA's revocation list in PEM.
    pub fn with_revoked(mut self, list: impl Into<String>) -> Self {
        self.revoked = Some(list.into());
        self
    }

    /// The fingerprint of the job's CA, the first one where there are several.
    pub(crate) fn ca_fingerprint(&self) -> Result<[u8; 32], NetError> {
        let certificate = CertificateDer::from_pem_slice(self.ca.as_bytes())
            .map_err(|e| NetError::credential("CA certificate", e))?;
        Ok(crate::fingerprint(&certificate))
    }

    /// The CA and its revocation list, for checking members of rounds.
    pub(crate) fn anchor(&self) -> Result<Arc<TrustAnchor>, NetError> {
        let anchor = TrustAnchor::from_pem(&self.ca, self.revoked.as_deref())?;
        Ok(Arc::new(anchor))
    }

    /// Checks a party's own certificate and key before anybody else does.
    pub(crate) fn identity(&self) -> Result<OwnIdentity, NetError> {
        let certificate = self.chain()?.into_iter().next();
        let certificate = certificate
            .ok_or_else(|| NetError::credential("certificate", "has no section CERTIFICATE"))?
            .to_vec();
        let key = IdentityKey::from_pem(&self.key)?;
        let anchor = self.anchor()?;
        let party = anchor
            .verify_party(&certificate, unix_seconds())
            .map_err(|e| NetError::credential("this party's certificate", e))?;
        if party.key != *key.verifying_key() {
            let reason = "is not the key of this party's certificate";
            return Err(NetError::credential("identity key", reason));
        }
        Ok(OwnIdentity {
            name: party.name,
            certificate,
            key: Arc::new(key),
            anchor,
        })
    }

    /// The coordinator's side of TLS: only certificates of the CA for parties are let in.
    pub(crate) fn server(&self) -> Result<ServerConfig, NetError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots()?, provider())
            .with_crls(self.lists()?)
            .only_check_end_entity_revocation()
            .enforce_revocation_expiration()
            .build()
            .map_err(|e| NetError::credential("CA certificate", e))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(NetError::system)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain()?, self.private_key()?)
            .map_err(|e| NetError::credential("certificate and key", e))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session skips the check of the certificate: none is offered.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// A party's side of TLS.
    pub(crate) fn client(&self) -> Result<ClientConfig, NetError> {
        let verifier = WebPkiServerVerifier::builder_with_provider(self.roots()?, provider())
            .with_crls(self.lists()?)
            .only_check_end_entity_revocation()
            .enforce_revocation_expiration()
            .build()
            .map_err(|e| NetError::credential("CA certificate", e))?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(NetError::system)?
            .with_webpki_verifier(verifier)
            .with_client_auth_cert(self.chain()?, self.private_key()?)
            .map_err(|e| NetError::credential("certificate and key", e))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, NetError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|e| NetError::credential("certificate", e))?;
        match chain.is_empty() {
            true => Err(NetError::credential(
                "certificate",
                "has no section CERTIFICATE",
            )),
            false => Ok(chain),
        }
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, NetError> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|e| NetError::credential("private key", e))
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, NetError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.ca.as_bytes()) {
            certificate
                .map_err(|e| e.to_string())
                .and_then(|der| roots.add(der).map_err(|e| e.to_string()))
                .map_err(|e| NetError::credential("CA certificate", e))?;
        }
        match roots.is_empty() {
            true => Err(NetError::credential(
                "CA certificate",
                "has no section CERTIFICATE",
            )),
            false => Ok(Arc::new(roots)),
        }
    }

    fn lists(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, NetError> {
        let pem = self.revoked.as_deref().unwrap_or_default();
        CertificateRevocationListDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|e| NetError::credential("revocation list", e))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
