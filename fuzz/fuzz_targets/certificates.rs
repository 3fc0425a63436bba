//! Certificates, keys, requests and revocation lists in PEM and DER.
#![no_main]

use std::sync::LazyLock;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::pki::{self, CertificateAuthority, Kind, Validity};
use blindsum_crypto::sign::{Algorithm, IdentityKey};
use blindsum_fuzz::{Edit, edited};
use libfuzzer_sys::fuzz_target;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, pem::PemObject};

const VALIDITY: Validity = Validity {
    not_before: 1_000,
    not_after: 2_000,
};

struct Files {
    ca: CertificateAuthority,
    anchor: TrustAnchor,
    /// Certificate, request, revocation list and key, each in the form that its reader takes.
    honest: [Vec<u8>; 4],
}

static FILES: LazyLock<Files> = LazyLock::new(|| {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let ca =
        CertificateAuthority::create("test", Algorithm::Ed25519, VALIDITY, &mut rng).expect("a CA");
    let party = ca
        .issue("party", &Kind::Party, Algorithm::P256, VALIDITY, &mut rng)
        .expect("a certificate");
    let request = pki::request("party", Algorithm::Ed25519, &mut rng).expect("a request");
    let list = ca.revoke(&["0123"], 1, VALIDITY).expect("a list");
    let der = CertificateDer::from_pem_slice(party.certificate.as_bytes())
        .expect("PEM")
        .to_vec();
    let list = CertificateRevocationListDer::from_pem_slice(list.as_bytes()).expect("PEM");
    Files {
        anchor: TrustAnchor::from_pem(ca.certificate(), None).expect("the CA's certificate"),
        honest: [
            der,
            request.request.into_bytes(),
            list.to_vec(),
            party.key.as_bytes().to_vec(),
        ],
        ca,
    }
});

/// DER as PEM, so that fuzzing goes past the base64.
fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for chunk in der.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() {
                digit.into()
            } else {
                '='
            });
        }
    }
    text + &format!("\n-----END {label}-----\n")
}

fuzz_target!(|input: (u8, Vec<Edit>)| {
    let (what, edits) = input;
    let files = &*FILES;
    let what = usize::from(what) % 4;
    let bytes = edited(&files.honest[what], &edits);
    match what {
        0 => {
            let certified = files.anchor.verify_party(&bytes, 1_500);
            assert!(
                certified.is_err() || bytes == files.honest[0],
                "the CA signed nothing else"
            );
            let text = pem("CERTIFICATE", &bytes);
            let _ = pki::describe(&text);
            let _ = TrustAnchor::from_pem(&text, None);
            let _ = CertificateAuthority::load(&text, &String::from_utf8_lossy(&files.honest[3]));
        }
        1 => {
            let text = String::from_utf8_lossy(&bytes);
            let mut rng = ChaCha20Rng::seed_from_u64(2);
            let _ = files
                .ca
                .sign_request(&text, "party", &Kind::Party, VALIDITY, &mut rng);
        }
        2 => {
            let list = pem("X509 CRL", &bytes);
            if let Ok(anchor) = TrustAnchor::from_pem(files.ca.certificate(), Some(&list)) {
                let _ = anchor.verify_party(&files.honest[0], 1_500);
            }
        }
        _ => {
            if let Ok(key) = IdentityKey::from_pem(&String::from_utf8_lossy(&bytes)) {
                let signature = key.sign("fuzz", b"message");
                key.verifying_key()
                    .verify("fuzz", b"message", &signature)
                    .expect("its own signature");
            }
        }
    }
});
