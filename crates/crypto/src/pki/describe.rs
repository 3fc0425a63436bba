//! What a certificate, a signing request, a key or a revocation list says, for people to read.

use aws_lc_rs::digest;
use rcgen::PublicKeyData;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::oid_registry::OID_PKCS1_RSAENCRYPTION;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::{Signer, first_certificate};
use crate::{
    CryptoError,
    certificate::{UnixSeconds, readable, subject_names, verifying_key},
    kex::Hex,
    pem,
    sign::{Algorithm, IdentityKey},
    usage::Role,
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
    /// SHA-256 of its public key (SubjectPublicKeyInfo) in hexadecimal digits: that of the request and of the private key
    /// that belong to it.
    pub key_fingerprint: String,
    /// Whether it is the certificate of a CA.
    pub is_ca: bool,
    /// Whether it may be shown by who dials.
    pub client: bool,
    /// Whether it may be shown by who is dialled.
    pub server: bool,
    /// Whom it is for; `None` if it is for no role of a job, as a CA's.
    pub role: Option<Role>,
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
    let der = first_certificate(certificate).map_err(refuse)?;
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|e| refuse(e.to_string()))?;
    let usage = parsed
        .extended_key_usage()
        .map_err(|e| refuse(e.to_string()))?;
    let usage = usage.map(|extension| extension.value);
    Ok(Description {
        subject: parsed.subject().to_string(),
        issuer: parsed.issuer().to_string(),
        names: subject_names(&parsed)?.iter().map(readable).collect(),
        serial: Hex(parsed.raw_serial()).to_string(),
        not_before: seconds(parsed.validity().not_before),
        not_after: seconds(parsed.validity().not_after),
        fingerprint: sha256(&der),
        key: key_kind(parsed.public_key()),
        key_fingerprint: sha256(parsed.public_key().raw),
        is_ca: parsed.is_ca(),
        client: usage.is_some_and(|usage| usage.client_auth),
        server: usage.is_some_and(|usage| usage.server_auth),
        role: Role::ALL.into_iter().find(|role| role.check(&der).is_ok()),
    })
}

/// The contents of a signing request. That its sender has the private key has been verified, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestDescription {
    /// The subject's distinguished name, as in `CN=hospital-a`.
    pub subject: String,
    /// The common names of the subject.
    pub common_names: Vec<String>,
    /// DNS names and IP addresses that it asks for.
    pub names: Vec<String>,
    /// The kind of its key, as in `Ed25519`.
    pub key: String,
    /// The same, where certificates may be of such keys.
    pub(super) algorithm: Option<Algorithm>,
    /// SHA-256 of its public key, as in [`Description::key_fingerprint`].
    pub key_fingerprint: String,
}

impl RequestDescription {
    /// The key may be in a certificate.
    pub(super) fn check_key(&self) -> Result<(), String> {
        match self.algorithm {
            Some(_) => Ok(()),
            None => Err(unusable(&self.key)),
        }
    }
}

/// Why a key of this kind cannot be in a certificate, and what to do.
fn unusable(kind: &str) -> String {
    format!(
        "its key is {kind} and must be Ed25519 or P-256: make key and request with `blindsum pki request`, or the key with \
         `openssl genpkey -algorithm ed25519`"
    )
}

/// Describes the first signing request of a PEM text.
///
/// # Errors
///
/// [`CryptoError::Pem`] if there is none, or if it is not signed by its own key, or by one whose signatures cannot be checked.
pub fn describe_request(text: &str) -> Result<RequestDescription, CryptoError> {
    let refuse = |why: String| CryptoError::Pem {
        what: "signing request",
        why,
    };
    let section = pem::request(text).map_err(refuse)?;
    let (_, section) = x509_parser::pem::parse_x509_pem(section.as_bytes())
        .map_err(|_| refuse("is damaged: copy the file again".into()))?;
    let (_, parsed) =
        X509CertificationRequest::from_der(&section.contents).map_err(|e| refuse(e.to_string()))?;
    let info = &parsed.certification_request_info;
    let key = key_kind(&info.subject_pki);
    let algorithm = verifying_key(&info.subject_pki).ok();
    parsed.verify_signature().map_err(|_| {
        refuse(match algorithm {
            Some(_) => "it is not signed by its own key".into(),
            None => unusable(&key),
        })
    })?;
    let mut names = Vec::new();
    for extension in parsed.requested_extensions().into_iter().flatten() {
        if let ParsedExtension::SubjectAlternativeName(alternatives) = extension {
            names.extend(alternatives.general_names.iter().map(readable));
        }
    }
    let common_names = info.subject.iter_common_name();
    let common_names = common_names.filter_map(|name| name.as_str().ok());
    Ok(RequestDescription {
        subject: info.subject.to_string(),
        common_names: common_names.map(str::to_owned).collect(),
        names,
        key,
        algorithm: algorithm.map(|key| key.algorithm()),
        key_fingerprint: sha256(info.subject_pki.raw),
    })
}

/// What is public of a private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDescription {
    /// Its kind, as in `Ed25519`.
    pub key: String,
    /// SHA-256 of its public key, as in [`Description::key_fingerprint`].
    pub key_fingerprint: String,
}

