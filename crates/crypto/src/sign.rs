//! The long-term identity key of a party and the signatures made with it.
//!
//! What is signed is
//!
//! ```text
//! "Blindsum signature\0" ‖ opaque label<0..255> ‖ message
//! ```
//!
//! so that a signature made for one purpose is valid for no other, nor in TLS or X.509. This matters because the same
//! key is the party's TLS client key. (What TLS signs starts with spaces, a certificate with 0x30.)
//!
//! A signature has 64 bytes: Ed25519 as in RFC 8032; ECDSA P-256 with SHA-256 as r ‖ s, deterministic
//! (RFC 6979) and with s at most half the group order. So a message has one signature under a key, and
//! signing again after a restart gives the same bytes.

use aws_lc_rs::signature::{self, Ed25519KeyPair, KeyPair as _, ParsedPublicKey};
use p256::{
    ecdsa::{self, signature::Signer},
    pkcs8::{EncodePrivateKey, LineEnding, ObjectIdentifier, PrivateKeyInfoRef, SecretDocument},
};
use rand_core::CryptoRng;
use std::fmt;
use zeroize::Zeroizing;

use crate::{CryptoError, kdf, kex::Hex, pem, secret::Secret};

/// Bytes of a signature, whatever the algorithm.
pub const SIGNATURE_LEN: usize = 64;

const PREFIX: &[u8] = b"Blindsum signature\0";

const ED25519_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// How a party signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Ed25519 (RFC 8032); the default.
    Ed25519,
    /// ECDSA with P-256 and SHA-256 (FIPS 186-5), where rules ask for a NIST curve.
    P256,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Algorithm::Ed25519 => "Ed25519",
            Algorithm::P256 => "ECDSA P-256",
        })
    }
}

/// A party's private signing key.
pub struct IdentityKey {
    private: PrivateKey,
    public: VerifyingKey,
}

enum PrivateKey {
    /// The seed is kept for [`IdentityKey::to_pem`]: the library would give it out in memory that it does
    /// not wipe.
    Ed25519(Secret<32>, Ed25519KeyPair),
    P256(ecdsa::SigningKey),
}

impl IdentityKey {
    /// Makes a key from 32 bytes of `rng`, or more of them in the rare case (2^-32) that they are no
    /// P-256 scalar.
    ///
    /// # Errors
    ///
    /// [`CryptoError::VerifyingKey`] if the library has no memory left.
    pub fn generate(algorithm: Algorithm, rng: &mut dyn CryptoRng) -> Result<Self, CryptoError> {
        loop {
            let secret = Secret::<32>::generate(rng);
            match algorithm {
                Algorithm::Ed25519 => return Self::from_seed(secret),
                Algorithm::P256 => {
                    if let Ok(key) = ecdsa::SigningKey::from_slice(secret.expose()) {
                        return Self::from_p256(key);
                    }
                }
            }
        }
    }

    /// Reads a key in PEM: PKCS#8 (`-----BEGIN PRIVATE KEY-----`), of P-256 also `EC PRIVATE KEY` (RFC 5915).
    ///
    /// # Errors
    ///
    /// [`CryptoError::Pem`] if the text is no such key or of another algorithm.
    pub fn from_pem(text: &str) -> Result<Self, CryptoError> {
        let refuse = |why: String| CryptoError::Pem {
            what: "identity key",
            why,
        };
        let (label, section) = pem::key(text).map_err(refuse)?;
        let damaged = |_| refuse(format!("section {label:?} is damaged: copy the file again"));
        let (_, document) = SecretDocument::from_pem(&section).map_err(damaged)?;
        if label == "EC PRIVATE KEY" {
            let key = p256::SecretKey::from_sec1_der(document.as_bytes());
            let key = key.map_err(|_| refuse("must be an Ed25519 or P-256 key".into()))?;
            return Self::from_p256(key.into());
        }
        if label != "PRIVATE KEY" {
            return Err(refuse(pem::convert(&label)));
        }
        let key =
            PrivateKeyInfoRef::try_from(document.as_bytes()).map_err(|e| refuse(e.to_string()))?;
        if key.algorithm.oid == ED25519_OID {
            // RFC 8410 section 7: an OCTET STRING within the OCTET STRING.
            return match key.private_key.as_bytes() {
                [0x04, 0x20, seed @ ..] if seed.len() == 32 => Self::from_seed(seed.try_into()?),
                _ => Err(refuse("an Ed25519 key must have a seed of 32 bytes".into())),
            };
        }
        let key = ecdsa::SigningKey::try_from(key)
            .map_err(|_| refuse("must be an Ed25519 or P-256 key".into()))?;
        Self::from_p256(key)
    }

