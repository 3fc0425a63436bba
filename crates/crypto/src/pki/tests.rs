mod operators;
mod times;

use rustls_pki_types::pem::PemObject;

use super::*;
use crate::{
    certificate::{CertificateError, TrustAnchor},
    test_util::rng,
};

const NOW: UnixSeconds = 1_800_000_000;
const ALGORITHMS: [Algorithm; 2] = [Algorithm::Ed25519, Algorithm::P256];

fn authority(algorithm: Algorithm) -> CertificateAuthority {
    CertificateAuthority::create("Test CA", algorithm, Validity::days(NOW, 365), &mut rng(1))
        .unwrap()
}

fn year() -> Validity {
    Validity::days(NOW, 365)
}

fn der(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes())
        .unwrap()
        .to_vec()
}

#[test]
fn issued_certificates_are_accepted() {
    for ca_algorithm in ALGORITHMS {
        let ca = authority(ca_algorithm);
        let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
        for algorithm in ALGORITHMS {
            let credential = ca
                .issue("hospital-a", &Kind::Party, algorithm, year(), &mut rng(2))
                .unwrap();
            let party = anchor
                .verify_party(&der(&credential.certificate), NOW)
                .unwrap();
            let key = IdentityKey::from_pem(&credential.key).unwrap();
            assert_eq!(party.name, "hospital-a");
            assert_eq!(&party.key, key.verifying_key());
        }
    }
}

#[test]
fn a_party_may_be_called_like_an_address() {
    let ca = authority(Algorithm::P256);
    let made = request("10.0.0.1", Algorithm::Ed25519, &mut rng(20)).unwrap();
    let kind = Kind::Party;
    let certificate = ca
        .sign_request(&made.request, "10.0.0.1", &kind, year(), &mut rng(21))
        .unwrap();
    let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
    let party = anchor.verify_party(&der(&certificate), NOW).unwrap();
    assert_eq!(party.name, "10.0.0.1");
}

#[test]
fn the_same_generator_gives_the_same_bytes() {
    let make = || {
        let mut rng = rng(3);
        let ca = CertificateAuthority::create("CA", Algorithm::P256, year(), &mut rng).unwrap();
        let party = ca
            .issue("a", &Kind::Party, Algorithm::P256, year(), &mut rng)
            .unwrap();
        (ca.certificate().to_owned(), party.certificate, party.key)
    };
    assert!(make() == make());
}

#[test]
fn an_authority_survives_its_files() {
    for algorithm in ALGORITHMS {
        let ca = authority(algorithm);
        let again = CertificateAuthority::load(ca.certificate(), &ca.key().unwrap()).unwrap();
        let issued = again
            .issue("a", &Kind::Party, algorithm, year(), &mut rng(4))
            .unwrap();
        let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
        assert!(anchor.verify_party(&der(&issued.certificate), NOW).is_ok());
    }
}

#[test]
fn an_authority_is_not_loaded_from_other_files() {
    let ca = authority(Algorithm::Ed25519);
    let other = IdentityKey::generate(Algorithm::Ed25519, &mut rng(5))
        .unwrap()
        .to_pem()
        .unwrap();
    let party = ca
        .issue("a", &Kind::Party, Algorithm::Ed25519, year(), &mut rng(6))
        .unwrap();
    for (certificate, key) in [
        (ca.certificate(), other.as_str()),
        (&party.certificate, &party.key),
        ("", &party.key),
        (ca.certificate(), ""),
    ] {
        assert!(matches!(
            CertificateAuthority::load(certificate, key),
            Err(CryptoError::Pem { .. })
        ));
    }
}

#[test]
fn a_request_becomes_a_certificate() {
    for algorithm in ALGORITHMS {
        let ca = authority(Algorithm::P256);
        let made = request("clinic.north", algorithm, &mut rng(7)).unwrap();
        let certificate = ca
            .sign_request(
                &made.request,
                "clinic.north",
                &Kind::Party,
                year(),
                &mut rng(8),
            )
            .unwrap();
        let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
        let party = anchor.verify_party(&der(&certificate), NOW).unwrap();
        let key = IdentityKey::from_pem(&made.key).unwrap();
        assert_eq!(
            (party.name.as_str(), &party.key),
            ("clinic.north", key.verifying_key())
        );
    }
}

