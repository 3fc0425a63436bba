//! Making what [`crate::certificate`] checks: the job's CA, certificates and revocation lists.
//!
//! A party makes its own key and a signing request ([`request`]), the CA turns the request into a
//! certificate ([`CertificateAuthority::sign_request`]); no private key leaves its party.
//! [`CertificateAuthority::issue`] does both in one place, for demonstrations and tests.
//!
//! Everything is text in PEM; writing files is the caller's. With the same generator and times the same
//! bytes come out.

mod asked;
mod describe;
mod hosts;
#[cfg(test)]
mod tests;

use rand_core::CryptoRng;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams,
    CertificateSigningRequestParams, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyUsagePurpose, PublicKeyData,
    RevokedCertParams, SerialNumber, SignatureAlgorithm, SigningKey,
};
use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

pub use describe::{
    Description, KeyDescription, ListDescription, RequestDescription, describe, describe_key,
    describe_list, describe_request,
};
use hosts::{dns_name, subject_alternatives};

use crate::{
    CryptoError,
    certificate::{TrustAnchor, UnixSeconds, check_name, verifying_key},
    pem,
    sign::{Algorithm, IdentityKey},
    usage::OPERATOR_USAGES,
};

/// The OID of the extension extendedKeyUsage. rcgen writes the usages itself only where the parts of their OIDs have 64 bits.
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];

/// The time in which a certificate or a revocation list is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: UnixSeconds,
    /// The last second.
    pub not_after: UnixSeconds,
}

/// Seconds by which certificates and revocation lists begin before they are made: ten minutes. Clocks of others may be
/// behind by as much.
pub const BACKDATED: UnixSeconds = 600;

impl Validity {
    /// `days` days from `now` on, and the ten minutes ([`BACKDATED`]) before `now`: for what is made now. What a CA signs
    /// begins not before the CA itself, see [`CertificateAuthority::validity`].
    pub fn made(now: UnixSeconds, days: u32) -> Self {
        Validity {
            not_before: now.saturating_sub(BACKDATED),
            ..Self::days(now, days)
        }
    }

    /// `days` days from `now` on, to the second.
    pub fn days(now: UnixSeconds, days: u32) -> Self {
        let not_after = now.saturating_add(u64::from(days) * 86_400);
        Validity {
            not_before: now,
            not_after,
        }
    }
}

/// Whom a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A party of the job: client authentication, its name the only DNS name.
    Party,
    /// A coordinator: server authentication, for these host names and IP addresses.
    Coordinator {
        /// DNS names, or IP addresses in text.
        hosts: Vec<String>,
    },
    /// A server that computes with a coordinator: client and server authentication, for these host names and IP
    /// addresses.
    Server {
        /// DNS names, or IP addresses in text.
        hosts: Vec<String>,
    },
    /// An operator, who administers a coordinator and is in no round: client authentication and the usage of operators, its
    /// name the only DNS name.
    Operator,
}

/// A certificate and its private key, in PEM.
pub struct Credential {
    /// The certificate.
    pub certificate: String,
    /// The private key as PKCS#8, unencrypted.
    pub key: Zeroizing<String>,
}

/// A signing request and its private key, in PEM.
pub struct Request {
    /// What goes to the CA.
    pub request: String,
    /// The private key as PKCS#8, unencrypted; it stays.
    pub key: Zeroizing<String>,
}

/// Makes a party's, coordinator's or server's key and the request for its certificate.
///
/// # Errors
///
/// [`CryptoError::Name`], or [`CryptoError::Issue`] if the library fails.
pub fn request(
    name: &str,
    algorithm: Algorithm,
    rng: &mut dyn CryptoRng,
) -> Result<Request, CryptoError> {
    check_name(name)?;
    let key = IdentityKey::generate(algorithm, rng)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    params.subject_alt_names = vec![dns_name(name)?];
    let request = params
        .serialize_request(&Signer(&key))
        .and_then(|request| request.pem())
        .map_err(issue("signing request"))?;
    Ok(Request {
        request,
        key: key.to_pem()?,
    })
}

/// The CA of a job: its certificate and its key.
pub struct CertificateAuthority {
    certificate: CertificateDer<'static>,
    pem: String,
    key: IdentityKey,
}

impl CertificateAuthority {
    /// Makes a CA that signs end-entity certificates only.
    ///
    /// # Errors
    ///
    /// [`CryptoError::Issue`] if the times are out of range or the library fails.
    pub fn create(
        common_name: &str,
        algorithm: Algorithm,
        validity: Validity,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, CryptoError> {
        let key = IdentityKey::generate(algorithm, rng)?;
        let mut params = params(common_name, validity, rng)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params
            .self_signed(&Signer(&key))
            .map_err(issue("CA certificate"))?;
        let (pem, certificate) = (certificate.pem(), certificate.into());
        Ok(CertificateAuthority {
            certificate,
            pem,
            key,
        })
    }

    /// Loads a CA from its certificate and its key, both in PEM.
    ///
    /// # Errors
    ///
    /// [`CryptoError::Pem`] if one of them cannot be read, if the certificate is not a CA's, or if they do not belong
    /// together.
    pub fn load(certificate: &str, key: &str) -> Result<Self, CryptoError> {
        let refuse = |why: String| CryptoError::Pem {
            what: "CA certificate",
            why,
        };
        let der = first_certificate(certificate).map_err(refuse)?;
        let key = IdentityKey::from_pem(key)?;
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|e| refuse(e.to_string()))?;
        if !parsed.is_ca() {
            return Err(refuse("must be the certificate of a CA".into()));
        }
        if verifying_key(parsed.public_key()).as_ref() != Ok(key.verifying_key()) {
            return Err(refuse("must belong to the key that comes with it".into()));
        }
        let pem = certificate.to_owned();
        Ok(CertificateAuthority {
            certificate: der,
            pem,
            key,
        })
    }