    /// The key as PKCS#8 in PEM, unencrypted: keep the file private.
    ///
    /// # Errors
    ///
    /// [`CryptoError::Pem`] if the library has no memory left.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, CryptoError> {
        /// RFC 8410 section 7: everything in front of the 32 bytes of the seed.
        const ED25519_PKCS8: [u8; 16] =
            *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
        let document = match &self.private {
            PrivateKey::Ed25519(seed, _) => {
                let mut der = Zeroizing::new([0; 48]);
                der[..16].copy_from_slice(&ED25519_PKCS8);
                der[16..].copy_from_slice(seed.expose());
                SecretDocument::try_from(der.as_slice()).map_err(|e| e.to_string())
            }
            PrivateKey::P256(key) => key.to_pkcs8_der().map_err(|e| e.to_string()),
        };
        document
            .and_then(|der| {
                der.to_pem("PRIVATE KEY", LineEnding::LF)
                    .map_err(|e| e.to_string())
            })
            .map_err(|why| CryptoError::Pem {
                what: "identity key",
                why,
            })
    }

    /// How this key signs.
    pub fn algorithm(&self) -> Algorithm {
        self.public.algorithm
    }

    /// The key with which others check the signatures.
    pub fn verifying_key(&self) -> &VerifyingKey {
        &self.public
    }

    /// Signs `message` for the purpose `label`; [`SIGNATURE_LEN`] bytes.
    ///
    /// # Panics
    ///
    /// If `label` is longer than 255 bytes.
    pub fn sign(&self, label: &str, message: &[u8]) -> Vec<u8> {
        let signed = signed_bytes(label, message);
        match &self.private {
            PrivateKey::Ed25519(_, pair) => pair.sign(&signed).as_ref().to_vec(),
            PrivateKey::P256(key) => {
                let signature: ecdsa::Signature = key.sign(&signed);
                signature.normalize_s().to_vec()
            }
        }
    }

    /// Signs the bytes of a certificate, request or revocation list, in the form X.509 wants.
    pub(crate) fn sign_x509(&self, bytes: &[u8]) -> Vec<u8> {
        match &self.private {
            PrivateKey::Ed25519(_, pair) => pair.sign(bytes).as_ref().to_vec(),
            PrivateKey::P256(key) => {
                let signature: ecdsa::DerSignature = key.sign(bytes);
                signature.as_bytes().to_vec()
            }
        }
    }

    fn from_seed(seed: Secret<32>) -> Result<Self, CryptoError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.expose())
            .map_err(|_| CryptoError::VerifyingKey("no key for this seed"))?;
        let public = VerifyingKey::parse(Algorithm::Ed25519, pair.public_key().as_ref())?;
        let private = PrivateKey::Ed25519(seed, pair);
        Ok(IdentityKey { private, public })
    }

    fn from_p256(key: ecdsa::SigningKey) -> Result<Self, CryptoError> {
        let point = key.verifying_key().to_sec1_point(false);
        let public = VerifyingKey::parse(Algorithm::P256, point.as_bytes())?;
        let private = PrivateKey::P256(key);
        Ok(IdentityKey { private, public })
    }
}

/// The public half of an [`IdentityKey`], parsed once.
#[derive(Clone)]
pub struct VerifyingKey {
    algorithm: Algorithm,
    key: ParsedPublicKey,
}

