//! How the certificate of who dials is checked: as TLS does, and a certificate that is refused is noted with the name in
//! it, for the log.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

tokio::task_local! {
    /// The certificate that the handshake of this task has refused.
    static REFUSED: RefCell<Option<RefusedCertificate>>;
}

/// A certificate of the job's CA that was refused.
pub(crate) struct RefusedCertificate {
    /// The name in it.
    pub name: String,
    pub is_revoked: bool,
    /// Whether it is good, but for another address than this one.
    pub is_elsewhere: bool,
}

/// Does the handshake, and gives the certificate that was refused in it, where the job's CA had signed it.
pub(crate) async fn noting_refusals<T>(
    handshake: impl Future<Output = T>,
) -> (T, Option<RefusedCertificate>) {
    let noting = async {
        let done = handshake.await;
        (done, REFUSED.with(RefCell::take))
    };
    REFUSED.scope(RefCell::default(), noting).await
}

/// What TLS checks, with the CA that knows who it is that is refused.
pub(super) struct ClientVerifier {
    tls: Arc<dyn ClientCertVerifier>,
    anchor: TrustAnchor,
}

impl ClientVerifier {
    pub fn new(tls: Arc<dyn ClientCertVerifier>, anchor: TrustAnchor) -> Self {
        Self { tls, anchor }
    }

    /// A certificate is refused. Only one that the CA has signed tells a name: anybody can make one with any name.
    fn note(&self, certificate: &CertificateDer<'_>, error: &Error) {
        let Error::InvalidCertificate(why) = error else {
            return;
        };
        if let Some(name) = self.anchor.signed_name(certificate) {
            let is_revoked = *why == CertificateError::Revoked;
            let refused = RefusedCertificate {
                name,
                is_revoked,
                is_elsewhere: false,
            };
            // Where nobody listens nothing is noted.
            let _ = REFUSED.try_with(|noted| noted.replace(Some(refused)));
        }
    }
}

impl fmt::Debug for ClientVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientVerifier")
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.tls.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.tls.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.tls.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.tls.verify_client_cert(end_entity, intermediates, now);
        verified.inspect_err(|error| self.note(end_entity, error))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.tls
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.tls
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.tls.supported_verify_schemes()
    }
}
