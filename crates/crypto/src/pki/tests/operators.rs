//! The certificates of operators are good for nothing else.

use super::*;
use crate::usage::Role;

fn issue(ca: &CertificateAuthority, kind: &Kind, seed: u64) -> Vec<u8> {
    let issued = ca.issue("alice", kind, Algorithm::Ed25519, year(), &mut rng(seed));
    der(&issued.unwrap().certificate)
}

/// Case 59: the certificate of an operator is for that alone.
#[test]
fn case_59_an_operator_s_certificate_is_told_from_all_others() {
    let ca = authority(Algorithm::P256);
    let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
    let operator = issue(&ca, &Kind::Operator, 31);
    assert_eq!(
        anchor.verify_operator(&operator, NOW).as_deref(),
        Ok("alice")
    );
    let error = anchor.verify_party(&operator, NOW);
    assert_eq!(error, Err(CertificateError::Usage));
    let error = anchor.verify_coordinator(&operator, &[], NOW);
    assert_eq!(error, Err(CertificateError::CoordinatorUsage));
    let error = anchor.verify_server::<&[u8]>(&operator, &[], NOW);
    assert_eq!(error, Err(CertificateError::ServerUsage));
    let hosts = vec!["localhost".to_owned()];
    let server = Kind::Server {
        hosts: hosts.clone(),
    };
    for kind in [Kind::Party, Kind::Coordinator { hosts }, server] {
        let other = issue(&ca, &kind, 32);
        let error = anchor.verify_operator(&other, NOW);
        assert_eq!(error, Err(CertificateError::OperatorUsage), "{kind:?}");
    }
}

#[test]
fn an_operator_s_certificate_is_described_with_its_role() {
    let ca = authority(Algorithm::Ed25519);
    let issued = ca.issue(
        "alice",
        &Kind::Operator,
        Algorithm::P256,
        year(),
        &mut rng(33),
    );
    let described = describe(&issued.unwrap().certificate).unwrap();
    assert_eq!(described.role, Some(Role::Operator));
    assert_eq!(described.names, ["alice"]);
    assert!(described.client && !described.server);
    assert_eq!(describe(ca.certificate()).unwrap().role, None);
}

/// Case 59: a usage that nobody knows makes no operator, nor does one beside that of operators.
#[test]
fn case_59_other_usages_are_no_operator() {
    let ca = authority(Algorithm::Ed25519);
    let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
    let key = IdentityKey::generate(Algorithm::P256, &mut rng(34)).unwrap();
    let verify = |usages: Vec<u8>| {
        let mut params = params("alice", year(), &mut rng(35)).unwrap();
        params.is_ca = IsCa::ExplicitNoCa;
        params.subject_alt_names = vec![dns_name("alice").unwrap()];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let usages = CustomExtension::from_oid_content(EXTENDED_KEY_USAGE, usages);
        params.custom_extensions = vec![usages];
        let signed = params.signed_by(&Signer(&key), &ca.issuer().unwrap());
        anchor.verify_operator(&der(&signed.unwrap().pem()), NOW)
    };
    assert!(verify(OPERATOR_USAGES.to_vec()).is_ok());
    let mut other = OPERATOR_USAGES.to_vec();
    other[20] ^= 1;
    assert_eq!(verify(other), Err(CertificateError::OperatorUsage));
    let mut beside = OPERATOR_USAGES.to_vec();
    beside.extend_from_slice(&OPERATOR_USAGES[12..]);
    beside[1] += 22;
    *beside.last_mut().unwrap() ^= 1;
    assert_eq!(verify(beside), Err(CertificateError::OperatorUsage));
}

#[test]
fn an_operator_s_request_becomes_a_certificate_and_its_refusal_names_it() {
    let ca = authority(Algorithm::Ed25519);
    let made = request("alice", Algorithm::Ed25519, &mut rng(36)).unwrap();
    let signed = ca.sign_request(
        &made.request,
        "alice",
        &Kind::Operator,
        year(),
        &mut rng(37),
    );
    let certificate = signed.unwrap();
    let serial = describe(&certificate).unwrap().serial;
    let list = ca.revoke(&[&serial], 1, year()).unwrap();
    let anchor = TrustAnchor::from_pem(ca.certificate(), Some(&list)).unwrap();
    let error = anchor.verify_operator(&der(&certificate), NOW);
    assert_eq!(error, Err(CertificateError::Revoked));
    assert_eq!(
        anchor.signed_name(&der(&certificate)).as_deref(),
        Some("alice")
    );
}
