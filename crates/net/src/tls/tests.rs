//! Handshakes in memory: which key exchange they agree on, and what is noted of certificates that are refused.

use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity, describe};
use blindsum_crypto::sign::Algorithm;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::{ClientConnection, ServerConnection};
use rustls_pki_types::ServerName;

use super::*;

const NOW: UnixSeconds = 1_800_000_000;

struct Pki {
    ca: CertificateAuthority,
    rng: ChaCha20Rng,
}

impl Pki {
    fn new() -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let validity = Validity::days(NOW - 60, 10);
        let ca = CertificateAuthority::create("CA", Algorithm::Ed25519, validity, &mut rng);
        Self {
            ca: ca.unwrap(),
            rng,
        }
    }

    /// Checked by a clock that stands still.
    fn issue(&mut self, name: &str, kind: &Kind, validity: Validity) -> Credentials {
        let issued = self
            .ca
            .issue(name, kind, Algorithm::Ed25519, validity, &mut self.rng);
        let issued = issued.unwrap();
        Credentials::new(issued.certificate, &**issued.key, self.ca.certificate())
            .with_clock(WallClock::new(|| NOW * 1000))
    }

    fn coordinator(&mut self) -> Credentials {
        let hosts = vec!["localhost".to_owned()];
        self.issue(
            "agg",
            &Kind::Coordinator { hosts },
            Validity::days(NOW - 60, 1),
        )
    }

    fn party(&mut self) -> Credentials {
        self.issue("a", &Kind::Party, Validity::days(NOW - 60, 1))
    }
}

/// Both ends of a connection.
struct Ends {
    client: ClientConnection,
    server: ServerConnection,
}

impl Ends {
    fn new(server: ServerConfig, client: ClientConfig) -> Self {
        let name = ServerName::try_from("localhost").unwrap();
        Self {
            client: ClientConnection::new(Arc::new(client), name).unwrap(),
            server: ServerConnection::new(Arc::new(server)).unwrap(),
        }
    }

    /// What goes from the client to the server, and back. Gives the bytes of both.
    fn step(&mut self) -> Result<(usize, usize), rustls::Error> {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        while self.client.wants_write() {
            self.client.write_tls(&mut up).unwrap();
        }
        let mut rest = &up[..];
        while !rest.is_empty() {
            self.server.read_tls(&mut rest).unwrap();
            self.server.process_new_packets()?;
        }
        while self.server.wants_write() {
            self.server.write_tls(&mut down).unwrap();
        }
        let mut rest = &down[..];
        while !rest.is_empty() {
            self.client.read_tls(&mut rest).unwrap();
            self.client.process_new_packets()?;
        }
        Ok((up.len(), down.len()))
    }

    fn shake(&mut self) -> Result<(), rustls::Error> {
        while self.client.is_handshaking() || self.server.is_handshaking() {
            self.step()?;
        }
        Ok(())
    }

    fn groups(&self) -> (&'static str, &'static str) {
        (key_exchange(&self.client), key_exchange(&self.server))
    }
}

/// A party's side that knows these key exchanges only.
fn client_of(
    credentials: &Credentials,
    groups: Vec<&'static dyn rustls::crypto::SupportedKxGroup>,
) -> ClientConfig {
    let verifier = credentials.verifier().unwrap();
    let crypto = CryptoProvider {
        kx_groups: groups,
        ..rustls::crypto::aws_lc_rs::default_provider()
    };
    credentials.client_by(verifier, Arc::new(crypto)).unwrap()
}

#[test]
fn case_32_both_sides_agree_on_x25519mlkem768_and_offer_it_first() {
    let mut pki = Pki::new();
    let (coordinator, party) = (pki.coordinator(), pki.party());
    let client = party.client(Role::Coordinator).unwrap();
    let first = client.crypto_provider().kx_groups[0].name();
    assert_eq!(first.as_str(), Some("X25519MLKEM768"));
    let mut ends = Ends::new(coordinator.server().unwrap(), client);
    let (hello, _) = ends.step().unwrap();
    // The first flight has the key of ML-KEM-768, 1,184 bytes, and no second one was asked for.
    assert!((1184..1700).contains(&hello), "{hello} bytes");
    ends.shake().unwrap();
    assert_eq!(ends.groups(), ("X25519MLKEM768", "X25519MLKEM768"));
}

