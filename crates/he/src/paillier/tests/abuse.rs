//! What is refused.

use super::*;

const SIZE: KeySize = KeySize::Bits2048;

/// 2^2048 and 2^3072 less these are primes that are 1 mod 4.
const PRIME_2048: u64 = 2543;
const PRIME_3072: u64 = 47;

/// A number as long as N², with `low` as its lowest word.
fn number(low: u64) -> Vec<u8> {
    let mut bytes = vec![0; SIZE.ciphertext_bytes()];
    let at = bytes.len() - 8;
    bytes[at..].copy_from_slice(&low.to_be_bytes());
    bytes
}

#[test]
fn wrong_lengths() {
    let key = key(SIZE);
    let each = SIZE.ciphertext_bytes();
    for got in [1, each - 1, each + 1, 3 * each - 1] {
        let refused = PaillierError::Pieces {
            what: "ciphertexts",
            got,
            each,
        };
        assert_eq!(key.public().ciphertexts(&vec![1; got]), Err(refused));
    }
    let got = Plaintexts::from_bytes(key.public(), &[0; 255]).unwrap_err();
    assert!(matches!(
        got,
        PaillierError::Pieces {
            got: 255,
            each: 256,
            ..
        }
    ));
    for length in [0, 511, 513, 767] {
        let refused = SecretKey::from_bytes(&vec![0; length]).unwrap_err();
        assert!(matches!(refused, PaillierError::Length { .. }));
    }
}

/// Multiples of a prime factor pass nobody: not the public check, and not decryption, which finds them by itself.
#[test]
fn case_36_decryption_refuses_what_shares_a_factor() {
    for size in KeySize::ALL {
        let key = key(size);
        for backend in backends() {
            let key = key.with_backend(backend);
            let words = 2 * size.words();
            let bytes = key.to_bytes();
            let mut numbers = vec![0; 5 * words];
            numbers.chunks_mut(words).for_each(|number| number[0] = 4);
            let half = size.plaintext_bytes() / 2;
            for prime in [&bytes[..half], &bytes[half..2 * half]] {
                super::super::number::read(prime, &mut numbers[3 * words..][..words / 4]);
                let forged = Ciphertexts::of(key.public(), numbers.clone());
                let refused = key.decrypt(&forged).unwrap_err();
                assert!(matches!(
                    refused,
                    PaillierError::Ciphertext { index: 3, .. }
                ));
                let read = key.public().ciphertexts(&forged.to_bytes());
                assert_eq!(read.unwrap_err(), refused);
            }
        }
    }
}

#[test]
fn case_36_prime_moduli_are_refused() {
    for (bytes, below) in [(256, PRIME_2048), (384, PRIME_3072)] {
        let mut key = vec![0xff; bytes];
        key[bytes - 8..].copy_from_slice(&(u64::MAX - below + 1).to_be_bytes());
        key.extend(vec![0; bytes - 1]);
        key.push(4);
        let refused = PaillierError::PublicKey {
            rule: "N must be no prime",
        };
        assert_eq!(PublicKey::from_bytes(&key), Err(refused));
    }
}

/// A modulus that somebody can factor at once: the largest ones that small primes divide, and that nothing else is wrong with.
#[test]
fn case_36_moduli_with_small_factors_are_refused() {
    for (bits, bytes) in [(2048, 256), (3072, 384)] {
        for factor in [3u64, 5, 7, 11, 1021, 2039] {
            let power = (0..bits).fold(1, |power, _| 2 * power % factor);
            // 2^bits less this is 1 mod 4.
            let mut below = (3..).step_by(4).filter(|below| below % factor == power);
            let below: u64 = below.next().unwrap();
            let mut key = vec![0xff; bytes];
            key[bytes - 8..].copy_from_slice(&(u64::MAX - below + 1).to_be_bytes());
            key.extend(vec![0; bytes - 1]);
            key.push(4);
            let refused = PaillierError::PublicKey {
                rule: "N must have no small factor",
            };
            assert_eq!(PublicKey::from_bytes(&key), Err(refused), "{bits} {factor}");
        }
    }
}

