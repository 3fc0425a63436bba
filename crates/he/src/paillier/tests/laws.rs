//! What holds for all plaintexts and values.

use proptest::prelude::*;
use rand_core::Rng;

use super::*;

const SIZE: KeySize = KeySize::Bits2048;

/// Random plaintexts for a key.
fn plaintexts(key: &PublicKey, count: usize, seed: u64) -> Plaintexts {
    let each = key.size().plaintext_bytes();
    let mut bytes = vec![0; count * each];
    rng(seed).fill_bytes(&mut bytes);
    // The highest byte of N is not 0.
    bytes.iter_mut().step_by(each).for_each(|byte| *byte = 0);
    Plaintexts::from_bytes(key, &bytes).unwrap()
}

/// m + m' mod N, byte by byte; the plaintexts here are so small that the modulus plays no part.
fn added(x: &[u8], y: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let mut sum: Vec<u8> = x
        .iter()
        .zip(y)
        .rev()
        .map(|(x, y)| {
            carry += u16::from(*x) + u16::from(*y);
            let byte = carry as u8;
            carry >>= 8;
            byte
        })
        .collect();
    sum.reverse();
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Dec(Enc(m)) = m, Dec(c·c') = m + m', and new randomness keeps m and changes c, for any number of ciphertexts.
    #[test]
    fn homomorphism(count in 1..30usize, seed: u64) {
        let key = key(SIZE);
        let (public, mut rng) = (key.public(), rng(seed ^ 1));
        let [x, y] = [2, 3].map(|salt| plaintexts(public, count, seed ^ salt));
        let [of_x, of_y] = [&x, &y].map(|m| ENCRYPTOR.encrypt(m, &mut rng).unwrap());
        prop_assert_eq!(key.decrypt(&of_x).unwrap().to_bytes(), x.to_bytes());

        let sum = public.sum(&[&of_x, &of_y]).unwrap();
        let expected: Vec<u8> = x.to_bytes().chunks(256).zip(y.to_bytes().chunks(256))
            .flat_map(|(x, y)| added(x, y)).collect();
        prop_assert_eq!(&key.decrypt(&sum).unwrap().to_bytes()[..], &expected[..]);
        prop_assert_eq!(public.sum(&[&of_y, &of_x]).unwrap(), sum.clone());

        let again = ENCRYPTOR.rerandomise(&sum, &mut rng).unwrap();
        let pairs = again.to_bytes().into_iter().zip(sum.to_bytes()).collect::<Vec<_>>();
        prop_assert!(pairs.chunks(512).all(|pair| pair.iter().any(|(new, old)| new != old)));
        prop_assert_eq!(&key.decrypt(&again).unwrap().to_bytes()[..], &expected[..]);
        prop_assert_eq!(public.ciphertexts(&again.to_bytes()).unwrap(), again);
    }

    /// Packing and unpacking are inverse, and lanes add up by themselves.
    #[test]
    fn packed_sums(bits in 1..50u32, parties in 1..3000u32, count in 0..300usize, seed: u64) {
        let packing = Packing::new(SIZE, bits, parties).unwrap();
        let mut rng = rng(seed);
        let values: Vec<i64> = (0..count)
            .map(|_| (rng.next_u64() >> (64 - bits)) as i64 - (1 << (bits - 1)))
            .collect();
        let packed = packing.pack(&values).unwrap();
        prop_assert_eq!(packed.count(), packing.plaintexts(count));
        prop_assert_eq!(packing.unpack(&packed, count, 1).unwrap(), values.clone());
        if parties > 1 {
            let bytes = packed.to_bytes();
            let twice: Vec<u8> = bytes.chunks(256).flat_map(|m| added(m, m)).collect();
            let key = key(SIZE).public();
            let twice = Plaintexts::from_bytes(key, &twice).unwrap();
            let doubled: Vec<i64> = values.iter().map(|v| 2 * v).collect();
            prop_assert_eq!(packing.unpack(&twice, count, 2).unwrap(), doubled);
        }
    }
}

/// P times the largest and P times the smallest value in all lanes: no lane spills into the next.
#[test]
fn sums_at_the_bounds() {
    for size in KeySize::ALL {
        let key = key(size);
        let encryptor = Encryptor::new(key.public(), Exponents::Short);
        for (bits, parties) in [
            (16, 40),
            (16, 64),
            (16, 65),
            (1, 1),
            (1, 2),
            (20, 3),
            (60, 8),
        ] {
            let packing = Packing::new(size, bits, parties).unwrap();
            let half = 1i64 << (bits - 1);
            let count = 2 * packing.lanes() - 1;
            for pattern in [[-half, -half], [half - 1, half - 1], [-half, half - 1]] {
                let values: Vec<i64> = pattern.into_iter().cycle().take(count).collect();
                let packed = packing.pack(&values).unwrap();
                let one = encryptor.encrypt(&packed, &mut rng(5)).unwrap();
                let sum = key.public().sum(&vec![&one; parties as usize]).unwrap();
                let sums = packing.unpack(&key.decrypt(&sum).unwrap(), count, parties);
                let expected = values.iter().map(|v| v * i64::from(parties));
                assert_eq!(sums.unwrap(), expected.collect::<Vec<_>>());
            }
        }
    }
}

/// What 40 parties pay: 5.5 bytes for each value of 16 bits.
#[test]
fn lanes() {
    let lanes = |size, bits, parties| Packing::new(size, bits, parties).unwrap().lanes();
    assert_eq!(lanes(KeySize::Bits2048, 16, 40), 93);
    assert_eq!(lanes(KeySize::Bits3072, 16, 40), 139);
    assert_eq!(lanes(KeySize::Bits2048, 16, 64), 93);
    assert_eq!(lanes(KeySize::Bits2048, 16, 65), 89);
    assert_eq!(lanes(KeySize::Bits2048, 1, 1), 2047);
    assert_eq!(lanes(KeySize::Bits2048, 63, 1), 32);
}

/// All backends draw and write the same, whatever the number of threads.
#[test]
fn backends_and_threads_agree() {
    let packing = Packing::new(SIZE, 16, 40).unwrap();
    let values: Vec<i64> = (0..20_000).map(|i| i * 7919 % 65_536 - 32_768).collect();
    let encrypted = |backend, threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| {
            let key = key(SIZE).public().with_backend(backend);
            let encryptor = Encryptor::new(&key, Exponents::Short);
            let sent = encryptor.encrypt(&packing.pack(&values).unwrap(), &mut rng(6));
            sent.unwrap().to_bytes()
        })
    };
    let expected = encrypted(Backend::Portable, 2);
    for backend in backends() {
        assert!(encrypted(backend, 1) == expected, "{}", backend.name());
        assert!(encrypted(backend, 3) == expected, "{}", backend.name());
    }
}

