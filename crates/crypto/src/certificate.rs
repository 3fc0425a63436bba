//! What a certificate of the job's CA vouches for: the name and the signing key of a party.
//!
//! A party's certificate has exactly one DNS name, the party's name (see [`check_name`]), and the
//! extended key usage "client authentication" and no other. The coordinator's has "server authentication" instead,
//! so it cannot pose as a party. That of a server that computes with a coordinator has both, and can pose as neither.
//! An operator's has "client authentication" and a usage of our own beside it, and can pose as none of them. All say that their key makes digital signatures.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList,
    RevocationCheckDepth, RevocationOptions, RevocationOptionsBuilder, UnknownStatusPolicy,
};
use x509_parser::{
    oid_registry::{OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_SIG_ED25519},
    prelude::{FromDer, GeneralName, X509Certificate},
    x509::SubjectPublicKeyInfo,
};

use crate::{
    CryptoError, kdf,
    kex::Hex,
    pem,
    sign::{Algorithm, VerifyingKey},
    usage::Role,
};

pub use crate::{calendar::UnixSeconds, error::CertificateError};

/// What a valid certificate says about a party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifiedParty {
    /// The party's name.
    pub name: String,
    /// The key with which the party signs.
    pub key: VerifyingKey,
}

/// What a valid certificate says about a server that computes with a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifiedServer {
    /// The host names and addresses that it is for.
    pub hosts: Vec<String>,
    /// The key in it.
    pub key: VerifyingKey,
}

/// The CA of a job, its revocation lists, and the certificates that were verified with them.
///
/// Checking a certificate again costs two comparisons of time, so a party keeps one anchor for all its rounds. Threads
/// may share it.
pub struct TrustAnchor(RwLock<Arc<Trusted>>);

/// What an anchor goes by, and what it has found by it.
struct Trusted {
    authorities: Vec<rustls_pki_types::TrustAnchor<'static>>,
    lists: Vec<CertRevocationList<'static>>,
    /// The first `next_update` of the lists; from then on no certificate passes.
    lists_valid_until: UnixSeconds,
    verified: Mutex<HashMap<[u8; 32], Verified>>,
}

/// Certificates remembered at most; when there are more, they are verified again.
const MAX_VERIFIED: usize = 1 << 16;

#[derive(Clone)]
struct Verified {
    not_before: UnixSeconds,
    not_after: UnixSeconds,
    party: CertifiedParty,
}

impl TrustAnchor {
    /// Reads the CA's certificate, and its revocation list if there is one, both in PEM.
    ///
    /// While a CA is being replaced there may be several certificates, then with one list each.
    ///
    /// # Errors
    ///
    /// [`CryptoError::Pem`] if there is no CA certificate, if something is unreadable, if a list is not of one of the
    /// CAs, or if a CA has a second list (only one of them would be looked at).
    pub fn from_pem(
        certificates: &str,
        revocation_lists: Option<&str>,
    ) -> Result<Self, CryptoError> {
        let authorities = read_authorities(certificates)?;
        let (lists, lists_valid_until) = read_lists(revocation_lists.unwrap_or_default())?;
        for (i, list) in lists.iter().enumerate() {
            let refuse = |why: &str| CryptoError::Pem {
                what: "revocation list",
                why: why.into(),
            };
            if !authorities
                .iter()
                .any(|authority| authority.subject.as_ref() == list.issuer())
            {
                return Err(refuse("its issuer must be the job's CA"));
            }
            if lists[..i]
                .iter()
                .any(|earlier| earlier.issuer() == list.issuer())
            {
                return Err(refuse("must be the only one of its CA: keep the newest"));
            }
        }
        Ok(TrustAnchor(RwLock::new(Arc::new(Trusted {
            authorities,
            lists,
            lists_valid_until,
            verified: Mutex::default(),
        }))))
    }

    /// Replaces the CA certificates and revocation lists by those of `newer`, for everybody who shares this anchor.
    /// Certificates that were verified before are verified again.
    pub fn replace(&self, newer: TrustAnchor) {
        let newer = newer.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = newer;
    }

    /// The first second in which one of the revocation lists is out of date, so that no certificate passes any more.
    /// `None` without lists.
    pub fn lists_valid_until(&self) -> Option<UnixSeconds> {
        let trusted = self.trusted();
        (!trusted.lists.is_empty()).then_some(trusted.lists_valid_until)
    }

