//! Sealed messages: the channel between two parties, and state at rest.
//!
//! Both use AES-256-GCM with an all-zero nonce. That is right because every key seals exactly one
//! message: a [`SealKey`] is used up by its message, and a [`StorageKey`] derives a new key for each.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use rand_core::CryptoRng;
use zeroize::{Zeroize, Zeroizing};

use crate::{
    CryptoError,
    kdf::{self, Context},
    kex::SharedSecret,
    secret::Secret,
};

/// Bytes that sealing a message with a [`SealKey`] adds to it: the tag.
pub const SEAL_OVERHEAD: usize = 16;
/// Bytes that sealing with a [`StorageKey`] adds: salt and tag.
pub const STORAGE_OVERHEAD: usize = 32 + SEAL_OVERHEAD;

const NONCE: [u8; 12] = [0; 12];

/// The key of one message from one party to another, used up by sealing or opening that message.
///
/// ```
/// use blindsum_crypto::{CryptoError, CryptoRng, kdf::Context, kex::{KeyPair, Suite}, seal::seal_key};
/// # fn send(rng: &mut dyn CryptoRng) -> Result<(), CryptoError> {
/// let (own, other) = (KeyPair::generate(Suite::X25519, rng)?, KeyPair::generate(Suite::X25519, rng)?);
/// let key = seal_key(&own.agree(other.public())?, &Context([0; 32]), 0, 1, "share");
/// let first = key.seal(b"", b"one");
/// # Ok(()) }
/// ```
///
/// Sealing a second message with it does not compile:
///
/// ```compile_fail,E0382
/// use blindsum_crypto::{CryptoError, CryptoRng, kdf::Context, kex::{KeyPair, Suite}, seal::seal_key};
/// # fn send(rng: &mut dyn CryptoRng) -> Result<(), CryptoError> {
/// let (own, other) = (KeyPair::generate(Suite::X25519, rng)?, KeyPair::generate(Suite::X25519, rng)?);
/// let key = seal_key(&own.agree(other.public())?, &Context([0; 32]), 0, 1, "share");
/// let first = key.seal(b"", b"one");
/// let second = key.seal(b"", b"two"); // use of moved value
/// # Ok(()) }
/// ```
///
/// It cannot be copied either:
///
/// ```compile_fail,E0599
/// fn twice(key: blindsum_crypto::seal::SealKey) {
///     let copy = key.clone();
/// }
/// ```
pub struct SealKey(Secret<32>);

/// The key for the message named `purpose` from the party of rank `from` to the party of rank `to`:
/// `derive32(shared, context, "share", [from, to, purpose])`, ranks as 4 bytes big-endian.
///
/// Both parties derive the same key; the other direction has another one, so a message cannot be
/// reflected.
pub fn seal_key(
    shared: &SharedSecret,
    context: &Context,
    from: u32,
    to: u32,
    purpose: &str,
) -> SealKey {
    // guard: a-key-for-each-direction
    let parts: [&[u8]; 3] = [&from.to_be_bytes(), &to.to_be_bytes(), purpose.as_bytes()];
    SealKey(shared.derive(context, "share", &parts))
}

impl SealKey {
    /// Seals `plaintext` and binds it to `header`, which the receiver must know; the result is
    /// [`SEAL_OVERHEAD`] bytes longer.
    ///
    /// # Panics
    ///
    /// If `plaintext` is longer than AES-GCM allows (64 GiB).
    // guard: a-seal-key-is-used-up
    pub fn seal(self, header: &[u8], plaintext: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(plaintext.len() + SEAL_OVERHEAD);
        sealed.extend_from_slice(plaintext);
        seal_from(0, self.0, header, &mut sealed);
        sealed
    }

    /// Seals a message where it lies: the last [`SEAL_OVERHEAD`] bytes of `place` become the tag, those
    /// before it, the message, are encrypted. The result is that of [`SealKey::seal`].
    ///
    /// # Panics
    ///
    /// If `place` is too short for a tag or longer than AES-GCM allows.
    pub fn seal_in_place(self, header: &[u8], place: &mut [u8]) {
        let (message, tag) = place.split_at_mut(place.len() - SEAL_OVERHEAD);
        tag.copy_from_slice(encrypt(self.0, header, message).as_ref());
    }

