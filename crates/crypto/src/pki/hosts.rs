//! The hosts that the certificate of a coordinator or a server is for.

use std::net::{IpAddr, Ipv6Addr};

use rcgen::SanType;

use super::issue;
use crate::CryptoError;

/// Each host as a DNS name or an IP address.
///
/// # Errors
/// [`CryptoError::Issue`] for the first one to which nobody could connect.
pub(super) fn subject_alternatives(hosts: &[String]) -> Result<Vec<SanType>, CryptoError> {
    hosts.iter().map(|host| subject_name(host)).collect()
}

fn subject_name(host: &str) -> Result<SanType, CryptoError> {
    let refuse = |rule: String| CryptoError::Issue {
        what: "host",
        why: format!("{host:?} {rule}"),
    };
    if let Some(address) = address(host) {
        return Ok(SanType::IpAddress(address));
    }
    check_host(host).map_err(refuse)?;
    dns_name(host)
}

/// The address that a text is, also in the brackets of a URL.
fn address(host: &str) -> Option<IpAddr> {
    let inside = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match inside {
        Some(inside) => inside.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => host.parse().ok(),
    }
}

/// A DNS name, even where the text could be an IP address: parties may be called 10.0.0.1.
pub(super) fn dns_name(name: &str) -> Result<SanType, CryptoError> {
    let name = name.try_into().map_err(issue("host name"))?;
    Ok(SanType::DnsName(name))
}

/// Checks the name of a host: labels of letters, digits, hyphens and underscores, the first one may be `*`.
///
/// # Errors
/// The rule that it breaks, and what to do.
fn check_host(host: &str) -> Result<(), String> {
    if !host.is_ascii() {
        return Err(
            "must be ASCII: write it in punycode, as DNS has it, e.g. xn--bcher-kva.example for \
                    b\u{fc}cher.example"
                .into(),
        );
    }
    if host.contains("://") || host.contains('/') {
        return Err("must be a host alone, without https:// and path".into());
    }
    if let Some((name, port)) = host.rsplit_once(':')
        && !port.is_empty()
        && port.bytes().all(|digit| digit.is_ascii_digit())
        && !name.contains(':')
    {
        return Err(format!("must be a host alone, without a port: {name}"));
    }
    let labels = host.strip_prefix("*.").unwrap_or(host);
    let is_number = |label: &str| label.bytes().all(|digit| digit.is_ascii_digit());
    if host.len() > 253
        || !labels.split('.').all(is_label)
        || labels.rsplit('.').next().is_some_and(is_number)
    {
        return Err("must be an IP address, or a DNS name: at most 253 characters, labels of 1 to 63 letters, digits, \
                    hyphens and underscores, joined by dots, without a hyphen at their ends, the last one no number"
            .into());
    }
    Ok(())
}

fn is_label(label: &str) -> bool {
    let is_inside = |letter: u8| letter.is_ascii_alphanumeric() || b"-_".contains(&letter);
    (1..=63).contains(&label.len())
        && label.bytes().all(is_inside)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_their_brackets() {
        for (host, address) in [
            ("[::1]", "::1"),
            ("::1", "::1"),
            ("10.0.0.5", "10.0.0.5"),
            ("[2001:DB8::5]", "2001:db8::5"),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(
                subject_name(host).unwrap(),
                SanType::IpAddress(address),
                "{host}"
            );
        }
    }

    #[test]
    fn a_host_to_which_nobody_could_connect_is_refused() {
        for host in [
            "agg",
            "agg.example",
            "*.example",
            "a_b.example",
            "10.example",
            "xn--bcher-kva.example",
            "AGG.example",
        ] {
            assert!(
                matches!(subject_name(host), Ok(SanType::DnsName(_))),
                "{host}"
            );
        }
        for (host, part) in [
            ("b\u{fc}cher.example", "xn--"),
            ("bad host", "DNS name"),
            ("", "DNS name"),
            (" ", "DNS name"),
            ("agg.example.", "DNS name"),
            (".agg", "DNS name"),
            ("-agg", "DNS name"),
            ("10.0.0.256", "DNS name"),
            ("[10.0.0.1]", "DNS name"),
            ("[::1", "DNS name"),
            ("fe80::1%eth0", "DNS name"),
            ("a.*.example", "DNS name"),
            ("agg.example:9443", "without a port: agg.example"),
            ("https://agg.example", "without https://"),
            ("agg.example/", "without https://"),
            (&"a".repeat(64), "DNS name"),
            (&"a.".repeat(127), "DNS name"),
        ] {
            let error = subject_name(host).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{host:?}")) && error.contains(part),
                "{error}"
            );
        }
    }
}
