//! When certificates begin and end, who signed one that is refused, and what a request asks for.

use super::*;

#[test]
fn what_is_made_now_begins_ten_minutes_ago_but_not_before_its_ca() {
    let made = Validity::made(NOW, 30);
    assert_eq!(made.not_before, NOW - 600);
    assert_eq!(made.not_after, NOW + 30 * 86_400);
    assert_eq!(Validity::made(5, 1).not_before, 0);
    let old = authority(Algorithm::Ed25519);
    let later = NOW + 1000;
    assert_eq!(old.validity(later, 30).unwrap().not_before, later - 600);
    assert_eq!(old.validity(NOW + 10, 30).unwrap().not_before, NOW);
    let mut rng = rng(17);
    let young = CertificateAuthority::create("CA", Algorithm::P256, made, &mut rng).unwrap();
    let validity = young.validity(NOW + 1, 30).unwrap();
    assert_eq!(validity.not_before, NOW - 599);
    assert_eq!(validity.not_after, NOW + 1 + 30 * 86_400);
    let issued = young.issue("a", &Kind::Party, Algorithm::Ed25519, validity, &mut rng);
    let certificate = issued.unwrap().certificate;
    let anchor = TrustAnchor::from_pem(young.certificate(), None).unwrap();
    // A clock that is five minutes behind.
    assert!(anchor.verify_party(&der(&certificate), NOW - 300).is_ok());
    assert!(matches!(
        anchor.verify_party(&der(&certificate), NOW - 600),
        Err(CertificateError::NotYetValid { .. })
    ));
}

#[test]
fn a_certificate_out_of_its_time_says_both_dates_and_to_check_the_clocks() {
    let ca = authority(Algorithm::Ed25519);
    let issued = ca.issue("a", &Kind::Party, Algorithm::P256, year(), &mut rng(18));
    let certificate = der(&issued.unwrap().certificate);
    let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
    let said = |now| {
        let error = anchor.verify_party(&certificate, now).unwrap_err();
        assert!(error.is_of_time());
        let validity = crate::certificate::validity(&certificate).unwrap();
        assert_eq!(
            crate::certificate::check_time(validity, now),
            Err(error.clone())
        );
        error.out_of_time("a").unwrap()
    };
    let early = said(NOW - 86_400);
    assert!(
        early.contains("by this machine's clock (2027-01-14 08:00:00 UTC)"),
        "{early}"
    );
    assert!(
        early.contains("is not valid before 2027-01-15 08:00:00 UTC"),
        "{early}"
    );
    assert!(early.starts_with("check the clocks: by"), "{early}");
    // Others are told it as `round N: …`, cut to 200 characters.
    let whole = "round 1000000: ".len() + early.len() + "server-2.example.org".len() - "a".len();
    assert!(whole <= 200 && early.ends_with("renew it"), "{early}");
    let late = said(NOW + 400 * 86_400);
    assert!(
        late.contains("the certificate of a expired 2028-01-15"),
        "{late}"
    );
    assert_eq!(CertificateError::Revoked.out_of_time("a"), None);
    assert!(!CertificateError::Revoked.is_of_time());
}

#[test]
fn a_signed_name_is_told_of_revoked_and_expired_certificates_and_of_no_others() {
    let ca = authority(Algorithm::Ed25519);
    let mut rng = rng(19);
    let other = CertificateAuthority::create("Test CA", Algorithm::P256, year(), &mut rng).unwrap();
    let mut issue = |ca: &CertificateAuthority, kind: &Kind, validity| {
        let issued = ca.issue("bad", kind, Algorithm::P256, validity, &mut rng);
        issued.unwrap().certificate
    };
    let revoked = issue(&ca, &Kind::Party, year());
    let serial = describe(&revoked).unwrap().serial;
    let list = ca.revoke(&[&serial], 1, Validity::days(NOW, 30)).unwrap();
    let anchor = TrustAnchor::from_pem(ca.certificate(), Some(&list)).unwrap();
    let name = |certificate: &str| anchor.signed_name(&der(certificate));
    assert_eq!(name(&revoked).as_deref(), Some("bad"));
    let expired = issue(&ca, &Kind::Party, Validity::days(NOW - 9 * 86_400, 1));
    assert_eq!(name(&expired).as_deref(), Some("bad"));
    let hosts = vec!["b.example".to_owned()];
    let server = issue(&ca, &Kind::Server { hosts }, year());
    assert_eq!(name(&server).as_deref(), Some("b.example"));
    // Anybody may make one in any name.
    assert_eq!(name(&issue(&other, &Kind::Party, year())), None);
    assert_eq!(anchor.signed_name(b"nothing"), None);
}

/// A request as other tools make it.
fn with_common_names(names: &[&str], alternatives: Vec<rcgen::SanType>) -> String {
    let key = IdentityKey::generate(Algorithm::P256, &mut rng(22)).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "Hospitals");
    for name in names {
        params.distinguished_name.push(DnType::CommonName, *name);
    }
    params.subject_alt_names = alternatives;
    let request = params.serialize_request(&Signer(&key)).unwrap();
    request.pem().unwrap()
}

#[test]
fn a_request_with_a_common_name_alone_is_for_that_name() {
    let ca = authority(Algorithm::Ed25519);
    let sign =
        |request: &str| ca.sign_request(request, "hospital-o", &Kind::Party, year(), &mut rng(23));
    let certificate = sign(&with_common_names(&["hospital-o"], vec![])).unwrap();
    let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
    let party = anchor.verify_party(&der(&certificate), NOW).unwrap();
    assert_eq!(party.name, "hospital-o");
    // Nothing else of the subject goes into the certificate.
    assert_eq!(describe(&certificate).unwrap().subject, "CN=hospital-o");
    let error = sign(&with_common_names(&["hospital-p"], vec![]))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("asks for CN=hospital-p, must ask for DNS:hospital-o"),
        "{error}"
    );
    assert!(error.contains("-subj \"/CN=hospital-o\""), "{error}");
    assert!(sign(&with_common_names(&[], vec![])).is_err());
    // Where there are other names, they count.
    let other = vec![dns_name("hospital-p").unwrap()];
    let error = sign(&with_common_names(&["hospital-o"], other))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("asks for DNS:hospital-p, must ask for DNS:hospital-o"),
        "{error}"
    );
}

/// The request is what `openssl req -new -newkey rsa:2048 -subj "/CN=hospital-a"` wrote.
#[test]
fn a_key_of_another_kind_is_named_and_how_to_make_a_right_one() {
    let requests = [
        (
            include_str!("../../../tests/data/request-rsa.pem"),
            "its key is RSA and",
        ),
        // -newkey ec -pkeyopt ec_paramgen_curve:secp384r1
        (
            include_str!("../../../tests/data/request-p384.pem"),
            "its key is other (OID 1.2.840.10045.2.1, curve 1.3.132.0.34) and",
        ),
        // -newkey ed448: nobody here can check its signature.
        (
            include_str!("../../../tests/data/request-ed448.pem"),
            "its key is other (OID 1.3.101.113) and",
        ),
    ];
    let ca = authority(Algorithm::Ed25519);
    for (request, kind) in requests {
        let refused = ca.sign_request(request, "hospital-a", &Kind::Party, year(), &mut rng(24));
        let error = refused.unwrap_err().to_string();
        assert!(
            error.contains(kind)
                && error.contains("must be Ed25519 or P-256: ")
                && error.contains("`blindsum pki request`"),
            "{error}"
        );
    }
}