    fn trusted(&self) -> Arc<Trusted> {
        let trusted = self.0.read().unwrap_or_else(PoisonError::into_inner);
        trusted.clone()
    }

    /// Checks a certificate in DER: signed by the CA, in its time, not revoked, issued for one party.
    ///
    /// # Errors
    ///
    /// A [`CertificateError`] that says which of these failed.
    pub fn verify_party(
        &self,
        certificate: &[u8],
        now: UnixSeconds,
    ) -> Result<CertifiedParty, CertificateError> {
        self.trusted().verify_party(certificate, now)
    }

    /// Checks a coordinator's certificate in DER, with the certificates `between` it and the CA: signed by the CA, in
    /// its time, not revoked, issued for a coordinator. Gives the host names and addresses that it is for.
    ///
    /// # Errors
    ///
    /// A [`CertificateError`] that says which of these failed.
    pub fn verify_coordinator(
        &self,
        certificate: &[u8],
        between: &[CertificateDer<'_>],
        now: UnixSeconds,
    ) -> Result<Vec<String>, CertificateError> {
        let trusted = self.trusted();
        trusted.verify(certificate, between, Role::Coordinator, now)?;
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(malformed)?;
        hosts(&parsed)
    }

    /// Checks an operator's certificate in DER: signed by the CA, in its time, not revoked, issued for an operator. Gives the
    /// operator's name.
    ///
    /// # Errors
    ///
    /// A [`CertificateError`] that says which of these failed.
    pub fn verify_operator(
        &self,
        certificate: &[u8],
        now: UnixSeconds,
    ) -> Result<String, CertificateError> {
        self.trusted()
            .verify(certificate, &[], Role::Operator, now)?;
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(malformed)?;
        one_name(&parsed)
    }

    /// The name in the certificate of a party or operator in DER, or the first host of a server's, if the CA has signed it, whether or not it
    /// is in its time or revoked: for logs, where whoever shows it is refused.
    pub fn signed_name(&self, certificate: &[u8]) -> Option<String> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let began = u64::try_from(parsed.validity().not_before.timestamp()).ok()?;
        let trusted = self.trusted();
        let signed = Trusted {
            authorities: trusted.authorities.clone(),
            lists: Vec::new(),
            lists_valid_until: UnixSeconds::MAX,
            verified: Mutex::default(),
        };
        let of = |role: &Role| signed.verify(certificate, &[], *role, began).is_ok();
        [Role::Party, Role::Server, Role::Operator]
            .iter()
            .find(|role| of(role))?;
        subject_names(&parsed).ok()?.first().map(readable)
    }

    /// The same of a server that computes with a coordinator, with the key in its certificate. The certificates `between`
    /// it and the CA are in DER, too.
    ///
    /// # Errors
    ///
    /// A [`CertificateError`] that says which of these failed.
    pub fn verify_server<D: AsRef<[u8]>>(
        &self,
        certificate: &[u8],
        between: &[D],
        now: UnixSeconds,
    ) -> Result<CertifiedServer, CertificateError> {
        let trusted = self.trusted();
        let between = between.iter().map(|der| CertificateDer::from(der.as_ref()));
        let between: Vec<CertificateDer<'_>> = between.collect();
        trusted.verify(certificate, &between, Role::Server, now)?;
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(malformed)?;
        let key = verifying_key(parsed.public_key())?;
        let hosts = hosts(&parsed)?;
        Ok(CertifiedServer { hosts, key })
    }
}

impl Trusted {
    fn verify_party(
        &self,
        certificate: &[u8],
        now: UnixSeconds,
    ) -> Result<CertifiedParty, CertificateError> {
        let digest = kdf::hash("certificate", &[certificate]);
        let lock = || self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        // guard: members-of-the-ca
        if let Some(known) = lock().get(&digest) {
            let in_time = known.not_before <= now && now <= known.not_after;
            if in_time && now < self.lists_valid_until {
                return Ok(known.party.clone());
            }
        }
        let verified = self.verify_afresh(certificate, now)?;
        let party = verified.party.clone();
        let mut known = lock();
        if known.len() >= MAX_VERIFIED {
            known.clear();
        }
        known.insert(digest, verified);
        Ok(party)
    }

