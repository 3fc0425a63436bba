//! Secrets leave nothing behind on the heap.

mod inspector;

use std::convert::Infallible;

use blindsum_crypto::{
    kdf::Context,
    kex::{KeyPair, Suite},
    mask::{Backend, MaskKey, MaskSeed, MaskStream, Sign},
    seal::{StorageKey, seal_key},
    secret::Secret,
    sign::{Algorithm, IdentityKey},
};
use inspector::left_behind;
use rand_core::{TryCryptoRng, TryRng};

/// Gives the same 32 bytes again and again.
struct Repeating([u8; 32]);

impl TryRng for Repeating {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("keys are drawn as bytes")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("keys are drawn as bytes")
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.copy_from_slice(&self.0[..bytes.len()]);
        Ok(())
    }
}

impl TryCryptoRng for Repeating {}

/// One test, because there is one allocator for all threads.
#[test]
fn secrets_are_wiped() {
    let canary: [u8; 32] = std::array::from_fn(|i| 0x5a ^ (7 * i) as u8);
    assert_eq!(
        left_behind(&canary, || Box::new(canary)),
        1,
        "the inspector sees what is not wiped"
    );

    assert_eq!(left_behind(&canary, || Box::new(Secret::from(canary))), 0);
    assert_eq!(
        left_behind(&canary, || Box::new(MaskSeed::from(Secret::from(canary)))),
        0
    );
    assert_eq!(
        left_behind(&canary, || Box::new(StorageKey::from(Secret::from(canary)))),
        0
    );
    for backend in Backend::ALL {
        // The first two round keys of AES-256 are the key itself.
        let stream =
            || MaskStream::with_backend(MaskSeed::from(Secret::from(canary)), Sign::Add, backend);
        assert_eq!(left_behind(&canary, stream), 0, "{}", backend.name());
        // The stream outlives the key that it shares.
        let shared = || {
            let key = MaskKey::with_backend(MaskSeed::from(Secret::from(canary)), backend);
            key.map(|key| key.stream([0; 12], Sign::Add))
        };
        assert_eq!(left_behind(&canary, shared), 0, "{}", backend.name());
    }
    for suite in [Suite::X25519, Suite::P256] {
        let pair = || Box::new(KeyPair::generate(suite, &mut Repeating(canary)).expect("in range"));
        assert_eq!(left_behind(&canary, pair), 0, "{suite}");
    }
    for algorithm in [Algorithm::Ed25519, Algorithm::P256] {
        let key = || {
            Box::new(IdentityKey::generate(algorithm, &mut Repeating(canary)).expect("in range"))
        };
        let pem = key().to_pem().expect("a key has a file");
        let digits = &pem.lines().nth(1).expect("digits").as_bytes()[24..];
        let through_file = || {
            let pem = key().to_pem().expect("a key has a file");
            IdentityKey::from_pem(&pem).expect("a file has a key")
        };
        assert_eq!(left_behind(&canary, through_file), 0, "{algorithm}, bytes");
        assert_eq!(left_behind(digits, through_file), 0, "{algorithm}, digits");
    }
    let [own, other] = [1, 2].map(|byte| {
        KeyPair::generate(Suite::X25519, &mut Repeating([byte; 32])).expect("in range")
    });
    let key = || {
        seal_key(
            &own.agree(other.public()).expect("agree"),
            &Context([0; 32]),
            0,
            1,
            "share",
        )
    };
    let sealed = key().seal(b"", &canary);
    assert_eq!(
        left_behind(&canary, || key().open(b"", &sealed).expect("opens")),
        0
    );
}
