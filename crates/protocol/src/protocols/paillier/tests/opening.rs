//! What the key service opens, its keys, and where a party is lost.

use rand_core::SeedableRng;

use super::*;
use crate::kit::wire::decode;
use crate::testing::Cohort;

/// Case 6: another party's signature over party 2's key, and none at all.
#[test]
fn case_06_keys_are_signed_in_every_round() {
    let rig = Rig::new(job(ProtocolName::PaillierRing, 3, 5), 3);
    let sent = rig.up.values().map(|sent| decode("keys", body(sent)));
    let mut adverts: Vec<Advert> = sent.collect::<Result<_, _>>().unwrap();
    let judged = |adverts: &[Advert]| circle::check_adverts(&rig.cohort.round, adverts).err();
    assert_eq!(judged(&adverts), None);
    let signer = PartyId(2);
    for signature in [adverts[1].signature.clone(), Vec::new().into()] {
        adverts[2].signature = signature;
        assert_eq!(judged(&adverts), Some(FaultKind::BadSignature { signer }));
    }
}

#[test]
fn case_37_a_party_that_is_lost_ends_the_round() {
    for name in NAMES {
        let stages = Rig::new(job(name, 3, 5), 3)
            .cohort
            .round
            .plan()
            .answers()
            .count();
        for stage in 0..stages as u8 {
            let mut rig = Rig::at(job(name, 3, 5), stage);
            let speakers: Vec<PartyId> = rig.up.keys().copied().collect();
            let Some(lost) = speakers.last() else {
                continue; // The key service speaks.
            };
            rig.drop_out([*lost]);
            let fault = rig.serve().unwrap_err();
            let is_lost = matches!(fault.kind, FaultKind::TooFewSurvivors { .. });
            assert!(is_lost, "{name}, {stage}: {fault}");
        }
    }
}

#[test]
fn case_37_the_key_service_opens_no_sum_twice_and_none_of_too_few() {
    let mut rig = Rig::new(job(ProtocolName::PaillierRing, 3, 5), 3);
    let round = rig.cohort.round.clone();
    let service = rig.cohort.memory.kept::<service::KeyService>();
    let ask = |number: u64, declared: &[u32]| {
        let roster = round.roster().clone();
        let round = Round::new(round.job().clone(), number, roster, &[9; 32]).unwrap();
        let declared = PartySet::of(3, parties(declared.iter().copied()));
        service.decrypt(&round, &[&declared], |_| Ok(()))
    };
    let refused = |result: Result<(), FaultKind>| match result.unwrap_err() {
        FaultKind::Decryption(rule) => rule,
        other => panic!("{other}"),
    };
    let open = |number: u64, rng: &mut dyn CryptoRng| {
        let roster = round.roster().clone();
        let round = Round::new(round.job().clone(), number, roster, &[9; 32]).unwrap();
        let options = Options::of(round.job().spec()).unwrap();
        service
            .open(&round, &options, 0, rng)
            .map(|key| key.public().id())
    };
    assert!(refused(ask(7, &[0, 1, 2])).contains("round 7 is not open here"));
    let first = open(7, &mut rig.rng).unwrap();
    assert!(refused(ask(8, &[0, 1, 2])).contains("round 8 is not open here"));
    assert!(refused(ask(7, &[0, 1])).contains("of 2 parties, but the round has 3"));
    assert!(refused(ask(7, &[0, 1, 2])).contains("or its sum was opened before"));
    let number = open(8, &mut rig.rng);
    assert_eq!(number, Ok(first), "the key serves the job");
    assert_eq!(ask(8, &[0, 1, 2]), Ok(()));
    assert!(refused(ask(8, &[0, 1, 2])).contains("or its sum was opened before"));
    let again = open(8, &mut rig.rng).map(drop);
    assert!(refused(again).contains("round 8 is not after round 8"));
    // Through its machine: the round that begins once more is refused.
    let mut rig = Rig::new(job(ProtocolName::PaillierRing, 3, 5), 3);
    rig.serve().unwrap();
    let setup = FollowerSetup {
        round: rig.cohort.round.clone(),
        role: ServerRole::Decryptor,
        memory: rig.cohort.memory.clone(),
        identity: None,
        now: 0,
    };
    rig.followers
        .insert(ServerRole::Decryptor, Follower::start(setup).unwrap());
    let mut rig = rig.again(rig.cohort.round.number());
    rig.serve().unwrap();
    let (_, fault) = rig.role_faults.pop().unwrap();
    assert!(matches!(fault.kind, FaultKind::Decryption(_)), "{fault}");
}

