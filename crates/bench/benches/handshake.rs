//! A handshake of mutual TLS in memory, both sides, by the key exchange: what X25519MLKEM768 costs beside X25519.
//! Prints the bytes of the first flight of each side beforehand.

use std::sync::Arc;

use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
use blindsum_crypto::sign::Algorithm;
use criterion::{Criterion, criterion_group, criterion_main};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

/// What both sides of a handshake are made of.
struct Sides {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Sides {
    /// A party and a coordinator with certificates like ours that know these key exchanges.
    fn new(groups: &[&'static dyn SupportedKxGroup]) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let validity = Validity::days(now.unwrap().as_secs() - 60, 1);
        let ca =
            CertificateAuthority::create("CA", Algorithm::Ed25519, validity, &mut rng).unwrap();
        let mut issue = |name: &str, kind: &Kind| {
            let issued = ca
                .issue(name, kind, Algorithm::Ed25519, validity, &mut rng)
                .unwrap();
            let certificate =
                CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
            (
                vec![certificate],
                PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap(),
            )
        };
        let (party, party_key) = issue("a", &Kind::Party);
        let hosts = vec!["localhost".to_owned()];
        let (coordinator, coordinator_key) = issue("agg", &Kind::Coordinator { hosts });
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(ca.certificate().as_bytes()).unwrap();
        roots.add(root).unwrap();
        let roots = Arc::new(roots);
        let crypto = Arc::new(CryptoProvider {
            kx_groups: groups.to_vec(),
            ..default_provider()
        });
        let tls13 = [&rustls::version::TLS13];
        let of_clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), crypto.clone());
        let of_servers = WebPkiServerVerifier::builder_with_provider(roots, crypto.clone());
        let server = ServerConfig::builder_with_provider(crypto.clone())
            .with_protocol_versions(&tls13)
            .unwrap()
            .with_client_cert_verifier(of_clients.build().unwrap())
            .with_single_cert(coordinator, coordinator_key)
            .unwrap();
        let client = ClientConfig::builder_with_provider(crypto)
            .with_protocol_versions(&tls13)
            .unwrap()
            .with_webpki_verifier(of_servers.build().unwrap())
            .with_client_auth_cert(party, party_key)
            .unwrap();
        Self {
            client: Arc::new(client),
            server: Arc::new(server),
        }
    }

    /// One handshake; gives the bytes of the first flight of each side.
    fn shake(&self) -> (usize, usize) {
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(self.client.clone(), name).unwrap();
        let mut server = ServerConnection::new(self.server.clone()).unwrap();
        let mut first = None;
        while client.is_handshaking() || server.is_handshaking() {
            let (mut up, mut down) = (Vec::new(), Vec::new());
            while client.wants_write() {
                client.write_tls(&mut up).unwrap();
            }
            let mut rest = &up[..];
            while !rest.is_empty() {
                server.read_tls(&mut rest).unwrap();
                server.process_new_packets().unwrap();
            }
            while server.wants_write() {
                server.write_tls(&mut down).unwrap();
            }
            let mut rest = &down[..];
            while !rest.is_empty() {
                client.read_tls(&mut rest).unwrap();
                client.process_new_packets().unwrap();
            }
            first.get_or_insert((up.len(), down.len()));
        }
        first.unwrap_or_default()
    }
}

fn handshakes(c: &mut Criterion) {
    let mut group = c.benchmark_group("handshake");
    let ours = default_provider().kx_groups;
    for (name, groups) in [("ours", ours), ("x25519", vec![kx_group::X25519])] {
        let sides = Sides::new(&groups);
        let (up, down) = sides.shake();
        println!("handshake/{name}: first flight {up} bytes up, {down} bytes down");
        group.bench_function(name, |b| b.iter(|| sides.shake()));
    }
    group.finish();
}

criterion_group!(benches, handshakes);
criterion_main!(benches);
