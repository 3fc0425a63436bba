//! Rosters: read from any bytes and certified.
#![no_main]

use std::sync::LazyLock;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
use blindsum_crypto::roster::{Member, Roster};
use blindsum_crypto::sign::Algorithm;
use blindsum_fuzz::{Edit, edited};
use libfuzzer_sys::fuzz_target;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use rustls_pki_types::{CertificateDer, pem::PemObject};

/// The CA, and a roster of three parties that it certified.
static ROSTER: LazyLock<(TrustAnchor, Vec<u8>)> = LazyLock::new(|| {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let validity = Validity {
        not_before: 1_000,
        not_after: 2_000,
    };
    let ca =
        CertificateAuthority::create("test", Algorithm::Ed25519, validity, &mut rng).expect("a CA");
    let mut member = |name: &str, algorithm| {
        let issued = ca
            .issue(name, &Kind::Party, algorithm, validity, &mut rng)
            .expect("a certificate");
        let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes())
            .expect("PEM")
            .to_vec();
        Member {
            name: name.into(),
            certificate,
            nonce: [7; 32],
        }
    };
    let members = vec![
        member("a", Algorithm::Ed25519),
        member("b", Algorithm::P256),
        member("c.d", Algorithm::Ed25519),
    ];
    let anchor = TrustAnchor::from_pem(ca.certificate(), None).expect("the CA's certificate");
    (anchor, Roster(members).to_bytes().expect("a roster"))
});

fuzz_target!(|edits: Vec<Edit>| {
    let (anchor, honest) = &*ROSTER;
    let bytes = edited(honest, &edits);
    if let Ok(roster) = Roster::from_bytes(&bytes, 100) {
        assert_eq!(
            roster.to_bytes().expect("it was read"),
            bytes,
            "one encoding each"
        );
        let hash = roster.hash().expect("it was read");
        if let Ok(certified) = roster.certify(anchor, 1_500) {
            assert_eq!(certified.hash(), hash);
            assert!(
                (1..=3).contains(&certified.len()),
                "three parties were certified"
            );
        }
    }
});
