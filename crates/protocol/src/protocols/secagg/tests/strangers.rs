//! Parties who were told another story of the round, and parties that nobody certified.

use std::sync::Arc;

use blindsum_crypto::certificate::{CertificateError, TrustAnchor};
use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
use blindsum_crypto::roster::{CertifiedRoster, Member, Roster, RosterError};
use blindsum_crypto::sign::Algorithm;
use rustls_pki_types::{CertificateDer, pem::PemObject};

use super::*;
use crate::{Culprit, Round};

/// The message with the frame of another round.
fn reframed(message: &Message, round: &Round) -> Message {
    crate::kit::wire::frame(round.context(), message[1], body(message))
}

/// Case 11: the server gives party 0 another model and rewrites the frames, so that nobody notices by them. No
/// masked vector is sent, by party 0 or for it.
#[test]
fn case_11_another_model_for_one_party() {
    for adversary in [Adversary::SemiHonest, Adversary::Active] {
        let mut rig = Rig::at(spec(ProtocolName::SecAgg, adversary, 4), 0);
        let victim = PartyId(0);
        let honest = rig.cohort.round.clone();
        let (job, roster) = (honest.job().clone(), honest.roster().clone());
        let other = Arc::new(Round::new(job, honest.number(), roster, &[8; 32]).unwrap());
        assert_ne!(other.context(), honest.context());
        let setup = crate::ClientSetup {
            round: other.clone(),
            ..rig.cohort.setup(victim)
        };
        let (client, answer) = Client::start(setup, None, &mut rig.rng).unwrap();
        let message = answer.message().unwrap();
        let server = rig.server.as_mut().unwrap();
        assert_eq!(
            server.receive(victim, &message).unwrap_err().kind,
            FaultKind::OtherRound
        );
        rig.clients.insert(victim, client);
        rig.up.insert(victim, reframed(&message, &honest));
        rig.serve().unwrap();
        if adversary == Adversary::Active {
            assert!(
                !rig.down.contains_key(&victim),
                "its keys are signed for another round"
            );
            continue;
        }
        let deceive = |rig: &mut Rig| {
            let message = reframed(&rig.down[&victim], &other);
            rig.down.insert(victim, message);
        };
        deceive(&mut rig);
        rig.answer_all().unwrap();
        let message = reframed(&rig.up[&victim], &honest);
        rig.up.insert(victim, message);
        rig.serve().unwrap();
        deceive(&mut rig);
        for party in parties(0..4) {
            let fault = rig.answer(party).unwrap_err();
            let from = PartyId(u32::from(party == victim));
            assert_eq!(fault.culprit, Culprit::ServerOr(from));
            assert_eq!(fault.kind, FaultKind::Sealed { from });
        }
        assert!(rig.up.is_empty(), "no vector was sent");
    }
}

/// Case 11: who is told another job, number, roster or model is in another round, from which nothing is of use in
/// this one.
#[test]
fn case_11_everything_told_is_in_the_context() {
    let told = |spec: JobSpec, number, roster: &Arc<CertifiedRoster>, model| {
        let job = Arc::new(spec.validate().unwrap());
        *Round::new(job, number, roster.clone(), &[model; 32])
            .unwrap()
            .context()
    };
    let (rig, other) = (Rig::new(active(4), 1), Rig::new(active(4), 2));
    let roster = rig.cohort.round.roster();
    let honest = told(active(4), 5, roster, 9);
    assert_eq!(told(active(4), 5, roster, 9), honest);
    let longer = JobSpec {
        stage_deadline: 31.0,
        ..active(4)
    };
    assert_ne!(told(longer, 5, roster, 9), honest);
    assert_ne!(told(active(4), 6, roster, 9), honest);
    assert_ne!(told(active(4), 5, other.cohort.round.roster(), 9), honest);
    assert_ne!(told(active(4), 5, roster, 8), honest);
}

/// Case 13: a party whose certificate the server made itself. There is no round with it.
#[test]
fn case_13_a_certificate_of_another_authority() {
    let validity = Validity {
        not_before: 1_000,
        not_after: 2_000,
    };
    let mut rng = Rig::new(active(3), 1).rng;
    let mut authority =
        || CertificateAuthority::create("test", Algorithm::Ed25519, validity, &mut rng).unwrap();
    let (pinned, own) = (authority(), authority());
    let mut member = |ca: &CertificateAuthority, name: &str| {
        let issued = ca
            .issue(name, &Kind::Party, Algorithm::Ed25519, validity, &mut rng)
            .unwrap();
        let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes())
            .unwrap()
            .to_vec();
        Member {
            name: name.into(),
            certificate,
            nonce: [1; 32],
        }
    };
    let members = vec![
        member(&pinned, "a"),
        member(&pinned, "b"),
        member(&own, "sybil"),
    ];
    let anchor = TrustAnchor::from_pem(pinned.certificate(), None).unwrap();
    let refused = Roster(members.clone()).certify(&anchor, 1_500).unwrap_err();
    let (party, error) = ("sybil".into(), CertificateError::UnknownIssuer);
    assert_eq!(refused, RosterError::Certificate { party, error });
    // Without it the certified ones are too few, and the minimum counts nobody else.
    let certified = Roster(members[..2].to_vec())
        .certify(&anchor, 1_500)
        .unwrap();
    let job = Arc::new(active(3).validate().unwrap());
    let fault = Round::new(job, 1, Arc::new(certified), &[9; 32])
        .err()
        .unwrap();
    let rule = "min_parties = 3 <= parties in the roster = 2 must hold".into();
    assert_eq!(fault.kind, FaultKind::Parameters(rule));
}
