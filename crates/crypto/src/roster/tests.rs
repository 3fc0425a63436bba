use proptest::prelude::*;
use rustls_pki_types::{CertificateDer, pem::PemObject};

use super::*;
use crate::{
    CryptoError,
    certificate::CertificateError,
    pki::{CertificateAuthority, Credential, Kind, Validity, describe},
    sign::{Algorithm, IdentityKey},
    test_util::rng,
};

const NOW: UnixSeconds = 1_800_000_000;

fn authority(seed: u64) -> CertificateAuthority {
    CertificateAuthority::create(
        "CA",
        Algorithm::P256,
        Validity::days(NOW, 100),
        &mut rng(seed),
    )
    .unwrap()
}

fn issue(ca: &CertificateAuthority, name: &str, days: u32, seed: u64) -> Credential {
    let validity = Validity::days(NOW, days);
    ca.issue(
        name,
        &Kind::Party,
        Algorithm::Ed25519,
        validity,
        &mut rng(seed),
    )
    .unwrap()
}

fn member(name: &str, credential: &Credential) -> Member {
    let der = CertificateDer::from_pem_slice(credential.certificate.as_bytes()).unwrap();
    Member {
        name: name.into(),
        certificate: der.to_vec(),
        nonce: [7; 32],
    }
}

/// A good roster of "a", "b" and "c", with its CA and keys.
fn good() -> (CertificateAuthority, Roster, Vec<IdentityKey>) {
    let ca = authority(1);
    let issued =
        ["a", "b", "c"].map(|name| (name, issue(&ca, name, 50, u64::from(name.as_bytes()[0]))));
    let members = issued
        .iter()
        .map(|(name, credential)| member(name, credential))
        .collect();
    let keys = issued
        .iter()
        .map(|(_, credential)| IdentityKey::from_pem(&credential.key).unwrap());
    let keys = keys.collect();
    (ca, Roster(members), keys)
}

fn anchor(ca: &CertificateAuthority) -> TrustAnchor {
    TrustAnchor::from_pem(ca.certificate(), None).unwrap()
}

/// What comes out when the second member is replaced.
fn with_second(second: impl FnOnce(&CertificateAuthority, &Member) -> Member) -> RosterError {
    let (ca, mut roster, _) = good();
    roster.0[1] = second(&ca, &roster.0[1]);
    roster.certify(&anchor(&ca), NOW).unwrap_err()
}

fn refused(party: &str, error: CertificateError) -> RosterError {
    RosterError::Certificate {
        party: party.into(),
        error,
    }
}

#[test]
fn a_good_roster_is_certified() {
    let (ca, roster, keys) = good();
    let certified = roster.clone().certify(&anchor(&ca), NOW).unwrap();
    assert_eq!(certified.len(), 3);
    assert_eq!(certified.hash(), roster.hash().unwrap());
    assert_eq!(certified.members(), roster.0);
    for (rank, (member, key)) in (0..).zip(roster.0.iter().zip(&keys)) {
        assert_eq!(certified.rank_of(&member.name), Some(rank));
        assert_eq!(certified.member(rank), Some(member));
        assert_eq!(certified.verifying_key(rank), Some(key.verifying_key()));
    }
    assert_eq!(certified.rank_of("d"), None);
    assert_eq!(certified.member(3), None);
    assert_eq!(certified.verifying_key(3), None);
}

#[test]
fn an_anchor_is_shared_between_threads() {
    let (ca, roster, _) = good();
    let anchor = anchor(&ca);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(roster.clone().certify(&anchor, NOW).is_ok()));
        }
    });
}

#[test]
fn an_empty_roster() {
    let (ca, ..) = good();
    assert_eq!(
        Roster::default().certify(&anchor(&ca), NOW).unwrap_err(),
        RosterError::Empty
    );
}

#[test]
fn certificates_out_of_time() {
    let (ca, roster, _) = good();
    let anchor = anchor(&ca);
    let (not_after, late) = (NOW + 50 * 86_400, NOW + 50 * 86_400 + 1);
    let (not_before, early) = (NOW, NOW - 1);
    assert!(roster.clone().certify(&anchor, not_after).is_ok());
    assert_eq!(
        roster.clone().certify(&anchor, late).unwrap_err(),
        refused(
            "a",
            CertificateError::Expired {
                not_after,
                now: late
            }
        ),
        "although it was good before and is remembered"
    );
    assert_eq!(
        roster.certify(&anchor, early).unwrap_err(),
        refused(
            "a",
            CertificateError::NotYetValid {
                not_before,
                now: early
            }
        )
    );
}

#[test]
fn a_self_made_certificate() {
    let sybil = with_second(|_, _| member("b", &issue(&authority(2), "b", 50, 9)));
    assert_eq!(sybil, refused("b", CertificateError::UnknownIssuer));
}

#[test]
fn a_forged_certificate() {
    let forged = with_second(|_, second| {
        let mut forged = second.clone();
        let last = forged.certificate.last_mut().unwrap();
        *last ^= 1;
        forged
    });
    assert!(matches!(forged, RosterError::Certificate { party, .. } if party == "b"));
}