    fn verify_afresh(
        &self,
        certificate: &[u8],
        now: UnixSeconds,
    ) -> Result<Verified, CertificateError> {
        self.verify(certificate, &[], Role::Party, now)?;
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(malformed)?;
        let name = one_name(&parsed)?;
        let key = verifying_key(parsed.public_key())?;
        let time = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
        Ok(Verified {
            not_before: time(parsed.validity().not_before),
            not_after: time(parsed.validity().not_after),
            party: CertifiedParty { name, key },
        })
    }
}

impl Trusted {
    /// Signed by the CA, in its time, not revoked, issued for this role.
    fn verify(
        &self,
        certificate: &[u8],
        between: &[CertificateDer<'_>],
        role: Role,
        now: UnixSeconds,
    ) -> Result<(), CertificateError> {
        let der = CertificateDer::from(certificate);
        let entity = EndEntityCert::try_from(&der).map_err(|e| certificate_error(e, role))?;
        let lists: Vec<&CertRevocationList<'_>> = self.lists.iter().collect();
        let usage = match role {
            // What else a server's and an operator's have is what their roles are checked for.
            Role::Party | Role::Server | Role::Operator => KeyUsage::client_auth(),
            Role::Coordinator => KeyUsage::server_auth(),
        };
        let verified = entity.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &self.authorities,
            between,
            UnixTime::since_unix_epoch(std::time::Duration::from_secs(now)),
            usage,
            // guard: revoked-members
            revocation(&lists),
            None,
        );
        verified.map_err(|error| certificate_error(error, role))?;
        // guard: roles-are-asked-of-certificates, roles-are-asked-of-parties
        role.check(&der)
    }
}

fn malformed(error: x509_parser::nom::Err<x509_parser::error::X509Error>) -> CertificateError {
    CertificateError::Malformed(error.to_string())
}

/// The first and the last second in which a certificate in DER is valid.
///
/// # Errors
///
/// [`CertificateError::Malformed`].
pub fn validity(certificate: &[u8]) -> Result<(UnixSeconds, UnixSeconds), CertificateError> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(malformed)?;
    let time = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
    let validity = parsed.validity();
    Ok((time(validity.not_before), time(validity.not_after)))
}

/// Checks a certificate's time alone.
///
/// # Errors
///
/// [`CertificateError::Expired`] or [`CertificateError::NotYetValid`].
pub fn check_time(
    (not_before, not_after): (UnixSeconds, UnixSeconds),
    now: UnixSeconds,
) -> Result<(), CertificateError> {
    match (now < not_before, now > not_after) {
        (true, _) => Err(CertificateError::NotYetValid { not_before, now }),
        (_, true) => Err(CertificateError::Expired { not_after, now }),
        _ => Ok(()),
    }
}

/// Checks a party's name: it must be a DNS name in lower case, of at most 64 characters.
///
/// # Errors
///
/// [`CryptoError::Name`], which quotes the rule.
pub fn check_name(name: &str) -> Result<(), CryptoError> {
    let is_label = |label: &str| {
        let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() <= 64 && name.split('.').all(is_label) {
        Ok(())
    } else {
        let name = name.chars().take(80).collect();
        Err(CryptoError::Name { name })
    }
}

/// The subject alternative names of a certificate.
pub(crate) fn subject_names<'a>(
    certificate: &X509Certificate<'a>,
) -> Result<Vec<GeneralName<'a>>, CertificateError> {
    let extension = certificate
        .subject_alternative_name()
        .map_err(|e| CertificateError::Malformed(e.to_string()))?;
    Ok(extension.map_or_else(Vec::new, |extension| extension.value.general_names.clone()))
}

/// The only name in the certificate of a party or operator.
fn one_name(certificate: &X509Certificate<'_>) -> Result<String, CertificateError> {
    match &subject_names(certificate)?[..] {
        [GeneralName::DNSName(name)] if check_name(name).is_ok() => Ok((*name).to_owned()),
        names => Err(CertificateError::Names(
            names.iter().map(|name| name.to_string()).collect(),
        )),
    }
}

/// The host names and addresses that a certificate is for.
fn hosts(certificate: &X509Certificate<'_>) -> Result<Vec<String>, CertificateError> {
    Ok(subject_names(certificate)?.iter().map(readable).collect())
}

