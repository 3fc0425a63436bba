//! Where a server is, as its URL says.

use std::net::IpAddr;

use rustls_pki_types::ServerName;
use tonic::transport::Uri;

use crate::NetError;

/// The port where the URL names none.
const PORT: u16 = 9443;

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
    /// Anything else, in the field of this name.
    pub fn parse(field: &str, url: &str) -> Result<Self, NetError> {
        let wrong = |rule: &str| NetError::config(field, format!("{url:?}: {rule}"));
        let uri: Uri = url
            .parse()
            .map_err(|_| wrong("must be https://HOST:PORT"))?;
        if uri.scheme_str() != Some("https") {
            return Err(wrong(
                "must begin with https://: the connection is always TLS",
            ));
        }
        let host = uri.host().ok_or_else(|| wrong("must name a host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        ServerName::try_from(host).map_err(|_| wrong("the host must be a name or address"))?;
        Ok(Self {
            url: url.into(),
            host: written(host),
            port: uri.port_u16().unwrap_or(PORT),
        })
    }

    /// Whether a certificate for this name or address is for the host.
    pub fn is_for(&self, name: &str) -> bool {
        self.host == written(name)
    }
}

/// A name or an address as it is compared with others.
fn written(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => host.to_ascii_lowercase(),
    }
}