#[test]
fn a_request_for_another_name_or_changed_on_the_way_is_refused() {
    let ca = authority(Algorithm::Ed25519);
    let made = request("clinic", Algorithm::Ed25519, &mut rng(9)).unwrap();
    let sign =
        |request: &str, name| ca.sign_request(request, name, &Kind::Party, year(), &mut rng(10));
    let error = sign(&made.request, "hospital").unwrap_err().to_string();
    assert!(
        error.contains("asks for DNS:clinic, must ask for DNS:hospital"),
        "{error}"
    );
    let error = sign(&made.request, "é").unwrap_err().to_string();
    assert!(error.starts_with("name \"é\": must be"), "{error}");

    let (label, mut bytes) = {
        let document = p256::pkcs8::Document::from_pem(&made.request).unwrap();
        (document.0.to_owned(), document.1.to_vec())
    };
    let at = bytes
        .windows(6)
        .position(|window| window == b"clinic")
        .unwrap();
    bytes[at] = b'k';
    let document = p256::pkcs8::Document::try_from(bytes).unwrap();
    let changed = document
        .to_pem(string_of(&label), p256::pkcs8::LineEnding::LF)
        .unwrap();
    assert!(sign(&changed, "clinic").is_err());
    assert!(sign("", "clinic").is_err());
    assert!(sign(&made.request, "clinic").is_ok());
}

/// `to_pem` wants a label that lives for ever.
fn string_of(label: &str) -> &'static str {
    assert_eq!(label, "CERTIFICATE REQUEST");
    "CERTIFICATE REQUEST"
}

#[test]
fn coordinators_are_no_parties() {
    let ca = authority(Algorithm::P256);
    let kind = Kind::Coordinator {
        hosts: vec!["agg.example".into(), "127.0.0.1".into(), "::1".into()],
    };
    let issued = ca
        .issue("coordinator", &kind, Algorithm::P256, year(), &mut rng(11))
        .unwrap();
    let described = describe(&issued.certificate).unwrap();
    assert_eq!(described.names, ["agg.example", "127.0.0.1", "::1"]);
    assert!(described.server && !described.client);
    let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
    let error = anchor.verify_party(&der(&issued.certificate), NOW);
    assert_eq!(error, Err(CertificateError::Usage));
}

#[test]
fn descriptions_say_what_was_asked_for() {
    let ca = authority(Algorithm::P256);
    let issued = ca
        .issue(
            "hospital-a",
            &Kind::Party,
            Algorithm::Ed25519,
            year(),
            &mut rng(12),
        )
        .unwrap();
    let described = describe(&issued.certificate).unwrap();
    assert_eq!(described.subject, "CN=hospital-a");
    assert_eq!(described.issuer, "CN=Test CA");
    assert_eq!(described.names, ["hospital-a"]);
    assert_eq!(
        (described.not_before, described.not_after),
        (NOW, NOW + 365 * 86_400)
    );
    assert_eq!(
        (described.key.as_str(), described.fingerprint.len()),
        ("Ed25519", 64)
    );
    assert!(described.client && !described.server && !described.is_ca);
    assert_eq!(described.serial.len(), 32);
    assert!(describe(ca.certificate()).unwrap().is_ca);
    assert!(describe("nothing").is_err());
}

#[test]
fn a_ca_knows_its_own_certificates_also_when_their_time_is_over() {
    // Two CAs of one name.
    let mut rng = rng(14);
    let mut made =
        || CertificateAuthority::create("CA", Algorithm::P256, year(), &mut rng).unwrap();
    let (own, other) = (made(), made());
    let hosts = vec!["localhost".to_owned()];
    let server = Kind::Server {
        hosts: hosts.clone(),
    };
    for kind in [
        Kind::Party,
        Kind::Coordinator { hosts },
        server,
        Kind::Operator,
    ] {
        let short = Validity::days(NOW - 9 * 86_400, 1);
        let issued = own.issue("a", &kind, Algorithm::P256, short, &mut rng);
        let certificate = issued.unwrap().certificate;
        assert_eq!(has_signed(own.certificate(), &certificate), Ok(true));
        assert_eq!(has_signed(other.certificate(), &certificate), Ok(false));
    }
    assert!(has_signed(own.certificate(), "nothing").is_err());
}