#[test]
fn damaged_secret_keys() {
    let right = key(SIZE).to_bytes();
    let half = SIZE.plaintext_bytes() / 2;
    let swapped = [&right[half..2 * half], &right[..half], &right[2 * half..]].concat();
    let twice = [&right[..half], &right[..half], &right[2 * half..]].concat();
    // Four more is 3 mod 4, and hardly ever prime.
    let changed = |at: usize, by: u8| {
        let mut bytes = right.to_vec();
        bytes[at] ^= by;
        bytes
    };
    let damaged = [
        swapped,
        twice,
        changed(0, 0x80),
        changed(half, 0x40),
        changed(half - 1, 1),
        changed(2 * half - 1, 2),
        changed(half - 1, 4),
        changed(2 * half - 1, 4),
        changed(half / 2, 1),
    ];
    for bytes in damaged {
        let refused = SecretKey::from_bytes(&bytes).unwrap_err();
        assert!(
            matches!(refused, PaillierError::SecretKey { .. }),
            "{refused}"
        );
    }
    assert!(SecretKey::from_bytes(&right).is_ok());
}

#[test]
fn other_keys_and_counts() {
    let (mine, large) = (key(SIZE), key(KeySize::Bits3072));
    let other = SecretKey::generate(SIZE, &mut rng(9));
    let packing = Packing::new(SIZE, 16, 40).unwrap();
    let packed = packing.pack(&[1; 94]).unwrap();
    let two = ENCRYPTOR.encrypt(&packed, &mut rng(2)).unwrap();
    let one = ENCRYPTOR
        .encrypt(&packing.pack(&[1; 93]).unwrap(), &mut rng(2))
        .unwrap();
    assert_eq!(other.public().sum(&[&two]), Err(PaillierError::Key));
    assert!(matches!(other.decrypt(&two), Err(PaillierError::Key)));
    let encryptor = Encryptor::new(other.public(), Exponents::Short);
    assert_eq!(
        encryptor.rerandomise(&two, &mut rng(2)),
        Err(PaillierError::Key)
    );
    assert_eq!(mine.public().sum(&[]), Err(PaillierError::NothingToAdd));
    let count = PaillierError::Count {
        got: 1,
        expected: 2,
    };
    assert_eq!(mine.public().sum(&[&two, &one]), Err(count));
    let encryptor = Encryptor::new(large.public(), Exponents::Short);
    let refused = encryptor.encrypt(&packed, &mut rng(2));
    assert!(matches!(refused, Err(PaillierError::Length { .. })));
}

/// N and above are no plaintexts, also where another key let them pass.
#[test]
fn plaintexts_are_below_the_modulus() {
    let public = key(SIZE).public();
    let mut modulus = public.to_bytes();
    modulus.truncate(256);
    let refused = PaillierError::Plaintext { index: 1 };
    let bytes = [&number(0)[..256], &modulus].concat();
    assert_eq!(Plaintexts::from_bytes(public, &bytes).unwrap_err(), refused);
    let forged = zeroize::Zeroizing::new([vec![0; 32], public.modulus().to_vec()].concat());
    let forged = Plaintexts::of(SIZE, forged);
    assert_eq!(ENCRYPTOR.encrypt(&forged, &mut rng(3)), Err(refused));
    modulus[255] -= 1;
    assert!(Plaintexts::from_bytes(public, &modulus).is_ok());
}