#[test]
fn case_37_keys_are_made_anew_by_rounds_and_by_minutes() {
    let mut rig = Rig::new(job(ProtocolName::PaillierRing, 2, 1), 3);
    let round = rig.cohort.round.clone();
    let mut key = |service: &service::KeyService, options: PaillierRing, number, now| {
        let mut spec = round.job().spec().clone();
        spec.protocol = options.into();
        let options = Options::of(&spec).unwrap();
        let round = Round::new(
            round.job().clone(),
            number,
            round.roster().clone(),
            &[9; 32],
        );
        let key = service.open(&round.unwrap(), &options, now, &mut rig.rng);
        key.unwrap().public().id()
    };
    let service = service::KeyService::default();
    let rounds = PaillierRing {
        key_rounds: 2,
        ..PaillierRing::default()
    };
    let keys: Vec<_> = [3, 4, 5]
        .map(|number| key(&service, rounds.clone(), number, 0))
        .into();
    assert!(keys[0] == keys[1] && keys[1] != keys[2]);
    let service = service::KeyService::default();
    let minutes = PaillierRing {
        key_minutes: 0.5,
        ..PaillierRing::default()
    };
    // In the end the clock goes back.
    let times = [(1, 100), (2, 129), (3, 130), (4, 131), (5, 129)];
    let keys = times.map(|(number, now)| key(&service, minutes.clone(), number, now));
    assert!(keys[0] == keys[1] && keys[1] != keys[2]);
    assert!(keys[2] == keys[3] && keys[3] != keys[4]);
}

/// What a party has drawn and not sent is used in the next round under the same key, and never twice.
#[test]
fn noise_of_a_lost_round_is_used_once() {
    let mut rig = Rig::at(job(ProtocolName::PaillierRing, 3, 5), 2);
    let waiting = PartyId(1);
    let bytes = rig
        .clients
        .get_mut(&waiting)
        .unwrap()
        .prepare_answer(1 << 20, &mut rig.rng);
    assert_eq!(bytes, 2 * 512);
    assert_eq!(
        rig.clients
            .get_mut(&waiting)
            .unwrap()
            .prepare_answer(1 << 20, &mut rig.rng),
        0
    );
    // Too little memory for anything.
    assert_eq!(
        rig.clients
            .get_mut(&PartyId(2))
            .unwrap()
            .prepare_answer(512, &mut rig.rng),
        0
    );
    rig.clients.clear();
    let prepare = |rig: &mut Rig| {
        let mut rng = rig.rng.clone();
        let client = rig.clients.get_mut(&waiting).unwrap();
        assert_eq!(client.prepare_answer(1 << 20, &mut rng), 1024);
        rng == rig.rng
    };
    let mut again = rig.again(8);
    for _ in 0..2 {
        again.serve().unwrap();
        again.answer_all().unwrap();
    }
    assert!(prepare(&mut again), "nothing is drawn: it was there");
    let outcome = again.finish().unwrap();
    let expected = again.cohort.sum_of(everyone(&again));
    assert_eq!(outcome.sum, Some(expected));
    let mut last = again.again(9);
    for _ in 0..2 {
        last.serve().unwrap();
        last.answer_all().unwrap();
    }
    assert!(!prepare(&mut last), "it was used");
}

/// The party that waits, and draws its noise meanwhile.
const WAITING: PartyId = PartyId(1);

/// A party of three waits and has drawn its noise; the round ends there.
fn with_parked(spec: JobSpec) -> Rig {
    let mut rig = Rig::at(spec, 2);
    let client = rig.clients.get_mut(&WAITING).unwrap();
    assert_eq!(client.prepare_answer(1 << 20, &mut rig.rng), 2 * 512);
    rig.clients.clear();
    rig
}