#[test]
fn revoked_serials_are_revoked() {
    let ca = authority(Algorithm::Ed25519);
    let mut rng = rng(13);
    let mut issue = |name| {
        let issued = ca.issue(name, &Kind::Party, Algorithm::P256, year(), &mut rng);
        issued.unwrap().certificate
    };
    let (bad, good) = (issue("bad"), issue("good"));
    let serial = describe(&bad).unwrap().serial;
    let list = ca.revoke(&[&serial], 1, Validity::days(NOW, 30)).unwrap();
    let anchor = TrustAnchor::from_pem(ca.certificate(), Some(&list)).unwrap();
    assert_eq!(
        anchor.verify_party(&der(&bad), NOW),
        Err(CertificateError::Revoked)
    );
    assert!(anchor.verify_party(&der(&good), NOW).is_ok());
    let later = NOW + 30 * 86_400;
    assert!(anchor.verify_party(&der(&good), later - 1).is_ok());
    let error = anchor.verify_party(&der(&good), later);
    assert!(
        matches!(error, Err(CertificateError::RevocationListExpired { .. })),
        "{error:?}"
    );
    for serial in ["", "1", "xy", "+1", &"00".repeat(21)] {
        assert!(ca.revoke(&[serial], 2, year()).is_err(), "{serial:?}");
    }
}

#[test]
fn names_and_times_that_cannot_be_written() {
    let ca = authority(Algorithm::Ed25519);
    let mut rng = rng(14);
    let mut issue = |name: &str, kind: &Kind, validity| {
        ca.issue(name, kind, Algorithm::Ed25519, validity, &mut rng)
            .map(|issued| issued.certificate)
    };
    assert!(matches!(
        issue("Hospital", &Kind::Party, year()),
        Err(CryptoError::Name { .. })
    ));
    let kind = Kind::Coordinator {
        hosts: vec!["näme".into()],
    };
    assert!(matches!(
        issue("c", &kind, year()),
        Err(CryptoError::Issue { .. })
    ));
    let backwards = Validity {
        not_before: NOW,
        not_after: NOW - 1,
    };
    assert!(matches!(
        issue("a", &Kind::Party, backwards),
        Err(CryptoError::Issue { .. })
    ));
    let far = Validity {
        not_before: NOW,
        not_after: u64::MAX,
    };
    assert!(matches!(
        issue("a", &Kind::Party, far),
        Err(CryptoError::Issue { .. })
    ));
    assert!(request("a b", Algorithm::P256, &mut crate::test_util::rng(15)).is_err());
}

#[test]
fn a_coordinator_s_certificate_is_told_from_a_party_s() {
    let ca = authority(Algorithm::Ed25519);
    let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
    let mut rng = rng(16);
    let mut issue = |kind: &Kind| {
        let issued = ca.issue("agg", kind, Algorithm::Ed25519, year(), &mut rng);
        der(&issued.unwrap().certificate)
    };
    let hosts = ["agg.example", "10.0.0.5", "::1"]
        .map(str::to_owned)
        .to_vec();
    let kind = Kind::Coordinator {
        hosts: hosts.clone(),
    };
    let coordinator = issue(&kind);
    assert_eq!(anchor.verify_coordinator(&coordinator, &[], NOW), Ok(hosts));
    assert_eq!(
        anchor.verify_party(&coordinator, NOW),
        Err(CertificateError::Usage)
    );
    let party = issue(&Kind::Party);
    assert_eq!(
        anchor.verify_coordinator(&party, &[], NOW),
        Err(CertificateError::CoordinatorUsage)
    );
    assert!(matches!(
        anchor.verify_coordinator(&coordinator, &[], NOW + 400 * 86_400),
        Err(CertificateError::Expired { .. })
    ));
}