    /// Opens what [`SealKey::seal`] made with the same key and header.
    ///
    /// # Errors
    ///
    /// [`CryptoError::SealedLength`] if it is too short, [`CryptoError::Open`] if key, header or a bit
    /// of the message differ.
    pub fn open(self, header: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
        // guard: headers-are-authenticated
        open(self.0, header, sealed, SEAL_OVERHEAD)
    }

    /// Opens what [`SealKey::seal`] made into `message`, in one pass and without memory of its own. Made for many
    /// messages of one length, one after the other. The contents of `message` before do not matter; after an error they
    /// are zero.
    ///
    /// # Errors
    ///
    /// As [`SealKey::open`]; [`CryptoError::SealedLength`] unless `sealed` is [`SEAL_OVERHEAD`] bytes longer than
    /// `message`.
    pub fn open_into(
        self,
        header: &[u8],
        sealed: &[u8],
        message: &mut [u8],
    ) -> Result<(), CryptoError> {
        let least = message.len() + SEAL_OVERHEAD;
        if sealed.len() != least {
            let got = sealed.len();
            return Err(CryptoError::SealedLength { least, got });
        }
        let (ciphertext, tag) = sealed.split_at(message.len());
        let nonce = Nonce::assume_unique_for_key(NONCE);
        aes_256_gcm(&self.0)
            .open_separate_gather(nonce, Aad::from(header), ciphertext, tag, message)
            .map_err(|_| {
                message.zeroize();
                CryptoError::Open
            })
    }
}

/// The key under which a party keeps its state on disk.
///
/// Every snapshot is sealed under `derive32(key, salt, "snapshot", [])`. The salt is 32 fresh random bytes, written in
/// front of the snapshot. It stands in the place of the round context.
pub struct StorageKey(Secret<32>);

impl From<Secret<32>> for StorageKey {
    fn from(key: Secret<32>) -> Self {
        StorageKey(key)
    }
}

impl StorageKey {
    /// Seals `plaintext` and binds it to `header`; the result is [`STORAGE_OVERHEAD`] bytes longer.
    ///
    /// # Panics
    ///
    /// If `plaintext` is longer than AES-GCM allows (64 GiB).
    pub fn seal(&self, header: &[u8], plaintext: &[u8], rng: &mut dyn CryptoRng) -> Vec<u8> {
        let mut salt = [0; 32];
        // guard: snapshots-are-salted
        rng.fill_bytes(&mut salt);
        let mut sealed = Vec::with_capacity(plaintext.len() + STORAGE_OVERHEAD);
        sealed.extend_from_slice(&salt);
        sealed.extend_from_slice(plaintext);
        seal_from(salt.len(), self.snapshot_key(salt), header, &mut sealed);
        sealed
    }

    /// Opens what [`StorageKey::seal`] made with the same key and header.
    ///
    /// # Errors
    ///
    /// [`CryptoError::SealedLength`] if it is too short, [`CryptoError::Open`] if key, header or a bit
    /// of the message differ.
    pub fn open(&self, header: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
        let too_short = CryptoError::SealedLength {
            least: STORAGE_OVERHEAD,
            got: sealed.len(),
        };
        let (salt, ciphertext) = sealed.split_first_chunk::<32>().ok_or(too_short)?;
        open(
            self.snapshot_key(*salt),
            header,
            ciphertext,
            STORAGE_OVERHEAD,
        )
    }

    fn snapshot_key(&self, salt: [u8; 32]) -> Secret<32> {
        // guard: snapshots-have-a-salt-in-a-thousand-rounds
        kdf::derive32(&self.0, &Context(salt), "snapshot", &[])
    }
}

