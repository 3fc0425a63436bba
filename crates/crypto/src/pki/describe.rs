//! What a certificate says, for people to read.

use aws_lc_rs::digest;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{
    CryptoError,
    certificate::{UnixSeconds, readable, subject_names, verifying_key},
    kex::Hex,
};

/// The contents of a certificate. None of them has been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The subject's distinguished name, as in `CN=hospital-a`.
    pub subject: String,
    /// The issuer's distinguished name.
    pub issuer: String,
    /// DNS names and IP addresses.
    pub names: Vec<String>,
    /// The serial number in hexadecimal digits.
    pub serial: String,
    /// The first second in which it is valid.
    pub not_before: UnixSeconds,
    /// The last second in which it is valid.
    pub not_after: UnixSeconds,
    /// SHA-256 of the certificate in hexadecimal digits.
    pub fingerprint: String,
    /// The kind of its key, as in `Ed25519`.
    pub key: String,
    /// Whether it is the certificate of a CA.
    pub is_ca: bool,
    /// Whether it may act as a party.
    pub client: bool,
    /// Whether it may act as a coordinator.
    pub server: bool,
}

/// Describes the first certificate of a PEM text.
///
/// # Errors
///
/// [`CryptoError::Pem`] if there is none.
pub fn describe(certificate: &str) -> Result<Description, CryptoError> {
    let refuse = |why: String| CryptoError::Pem {
        what: "certificate",
        why,
    };
    let der = CertificateDer::from_pem_slice(certificate.as_bytes())
        .map_err(|e| refuse(e.to_string()))?;
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|e| refuse(e.to_string()))?;
    let usage = parsed
        .extended_key_usage()
        .map_err(|e| refuse(e.to_string()))?;
    let usage = usage.map(|extension| extension.value);
    let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
    let key = match verifying_key(parsed.public_key()) {
        Ok(key) => key.algorithm().to_string(),
        Err(_) => format!("other (OID {})", parsed.public_key().algorithm.algorithm),
    };
    Ok(Description {
        subject: parsed.subject().to_string(),
        issuer: parsed.issuer().to_string(),
        names: subject_names(&parsed)?.iter().map(readable).collect(),
        serial: Hex(parsed.raw_serial()).to_string(),
        not_before: seconds(parsed.validity().not_before),
        not_after: seconds(parsed.validity().not_after),
        fingerprint: Hex(digest::digest(&digest::SHA256, &der).as_ref()).to_string(),
        key,
        is_ca: parsed.is_ca(),
        client: usage.is_some_and(|usage| usage.client_auth),
        server: usage.is_some_and(|usage| usage.server_auth),
    })
}