/// Goes on to where the party waits again and draws its noise, and to the sum. Nothing of earlier rounds is left.
fn finish_without_parked(mut rig: Rig) {
    for _ in 0..2 {
        rig.serve().unwrap();
        rig.answer_all().unwrap();
    }
    let mut rng = rig.rng.clone();
    let client = rig.clients.get_mut(&WAITING).unwrap();
    assert!(client.prepare_answer(1 << 20, &mut rng) > 0);
    assert!(rng != rig.rng, "it draws");
    let expected = rig.cohort.sum_of(everyone(&rig));
    assert_eq!(rig.finish().unwrap().sum, Some(expected));
    let parked = rig.cohort.memories[WAITING.rank()].kept::<cipher::Parked>();
    assert!(parked.is_empty(), "what does not fit is not kept");
}

/// It would be kept for the rest of the job otherwise.
#[test]
fn case_37_noise_of_a_key_that_is_gone_is_dropped() {
    let mut again = with_parked(job(ProtocolName::PaillierRing, 3, 5)).again(8);
    // The service starts again.
    let setup = FollowerSetup {
        round: again.cohort.round.clone(),
        role: ServerRole::Decryptor,
        memory: Arc::default(),
        identity: None,
        now: 0,
    };
    let follower = Follower::start(setup).unwrap();
    again.followers.insert(ServerRole::Decryptor, follower);
    finish_without_parked(again);
}

/// Of fewer parties each has a longer part of the vector, which takes more ciphertexts.
#[test]
fn case_37_noise_of_another_number_of_parties_is_dropped() {
    let spec = |parties| job(ProtocolName::PaillierAllReduce, parties, 250);
    let lost = with_parked(spec(3)).cohort;
    let mut fewer = Cohort::new(spec(2), lost.round.number() + 1);
    fewer.memory = lost.memory;
    fewer.memories = lost.memories[..2].to_vec();
    let rng = rand_chacha::ChaCha20Rng::from_seed([1; 32]);
    finish_without_parked(Rig::of_parties(fewer, rng, &[0, 1]));
}

/// A key service, or whoever is between, that opens a round with a key of another size than the job's.
#[test]
fn case_37_a_key_of_another_size_than_the_jobs_is_refused() {
    let mut rig = Rig::new(job(ProtocolName::PaillierRing, 2, 5), 3);
    rig.serve().unwrap();
    rig.serve().unwrap();
    let opened = Opened::read(2, body(&rig.down[&PartyId(0)])).unwrap();
    let longer = JobSpec {
        protocol: PaillierRing {
            key_bits: KeyBits::Bits3072,
            ..PaillierRing::default()
        }
        .into(),
        ..job(ProtocolName::PaillierRing, 2, 5)
    };
    let round = Cohort::new(longer, 3).round;
    let refused = opened.opening.cipher(&round).err().unwrap();
    let text = refused.to_string();
    assert!(
        text.contains("a key of 2048 bits, but the job has 3072"),
        "{text}"
    );
}

/// The words are not opened where the roll call shows that they are not of all.
#[test]
fn case_37_the_roll_is_called_before_words_are_opened() {
    let mut rig = Rig::new(job(ProtocolName::PaillierRing, 2, 5), 3);
    rig.serve().unwrap();
    rig.serve().unwrap();
    let round = rig.cohort.round.clone();
    let opened = Opened::read(2, body(&rig.down[&PartyId(0)])).unwrap();
    let cipher = opened.opening.cipher(&round).unwrap();
    let service = rig.cohort.memory.kept::<service::KeyService>();
    let everyone = PartySet::of(2, parties(0..2));
    // A lane behind the last word is not 0; and party 1 is missing from the roll.
    let sum = cipher.encrypt(PartyId(0), &[1; 6], &mut rig.rng).unwrap();
    let opened = service.decrypt(&round, &[&everyone], |key| {
        follow::open(&cipher.layout, key, &[(sum, 5)]).map(drop)
    });
    let missing = vec![PartyId(1)];
    let repeated = Vec::new();
    assert_eq!(opened, Err(FaultKind::RollCall { missing, repeated }));
}