/// Describes the private key of a PEM text.
///
/// # Errors
///
/// [`CryptoError::Pem`] if there is none.
pub fn describe_key(text: &str) -> Result<KeyDescription, CryptoError> {
    let key = IdentityKey::from_pem(text)?;
    Ok(KeyDescription {
        key: key.algorithm().to_string(),
        key_fingerprint: sha256(&Signer(&key).subject_public_key_info()),
    })
}

/// The contents of a revocation list. None of them has been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListDescription {
    /// The distinguished name of the CA.
    pub issuer: String,
    /// Its number in hexadecimal digits; empty if it has none.
    pub number: String,
    /// The second in which it was made.
    pub this_update: UnixSeconds,
    /// The second by which the next one must be there; 0 if it does not say.
    pub next_update: UnixSeconds,
    /// The serial numbers of the revoked certificates in hexadecimal digits.
    pub serials: Vec<String>,
}

/// Describes the first revocation list of a PEM text.
///
/// # Errors
///
/// [`CryptoError::Pem`] if there is none.
pub fn describe_list(text: &str) -> Result<ListDescription, CryptoError> {
    let refuse = |why: String| CryptoError::Pem {
        what: "revocation list",
        why,
    };
    let lists = pem::lists(text).map_err(refuse)?;
    let first = lists
        .first()
        .ok_or_else(|| refuse("the file is empty".into()))?;
    let (_, parsed) = x509_parser::parse_x509_crl(first).map_err(|e| refuse(e.to_string()))?;
    Ok(ListDescription {
        issuer: parsed.issuer().to_string(),
        number: parsed
            .crl_number()
            .map_or(String::new(), |number| format!("{number:x}")),
        this_update: seconds(parsed.last_update()),
        next_update: parsed.next_update().map_or(0, seconds),
        serials: parsed
            .iter_revoked_certificates()
            .map(|one| Hex(one.raw_serial()).to_string())
            .collect(),
    })
}

fn seconds(time: ASN1Time) -> UnixSeconds {
    u64::try_from(time.timestamp()).unwrap_or(0)
}

fn key_kind(key: &SubjectPublicKeyInfo<'_>) -> String {
    match verifying_key(key) {
        Ok(key) => key.algorithm().to_string(),
        // What other tools make where nothing else is said.
        Err(_) if key.algorithm.algorithm == OID_PKCS1_RSAENCRYPTION => "RSA".into(),
        Err(_) => {
            let parameters = key.algorithm.parameters.as_ref();
            let curve = parameters.and_then(|parameters| parameters.as_oid().ok());
            let curve = curve.map_or_else(String::new, |curve| format!(", curve {curve}"));
            format!("other (OID {}{curve})", key.algorithm.algorithm)
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    Hex(digest::digest(&digest::SHA256, bytes).as_ref()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::{CertificateAuthority, Kind, Validity, request};
    use crate::sign::Algorithm;
    use crate::test_util::rng;

    fn year() -> Validity {
        Validity::days(1_800_000_000, 365)
    }

    fn authority() -> CertificateAuthority {
        CertificateAuthority::create("Test CA", Algorithm::P256, year(), &mut rng(1)).unwrap()
    }

    #[test]
    fn a_key_its_request_and_its_certificate_have_one_fingerprint() {
        for algorithm in [Algorithm::Ed25519, Algorithm::P256] {
            let ca = authority();
            let made = request("hospital", algorithm, &mut rng(21)).unwrap();
            let certificate = ca.sign_request(
                &made.request,
                "hospital",
                &Kind::Party,
                year(),
                &mut rng(22),
            );
            let certificate = describe(&certificate.unwrap()).unwrap();
            let asked = describe_request(&made.request).unwrap();
            let key = describe_key(&made.key).unwrap();
            assert_eq!(asked.key_fingerprint, certificate.key_fingerprint);
            assert_eq!(key.key_fingerprint, certificate.key_fingerprint);
            assert_eq!((&asked.key, &key.key), (&certificate.key, &certificate.key));
            assert_eq!(
                (asked.subject.as_str(), asked.names),
                ("CN=hospital", vec!["hospital".to_owned()])
            );
        }
    }

    #[test]
    fn a_revocation_list_is_described() {
        let ca = authority();
        let list = ca.revoke(&["4001", "40ff"], 258, year()).unwrap();
        let shown = describe_list(&list).unwrap();
        assert_eq!(shown.issuer, "CN=Test CA");
        assert_eq!(
            (shown.number.as_str(), shown.serials),
            ("102", vec!["4001".to_owned(), "40ff".to_owned()])
        );
        assert_eq!(
            (shown.this_update, shown.next_update),
            (year().not_before, year().not_after)
        );
        assert!(describe_list("").unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn a_request_that_was_changed_is_not_described() {
        let made = request("hospital", Algorithm::Ed25519, &mut rng(23)).unwrap();
        let mut bytes = p256::pkcs8::Document::from_pem(&made.request)
            .unwrap()
            .1
            .to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let changed = p256::pkcs8::Document::try_from(bytes).unwrap();
        let changed = changed
            .to_pem("CERTIFICATE REQUEST", p256::pkcs8::LineEnding::LF)
            .unwrap();
        let error = describe_request(&changed).unwrap_err().to_string();
        assert!(error.contains("not signed by its own key"), "{error}");
    }
}