#[test]
fn a_revoked_certificate() {
    let (ca, mut roster, _) = good();
    let revoked = issue(&ca, "r", 50, 9);
    let serial = describe(&revoked.certificate).unwrap().serial;
    roster.0.push(member("r", &revoked));
    let list = ca.revoke(&[&serial], 1, Validity::days(NOW, 10)).unwrap();
    let anchor = TrustAnchor::from_pem(ca.certificate(), Some(&list)).unwrap();
    assert_eq!(
        roster.clone().certify(&anchor, NOW).unwrap_err(),
        refused("r", CertificateError::Revoked)
    );
    roster.0.pop();
    assert!(roster.certify(&anchor, NOW).is_ok());
}

#[test]
fn somebody_elses_certificate() {
    let wrong = with_second(|ca, _| member("b", &issue(ca, "x", 50, 9)));
    assert_eq!(
        wrong,
        RosterError::WrongName {
            party: "b".into(),
            certified: "x".into()
        }
    );
}

#[test]
fn the_coordinators_certificate() {
    let kind = Kind::Coordinator {
        hosts: vec!["b".into()],
    };
    let error = with_second(|ca, _| {
        let issued = ca.issue(
            "b",
            &kind,
            Algorithm::P256,
            Validity::days(NOW, 50),
            &mut rng(9),
        );
        member("b", &issued.unwrap())
    });
    assert_eq!(error, refused("b", CertificateError::Usage));
}

#[test]
fn the_authoritys_own_certificate() {
    let error = with_second(|ca, _| {
        let der = CertificateDer::from_pem_slice(ca.certificate().as_bytes()).unwrap();
        Member {
            name: "b".into(),
            certificate: der.to_vec(),
            nonce: [0; 32],
        }
    });
    assert_eq!(error, refused("b", CertificateError::Usage));
}

#[test]
fn garbage_for_a_certificate() {
    let error = with_second(|_, _| Member {
        name: "b".into(),
        certificate: vec![1; 300],
        nonce: [0; 32],
    });
    assert!(matches!(
        error,
        RosterError::Certificate { party, error: CertificateError::Malformed(_) } if party == "b"
    ));
}

#[test]
fn a_name_twice() {
    let error = with_second(|ca, _| member("a", &issue(ca, "a", 50, 9)));
    assert_eq!(error, RosterError::DuplicateName { party: "a".into() });
}

#[test]
fn a_key_twice() {
    // The generator gives "b" the key that it gave "a".
    let error = with_second(|ca, _| member("b", &issue(ca, "b", 50, u64::from(b'a'))));
    assert_eq!(
        error,
        RosterError::DuplicateKey {
            party: "b".into(),
            other: "a".into()
        }
    );
}

#[test]
fn names_against_the_rule() {
    for name in [
        "B",
        "b b",
        "-b",
        "b-",
        "b..b",
        "b_",
        ".b",
        "ä",
        &"b".repeat(64),
    ] {
        let error = with_second(|_, second| Member {
            name: name.into(),
            ..second.clone()
        });
        assert!(
            matches!(error, RosterError::Name { rank: 1, .. }),
            "{name:?}: {error}"
        );
    }
    for name in [
        "b",
        "b-1.x",
        "0",
        &format!("{}.{}", "b".repeat(60), "c".repeat(3)),
    ] {
        assert_eq!(check_name(name), Ok(()));
    }
}

#[test]
fn anchors_that_cannot_be_read() {
    let (ca, other) = (authority(1), authority(3));
    let list = |ca: &CertificateAuthority| ca.revoke(&[], 1, Validity::days(NOW, 10)).unwrap();
    let party = issue(&ca, "a", 50, 1);
    let twice = list(&ca) + &list(&ca);
    for (certificates, lists) in [
        ("", None),
        ("nothing", None),
        (party.certificate.as_str(), None),
        (ca.certificate(), Some("nothing")),
        (ca.certificate(), Some(ca.certificate())),
        (ca.certificate(), Some(twice.as_str())),
    ] {
        assert!(matches!(
            TrustAnchor::from_pem(certificates, lists),
            Err(CryptoError::Pem { .. })
        ));
    }
    // A list with the CA's name, but signed by somebody else, lets nobody in.
    let anchor = TrustAnchor::from_pem(ca.certificate(), Some(&list(&other))).unwrap();
    assert!(
        anchor
            .verify_party(&member("a", &party).certificate, NOW)
            .is_err()
    );
}

proptest! {
    #[test]
    fn bytes_are_read_back(
        members in proptest::collection::vec(("[a-z]{1,64}", proptest::collection::vec(any::<u8>(), 1..99), any::<[u8; 32]>()), 0..5),
    ) {
        let member = |(name, certificate, nonce)| Member { name, certificate, nonce };
        let roster = Roster(members.into_iter().map(member).collect());
        let bytes = roster.to_bytes().unwrap();
        prop_assert_eq!(&Roster::from_bytes(&bytes, 5).unwrap(), &roster);
        let fewer = Roster::from_bytes(&bytes, roster.0.len() as u32 - u32::from(!roster.0.is_empty()));
        prop_assert_eq!(fewer.is_ok(), roster.0.is_empty());
        for length in 0..bytes.len() {
            prop_assert!(Roster::from_bytes(&bytes[..length], 5).is_err());
        }
        prop_assert!(Roster::from_bytes(&[&bytes[..], &[0]].concat(), 5).is_err());
    }

    #[test]
    fn any_bytes_are_a_roster_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(roster) = Roster::from_bytes(&bytes, 10) {
            prop_assert_eq!(roster.to_bytes().unwrap(), bytes);
        }
    }
}