/// Encrypts `message[start..]` in place and appends the tag.
fn seal_from(start: usize, key: Secret<32>, header: &[u8], message: &mut Vec<u8>) {
    let tag = encrypt(key, header, &mut message[start..]);
    message.extend_from_slice(tag.as_ref());
}

/// Encrypts `message` in place and gives the tag.
fn encrypt(key: Secret<32>, header: &[u8], message: &mut [u8]) -> Tag {
    #[cfg(any(test, feature = "audit"))]
    // guard: the-audit-looks
    crate::audit::record(key.expose(), &NONCE);
    let nonce = Nonce::assume_unique_for_key(NONCE);
    aes_256_gcm(&key)
        .seal_in_place_separate_tag(nonce, Aad::from(header), message)
        .expect("AES-256-GCM seals up to 64 GiB")
}

/// Decrypts a copy of `sealed`, which is not handed out before its tag was checked.
fn open(
    key: Secret<32>,
    header: &[u8],
    sealed: &[u8],
    least: usize,
) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
    if sealed.len() < SEAL_OVERHEAD {
        let got = sealed.len() + least - SEAL_OVERHEAD;
        return Err(CryptoError::SealedLength { least, got });
    }
    let mut message = Zeroizing::new(sealed.to_vec());
    let nonce = Nonce::assume_unique_for_key(NONCE);
    let length = aes_256_gcm(&key)
        .open_in_place(nonce, Aad::from(header), &mut message)
        .map_err(|_| CryptoError::Open)?
        .len();
    message.truncate(length);
    Ok(message)
}

