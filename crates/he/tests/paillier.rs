//! Agreement with the slow model `vectors/model/paillier.py`, through the public interface only, on every backend.

#[path = "../../../vectors/support.rs"]
#[allow(dead_code)]
mod support;

use blindsum_he::paillier::{
    Backend, Encryptor, Exponents, Packing, PaillierError, Plaintexts, PublicKey, SecretKey,
};
use serde::Deserialize;
use support::{Hex, Tape, load};

const PAILLIER: &str = include_str!("../../../vectors/paillier.json");

#[derive(Deserialize)]
struct Key {
    key_bits: usize,
    public_key: Hex,
    secret_key: Hex,
    key_id: Hex,
    sums: Vec<Sum>,
    edges: Vec<Edge>,
    refused_ciphertexts: Vec<Refused>,
    refused_keys: Vec<Refused>,
}

#[derive(Deserialize)]
struct Sum {
    exponent_bits: usize,
    bits: u32,
    parties: u32,
    vectors: Vec<Vector>,
    sum: Hex,
    drawn_again: Hex,
    rerandomised: Hex,
    decrypted: Hex,
    sums: Vec<i64>,
}

#[derive(Deserialize)]
struct Vector {
    values: Vec<i64>,
    plaintexts: Hex,
    drawn: Hex,
    ciphertexts: Hex,
}

#[derive(Deserialize)]
struct Edge {
    plaintext: Hex,
    drawn: Hex,
    ciphertext: Hex,
}

#[derive(Deserialize)]
struct Refused {
    why: String,
    bytes: Hex,
}

/// Every key on every backend of this machine.
fn each(mut check: impl FnMut(&Key, &SecretKey)) {
    for key in load::<Key>(PAILLIER, "keys") {
        let secret = SecretKey::from_bytes(&key.secret_key.0).unwrap();
        for backend in Backend::ALL.into_iter().filter(|it| it.is_available()) {
            check(&key, &secret.with_backend(backend));
        }
    }
}

#[test]
fn keys() {
    each(|key, secret| {
        let public = secret.public();
        assert_eq!(public.size().bits(), key.key_bits);
        assert_eq!(public.to_bytes(), key.public_key.0);
        assert_eq!(secret.to_bytes()[..], key.secret_key.0);
        assert_eq!(public.id().0[..], key.key_id.0);
        assert!(PublicKey::from_bytes(&key.public_key.0).as_ref() == Ok(public));
    });
}

#[test]
fn sums() {
    each(|key, secret| {
        for sum in &key.sums {
            check_sum(secret, sum);
        }
    });
}

fn check_sum(secret: &SecretKey, sum: &Sum) {
    let public = secret.public();
    let exponents = [Exponents::Full, Exponents::Short]
        .into_iter()
        .find(|it| 8 * it.bytes(public.size()) == sum.exponent_bits);
    let encryptor = Encryptor::new(public, exponents.unwrap());
    let packing = Packing::new(public.size(), sum.bits, sum.parties).unwrap();
    let mut sent = Vec::new();
    for vector in &sum.vectors {
        let plaintexts = packing.pack(&vector.values).unwrap();
        assert_eq!(plaintexts.to_bytes()[..], vector.plaintexts.0);
        let mut rng = Tape::new(&vector.drawn.0);
        let ciphertexts = encryptor.encrypt(&plaintexts, &mut rng).unwrap();
        rng.end();
        assert_eq!(ciphertexts.to_bytes(), vector.ciphertexts.0);
        assert!(public.ciphertexts(&vector.ciphertexts.0).as_ref() == Ok(&ciphertexts));
        sent.push(ciphertexts);
    }
    let added = public.sum(&sent.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(added.to_bytes(), sum.sum.0);
    let mut rng = Tape::new(&sum.drawn_again.0);
    let again = encryptor.rerandomise(&added, &mut rng).unwrap();
    rng.end();
    assert_eq!(again.to_bytes(), sum.rerandomised.0);
    for ciphertexts in [added, again] {
        let plaintexts = secret.decrypt(&ciphertexts).unwrap();
        assert_eq!(plaintexts.to_bytes()[..], sum.decrypted.0);
        let values = packing.unpack(&plaintexts, sum.sums.len(), 3).unwrap();
        assert_eq!(values, sum.sums);
    }
}

#[test]
fn edges() {
    each(|key, secret| {
        let encryptor = Encryptor::new(secret.public(), Exponents::Full);
        for edge in &key.edges {
            let plaintexts = Plaintexts::from_bytes(secret.public(), &edge.plaintext.0).unwrap();
            let mut rng = Tape::new(&edge.drawn.0);
            let ciphertexts = encryptor.encrypt(&plaintexts, &mut rng).unwrap();
            assert_eq!(ciphertexts.to_bytes(), edge.ciphertext.0);
            let opened = secret.decrypt(&ciphertexts).unwrap();
            assert_eq!(opened.to_bytes()[..], edge.plaintext.0);
        }
    });
}

/// Abuse case 36: numbers that nobody encrypted, among others that are right.
#[test]
fn case_36_what_is_no_ciphertext_is_refused() {
    each(|key, secret| {
        let right = &key.sums[0].vectors[0].ciphertexts.0;
        let each = secret.public().size().ciphertext_bytes();
        for refused in &key.refused_ciphertexts {
            for before in [0, 1, 11] {
                let mut bytes = right[..each].repeat(before);
                bytes.extend_from_slice(&refused.bytes.0);
                bytes.extend_from_slice(right);
                let got = secret.public().ciphertexts(&bytes);
                let Err(PaillierError::Ciphertext { index, .. }) = got else {
                    panic!("{}: {got:?}", refused.why);
                };
                assert_eq!(index, before, "{}", refused.why);
            }
        }
    });
}

/// Abuse case 36: moduli that are even, short, prime or square, and an h that makes no noise.
#[test]
fn case_36_what_is_no_public_key_is_refused() {
    for key in load::<Key>(PAILLIER, "keys") {
        for refused in &key.refused_keys {
            let got = PublicKey::from_bytes(&refused.bytes.0);
            let is_refused = matches!(got, Err(PaillierError::PublicKey { .. }));
            assert!(is_refused, "{}: {got:?}", refused.why);
        }
        for length in [0, 1, key.public_key.0.len() - 1, key.public_key.0.len() + 1] {
            let got = PublicKey::from_bytes(&vec![1; length]);
            assert!(matches!(got, Err(PaillierError::Length { .. })), "{length}");
        }
    }
}
