//! Key agreement: a fresh key pair per party and round, and the secret that two parties get from it.
//!
//! Both suites have one encoding for each public key, so that a list of keys can be searched for
//! duplicates by comparing bytes: X25519 keys are canonical (below 2^255 - 19), P-256 keys compressed.

use aws_lc_rs::{
    agreement::{self, ECDH_P256, PrivateKey, UnparsedPublicKey, X25519},
    encoding::{AsBigEndian, EcPublicKeyCompressedBin},
};
use rand_core::CryptoRng;
use std::fmt;

use crate::{
    CryptoError,
    kdf::{self, Context},
    secret::Secret,
};

pub use crate::suite::Suite;

fn algorithm(suite: Suite) -> &'static agreement::Algorithm {
    match suite {
        Suite::X25519 => &X25519,
        Suite::P256 => &ECDH_P256,
    }
}

/// A public key that was checked: canonical, on the curve, not of low order.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PublicKey {
    suite: Suite,
    /// X25519 uses the first 32.
    bytes: [u8; 33],
}

impl PublicKey {
    /// Reads a public key: X25519 as in RFC 7748 (32 bytes), P-256 as a compressed SEC 1 point (33).
    ///
    /// # Errors
    ///
    /// [`CryptoError::KeyLength`], [`CryptoError::KeyNotCanonical`], [`CryptoError::KeyLowOrder`] or
    /// [`CryptoError::KeyOffCurve`].
    pub fn parse(suite: Suite, bytes: &[u8]) -> Result<Self, CryptoError> {
        let wrong_length = CryptoError::KeyLength {
            suite,
            expected: suite.public_key_len(),
            got: bytes.len(),
        };
        let mut key = PublicKey {
            suite,
            bytes: [0; 33],
        };
        match key.bytes.get_mut(..bytes.len()) {
            // guard: keys-of-their-length
            Some(place) if bytes.len() == suite.public_key_len() => place.copy_from_slice(bytes),
            _ => return Err(wrong_length),
        }
        match suite {
            Suite::X25519 => check_x25519(bytes)?,
            Suite::P256 => {
                let parsed = agreement::ParsedPublicKey::try_from(key.unparsed());
                // guard: keys-on-the-curve
                parsed.map_err(|_| CryptoError::KeyOffCurve)?;
            }
        }
        Ok(key)
    }

    /// The group the key belongs to.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The encoding that [`PublicKey::parse`] reads.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.suite.public_key_len()]
    }

    fn unparsed(&self) -> UnparsedPublicKey<&[u8]> {
        UnparsedPublicKey::new(algorithm(self.suite), self.as_bytes())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.suite, Hex(self.as_bytes()))
    }
}