impl VerifyingKey {
    /// Reads a key as it stands in a certificate: Ed25519 32 bytes, P-256 an uncompressed SEC 1 point of
    /// 65 bytes.
    ///
    /// # Errors
    ///
    /// [`CryptoError::VerifyingKey`] if it is no such key.
    pub fn parse(algorithm: Algorithm, bytes: &[u8]) -> Result<Self, CryptoError> {
        let (length, scheme): (usize, &'static dyn signature::VerificationAlgorithm) =
            match algorithm {
                Algorithm::Ed25519 => (32, &signature::ED25519),
                Algorithm::P256 => (65, &signature::ECDSA_P256_SHA256_FIXED),
            };
        if bytes.len() != length {
            return Err(CryptoError::VerifyingKey(
                "must have 32 bytes (Ed25519) or 65 (P-256, uncompressed)",
            ));
        }
        let key = ParsedPublicKey::new(scheme, bytes)
            .map_err(|_| CryptoError::VerifyingKey("must be a point of the curve"))?;
        Ok(VerifyingKey { algorithm, key })
    }

    /// How the holder of the private key signs.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The encoding that [`VerifyingKey::parse`] reads.
    pub fn as_bytes(&self) -> &[u8] {
        self.key.as_ref()
    }

    /// Checks that `signature` was made by [`IdentityKey::sign`] for this label and message.
    ///
    /// # Errors
    ///
    /// [`CryptoError::Signature`] if not.
    ///
    /// # Panics
    ///
    /// If `label` is longer than 255 bytes.
    pub fn verify(&self, label: &str, message: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        if self.algorithm == Algorithm::P256 && !has_low_s(signature) {
            return Err(CryptoError::Signature);
        }
        self.key
            .verify_sig(&signed_bytes(label, message), signature)
            .map_err(|_| CryptoError::Signature)
    }
}

impl PartialEq for VerifyingKey {
    fn eq(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm && self.as_bytes() == other.as_bytes()
    }
}

impl Eq for VerifyingKey {}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, Hex(self.as_bytes()))
    }
}

fn signed_bytes(label: &str, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREFIX.len() + 1 + label.len() + message.len());
    bytes.extend_from_slice(PREFIX);
    kdf::put_label(&mut bytes, label);
    bytes.extend_from_slice(message);
    bytes
}

