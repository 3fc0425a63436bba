//! Connections with TLS of another library than the product's own.

use blindsum_net::Credentials;
use tokio::runtime::Runtime;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// A connection to a coordinator.
pub fn channel(runtime: &Runtime, url: &str, credentials: &Credentials) -> Result<Channel, String> {
    channel_to(runtime, url, "localhost", credentials)
}

/// The same to a server whose certificate is for this host.
pub fn channel_to(
    runtime: &Runtime,
    url: &str,
    host: &str,
    credentials: &Credentials,
) -> Result<Channel, String> {
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(&credentials.ca))
        .identity(Identity::from_pem(
            &credentials.certificate,
            credentials.key.as_bytes(),
        ))
        .domain_name(host);
    let endpoint = Endpoint::from_shared(url.to_owned())
        .unwrap()
        .tls_config(tls)
        .unwrap();
    runtime
        .block_on(endpoint.connect())
        .map_err(|e| format!("{e:?}"))
}

/// A connection to a coordinator that shows no certificate.
pub fn channel_of_nobody(runtime: &Runtime, url: &str, ca: &str) -> Result<Channel, String> {
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(ca))
        .domain_name("localhost");
    let endpoint = Endpoint::from_shared(url.to_owned()).unwrap();
    let endpoint = endpoint.tls_config(tls).unwrap();
    runtime
        .block_on(endpoint.connect())
        .map_err(|e| format!("{e:?}"))
}

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}
