//! Uploads that do not keep to the protocol: they cost their party its place, and nobody else anything.

use super::spec;
use crate::testing::{Rig, body, parties, with_body};
use crate::{Adversary, Culprit, FaultKind, PartyId, Receipt, ServerRole};

/// Abuse case 38: a party gives the servers different components.
#[test]
fn case_38_different_components_are_found_and_named() {
    // What a party could have sent instead: the same vector, split in another way.
    let other = Rig::new(spec(Adversary::Active), 3);
    for (role, party) in [ServerRole::Second, ServerRole::Third]
        .into_iter()
        .flat_map(|role| parties(0..3).map(move |party| (role, party)))
    {
        let mut rig = Rig::new(spec(Adversary::Active), 3);
        let mut second = rig.parts_again(party);
        let part = second.remove(&role).unwrap();
        assert!(part != other.parts[&(party, role)]);
        rig.parts.insert((party, role), part);
        let outcome = rig.finish().unwrap();
        let survivors: Vec<PartyId> = parties(0..6).filter(|it| *it != party).collect();
        assert_eq!(outcome.survivors.iter().collect::<Vec<_>>(), survivors);
        assert_eq!(outcome.sum, Some(rig.cohort.sum_of(survivors)));
        let named: Vec<Culprit> = outcome.faults.iter().map(|it| it.culprit).collect();
        assert_eq!(named, [Culprit::ServerOr(party)]);
    }
}

/// Abuse case 38: every byte of an upload is checked, by the server that gets it or when the servers compare.
#[test]
fn case_38_no_changed_upload_is_summed() {
    for adversary in [Adversary::SemiHonest, Adversary::Active] {
        let parts = Rig::new(spec(adversary), 3).parts;
        for ((party, role), part) in parts.into_iter().filter(|((party, _), _)| party.0 < 3) {
            for at in 0..body(&part).len() {
                let mut rig = Rig::new(spec(adversary), 3);
                let mut changed = body(&part).to_vec();
                changed[at] ^= 1;
                rig.parts.insert((party, role), with_body(&part, &changed));
                rig.serve().unwrap();
                rig.serve().unwrap();
                let outcome = rig.outcome.take().unwrap();
                // With another key for tags it refuses the sum that it is told, to its own cost.
                let is_tag_key = adversary == Adversary::Active && (164..196).contains(&at);
                assert_eq!(
                    outcome.survivors.contains(party),
                    is_tag_key,
                    "{adversary} {party} {role}: byte {at}"
                );
                let expected = rig.cohort.sum_of(outcome.survivors.iter());
                assert_eq!(outcome.sum, Some(expected));
            }
        }
    }
}

/// Abuse case 27: what a party has signed for one round is no upload of another one.
#[test]
fn case_27_signatures_of_uploads_are_of_their_round() {
    let mut rig = Rig::new(spec(Adversary::Active), 3);
    let later = crate::JobSpec {
        rounds: 7,
        ..spec(Adversary::Active)
    };
    let other = Rig::new(later, 3);
    for party in parties(0..3) {
        let moved = |to: &crate::Message, from| with_body(to, body(from));
        let answer = moved(&rig.up[&party], &other.up[&party]);
        assert!(rig.receive(party, &answer).is_err());
        for role in [ServerRole::Second, ServerRole::Third] {
            let part = moved(&rig.parts[&(party, role)], &other.parts[&(party, role)]);
            let follower = rig.followers.get_mut(&role).unwrap();
            assert!(follower.take_upload(party, &part).is_err(), "{role}");
        }
    }
}

/// Abuse case 38: what a party gave one server is shown to nobody, also where it is refused: with what another server has
/// it would be the vector.
#[test]
fn case_38_refused_uploads_are_no_evidence() {
    let mut rig = Rig::new(spec(Adversary::Active), 3);
    let spoilt = |message: &crate::Message| {
        let mut bytes = message.to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        bytes
    };
    for party in parties(0..3) {
        let answer = spoilt(&rig.up[&party]);
        let fault = rig.server.as_mut().unwrap().receive(party, &answer);
        assert!(fault.unwrap_err().evidence.is_none(), "{party}");
        for role in [ServerRole::Second, ServerRole::Third] {
            let part = spoilt(&rig.parts[&(party, role)]);
            let fault = rig
                .followers
                .get_mut(&role)
                .unwrap()
                .take_upload(party, &part);
            assert!(fault.unwrap_err().evidence.is_none(), "{party} {role}");
        }
    }
}

#[test]
fn uploads_of_other_lengths_are_refused() {
    let mut rig = Rig::new(spec(Adversary::Active), 3);
    let parts = std::mem::take(&mut rig.parts);
    for ((party, role), part) in &parts {
        let follower = rig.followers.get_mut(role).unwrap();
        let longer = [body(part), &[0]].concat();
        for changed in (0..body(part).len())
            .map(|length| &body(part)[..length])
            .chain([&longer[..]])
        {
            let fault = follower
                .take_upload(*party, &with_body(part, changed))
                .unwrap_err();
            assert_eq!(fault.culprit, Culprit::Party(*party));
            let kind = fault.kind;
            assert!(matches!(kind, FaultKind::Malformed { .. }), "{kind}");
        }
        assert_eq!(follower.take_upload(*party, part), Ok(Receipt::Taken));
        assert_eq!(follower.take_upload(*party, part), Ok(Receipt::Repeated));
    }
}

/// Abuse case 38: a party uploads twice, or for somebody else.
#[test]
fn case_38_a_party_uploads_once_and_for_itself() {
    let mut rig = Rig::new(spec(Adversary::Active), 3);
    let (one, two, role) = (PartyId(1), PartyId(2), ServerRole::Second);
    let follower = rig.followers.get_mut(&role).unwrap();
    let of_one = rig.parts[&(one, role)].clone();
    // As party 4, whose explicit component is the same one.
    let fault = follower.take_upload(PartyId(4), &of_one).unwrap_err();
    assert_eq!(fault.kind, FaultKind::BadSignature { signer: PartyId(4) });
    follower.take_upload(one, &of_one).unwrap();
    let other = rig.parts_again(one).remove(&role).unwrap();
    let follower = rig.followers.get_mut(&role).unwrap();
    let fault = follower.take_upload(one, &other).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Conflicting { stage: 0 });
    let stranger = follower.take_upload(PartyId(6), &rig.parts[&(two, role)]);
    assert!(stranger.is_err());
}

/// Abuse case 27: what was uploaded in another round is of no use in this one.
#[test]
fn case_27_uploads_of_another_round_are_refused() {
    let mut rig = Rig::new(spec(Adversary::Active), 3);
    let later = rig.again(9);
    for ((party, role), part) in &later.parts {
        let fault = rig
            .followers
            .get_mut(role)
            .unwrap()
            .take_upload(*party, part);
        assert_eq!(fault.unwrap_err().kind, FaultKind::OtherRound);
    }
}
