//! What failed in TLS, in words for people.

use std::io;

use blindsum_crypto::calendar::utc;
use rustls::{AlertDescription, CertificateError, CommonState, Error, PeerIncompatible};

/// The error of TLS in one of reading or writing, where it is one.
pub(crate) fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// The key exchange of a connection, as in `X25519MLKEM768`; empty before the handshake.
pub(crate) fn key_exchange(connection: &CommonState) -> &'static str {
    let group = connection.negotiated_key_exchange_group();
    group
        .and_then(|group| group.name().as_str())
        .unwrap_or_default()
}

/// What failed.
pub(crate) fn words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(certificate) => {
            format!("its certificate {}", certificate_words(certificate))
        }
        Error::NoCertificatesPresented => "it shows no certificate".into(),
        Error::AlertReceived(alert) => alert_words(*alert),
        Error::InvalidMessage(_) => "it does not use TLS, or its TLS is broken".into(),
        Error::PeerIncompatible(why) => {
            format!("{}: TLS 1.3 is the only version here", incompatible(why))
        }
        Error::PeerMisbehaved(why) => {
            format!("it breaks a rule of TLS: {}", spaced(&format!("{why:?}")))
        }
        other => other.to_string(),
    }
}

/// What is wrong with a certificate, as the end of a sentence. Certificates out of their time tell both dates.
pub(crate) fn certificate_words(error: &CertificateError) -> String {
    use CertificateError as C;
    match error {
        C::Expired => "has expired".into(),
        C::NotValidYet => "is not valid yet".into(),
        C::ExpiredContext { time, not_after } => format!(
            "expired {}, by this machine's clock it is {}: check the clocks of both machines",
            utc(not_after.as_secs()),
            utc(time.as_secs())
        ),
        C::NotValidYetContext { time, not_before } => format!(
            "is not valid before {}, by this machine's clock it is {}: check the clocks of both machines",
            utc(not_before.as_secs()),
            utc(time.as_secs())
        ),
        C::Revoked => "is revoked".into(),
        C::UnknownIssuer | C::BadSignature => "is not signed by the CA that is trusted here".into(),
        C::InvalidPurpose | C::InvalidPurposeContext { .. } => "is not for this use".into(),
        C::UnknownRevocationStatus => {
            "is of a CA without a revocation list here: give this side its list".into()
        }
        C::ExpiredRevocationList | C::ExpiredRevocationListContext { .. } => {
            "cannot be checked: the revocation list here is out of date".into()
        }
        C::Other(other)
            if matches!(
                other.0.downcast_ref(),
                Some(webpki::Error::CaUsedAsEndEntity)
            ) =>
        {
            "is that of a CA: give the certificate that the CA has signed for this machine".into()
        }
        C::Other(other) => format!("is refused: {}", spaced(&other.to_string())),
        other => format!("is refused: {}", spaced(&format!("{other:?}"))),
    }
}

/// What the other side has said last.
fn alert_words(alert: AlertDescription) -> String {
    use AlertDescription as A;
    let why = match alert {
        A::UnknownCA => "it does not trust the CA of this side's certificate".into(),
        A::BadCertificate | A::CertificateUnknown | A::UnsupportedCertificate => {
            "it does not accept this side's certificate".into()
        }
        A::CertificateRevoked => "this side's certificate is revoked".into(),
        A::CertificateExpired => {
            "by its clock this side's certificate is outside its validity period".into()
        }
        A::CertificateRequired => "it wants a certificate, and this side shows none".into(),
        A::AccessDenied => "it refuses this side's certificate".into(),
        other => format!("its alert is \"{}\"", spaced(&format!("{other:?}"))),
    };
    format!("the other side ended it: {why}")
}

fn incompatible(why: &PeerIncompatible) -> &'static str {
    match why {
        PeerIncompatible::NoKxGroupsInCommon | PeerIncompatible::NamedGroupsExtensionRequired => {
            "it offers no key exchange that is known here"
        }
        PeerIncompatible::NoCipherSuitesInCommon => "it offers no cipher that is known here",
        _ => "it offers no version of TLS that is supported here",
    }
}

/// The name of an error of a library as words: `CaUsedAsEndEntity` is "ca used as end entity".
fn spaced(name: &str) -> String {
    let name = name.split(['(', '{']).next().unwrap_or_default().trim();
    let name = name.strip_suffix("Context").unwrap_or(name);
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !words.is_empty() && !words.ends_with(' ') {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;
    use rustls_pki_types::UnixTime;

    use super::*;

    /// The kinds of names that libraries print for themselves.
    fn is_plain(text: &str) -> bool {
        !text.contains(['(', '{', '['])
            && !text.split(' ').any(|word| {
                word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase)
            })
    }

    #[test]
    fn words_have_no_names_of_a_library() {
        let other = CertificateError::Other(OtherError(Arc::new(webpki::Error::CaUsedAsEndEntity)));
        let said = words(&Error::InvalidCertificate(other));
        assert_eq!(
            said,
            "its certificate is that of a CA: give the certificate that the CA has signed for this machine"
        );
        for error in [
            Error::InvalidCertificate(CertificateError::UnhandledCriticalExtension),
            Error::InvalidCertificate(CertificateError::Revoked),
            Error::NoCertificatesPresented,
            Error::AlertReceived(AlertDescription::CertificateExpired),
            Error::PeerIncompatible(PeerIncompatible::NoKxGroupsInCommon),
        ] {
            let said = words(&error);
            assert!(is_plain(&said), "{said}");
        }
    }

    #[test]
    fn a_certificate_out_of_its_time_tells_both_dates() {
        let at = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        let (time, not_before) = (at(1_800_000_000), at(1_800_086_400));
        let error = CertificateError::NotValidYetContext { time, not_before };
        let said = certificate_words(&error);
        assert!(
            said.contains("not valid before 2027-01-16 08:00:00 UTC"),
            "{said}"
        );
        assert!(
            said.contains("clock it is 2027-01-15 08:00:00 UTC"),
            "{said}"
        );
        assert!(said.contains("check the clocks"), "{said}");
    }
}