/// Whether s of an ECDSA signature r ‖ s is at most half the order of P-256; its negative would be a
/// second valid signature.
fn has_low_s(signature: &[u8]) -> bool {
    const HALF_ORDER: [u8; 32] =
        *b"\x7f\xff\xff\xff\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff\
        \xde\x73\x7d\x56\xd3\x8b\xcf\x42\x79\xdc\xe5\x61\x7e\x31\x92\xa8";
    signature
        .get(32..)
        .is_some_and(|s| s.len() == 32 && s <= &HALF_ORDER[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_util::{hex, hex_array, rng};

    const ALGORITHMS: [Algorithm; 2] = [Algorithm::Ed25519, Algorithm::P256];

    /// RFC 8032 section 7.1, test 2.
    #[test]
    fn rfc_8032() {
        let seed = hex_array("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
        let key = IdentityKey::from_seed(Secret::from(seed)).unwrap();
        let public = hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
        assert_eq!(key.verifying_key().as_bytes(), public);
        let signature = hex(concat!(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da",
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ));
        assert_eq!(key.sign_x509(&[0x72]), signature);
    }

    /// RFC 6979 appendix A.2.5, message "sample" with SHA-256; s is above half the order there.
    #[test]
    fn rfc_6979() {
        let secret = hex("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721");
        let key = ecdsa::SigningKey::from_slice(&secret).unwrap();
        let signature: ecdsa::Signature = key.sign(b"sample");
        let expected = hex(concat!(
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
            "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
        ));
        assert_eq!(signature.to_vec(), expected);
        assert!(!has_low_s(&expected));
        assert!(has_low_s(&signature.normalize_s().to_vec()));
    }

    #[test]
    fn verifies_for_this_key_label_and_message_only() {
        for algorithm in ALGORITHMS {
            let mut rng = rng(1);
            let [key, other] =
                std::array::from_fn(|_| IdentityKey::generate(algorithm, &mut rng).unwrap());
            let signature = key.sign("keys", b"message");
            assert_eq!(signature.len(), SIGNATURE_LEN);
            assert_eq!(signature, key.sign("keys", b"message"), "deterministic");
            let verify = |key: &IdentityKey, label, message, signature: &[u8]| {
                key.verifying_key()
                    .verify(label, message, signature)
                    .is_ok()
            };
            assert!(verify(&key, "keys", b"message", &signature));
            assert!(!verify(&other, "keys", b"message", &signature));
            assert!(!verify(&key, "survivors", b"message", &signature));
            assert!(!verify(&key, "key", b"smessage", &signature));
            assert!(!verify(&key, "keys", b"massage", &signature));
            assert!(!verify(&key, "keys", b"message", &signature[..63]));
            assert!(!verify(&key, "keys", b"message", &[]));
            for at in 0..SIGNATURE_LEN {
                let mut changed = signature.clone();
                changed[at] ^= 1;
                assert!(!verify(&key, "keys", b"message", &changed));
            }
        }
    }

    /// (r, n - s) also satisfies the ECDSA equation, but is not the signature.
    #[test]
    fn the_negated_ecdsa_signature_is_refused() {
        let key = IdentityKey::generate(Algorithm::P256, &mut rng(2)).unwrap();
        let signature = key.sign("keys", b"message");
        let (r, s) = ecdsa::Signature::from_slice(&signature)
            .unwrap()
            .split_scalars();
        let negated = ecdsa::Signature::from_scalars(r.to_bytes(), (-s).to_bytes())
            .unwrap()
            .to_vec();
        let library = key
            .verifying_key()
            .key
            .verify_sig(&signed_bytes("keys", b"message"), &negated);
        assert!(library.is_ok(), "the equation holds");
        let ours = key.verifying_key().verify("keys", b"message", &negated);
        assert_eq!(ours, Err(CryptoError::Signature));
    }

    #[test]
    fn keys_survive_their_file() {
        for algorithm in ALGORITHMS {
            let key = IdentityKey::generate(algorithm, &mut rng(3)).unwrap();
            let pem = key.to_pem().unwrap();
            assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n"));
            let again = IdentityKey::from_pem(&pem).unwrap();
            assert_eq!(again.algorithm(), algorithm);
            assert_eq!(again.verifying_key(), key.verifying_key());
            assert_eq!(again.sign("keys", b"m"), key.sign("keys", b"m"));
        }
    }

    /// Made with `openssl genpkey -algorithm ed25519` and `-algorithm EC -pkeyopt ec_paramgen_curve:P-256`.
    #[test]
    fn reads_keys_of_openssl() {
        for (pem, algorithm, public) in [
            (
                include_str!("../tests/data/ed25519.pem"),
                Algorithm::Ed25519,
                include_str!("../tests/data/ed25519.pub"),
            ),
            (
                include_str!("../tests/data/p256.pem"),
                Algorithm::P256,
                include_str!("../tests/data/p256.pub"),
            ),
        ] {
            let key = IdentityKey::from_pem(pem).unwrap();
            assert_eq!(key.algorithm(), algorithm);
            assert_eq!(key.verifying_key().as_bytes(), hex(public.trim()));
            assert_eq!(key.to_pem().unwrap().as_str(), pem);
        }
    }

    #[test]
    fn other_files_are_refused() {
        let pem = IdentityKey::generate(Algorithm::P256, &mut rng(4))
            .unwrap()
            .to_pem()
            .unwrap();
        for text in [
            "",
            "not PEM",
            &pem.replace("PRIVATE KEY", "EC PRIVATE KEY"),
            &pem.replace("MIG", "MIA"),
            include_str!("../tests/data/p384.pem"),
        ] {
            assert!(matches!(
                IdentityKey::from_pem(text),
                Err(CryptoError::Pem {
                    what: "identity key",
                    ..
                })
            ));
        }
    }

    #[test]
    fn verifying_keys_of_wrong_form() {
        let p256 = IdentityKey::generate(Algorithm::P256, &mut rng(5)).unwrap();
        let mut off_curve = p256.verifying_key().as_bytes().to_vec();
        off_curve[64] ^= 1;
        for (algorithm, bytes) in [
            (Algorithm::Ed25519, &off_curve[..31]),
            (Algorithm::P256, &off_curve[..33]),
            (Algorithm::P256, &off_curve[..]),
        ] {
            assert!(matches!(
                VerifyingKey::parse(algorithm, bytes),
                Err(CryptoError::VerifyingKey(_))
            ));
        }
    }
}
