//! What is found out in a broadcast.

use super::*;

/// A party of a broadcast that sends other ciphertexts than its own, or tells of another sum.
fn broadcast_with(change: impl Fn(&mut Rig, &Circle)) -> FaultKind {
    let mut rig = Rig::new(job(ProtocolName::PaillierBroadcast, 4, 5), 3);
    let (liar, round) = (PartyId(2), rig.cohort.round.clone());
    let own = KeyPair::generate(Suite::X25519, &mut rig.rng).unwrap();
    let secret = Secret::from(*own.secret().expose());
    let setup = Arc::new(rig.cohort.setup(liar));
    let advert = circle::advert(&setup, &own);
    let sent = crate::kit::wire::encode("keys", &advert).unwrap();
    rig.up.insert(liar, frame(round.context(), 0, &sent));
    rig.serve().unwrap();
    rig.serve().unwrap();
    let opened = Opened::read(4, body(&rig.down.remove(&liar).unwrap())).unwrap();
    let keys = circle::check_adverts(&round, &opened.adverts).unwrap();
    let own = KeyPair::from_secret(Suite::X25519, secret).unwrap();
    let circle = Circle {
        line: Line::new(&round, liar.into(), own, keys, &opened).unwrap(),
        cipher: opened.opening.cipher(&round).unwrap(),
        setup,
    };
    rig.answer_all().unwrap();
    change(&mut rig, &circle);
    rig.serve().unwrap();
    let failed = rig.serve().unwrap_err();
    assert_eq!(failed.kind, FaultKind::TooFewSurvivors { have: 0, need: 1 });
    rig.role_faults.pop().unwrap().1.kind
}

#[test]
fn case_37_who_sends_the_ciphertexts_of_another_party_is_told_of() {
    // It sees the others' vectors before it sends its own, and says that the one of party 0 is its.
    let found = broadcast_with(|rig, circle| {
        let vector = circle.cipher.layout.len(5) + 48;
        let first = body(&rig.up[&PartyId(0)]).to_vec();
        let wrap = vector + way::WRAPPED * way::wrap_of(PartyId(0), PartyId(2));
        let key = &first[wrap..wrap + way::WRAPPED];
        let key = circle.line.open(PartyId(0), "vector key", key).unwrap();
        let key = Secret::<32>::from(<[u8; 32]>::try_from(&key[..]).unwrap());
        let seal = blindsum_crypto::seal::StorageKey::from(key);
        let mut plain = seal
            .open(b"blindsum paillier broadcast", &first[..vector])
            .unwrap();
        plain[0] = 0b100;
        let round = rig.cohort.round.clone();
        let key = Secret::<32>::generate(&mut rig.rng);
        let wraps = parties([0, 1, 3]).map(|to| circle.line.seal(to, "vector key", key.expose()));
        let wraps: Vec<u8> = wraps.flat_map(Result::unwrap).collect();
        let seal = blindsum_crypto::seal::StorageKey::from(key);
        let mut sent = seal.seal(b"blindsum paillier broadcast", &plain, &mut rig.rng);
        sent.extend(wraps);
        rig.up.insert(PartyId(2), frame(round.context(), 2, &sent));
        rig.serve().unwrap();
        rig.answer_all_but(PartyId(2));
        let told = [[7; 32].as_slice(), &[0xff; 8]].concat();
        let told = circle.line.seal(ServerRole::Decryptor, SUM, &told).unwrap();
        rig.up.insert(PartyId(2), frame(round.context(), 3, &told));
    });
    let (one, other) = (PartyId(0), PartyId(2));
    assert_eq!(found, FaultKind::Identical { one, other });
}

#[test]
fn case_37_who_tells_of_another_sum_is_told_of() {
    let found = broadcast_with(|rig, circle| {
        let (round, mut rng) = (rig.cohort.round.clone(), rig.rng.clone());
        let input = rig.cohort.input(PartyId(2));
        let honest = broadcast::sealed_to_all(circle, &*input, &mut rng).unwrap();
        drop(input);
        rig.up
            .insert(PartyId(2), frame(round.context(), 2, &honest.0));
        rig.serve().unwrap();
        rig.answer_all_but(PartyId(2));
        let told = [[7; 32].as_slice(), &[0xff; 8]].concat();
        let told = circle.line.seal(ServerRole::Decryptor, SUM, &told).unwrap();
        rig.up.insert(PartyId(2), frame(round.context(), 3, &told));
    });
    let differs = vec![PartyId(2)];
    assert_eq!(found, FaultKind::SumsDiffer { differs });
}