    /// The CA's certificate in PEM: what every party is configured with.
    pub fn certificate(&self) -> &str {
        &self.pem
    }

    /// The CA's private key in PEM, unencrypted.
    ///
    /// # Errors
    ///
    /// Those of [`IdentityKey::to_pem`].
    pub fn key(&self) -> Result<Zeroizing<String>, CryptoError> {
        self.key.to_pem()
    }

    /// The validity of what this CA signs `now`, for `days` days: it begins ten minutes ([`BACKDATED`]) before `now`, but
    /// not before the CA's own certificate does.
    ///
    /// # Errors
    ///
    /// [`CryptoError::Pem`] if the CA's certificate cannot be read.
    pub fn validity(&self, now: UnixSeconds, days: u32) -> Result<Validity, CryptoError> {
        let made = Validity::made(now, days);
        let began = describe(&self.pem)?.not_before;
        let not_before = made.not_before.max(began);
        Ok(Validity { not_before, ..made })
    }

    /// Makes a key and its certificate in one place.
    ///
    /// # Errors
    ///
    /// [`CryptoError::Name`], or [`CryptoError::Issue`] if a host or the times cannot be encoded.
    pub fn issue(
        &self,
        name: &str,
        kind: &Kind,
        algorithm: Algorithm,
        validity: Validity,
        rng: &mut dyn CryptoRng,
    ) -> Result<Credential, CryptoError> {
        let key = IdentityKey::generate(algorithm, rng)?;
        let certificate = self.certify(name, kind, &Signer(&key), validity, rng)?;
        Ok(Credential {
            certificate,
            key: key.to_pem()?,
        })
    }

    /// Makes the certificate (PEM) that a request asks for, after checking that the holder of its key made the request
    /// for `name`. Only the key is taken from the request: the CA alone decides the rest.
    ///
    /// # Errors
    ///
    /// [`CryptoError::Issue`] if the request is malformed, its signature is wrong, it asks for another name, or its key
    /// is neither Ed25519 nor P-256.
    pub fn sign_request(
        &self,
        request: &str,
        name: &str,
        kind: &Kind,
        validity: Validity,
        rng: &mut dyn CryptoRng,
    ) -> Result<String, CryptoError> {
        check_name(name)?;
        let refuse = |why: String| CryptoError::Issue {
            what: "signing request",
            why,
        };
        let section = pem::request(request).map_err(refuse)?;
        let described = describe_request(&section)?;
        // The key itself says it: the algorithm that the request is signed with may be that of another one.
        described.check_key().map_err(refuse)?;
        let common_names = described.common_names;
        let request = CertificateSigningRequestParams::from_pem(&section)
            .map_err(issue("signing request"))?;
        let asked = &request.params.subject_alt_names;
        // Other tools ask by the common name alone.
        let by_common_name = asked.is_empty() && common_names == [name];
        if *asked != [dns_name(name)?] && !by_common_name {
            return Err(refuse(asked::for_others(asked, &common_names, name)));
        }
        self.certify(name, kind, &request.public_key, validity, rng)
    }

