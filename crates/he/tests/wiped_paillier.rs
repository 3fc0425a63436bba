//! Primes, exponents and plaintexts leave nothing behind on the heap.

#[path = "../../crypto/tests/inspector/mod.rs"]
mod inspector;

use blindsum_he::paillier::{Backend, Encryptor, Exponents, KeySize, Packing, SecretKey};
use inspector::left_behind;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(3)
}

/// The lowest 16 bytes of big-endian bytes, as words stand in memory.
fn lowest(bytes: &[u8]) -> [u8; 16] {
    let mut lowest: [u8; 16] = bytes[bytes.len() - 16..].try_into().expect("16 bytes");
    lowest.reverse();
    lowest
}

/// One test, because there is one allocator for all threads.
#[test]
fn nothing_is_left_behind() {
    let size = KeySize::Bits2048;
    let bytes = SecretKey::generate(size, &mut rng()).to_bytes();
    let half = size.plaintext_bytes() / 2;
    let read = || SecretKey::from_bytes(&bytes).expect("a key");
    let packing = Packing::new(size, 16, 40).expect("lanes of 22 bits");
    let values: Vec<i64> = (0..930).map(|i| i * 40_503 % 65_536 - 32_768).collect();
    let pack = || packing.pack(&values).expect("of 16 bits");
    let plaintext = lowest(&pack().to_bytes()[..size.plaintext_bytes()]);
    let mut exponent = [0; 16];
    rng().fill_bytes(&mut exponent);

    assert_eq!(
        left_behind(&plaintext, || Box::new(plaintext)),
        1,
        "what is not wiped is seen"
    );
    for prime in [&bytes[..half], &bytes[half..2 * half]] {
        let upper: [u8; 16] = prime[..16].try_into().expect("16 bytes");
        for needle in [lowest(prime), upper] {
            assert_eq!(left_behind(&needle, read), 0);
            assert_eq!(left_behind(&needle, || read().to_bytes()), 0);
            let generate = || SecretKey::generate(size, &mut rng());
            assert_eq!(left_behind(&needle, generate), 0);
        }
    }
    assert_eq!(left_behind(&plaintext, pack), 0);
    for backend in Backend::ALL.into_iter().filter(|it| it.is_available()) {
        let key = read().with_backend(backend);
        let encryptor = Encryptor::new(key.public(), Exponents::Full);
        let encrypt = || encryptor.encrypt(&pack(), &mut rng()).expect("below N");
        assert_eq!(left_behind(&plaintext, encrypt), 0);
        assert_eq!(left_behind(&exponent, encrypt), 0);
        let sent = encrypt();
        let decrypt = || key.decrypt(&sent).expect("of this key");
        assert_eq!(left_behind(&plaintext, decrypt), 0);
        assert_eq!(left_behind(&plaintext, || decrypt().to_bytes()), 0);
    }
}
