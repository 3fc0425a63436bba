//! Where a server is, as its URL says; and addresses to listen on.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use rustls_pki_types::ServerName;
use tonic::transport::Uri;

use crate::NetError;

/// The port where the URL names none.
const PORT: u16 = 9443;

/// What DNS and certificates say in place of letters that are not ASCII.
const PUNYCODE: &str = "the host must be ASCII: write it in punycode, e.g. xn--bcher-kva.example for b\u{fc}cher.example";

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub url: String,
    /// A name in lower case, or an address.
    pub host: String,
    pub port: u16,
}

impl Address {
    /// Reads `https://HOST:PORT`.
    ///
    /// # Errors
    /// Anything else, in the field of this name. A password in the URL is in no error.
    pub fn parse(field: &str, url: &str) -> Result<Self, NetError> {
        let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
        if after_scheme
            .split(['/', '?', '#'])
            .next()
            .is_some_and(|authority| authority.contains('@'))
        {
            let rule = "must be https://HOST:PORT, without user and password: a party shows its certificate";
            return Err(NetError::config(field, rule));
        }
        let wrong = |rule: &str| NetError::config(field, format!("{url:?}: {rule}"));
        if !url.is_ascii() {
            return Err(wrong(PUNYCODE));
        }
        let uri: Uri = url
            .parse()
            .map_err(|_| wrong("must be https://HOST:PORT"))?;
        // guard: https-only
        if uri.scheme_str() != Some("https") {
            return Err(wrong(
                "must begin with https://: the connection is always TLS",
            ));
        }
        if !["", "/"].contains(&uri.path()) || uri.query().is_some() || url.contains('#') {
            return Err(wrong(
                "must be https://HOST:PORT alone: a coordinator has no path, query or fragment",
            ));
        }
        let host = uri.host().ok_or_else(|| wrong("must name a host"))?;
        let port = port(after_scheme.trim_end_matches('/'), host)
            .ok_or_else(|| wrong("must have a port from 1 to 65535, or none for 9443"))?;
        let host = bare(host);
        ServerName::try_from(host).map_err(|_| wrong("the host must be a name or address"))?;
        Ok(Self {
            url: url.into(),
            host: written(host),
            port,
        })
    }

    /// Whether a certificate for this name or address is for the host.
    pub fn is_for(&self, name: &str) -> bool {
        self.host == written(name)
    }
}

/// The port behind a host; none if it is none. A host stands there as the URL has it.
fn port(authority: &str, host: &str) -> Option<u16> {
    match authority.get(host.len()..)? {
        "" => Some(PORT),
        rest => rest
            .strip_prefix(':')?
            .parse()
            .ok()
            .filter(|port| *port > 0),
    }
}

/// A host without the brackets that a URL puts around an IPv6 address.
pub(crate) fn bare(host: &str) -> &str {
    let inside = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inside
        .filter(|inside| inside.parse::<Ipv6Addr>().is_ok())
        .unwrap_or(host)
}

/// A name or an address as it is compared with others.
fn written(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => host.to_ascii_lowercase(),
    }
}

/// Checks that no two settings name one address to listen on; port 0 is another port each time.
///
/// # Errors
/// The later one of two settings with one address.
pub fn check_apart(addresses: &[(&str, Option<&str>)]) -> Result<(), NetError> {
    let given = addresses
        .iter()
        .filter_map(|(field, address)| Some((*field, (*address)?)))
        .filter(|(_, address)| !address.ends_with(":0"));
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (field, address) in given {
        if let Some((first, _)) = seen.iter().find(|(_, other)| *other == address) {
            let rule = format!("{address:?} is the address of {first} too: give each its own port");
            return Err(NetError::config(field, rule));
        }
        seen.push((field, address));
    }
    Ok(())
}