/// Case 59: the certificate of a server that computes with a coordinator is for that alone.
#[test]
fn case_59_a_server_s_certificate_is_told_from_all_others() {
    let ca = authority(Algorithm::P256);
    let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
    let mut rng = rng(18);
    let hosts = ["second.example", "10.0.0.6"].map(str::to_owned).to_vec();
    let mut of = |kind: &Kind| {
        let issued = ca.issue("second", kind, Algorithm::Ed25519, year(), &mut rng);
        issued.unwrap()
    };
    let kind = Kind::Server {
        hosts: hosts.clone(),
    };
    let server = of(&kind);
    let described = describe(&server.certificate).unwrap();
    assert!(described.server && described.client);
    let key = IdentityKey::from_pem(&server.key).unwrap();
    let server = der(&server.certificate);
    let certified = anchor.verify_server::<&[u8]>(&server, &[], NOW).unwrap();
    assert_eq!(certified.hosts, hosts);
    assert_eq!(&certified.key, key.verifying_key());
    let error = anchor.verify_party(&server, NOW);
    assert_eq!(error, Err(CertificateError::Usage));
    let error = anchor.verify_coordinator(&server, &[], NOW);
    assert_eq!(error, Err(CertificateError::CoordinatorUsage));
    for kind in [Kind::Party, Kind::Coordinator { hosts }] {
        let other = der(&of(&kind).certificate);
        let error = anchor.verify_server::<&[u8]>(&other, &[], NOW);
        assert_eq!(error, Err(CertificateError::ServerUsage), "{kind:?}");
    }
}

#[test]
fn an_anchor_that_is_replaced_forgets_what_it_found() {
    let ca = authority(Algorithm::Ed25519);
    let mut rng = rng(17);
    let party = ca
        .issue("a", &Kind::Party, Algorithm::Ed25519, year(), &mut rng)
        .unwrap();
    let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
    assert!(anchor.verify_party(&der(&party.certificate), NOW).is_ok());
    let serial = describe(&party.certificate).unwrap().serial;
    let list = ca.revoke(&[&serial], 1, year()).unwrap();
    anchor.replace(TrustAnchor::from_pem(ca.certificate(), Some(&list)).unwrap());
    assert_eq!(
        anchor.verify_party(&der(&party.certificate), NOW),
        Err(CertificateError::Revoked)
    );
}

/// Case 59: a certificate for anything else than its one role is for none, as is one whose key may not sign.
#[test]
fn case_59_other_usages_are_no_parties_and_no_coordinators() {
    use ExtendedKeyUsagePurpose::{Any, ClientAuth, CodeSigning, ServerAuth};
    use KeyUsagePurpose::{DigitalSignature, KeyAgreement, KeyCertSign, KeyEncipherment};
    let ca = authority(Algorithm::Ed25519);
    let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
    let mut serial = 20;
    let signs = &[DigitalSignature][..];
    let mut verify = |extended: &[ExtendedKeyUsagePurpose], usages: &[KeyUsagePurpose]| {
        serial += 1;
        let key = IdentityKey::generate(Algorithm::P256, &mut rng(serial)).unwrap();
        let mut params = params("hospital", year(), &mut rng(serial)).unwrap();
        params.is_ca = IsCa::ExplicitNoCa;
        params.subject_alt_names = vec![dns_name("hospital").unwrap()];
        params.extended_key_usages = extended.to_vec();
        params.key_usages = usages.to_vec();
        let signed = params.signed_by(&Signer(&key), &ca.issuer().unwrap());
        let certificate = der(&signed.unwrap().pem());
        let party = anchor.verify_party(&certificate, NOW).map(drop);
        let coordinator = anchor.verify_coordinator(&certificate, &[], NOW).map(drop);
        let server = anchor
            .verify_server::<&[u8]>(&certificate, &[], NOW)
            .map(drop);
        assert_eq!(
            server.is_ok(),
            extended == [ClientAuth, ServerAuth] && usages == signs
        );
        (party, coordinator)
    };
    let no_party = Err(CertificateError::Usage);
    let no_coordinator = Err(CertificateError::CoordinatorUsage);
    assert_eq!(
        verify(&[ClientAuth], signs),
        (Ok(()), no_coordinator.clone())
    );
    assert_eq!(verify(&[ServerAuth], signs), (no_party.clone(), Ok(())));
    let also = &[DigitalSignature, KeyAgreement];
    assert_eq!(verify(&[ClientAuth], also).0, Ok(()));
    let neither = (no_party, no_coordinator);
    for extended in [
        &[][..],
        &[ClientAuth, ServerAuth],
        &[Any],
        &[ClientAuth, CodeSigning],
    ] {
        assert_eq!(verify(extended, signs), neither, "{extended:?}");
    }
    for role in [&[ClientAuth][..], &[ServerAuth], &[ClientAuth, ServerAuth]] {
        for usages in [
            &[][..],
            &[KeyEncipherment],
            &[DigitalSignature, KeyCertSign],
        ] {
            assert_eq!(verify(role, usages), neither, "{usages:?}");
        }
    }
}