#[test]
fn vectors_of_nothing() {
    let key = key(SIZE);
    let packing = Packing::new(SIZE, 16, 40).unwrap();
    let none = ENCRYPTOR
        .encrypt(&packing.pack(&[]).unwrap(), &mut rng(7))
        .unwrap();
    assert_eq!(none.count(), 0);
    assert_eq!(key.public().ciphertexts(&[]).unwrap(), none);
    let sum = key.public().sum(&[&none, &none]).unwrap();
    let opened = key
        .decrypt(&ENCRYPTOR.rerandomise(&sum, &mut rng(8)).unwrap())
        .unwrap();
    assert_eq!(packing.unpack(&opened, 0, 2).unwrap(), Vec::<i64>::new());
}

/// Sums of packed words are words again as long as none wraps, whatever their width and number.
#[test]
fn words_that_have_room_add_up() {
    let (secret, rng) = (key(KeySize::Bits2048), &mut rng(31));
    for (width, count) in [
        (1, 1),
        (13, 157),
        (13, 158),
        (22, 300),
        (63, 33),
        (64, 31),
        (64, 64),
    ] {
        let packing = WordPacking::new(KeySize::Bits2048, width).unwrap();
        let top = u64::MAX >> (64 - width);
        let small: Vec<u64> = (0..count as u64)
            .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (top / 2))
            .collect();
        let rest: Vec<u64> = small.iter().map(|word| top - word).collect();
        let vectors =
            [small, rest].map(|words| ENCRYPTOR.encrypt(&packing.pack(&words), rng).unwrap());
        let sum = secret.public().sum(&vectors.each_ref()).unwrap();
        assert_eq!(sum.count(), packing.plaintexts(count as usize));
        let words = packing.unpack(&secret.decrypt(&sum).unwrap(), count as usize);
        assert_eq!(*words.unwrap(), vec![top; count as usize]);
    }
}

/// What stands behind the last word is an overflow of it, or of somebody else's making.
#[test]
fn words_with_something_behind_them_are_refused() {
    let (packing, two) = (WordPacking::new(KeySize::Bits2048, 22), [1, u64::MAX]);
    let packing = packing.unwrap();
    let plaintexts = packing.pack(&two);
    assert_eq!(*packing.unpack(&plaintexts, 2).unwrap(), [1, (1 << 22) - 1]);
    let refused = |words| packing.unpack(&plaintexts, words).unwrap_err();
    assert_eq!(refused(1), PaillierError::Rest { index: 0 });
    let expected = PaillierError::Plaintexts {
        got: 1,
        values: 94,
        expected: 2,
    };
    assert_eq!(refused(94), expected);
    for width in [0, 65] {
        let refused = WordPacking::new(KeySize::Bits3072, width);
        assert_eq!(refused, Err(PaillierError::Width { width }));
    }
}

/// Noise that was drawn ahead makes the ciphertexts that would be drawn at once.
#[test]
fn noise_drawn_ahead_is_that_of_encryption() {
    let packing = WordPacking::new(KeySize::Bits2048, 30).unwrap();
    let plaintexts = packing.pack(&[7; 150]);
    let at_once = ENCRYPTOR.encrypt(&plaintexts, &mut rng(5)).unwrap();
    let noise = ENCRYPTOR.noise(plaintexts.count(), &mut rng(5));
    assert_eq!(ENCRYPTOR.encrypt_with(&plaintexts, noise), Ok(at_once));
    let short = ENCRYPTOR.noise(1, &mut rng(5));
    let refused = ENCRYPTOR.encrypt_with(&plaintexts, short);
    assert!(matches!(refused, Err(PaillierError::Count { .. })));
    let secret = SecretKey::generate(KeySize::Bits2048, &mut rng(6));
    let foreign = Encryptor::new(secret.public(), Exponents::Short).noise(3, &mut rng(5));
    assert_eq!(
        ENCRYPTOR.encrypt_with(&plaintexts, foreign),
        Err(PaillierError::Key)
    );
}