/// Abuse case 36: P parties fit into a lane, and no more are taken.
#[test]
fn case_36_lanes_hold_their_parties_and_no_more() {
    for (bits, parties) in [
        (0, 1),
        (1, 0),
        (64, 1),
        (63, 2),
        (60, 9),
        (u32::MAX, 1),
        (32, u32::MAX),
    ] {
        let refused = Packing::new(SIZE, bits, parties);
        assert!(matches!(refused, Err(PaillierError::Lanes { .. })));
    }
    let packing = Packing::new(SIZE, 16, 40).unwrap();
    for value in [-32_769, 32_768, i64::MIN, i64::MAX] {
        let refused = PaillierError::Value {
            index: 1,
            value,
            bits: 16,
        };
        assert_eq!(packing.pack(&[0, value]).unwrap_err(), refused);
    }
    let packed = packing.pack(&[32_767; 94]).unwrap();
    for contributions in [0, 41, u32::MAX] {
        let refused = PaillierError::Contributions {
            contributions,
            parties: 40,
        };
        assert_eq!(packing.unpack(&packed, 94, contributions), Err(refused));
    }
    for values in [0, 93, 187] {
        let refused = packing.unpack(&packed, values, 1);
        assert!(matches!(
            refused,
            Err(PaillierError::Plaintexts { got: 2, .. })
        ));
    }
}

/// Lanes that are too full for the contributions, and bits where nobody has a lane.
#[test]
fn what_is_no_sum_is_refused() {
    let packing = Packing::new(SIZE, 16, 40).unwrap();
    let public = key(SIZE).public();
    let refused = |contributions| PaillierError::Sum {
        index: 1,
        contributions,
    };
    let bytes = packing.pack(&[-32_768; 186]).unwrap().to_bytes();
    // Above the highest lane, which ends at bit 2046; in it; bit 17 of lane 0, where one value has 16.
    for (byte, bit) in [(0, 0x40), (0, 0x20), (253, 1)] {
        let mut bytes = bytes.to_vec();
        bytes[256 + byte] |= bit;
        let plaintexts = Plaintexts::from_bytes(public, &bytes).unwrap();
        assert_eq!(packing.unpack(&plaintexts, 186, 1), Err(refused(1)));
    }
    // A value where the last plaintext has no lane in use.
    let two = packing.pack(&[-32_768; 95]).unwrap();
    assert!(packing.unpack(&two, 95, 1).is_ok());
    assert_eq!(
        packing.unpack(&packing.pack(&[0; 95]).unwrap(), 94, 1),
        Err(refused(1))
    );
}

#[test]
fn nothing_secret_is_printed() {
    let key = key(SIZE);
    let packed = Packing::new(SIZE, 16, 40).unwrap().pack(&[77; 3]).unwrap();
    let id = format!("{:?}", key.public().id());
    let printed = format!("{key:?} {:?} {packed:?}", *ENCRYPTOR);
    let expected = format!(
        "SecretKey of PublicKey(2048 bits, {id}) \
         Encryptor(PublicKey(2048 bits, {id}), exponents of 1024 bits) \
         Plaintexts(1 of 2048 bits)"
    );
    assert_eq!(printed, expected);
}

/// One copied ciphertext among many is seen, at its place alone.
#[test]
fn case_37_one_copied_ciphertext_is_seen() {
    let each = SIZE.ciphertext_bytes();
    let vector = |first: u64| {
        let numbers = (first..first + 4).map(number);
        key(SIZE)
            .public()
            .ciphertexts(&numbers.collect::<Vec<_>>().concat())
            .unwrap()
    };
    let (one, other) = (vector(2), vector(12));
    assert!(!one.has_some_of(&other));
    for at in 0..4 {
        let mut bytes = other.to_bytes();
        let copied = one.to_bytes()[at * each..][..each].to_vec();
        bytes[at * each..][..each].copy_from_slice(&copied);
        let copies = key(SIZE).public().ciphertexts(&bytes).unwrap();
        assert!(copies.has_some_of(&one) && one.has_some_of(&copies), "{at}");
    }
    // The same number in another place.
    assert!(!one.has_some_of(&vector(3)));
}