/// A name for people to read.
pub(crate) fn readable(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) => (*name).to_owned(),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(std::net::IpAddr::from);
            let v6 = <[u8; 16]>::try_from(*bytes).map(std::net::IpAddr::from);
            v4.or(v6)
                .map_or_else(|_| Hex(bytes).to_string(), |address| address.to_string())
        }
        other => other.to_string(),
    }
}

/// The Ed25519 or P-256 key of a certificate.
pub(crate) fn verifying_key(
    spki: &SubjectPublicKeyInfo<'_>,
) -> Result<VerifyingKey, CertificateError> {
    let oid = &spki.algorithm.algorithm;
    let curve = spki
        .algorithm
        .parameters
        .as_ref()
        .and_then(|any| any.as_oid().ok());
    let algorithm = if *oid == OID_SIG_ED25519 {
        Algorithm::Ed25519
    } else if *oid == OID_KEY_TYPE_EC_PUBLIC_KEY && curve == Some(OID_EC_P256) {
        Algorithm::P256
    } else {
        return Err(CertificateError::Key);
    };
    VerifyingKey::parse(algorithm, &spki.subject_public_key.data).map_err(|_| CertificateError::Key)
}

fn read_authorities(
    text: &str,
) -> Result<Vec<rustls_pki_types::TrustAnchor<'static>>, CryptoError> {
    let refuse = |why: String| CryptoError::Pem {
        what: "CA certificate",
        why,
    };
    let mut authorities = Vec::new();
    for der in pem::certificates(text).map_err(refuse)? {
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|e| refuse(e.to_string()))?;
        if !parsed.is_ca() {
            return Err(refuse("must be the certificate of a CA".into()));
        }
        let anchor = webpki::anchor_from_trusted_cert(&der).map_err(|e| refuse(e.to_string()))?;
        authorities.push(anchor.to_owned());
    }
    Ok(authorities)
}

/// The lists of a PEM text, and the time from which one of them is out of date.
fn read_lists(text: &str) -> Result<(Vec<CertRevocationList<'static>>, UnixSeconds), CryptoError> {
    let refuse = |why: String| CryptoError::Pem {
        what: "revocation list",
        why,
    };
    let mut lists = Vec::new();
    let mut valid_until = UnixSeconds::MAX;
    for der in pem::lists(text).map_err(refuse)? {
        let list = OwnedCertRevocationList::from_der(&der).map_err(|e| refuse(e.to_string()))?;
        let (_, parsed) = x509_parser::parse_x509_crl(&der).map_err(|e| refuse(e.to_string()))?;
        let next_update = parsed
            .next_update()
            .ok_or_else(|| refuse("must have the date of the next one".into()))?;
        valid_until = valid_until.min(u64::try_from(next_update.timestamp()).unwrap_or(0));
        lists.push(list.into());
    }
    Ok((lists, valid_until))
}

/// Revocation as strict as webpki knows: with lists, every certificate needs a current one of its CA.
fn revocation<'a>(lists: &'a [&'a CertRevocationList<'a>]) -> Option<RevocationOptions<'a>> {
    let options = RevocationOptionsBuilder::new(lists).ok()?;
    Some(
        options
            .with_depth(RevocationCheckDepth::EndEntity)
            .with_status_policy(UnknownStatusPolicy::Deny)
            .with_expiration_policy(ExpirationPolicy::Enforce)
            .build(),
    )
}

fn certificate_error(error: webpki::Error, role: Role) -> CertificateError {
    use webpki::Error;
    match error {
        Error::CertExpired { time, not_after } => CertificateError::Expired {
            not_after: not_after.as_secs(),
            now: time.as_secs(),
        },
        Error::CertNotValidYet { time, not_before } => CertificateError::NotYetValid {
            not_before: not_before.as_secs(),
            now: time.as_secs(),
        },
        Error::CrlExpired { time, next_update } => CertificateError::RevocationListExpired {
            next_update: next_update.as_secs(),
            now: time.as_secs(),
        },
        Error::UnknownIssuer | Error::InvalidSignatureForPublicKey => {
            CertificateError::UnknownIssuer
        }
        Error::CertRevoked => CertificateError::Revoked,
        Error::InvalidCrlSignatureForPublicKey => CertificateError::RevocationListForeign,
        Error::UnknownRevocationStatus => CertificateError::RevocationUnknown,
        Error::RequiredEkuNotFoundContext(_) | Error::CaUsedAsEndEntity => role.wrong(),
        other => CertificateError::Malformed(other.to_string()),
    }
}
