//! What is found out in a broadcast.

use blindsum_crypto::seal::StorageKey;

use super::*;

/// What a vector that goes to all is bound to.
const VECTOR: &[u8] = b"blindsum paillier broadcast";
/// Who lies in a broadcast of four.
pub(super) const LIAR: PartyId = PartyId(3);

/// Takes a round of four to where all have sent their ciphertexts but the liar, and gives what that one sees.
pub(super) fn with_liar(rig: &mut Rig) -> Circle {
    let round = rig.cohort.round.clone();
    let own = KeyPair::generate(Suite::X25519, &mut rig.rng).unwrap();
    let secret = Secret::from(*own.secret().expose());
    let setup = Arc::new(rig.cohort.setup(LIAR));
    let advert = encode("keys", &Advert::of(&setup, own.public(), KEY_SIGNATURES)).unwrap();
    rig.up.insert(LIAR, frame(round.context(), 0, &advert));
    rig.serve().unwrap();
    rig.serve().unwrap();
    let opened = Opened::read(4, body(&rig.down.remove(&LIAR).unwrap())).unwrap();
    let keys = circle::check_adverts(&round, &opened.adverts).unwrap();
    let own = KeyPair::from_secret(Suite::X25519, secret).unwrap();
    let circle = Circle {
        line: Line::new(&round, LIAR.into(), own, keys, &opened).unwrap(),
        cipher: opened.opening.cipher(&round).unwrap(),
        setup,
    };
    rig.answer_all().unwrap();
    circle
}

/// A sum as the liar sends it to all.
pub(super) fn sealed(circle: &Circle, written: &[u8], rng: &mut dyn CryptoRng) -> Vec<u8> {
    let key = Secret::<32>::generate(rng);
    let wraps = parties([0, 1, 2]).map(|to| circle.line.seal(to, "vector key", key.expose()));
    let wraps: Vec<u8> = wraps.flat_map(Result::unwrap).collect();
    let mut sent = StorageKey::from(key).seal(VECTOR, written, rng);
    sent.extend(wraps);
    sent
}

/// The sum of a party before the liar, in what that one heard of all.
pub(super) fn vector_of(circle: &Circle, heard: &[u8], from: PartyId) -> Vec<u8> {
    let vector = circle.cipher.layout.len(circle.setup.round.job().lanes()) + 48;
    let each = vector + way::WRAPPED;
    let (vector, wrap) = heard[each * from.rank()..][..each].split_at(vector);
    let key = circle.line.open(from, "vector key", wrap).unwrap();
    let key = Secret::<32>::from(<[u8; 32]>::try_from(&key[..]).unwrap());
    let opened = StorageKey::from(key).open(VECTOR, vector).unwrap();
    opened.to_vec()
}

/// The liar tells the key service a hash, and two parties that sent the same.
pub(super) fn told_of(
    rig: &mut Rig,
    circle: &Circle,
    from: PartyId,
    hash: [u8; 32],
    pair: [u32; 2],
) {
    let pair = pair.map(u32::to_be_bytes).concat();
    let told = [hash.as_slice(), &pair].concat();
    let told = circle.line.seal(ServerRole::Decryptor, SUM, &told).unwrap();
    let context = *rig.cohort.round.context();
    rig.up.insert(from, frame(&context, 3, &told));
}

/// What the liar sends.
enum Sends {
    ItsOwn,
    /// One of the ciphertexts that party 0 sent, among its own. It has heard them before it speaks.
    OneOfParty0,
}

/// What comes of a broadcast in which the liar tells the key service this.
fn found(sends: &Sends, hash: [u8; 32], pair: [u32; 2]) -> Fault {
    // More words than one ciphertext has.
    let mut rig = Rig::new(job(ProtocolName::PaillierBroadcast, 4, 200), 3);
    let (circle, round) = (with_liar(&mut rig), rig.cohort.round.clone());
    let input = rig.cohort.input(LIAR);
    let mut rng = rig.rng.clone();
    let (mut sent, own) = broadcast::sealed_to_all(&circle, &*input, &mut rng).unwrap();
    drop(input);
    if let Sends::OneOfParty0 = sends {
        let first = body(&rig.up[&PartyId(0)]);
        let vector = circle.cipher.layout.len(200) + 48;
        let wrap = vector + way::WRAPPED * way::wrap_of(PartyId(0), LIAR);
        let heard = [&first[..vector], &first[wrap..wrap + way::WRAPPED]].concat();
        let copied = vector_of(&circle, &heard, PartyId(0));
        let mut written = circle.cipher.layout.write(&own);
        let last = written.len() - 512;
        assert!(own.words.count() > 1);
        written[last..].copy_from_slice(&copied[last..]);
        sent = sealed(&circle, &written, &mut rng);
    }
    rig.up.insert(LIAR, frame(round.context(), 2, &sent));
    rig.serve().unwrap();
    rig.answer_all_but(LIAR);
    told_of(&mut rig, &circle, LIAR, hash, pair);
    rig.serve().unwrap();
    let failed = rig.serve().unwrap_err();
    assert_eq!(failed.kind, FaultKind::TooFewSurvivors { have: 0, need: 1 });
    rig.role_faults.pop().unwrap().1
}

/// It sees the others' vectors before it sends its own, and says that a ciphertext of party 0 is its.
#[test]
fn case_37_who_sends_the_ciphertexts_of_another_party_is_told_of() {
    let (one, other) = (PartyId(0), LIAR);
    let admits = found(&Sends::OneOfParty0, [7; 32], [0, 3]);
    assert_eq!(admits.kind, FaultKind::Identical { one, other });
    let denies = found(&Sends::OneOfParty0, [7; 32], broadcast::NO_PAIR);
    let by = parties([0, 1, 2]).collect();
    assert_eq!(denies.kind, FaultKind::Contested { by, one, other });
}

/// One party that lies makes nobody believe that two others sent the same.
#[test]
fn case_37_who_accuses_two_others_is_named() {
    let fault = found(&Sends::ItsOwn, [7; 32], [0, 1]);
    let (by, one, other) = (vec![LIAR], PartyId(0), PartyId(1));
    assert_eq!(fault.kind, FaultKind::Contested { by, one, other });
    let said = "party 3 reported that party 0 and party 1 sent the same ciphertexts, and not all others did";
    assert_eq!(fault.kind.to_string(), said);
}

/// Two that are no two parties of the round, or stand in the wrong order.
#[test]
fn case_37_who_accuses_nobody_is_blamed() {
    for pair in [[1, 0], [1, 1], [0, 4], [0, u32::MAX]] {
        let fault = found(&Sends::ItsOwn, [7; 32], pair);
        let rule = "are no two parties, the lower one first";
        assert!(fault.kind.to_string().contains(rule), "{fault}");
        assert_eq!(fault.culprit, crate::Culprit::Party(LIAR));
    }
}

#[test]
fn case_37_who_tells_of_another_sum_is_told_of() {
    let fault = found(&Sends::ItsOwn, [7; 32], broadcast::NO_PAIR);
    let differs = vec![LIAR];
    assert_eq!(fault.kind, FaultKind::SumsDiffer { differs });
}