    /// Makes the revocation list (PEM) of these certificates, given by their serial numbers in hexadecimal digits as
    /// [`Description::serial`] shows them. `number` must grow from list to list. The next list must be there by the end
    /// of `validity`.
    ///
    /// # Errors
    ///
    /// [`CryptoError::Issue`] if a serial number is no number, or the times cannot be encoded.
    pub fn revoke(
        &self,
        serials: &[&str],
        number: u64,
        validity: Validity,
    ) -> Result<String, CryptoError> {
        let this_update = date(validity.not_before)?;
        let revoked = |serial: &&str| {
            Ok(RevokedCertParams {
                serial_number: read_serial(serial)?,
                revocation_time: this_update,
                reason_code: None,
                invalidity_date: None,
            })
        };
        let params = CertificateRevocationListParams {
            this_update,
            next_update: date(validity.not_after)?,
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: serials
                .iter()
                .map(revoked)
                .collect::<Result<_, CryptoError>>()?,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params
            .signed_by(&self.issuer()?)
            .and_then(|list| list.pem())
            .map_err(issue("revocation list"))
    }

    fn certify(
        &self,
        name: &str,
        kind: &Kind,
        key: &impl PublicKeyData,
        validity: Validity,
        rng: &mut dyn CryptoRng,
    ) -> Result<String, CryptoError> {
        check_name(name)?;
        let mut params = params(name, validity, rng)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        match kind {
            Kind::Party => {
                params.subject_alt_names = vec![dns_name(name)?];
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            }
            Kind::Coordinator { hosts } => {
                params.subject_alt_names = subject_alternatives(hosts)?;
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            }
            Kind::Server { hosts } => {
                params.subject_alt_names = subject_alternatives(hosts)?;
                params.extended_key_usages = vec![
                    ExtendedKeyUsagePurpose::ClientAuth,
                    ExtendedKeyUsagePurpose::ServerAuth,
                ];
            }
            Kind::Operator => {
                params.subject_alt_names = vec![dns_name(name)?];
                let usages = OPERATOR_USAGES.to_vec();
                let usages = CustomExtension::from_oid_content(EXTENDED_KEY_USAGE, usages);
                params.custom_extensions = vec![usages];
            }
        }
        let certificate = params
            .signed_by(key, &self.issuer()?)
            .map_err(issue("certificate"))?;
        Ok(certificate.pem())
    }

    fn issuer(&self) -> Result<Issuer<'static, Signer<'_>>, CryptoError> {
        Issuer::from_ca_cert_der(&self.certificate, Signer(&self.key)).map_err(issue("issuer"))
    }
}

/// Whether the CA of a certificate (PEM) has signed another one (PEM): of a party, a coordinator, a server that computes with
/// one, or an operator. It may have expired or been revoked since.
///
/// # Errors
///
/// [`CryptoError::Pem`] if one of them is no certificate, or the first is not a CA's.
pub fn has_signed(authority: &str, certificate: &str) -> Result<bool, CryptoError> {
    let refuse = |why| CryptoError::Pem {
        what: "certificate",
        why,
    };
    let began = describe(certificate)?.not_before;
    let der = first_certificate(certificate).map_err(refuse)?;
    let anchor = TrustAnchor::from_pem(authority, None)?;
    Ok(anchor.verify_party(&der, began).is_ok()
        || anchor.verify_coordinator(&der, &[], began).is_ok()
        || anchor.verify_server::<&[u8]>(&der, &[], began).is_ok()
        || anchor.verify_operator(&der, began).is_ok())
}

/// The first certificate of a PEM text.
fn first_certificate(text: &str) -> Result<CertificateDer<'static>, String> {
    // There is at least one.
    pem::certificates(text).map(|mut found| found.swap_remove(0))
}

/// Our key as rcgen wants to see it: its signatures need no randomness of the system.
struct Signer<'a>(&'a IdentityKey);

impl PublicKeyData for Signer<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0.verifying_key().as_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        match self.0.algorithm() {
            Algorithm::Ed25519 => &rcgen::PKCS_ED25519,
            Algorithm::P256 => &rcgen::PKCS_ECDSA_P256_SHA256,
        }
    }
}

impl SigningKey for Signer<'_> {
    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.0.sign_x509(bytes))
    }
}

fn issue(what: &'static str) -> impl Fn(rcgen::Error) -> CryptoError {
    move |error| CryptoError::Issue {
        what,
        why: error.to_string(),
    }
}

/// What every certificate of ours has: subject, times and a serial number of 126 random bits (RFC 5280
/// section 4.1.2.2 wants it positive and unique).
fn params(
    name: &str,
    validity: Validity,
    rng: &mut dyn CryptoRng,
) -> Result<CertificateParams, CryptoError> {
    let mut serial = [0; 16];
    rng.fill_bytes(&mut serial);
    serial[0] = serial[0] & 0x7f | 0x40;
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.not_before = date(validity.not_before)?;
    params.not_after = date(validity.not_after)?;
    if validity.not_before > validity.not_after {
        let why = format!("must satisfy not_before <= not_after, has {validity:?}");
        return Err(CryptoError::Issue {
            what: "validity",
            why,
        });
    }
    Ok(params)
}

fn common_name(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}

fn date(seconds: UnixSeconds) -> Result<OffsetDateTime, CryptoError> {
    // X.509 writes years with four digits.
    let most = 253_402_300_799;
    let why = format!("{seconds} Unix seconds: must be at most {most}, the end of the year 9999");
    let refuse = CryptoError::Issue { what: "time", why };
    match i64::try_from(seconds) {
        Ok(seconds) if seconds <= most => {
            OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| refuse)
        }
        _ => Err(refuse),
    }
}

fn read_serial(serial: &str) -> Result<SerialNumber, CryptoError> {
    let digit = |c: char| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Option<Vec<u8>> = serial.chars().map(digit).collect();
    match digits {
        Some(digits) if digits.len() % 2 == 0 && (2..=40).contains(&digits.len()) => {
            let bytes: Vec<u8> = digits
                .chunks(2)
                .map(|pair| pair[0] << 4 | pair[1])
                .collect();
            Ok(bytes.into())
        }
        _ => Err(CryptoError::Issue {
            what: "serial number",
            why: format!("{serial:?}: must be 2 to 40 hexadecimal digits, an even number"),
        }),
    }
}