/// Checks that an address to listen on has a host and a port. Whether this machine has the address turns out when it is
/// used.
///
/// # Errors
/// The address has no host or no valid port. `field` is the name of the field or argument in the error.
pub fn check_address(field: &str, address: &str) -> Result<(), NetError> {
    let wrong = |rule: &str| Err(NetError::config(field, format!("{address:?} {rule}")));
    if !address.is_ascii() {
        return wrong(PUNYCODE);
    }
    if address.parse::<SocketAddr>().is_ok() {
        return Ok(());
    }
    let split = address.rsplit_once(':');
    let Some((host, _)) =
        split.filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    else {
        return wrong("must be HOST:PORT with a port from 0 to 65535, as in 0.0.0.0:9443");
    };
    if host.contains(':') || host.starts_with('[') {
        return wrong("must have an IPv6 address in brackets, as in [::]:9443");
    }
    match ServerName::try_from(host) {
        Ok(_) => Ok(()),
        Err(_) => wrong("must begin with a host name or an address, as in 0.0.0.0:9443"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_address_is_for_one_setting() {
        let (one, any) = (Some("127.0.0.1:9443"), Some("127.0.0.1:0"));
        check_apart(&[
            ("listen", one),
            ("admin", None),
            ("metrics", any),
            ("dashboard", any),
        ])
        .unwrap();
        let error = check_apart(&[("listen", one), ("admin", None), ("metrics", one)]).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("metrics: \"127.0.0.1:9443\" is the address of listen too"),
            "{said}"
        );
    }

    #[test]
    fn a_url_is_a_host_and_a_port() {
        for (url, host, port) in [
            ("https://agg.example:1", "agg.example", 1),
            ("https://AGG.example/", "agg.example", 9443),
            ("https://[::1]:2", "::1", 2),
            ("https://[0:0::1]", "::1", 9443),
            ("https://10.0.0.1:65535/", "10.0.0.1", 65535),
            (
                "https://xn--bcher-kva.example",
                "xn--bcher-kva.example",
                9443,
            ),
        ] {
            let address = Address::parse("url", url).unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port), "{url}");
        }
    }

    #[test]
    fn nothing_of_a_url_is_dropped() {
        for (url, part) in [
            ("https://agg.example/path", "no path"),
            ("https://agg.example//", "no path"),
            ("https://agg.example?job=x", "no path"),
            ("https://agg.example/#x", "no path"),
            ("https://agg.example:0", "port"),
            ("https://agg.example:65536", "port"),
            ("https://agg.example:", "port"),
            ("https://agg.example:x", "port"),
            ("https://b\u{fc}cher.example:1", "punycode"),
            ("http://agg.example", "https://"),
            ("agg.example:9443", "https://"),
            ("https://", "https://HOST:PORT"),
            ("", "https://HOST:PORT"),
            ("https://bad host:1", "https://HOST:PORT"),
            ("https://::1:9443", "must"),
            ("https://[agg]:1", "must"),
        ] {
            let error = Address::parse("url", url).unwrap_err().to_string();
            assert!(
                error.starts_with("url: ") && error.contains(part),
                "{url}: {error}"
            );
        }
    }

    #[test]
    fn a_password_is_in_no_message() {
        for url in [
            "https://me:s3cret@agg.example:9443",
            "https://me:s3cret@agg.example/x?y",
            "me:s3cret@agg.example",
            "https://me:s3cret@b\u{fc}cher.example",
        ] {
            let error = Address::parse("url", url).unwrap_err().to_string();
            assert!(
                error.contains("without user and password") && !error.contains("s3cret"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_address_to_listen_on_is_a_host_and_a_port() {
        for good in [
            "0.0.0.0:9443",
            "localhost:0",
            "[::]:9443",
            "[::1]:0",
            "[fe80::1%2]:1",
            "agg.example:65535",
        ] {
            assert!(check_address("listen", good).is_ok(), "{good}");
        }
        for (bad, part) in [
            ("", "HOST:PORT"),
            ("9443", "HOST:PORT"),
            (":9443", "HOST:PORT"),
            ("0.0.0.0", "HOST:PORT"),
            ("0.0.0.0:65536", "HOST:PORT"),
            ("[::1]", "HOST:PORT"),
            ("::1:9443", "brackets"),
            ("[localhost]:1", "brackets"),
            ("bad host:1", "host name"),
            ("https://agg.example:1", "brackets"),
            ("b\u{fc}cher.example:1", "punycode"),
        ] {
            let error = check_address("listen", bad).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{bad:?}")) && error.contains(part),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in ".*", host in "[a-z:.@\\[\\]/0-9]{0,12}") {
            for text in [text.clone(), format!("https://{text}"), format!("https://{host}"), format!("https://[{host}]:1")] {
                let _ = (Address::parse("url", &text), check_address("listen", &text));
            }
        }
    }
}