#[test]
fn a_client_or_server_with_x25519_alone_still_connects() {
    let mut pki = Pki::new();
    let (coordinator, party) = (pki.coordinator(), pki.party());
    let client = client_of(&party, vec![kx_group::X25519]);
    let mut ends = Ends::new(coordinator.server().unwrap(), client);
    let (hello, _) = ends.step().unwrap();
    assert!(hello < 400, "{hello} bytes");
    ends.shake().unwrap();
    assert_eq!(ends.groups(), ("X25519", "X25519"));
    // Ours sends both keys at once: a server that lacks the first one asks for no second flight.
    let crypto = CryptoProvider {
        kx_groups: vec![kx_group::X25519],
        ..rustls::crypto::aws_lc_rs::default_provider()
    };
    let old = coordinator.server_by(Arc::new(crypto)).unwrap();
    let mut ends = Ends::new(old, party.client(Role::Coordinator).unwrap());
    ends.step().unwrap();
    ends.shake().unwrap();
    assert_eq!(ends.groups(), ("X25519", "X25519"));
}

/// What is noted of a handshake with this party's certificate.
async fn noted(server: ServerConfig, party: &Credentials) -> (String, Option<RefusedCertificate>) {
    let verifier = party.verifier().unwrap();
    let client = party.client_by(verifier, provider()).unwrap();
    let mut ends = Ends::new(server, client);
    let (error, noted) = noting_refusals(async { ends.shake().unwrap_err() }).await;
    (words(&error), noted)
}

#[tokio::test]
async fn a_refused_certificate_is_noted_with_its_name_where_the_ca_signed_it() {
    let (mut pki, mut other) = (Pki::new(), Pki::new());
    // Another one of the same name.
    let validity = Validity::days(NOW - 60, 10);
    let ca = CertificateAuthority::create("CA", Algorithm::Ed25519, validity, &mut other.rng);
    other.ca = ca.unwrap();
    let (revoked, coordinator) = (pki.party(), pki.coordinator());
    let serial = describe(&revoked.certificate).unwrap().serial;
    let list = pki.ca.revoke(&[&serial], 1, Validity::days(NOW - 60, 1));
    let listed = coordinator.clone().with_revoked(list.unwrap());
    let (said, name) = noted(listed.server().unwrap(), &revoked).await;
    let name = name.unwrap();
    assert_eq!((&*name.name, name.is_revoked), ("a", true));
    assert_eq!(said, "its certificate is revoked");

    let expired = pki.issue("old", &Kind::Party, Validity::days(NOW - 9 * 86_400, 1));
    let (said, name) = noted(coordinator.server().unwrap(), &expired).await;
    let name = name.unwrap();
    assert_eq!((&*name.name, name.is_revoked), ("old", false));
    assert!(said.contains("expired 2027-01-07"), "{said}");
    assert!(said.contains("check the clocks"), "{said}");

    // It trusts the coordinator, but is of another CA of the same name.
    let mut stranger = other.party();
    stranger.ca = pki.ca.certificate().to_owned();
    let (said, name) = noted(coordinator.server().unwrap(), &stranger).await;
    assert!(name.is_none());
    assert!(
        said.contains("not signed by the CA that is trusted here"),
        "{said}"
    );
}

/// Files of a coordinator whose key is encrypted.
#[test]
fn an_encrypted_key_is_read_with_its_passphrase_and_again_after_a_renewal() {
    let mut pki = Pki::new();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut write = |passphrase: &str| {
        let own = pki.coordinator();
        let key = blindsum_crypto::encrypted::encrypt(&own.key, passphrase, &mut pki.rng).unwrap();
        std::fs::write(path("own.pem"), &own.certificate).unwrap();
        std::fs::write(path("own.key"), key).unwrap();
        std::fs::write(path("ca.pem"), &own.ca).unwrap();
        own.certificate
    };
    write("correct horse");
    let files = CredentialFiles {
        certificate: path("own.pem"),
        key: path("own.key"),
        ca: path("ca.pem"),
        revoked: None,
    };
    let refused = |read: Result<Credentials, NetError>| {
        let error = read
            .and_then(|read| read.private_key().map(drop))
            .unwrap_err()
            .to_string();
        assert!(error.contains("own.key"), "{error}");
        error
    };
    assert!(refused(files.clone().read()).contains("no passphrase is given"));
    let wrong = Passphrase::new("wrong horse");
    assert!(refused(files.clone().read_with(Some(wrong))).contains("the passphrase is wrong"));
    std::fs::write(path("words"), "correct horse\r\nsecond line\n").unwrap();
    let read = files
        .read_with(Some(Passphrase::read(&path("words")).unwrap()))
        .unwrap();
    let read = read.with_clock(WallClock::new(|| NOW * 1000));
    let side = Renewed::new(read, CoordinatorSide::new).unwrap();
    let first = side.current();
    // A new key under the same passphrase counts, one under another does not.
    write("correct horse");
    let second = side.current();
    assert!(!Arc::ptr_eq(&first, &second));
    write("another horse");
    assert!(Arc::ptr_eq(&second, &side.current()));
    std::fs::write(path("words"), "\nsecond line").unwrap();
    let empty = Passphrase::read(&path("words")).err().unwrap().to_string();
    assert!(empty.contains("has an empty first line"), "{empty}");
}