/// Bytes shown as hexadecimal digits.
pub(crate) struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Refuses coordinates that are not below p = 2^255 - 19 and the five points of low order below it
/// (order 4, 1 or 2 on curve or twist, and 8 twice).
fn check_x25519(bytes: &[u8]) -> Result<(), CryptoError> {
    const LOW_ORDER: [&[u8; 32]; 5] = [
        &[0; 32],
        b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\xe0\xeb\x7a\x7c\x3b\x41\xb8\xae\x16\x56\xe3\xfa\xf1\x9f\xc4\x6a\
          \xda\x09\x8d\xeb\x9c\x32\xb1\xfd\x86\x62\x05\x16\x5f\x49\xb8\x00",
        b"\x5f\x9c\x95\xbc\xa3\x50\x8c\x24\xb1\xd0\xb1\x55\x9c\x83\xef\x5b\
          \x04\x44\x5c\xc4\x58\x1c\x8e\x86\xd8\x22\x4e\xdd\xd0\x9f\x11\x57",
        b"\xec\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\
          \xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    ];
    const P_MINUS_ONE: &[u8; 32] = LOW_ORDER[4];
    // Little-endian numbers compare from their last byte on.
    // guard: keys-have-one-encoding
    if bytes.iter().rev().gt(P_MINUS_ONE.iter().rev()) {
        return Err(CryptoError::KeyNotCanonical);
    }
    // guard: keys-of-low-order
    if LOW_ORDER.iter().any(|point| bytes == *point) {
        return Err(CryptoError::KeyLowOrder);
    }
    Ok(())
}

/// A private key and its public key, for one round.
pub struct KeyPair {
    secret: Secret<32>,
    private: PrivateKey,
    public: PublicKey,
}

impl KeyPair {
    /// Makes a key pair from 32 bytes of `rng`, or more of them in the rare case (2^-32) that they are
    /// no P-256 scalar.
    ///
    /// # Errors
    ///
    /// [`CryptoError::Agreement`] if the library has no memory left.
    pub fn generate(suite: Suite, rng: &mut dyn CryptoRng) -> Result<Self, CryptoError> {
        loop {
            match Self::from_secret(suite, Secret::generate(rng)) {
                Err(CryptoError::SecretRange) => continue,
                pair => return pair,
            }
        }
    }

    /// The key pair with this secret: what a server makes of a secret rebuilt from shares.
    ///
    /// # Errors
    ///
    /// [`CryptoError::SecretRange`] if it is no P-256 scalar; every secret is an X25519 scalar.
    pub fn from_secret(suite: Suite, secret: Secret<32>) -> Result<Self, CryptoError> {
        let private = PrivateKey::from_private_key(algorithm(suite), secret.expose())
            .map_err(|_| CryptoError::SecretRange)?;
        let point = private
            .compute_public_key()
            .map_err(|_| CryptoError::Agreement)?;
        let public = match suite {
            Suite::X25519 => PublicKey::parse(suite, point.as_ref()),
            Suite::P256 => {
                let compressed: EcPublicKeyCompressedBin<'_> =
                    point.as_be_bytes().map_err(|_| CryptoError::Agreement)?;
                PublicKey::parse(suite, compressed.as_ref())
            }
        }?;
        Ok(KeyPair {
            secret,
            private,
            public,
        })
    }

    /// The secret, which a protocol may share among other parties.
    pub fn secret(&self) -> &Secret<32> {
        &self.secret
    }

    /// The public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Agrees with the holder of `other`; both sides get the same secret.
    ///
    /// # Errors
    ///
    /// [`CryptoError::SuiteMismatch`], and [`CryptoError::Agreement`] if the result is the neutral
    /// element (which [`PublicKey::parse`] already excludes).
    pub fn agree(&self, other: &PublicKey) -> Result<SharedSecret, CryptoError> {
        let suite = self.public.suite;
        if suite != other.suite {
            return Err(CryptoError::SuiteMismatch {
                own: suite,
                other: other.suite,
            });
        }
        let (own, other_bytes) = (self.public.as_bytes(), other.as_bytes());
        let info = [
            &b"agreement"[..],
            own.min(other_bytes),
            own.max(other_bytes),
        ]
        .concat();
        agreement::agree(
            &self.private,
            other.unparsed(),
            CryptoError::Agreement,
            |raw| {
                let mut shared = SharedSecret(Secret::zeroed());
                kdf::expand(&[], raw, &info, shared.0.expose_mut());
                Ok(shared)
            },
        )
    }
}

/// What two parties, and nobody else, know: only good for deriving keys.
///
/// It is `HKDF-SHA256(secret: x, salt: none, info: "agreement" ‖ A ‖ B)`, where x is the
/// Diffie-Hellman value and A < B are the two public keys in byte order; a swapped public key changes it
/// even where it would not change x (RFC 7748 section 6.1).
pub struct SharedSecret(Secret<32>);

impl SharedSecret {
    /// [`kdf::derive32`] from this secret.
    pub fn derive(&self, context: &Context, label: &str, parts: &[&[u8]]) -> Secret<32> {
        kdf::derive32(&self.0, context, label, parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_util::{hex, hex_array, rng};

    fn x25519(secret: &str) -> KeyPair {
        KeyPair::from_secret(Suite::X25519, Secret::from(hex_array(secret))).unwrap()
    }

    /// The Diffie-Hellman value itself, before both public keys are mixed in.
    fn diffie_hellman(own: &KeyPair, other: &PublicKey) -> Vec<u8> {
        agreement::agree(&own.private, other.unparsed(), (), |raw| Ok(raw.to_vec())).unwrap()
    }

    #[test]
    fn rfc_7748_section_6_1() {
        let alice = x25519("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
        let bob = x25519("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        let public = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
        assert_eq!(alice.public().as_bytes(), hex(public));
        let public = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f";
        assert_eq!(bob.public().as_bytes(), hex(public));
        let shared = hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
        assert_eq!(diffie_hellman(&alice, bob.public()), shared);
        assert_eq!(diffie_hellman(&bob, alice.public()), shared);
    }

    /// RFC 5903 section 8.1 (256-bit random ECP group).
    #[test]
    fn rfc_5903_p256() {
        let pair =
            |secret| KeyPair::from_secret(Suite::P256, Secret::from(hex_array(secret))).unwrap();
        let initiator = pair("c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433");
        let responder = pair("c6ef9c5d78ae012a011164acb397ce2088685d8f06bf9be0b283ab46476bee53");
        let public = "03dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180";
        assert_eq!(initiator.public().as_bytes()[1..], hex(public)[1..]);
        let shared = hex("d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de");
        assert_eq!(diffie_hellman(&initiator, responder.public()), shared);
        assert_eq!(diffie_hellman(&responder, initiator.public()), shared);
    }

    #[test]
    fn both_sides_agree_and_nobody_else() {
        for suite in [Suite::X25519, Suite::P256] {
            let mut rng = rng(1);
            let [a, b, c] = std::array::from_fn(|_| KeyPair::generate(suite, &mut rng).unwrap());
            let derive = |own: &KeyPair, other: &KeyPair| {
                let received = PublicKey::parse(suite, other.public().as_bytes()).unwrap();
                let shared = own.agree(&received).unwrap();
                *shared.derive(&Context([1; 32]), "test", &[]).expose()
            };
            assert_eq!(derive(&a, &b), derive(&b, &a));
            assert_ne!(derive(&a, &b), derive(&a, &c));
            assert_ne!(derive(&a, &b), derive(&a, &a));
        }
    }

    #[test]
    fn a_pair_is_rebuilt_from_its_secret() {
        for suite in [Suite::X25519, Suite::P256] {
            let pair = KeyPair::generate(suite, &mut rng(2)).unwrap();
            let secret = Secret::from(*pair.secret().expose());
            let again = KeyPair::from_secret(suite, secret).unwrap();
            assert_eq!(again.public(), pair.public());
        }
    }

    fn refused(suite: Suite, bytes: &[u8]) -> CryptoError {
        PublicKey::parse(suite, bytes).unwrap_err()
    }

    #[test]
    fn public_keys_of_wrong_length() {
        for suite in [Suite::X25519, Suite::P256] {
            for got in [0, 1, 31, 32, 33, 34, 65, 100] {
                let expected = suite.public_key_len();
                if got == expected {
                    continue;
                }
                assert_eq!(
                    refused(suite, &vec![9; got]),
                    CryptoError::KeyLength {
                        suite,
                        expected,
                        got
                    }
                );
            }
        }
    }

    #[test]
    fn x25519_points_of_low_order() {
        let p_minus_one = format!("ec{}7f", "ff".repeat(30));
        for point in [
            &"00".repeat(32),
            &format!("01{}", "00".repeat(31)),
            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
            "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
            &p_minus_one,
        ] {
            assert_eq!(
                refused(Suite::X25519, &hex(point)),
                CryptoError::KeyLowOrder
            );
            // The library refuses them too, should one ever get past the list.
            let pair = KeyPair::generate(Suite::X25519, &mut rng(3)).unwrap();
            let mut key = pair.public().clone();
            key.bytes[..32].copy_from_slice(&hex(point));
            assert!(matches!(pair.agree(&key), Err(CryptoError::Agreement)));
        }
    }

    #[test]
    fn x25519_keys_have_one_encoding() {
        let ff = "ff".repeat(30);
        for first in ["ed", "ee", "ef", "ff"] {
            let bytes = hex(&format!("{first}{ff}7f"));
            assert_eq!(refused(Suite::X25519, &bytes), CryptoError::KeyNotCanonical);
        }
        let mut key = KeyPair::generate(Suite::X25519, &mut rng(4))
            .unwrap()
            .public()
            .as_bytes()
            .to_vec();
        key[31] |= 0x80;
        assert_eq!(refused(Suite::X25519, &key), CryptoError::KeyNotCanonical);
        assert!(PublicKey::parse(Suite::X25519, &hex(&format!("eb{ff}7f"))).is_ok());
    }

    #[test]
    fn p256_keys_off_the_curve() {
        // x = 1 has no y on P-256; then an unknown format, the neutral element and x not below p.
        let x = |first: &str, x: &str| hex(&format!("{first}{x}"));
        let one = format!("{}01", "00".repeat(31));
        let p = "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff";
        for key in [
            x("02", &one),
            x("03", &one),
            x("04", &one),
            x("00", &"00".repeat(32)),
            x("02", p),
        ] {
            assert_eq!(refused(Suite::P256, &key), CryptoError::KeyOffCurve);
        }
    }

    #[test]
    fn p256_secrets_out_of_range() {
        let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
        for secret in [&"00".repeat(32), order, &"ff".repeat(32)] {
            let pair = KeyPair::from_secret(Suite::P256, Secret::from(hex_array(secret)));
            assert_eq!(pair.err(), Some(CryptoError::SecretRange));
        }
        let most = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632550";
        assert!(KeyPair::from_secret(Suite::P256, Secret::from(hex_array(most))).is_ok());
    }

    #[test]
    fn suites_do_not_mix() {
        let [own, other] = [Suite::X25519, Suite::P256]
            .map(|suite| KeyPair::generate(suite, &mut rng(5)).unwrap());
        assert_eq!(
            own.agree(other.public()).err(),
            Some(CryptoError::SuiteMismatch {
                own: Suite::X25519,
                other: Suite::P256
            })
        );
    }
}