fn aes_256_gcm(key: &Secret<32>) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, key.expose()).expect("an AES-256 key has 32 bytes");
    LessSafeKey::new(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::{self, Sealings},
        kex::{KeyPair, Suite},
        test_util::{hex, hex_array, rng},
    };

    fn shared(seed: u64) -> SharedSecret {
        let mut rng = rng(seed);
        let [a, b] = std::array::from_fn(|_| KeyPair::generate(Suite::X25519, &mut rng).unwrap());
        a.agree(b.public()).unwrap()
    }

    fn key(seed: u64, context: u8, from: u32, to: u32, purpose: &str) -> SealKey {
        seal_key(&shared(seed), &Context([context; 32]), from, to, purpose)
    }

    /// Test case 14 of the GCM submission (McGrew, Viega): a zero key of 256 bits, a zero nonce and a zero block.
    #[test]
    fn known_answer() {
        let sealed = SealKey(Secret::from([0; 32])).seal(&[], &[0; 16]);
        assert_eq!(
            sealed,
            hex("cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919")
        );
        let empty = SealKey(Secret::from([0; 32])).seal(&[], &[]);
        assert_eq!(empty, hex("530f8afbc74536b9a963b4f1c4cb738b"));
    }

    #[test]
    fn opens_with_the_same_key_and_header_only() {
        let sealed = key(1, 2, 3, 4, "share").seal(b"header", b"message");
        assert_eq!(sealed.len(), b"message".len() + SEAL_OVERHEAD);
        let mut place = [b"message" as &[u8], &[0; SEAL_OVERHEAD]].concat();
        key(1, 2, 3, 4, "share").seal_in_place(b"header", &mut place);
        assert_eq!(place, sealed);
        let opened = key(1, 2, 3, 4, "share").open(b"header", &sealed).unwrap();
        assert_eq!(opened[..], b"message"[..]);
        let mut into = [5; 7];
        let open_into = |header: &[u8], sealed: &[u8], into: &mut [u8]| {
            key(1, 2, 3, 4, "share").open_into(header, sealed, into)
        };
        open_into(b"header", &sealed, &mut into).unwrap();
        assert_eq!(into, *b"message");
        assert_eq!(
            open_into(b"other", &sealed, &mut into),
            Err(CryptoError::Open)
        );
        assert_eq!(into, [0; 7], "nothing of a forged message is left");
        let (least, got) = (6 + SEAL_OVERHEAD, sealed.len());
        assert_eq!(
            open_into(b"header", &sealed, &mut into[..6]),
            Err(CryptoError::SealedLength { least, got })
        );
        for other in [
            key(9, 2, 3, 4, "share"), // another pair
            key(1, 9, 3, 4, "share"), // an old round
            key(1, 2, 4, 3, "share"), // reflected
            key(1, 2, 3, 9, "share"), // delivered to somebody else
            key(1, 2, 3, 4, "complaint"),
        ] {
            assert_eq!(other.open(b"header", &sealed), Err(CryptoError::Open));
        }
        assert_eq!(
            key(1, 2, 3, 4, "share").open(b"other", &sealed),
            Err(CryptoError::Open)
        );
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let sealed = key(1, 1, 0, 1, "share").seal(b"h", b"abc");
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                key(1, 1, 0, 1, "share").open(b"h", &changed),
                Err(CryptoError::Open)
            );
        }
        for length in 0..sealed.len() {
            let error = key(1, 1, 0, 1, "share")
                .open(b"h", &sealed[..length])
                .unwrap_err();
            let too_short = CryptoError::SealedLength {
                least: SEAL_OVERHEAD,
                got: length,
            };
            assert_eq!(
                error,
                if length < SEAL_OVERHEAD {
                    too_short
                } else {
                    CryptoError::Open
                }
            );
        }
    }

    #[test]
    fn snapshots_open_again_and_never_look_alike() {
        let storage = StorageKey::from(Secret::from(hex_array(&"11".repeat(32))));
        let mut rng = rng(7);
        let first = storage.seal(b"job 1", b"state", &mut rng);
        let second = storage.seal(b"job 1", b"state", &mut rng);
        assert_eq!(first.len(), b"state".len() + STORAGE_OVERHEAD);
        assert!(first[..32] != second[..32] && first[32..] != second[32..]);
        for sealed in [&first, &second] {
            assert_eq!(storage.open(b"job 1", sealed).unwrap()[..], b"state"[..]);
            assert_eq!(storage.open(b"job 2", sealed), Err(CryptoError::Open));
            let other = StorageKey::from(Secret::from([1; 32]));
            assert_eq!(other.open(b"job 1", sealed), Err(CryptoError::Open));
            for length in 0..STORAGE_OVERHEAD {
                let error = CryptoError::SealedLength {
                    least: STORAGE_OVERHEAD,
                    got: length,
                };
                assert_eq!(storage.open(b"job 1", &sealed[..length]), Err(error));
            }
        }
    }

    /// A thousand rounds of four parties who all seal to each other and store their state, with one key
    /// pair each for all rounds (worse than real: there it is fresh), and a restart in every round.
    #[test]
    fn no_key_and_nonce_come_twice() {
        let mut rng = rng(8);
        let pairs: [KeyPair; 4] =
            std::array::from_fn(|_| KeyPair::generate(Suite::X25519, &mut rng).unwrap());
        let storage_key = *Secret::<32>::generate(&mut rng).expose();
        let work = || {
            for round in 0..1000u32 {
                let context = Context(kdf::hash("round", &[&round.to_be_bytes()]));
                for (from, own) in (0..).zip(&pairs) {
                    let storage = StorageKey::from(Secret::from(storage_key));
                    storage.seal(b"state", b"same", &mut rng);
                    for (to, other) in (0..).zip(&pairs).filter(|(to, _)| *to != from) {
                        let shared = own.agree(other.public()).unwrap();
                        seal_key(&shared, &context, from, to, "share").seal(b"", b"same");
                    }
                }
            }
        };
        let ((), seen) = audit::watch(work);
        assert_eq!(
            seen,
            Sealings {
                sealed: 1000 * 4 * 4,
                repeated: 0
            }
        );
    }

    #[test]
    fn the_audit_sees_a_repeated_pair() {
        let ((), seen) = audit::watch(|| {
            key(1, 1, 0, 1, "share").seal(b"", b"one");
            key(1, 1, 0, 1, "share").seal(b"", b"two");
        });
        assert_eq!(
            seen,
            Sealings {
                sealed: 2,
                repeated: 1
            }
        );
    }
}
