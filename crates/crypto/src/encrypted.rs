//! Private keys under a passphrase: PKCS#8 `ENCRYPTED PRIVATE KEY` (RFC 5958 section 3) by PBES2 (RFC 8018 section 6.2).
//!
//! Keys are written with PBKDF2, HMAC-SHA-256 and AES-256-CBC, which OpenSSL and everything built on it read. Read are
//! those with SHA-1 or any SHA-2 of PBKDF2 that OpenSSL writes, and AES of 128 or 256 bits in CBC mode. Not scrypt and
//! not the older forms: they are refused with the command that converts them.

use std::num::NonZeroU32;

use aws_lc_rs::{
    cipher::{
        AES_128, AES_256, Algorithm, DecryptionContext, EncryptionContext,
        PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
    },
    error::Unspecified,
    iv::FixedLength,
    pbkdf2,
};
use p256::pkcs8::{Document, LineEnding, PrivateKeyInfoRef, SecretDocument};
use pkcs8::{
    EncryptedPrivateKeyInfoRef,
    der::asn1::OctetStringRef,
    pkcs5::{
        EncryptionScheme,
        pbes2::{self, Kdf, Parameters, Pbkdf2Params, Pbkdf2Prf},
    },
};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::{CryptoError, pem, sign::IdentityKey};

/// Iterations of PBKDF2 for keys that are written: about half a second of one core.
const ITERATIONS: u32 = 600_000;
/// Iterations that are read at most: a damaged file must not keep a program busy for hours.
const MAX_ITERATIONS: u32 = 10_000_000;
/// Characters of a new passphrase at least.
const MIN_PASSPHRASE: usize = 8;

const CONVERT: &str = "openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD.key -out NEW.key";

fn refuse(why: impl Into<String>) -> CryptoError {
    CryptoError::Pem {
        what: "identity key",
        why: why.into(),
    }
}

/// Encrypts the private key of a PEM text, which may have any form that [`IdentityKey::from_pem`] reads.
///
/// # Errors
///
/// [`CryptoError::Pem`] if there is no key, or the passphrase has fewer than 8 characters.
pub fn encrypt(
    key: &str,
    passphrase: &str,
    rng: &mut dyn CryptoRng,
) -> Result<String, CryptoError> {
    if passphrase.chars().count() < MIN_PASSPHRASE {
        return Err(refuse(format!(
            "passphrase: must have at least {MIN_PASSPHRASE} characters: choose a longer one"
        )));
    }
    let plain = IdentityKey::from_pem(key)?.to_pem()?;
    let (_, plain) = SecretDocument::from_pem(&plain).map_err(|e| refuse(e.to_string()))?;
    let (mut salt, mut iv) = ([0; 16], [0; 16]);
    rng.fill_bytes(&mut salt);
    rng.fill_bytes(&mut iv);
    let kdf = Pbkdf2Params::hmac_sha256(ITERATIONS, &salt).map_err(|e| refuse(e.to_string()))?;
    let derived = derive(&kdf, passphrase, 32)?;
    // Room for the padding: the key is not moved while it grows.
    let mut data = Zeroizing::new(Vec::with_capacity(plain.as_bytes().len() + iv.len()));
    data.extend_from_slice(plain.as_bytes());
    let context = EncryptionContext::Iv128(FixedLength::from(iv));
    let sealed = UnboundCipherKey::new(&AES_256, &derived)
        .and_then(PaddedBlockEncryptingKey::cbc_pkcs7)
        .and_then(|cipher| cipher.less_safe_encrypt(&mut *data, context));
    sealed.map_err(|Unspecified| refuse("cannot be encrypted: no memory is left"))?;
    let parameters = Parameters {
        kdf: Kdf::Pbkdf2(kdf),
        encryption: pbes2::EncryptionScheme::Aes256Cbc { iv },
    };
    let encrypted = EncryptedPrivateKeyInfoRef {
        encryption_algorithm: EncryptionScheme::Pbes2(parameters),
        encrypted_data: OctetStringRef::new(&data).map_err(|e| refuse(e.to_string()))?,
    };
    let document = Document::encode_msg(&encrypted).map_err(|e| refuse(e.to_string()))?;
    let text = document.to_pem(pem::ENCRYPTED_KEY, LineEnding::LF);
    text.map_err(|e| refuse(e.to_string()))
}

/// Decrypts the private key of a PEM text, if it is encrypted; one that is not is given back as it is.
///
/// # Errors
///
/// [`CryptoError::Pem`] if there is no key, if the passphrase is wrong, or if the key is encrypted in a form that is not
/// read here; in words, with what to do.
pub fn decrypt(text: &str, passphrase: &str) -> Result<Zeroizing<String>, CryptoError> {
    let Some(section) = pem::encrypted_key(text).map_err(refuse)? else {
        return Ok(pem::key(text).map_err(refuse)?.1);
    };
    let damaged = || {
        refuse(format!(
            "section {:?} is damaged: copy the file again",
            pem::ENCRYPTED_KEY
        ))
    };
    let (_, document) = Document::from_pem(&section).map_err(|_| damaged())?;
    let encrypted =
        EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).map_err(|_| other_form())?;
    let parameters = encrypted
        .encryption_algorithm
        .pbes2()
        .ok_or_else(other_form)?;
    let (algorithm, iv) = cipher(parameters).ok_or_else(other_form)?;
    let kdf = parameters.kdf.pbkdf2().ok_or_else(other_form)?;
    let derived = derive(kdf, passphrase, parameters.encryption.key_size())?;
    let mut data = Zeroizing::new(encrypted.encrypted_data.as_bytes().to_vec());
    let context = DecryptionContext::Iv128(FixedLength::from(iv));
    let wrong = || refuse("the passphrase is wrong: give the one that the key was encrypted with");
    let plain = UnboundCipherKey::new(algorithm, &derived)
        .and_then(PaddedBlockDecryptingKey::cbc_pkcs7)
        .and_then(|cipher| cipher.decrypt(&mut data, context).map(|plain| &*plain))
        .map_err(|Unspecified| wrong())?;
    // Padding alone is right by chance once in 256 times.
    PrivateKeyInfoRef::try_from(plain).map_err(|_| wrong())?;
    let document = SecretDocument::try_from(plain).map_err(|_| wrong())?;
    let text = document.to_pem(pem::KEY, LineEnding::LF);
    text.map_err(|e| refuse(e.to_string()))
}

fn other_form() -> CryptoError {
    refuse(format!(
        "is encrypted in a form that is not read here, must be PBES2 with PBKDF2 and AES-256-CBC: convert it ({CONVERT})"
    ))
}

fn cipher(parameters: &Parameters) -> Option<(&'static Algorithm, [u8; 16])> {
    match parameters.encryption {
        pbes2::EncryptionScheme::Aes128Cbc { iv } => Some((&AES_128, iv)),
        pbes2::EncryptionScheme::Aes256Cbc { iv } => Some((&AES_256, iv)),
        _ => None,
    }
}

fn derive(
    kdf: &Pbkdf2Params,
    passphrase: &str,
    size: usize,
) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
    let algorithm = match kdf.prf {
        Pbkdf2Prf::HmacWithSha1 => pbkdf2::PBKDF2_HMAC_SHA1,
        Pbkdf2Prf::HmacWithSha256 => pbkdf2::PBKDF2_HMAC_SHA256,
        Pbkdf2Prf::HmacWithSha384 => pbkdf2::PBKDF2_HMAC_SHA384,
        Pbkdf2Prf::HmacWithSha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        _ => return Err(other_form()),
    };
    let iterations = NonZeroU32::new(kdf.iteration_count)
        .filter(|iterations| iterations.get() <= MAX_ITERATIONS)
        .ok_or_else(|| {
            refuse(format!(
                "has {} iterations of PBKDF2, must satisfy 1 <= iterations <= {MAX_ITERATIONS}: convert it ({CONVERT})",
                kdf.iteration_count
            ))
        })?;
    let mut derived = Zeroizing::new(vec![0; size]);
    pbkdf2::derive(
        algorithm,
        iterations,
        kdf.salt.as_bytes(),
        passphrase.as_bytes(),
        &mut derived,
    );
    Ok(derived)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sign::Algorithm, test_util::rng};

    /// Made by OpenSSL 3: `openssl pkcs8 -topk8 -v2 aes-128-cbc -v2prf hmacWithSHA512 -iter 1000`, passphrase `correct horse`.
    const BY_OPENSSL: &str = include_str!("../tests/data/ed25519-encrypted.pem");
    /// The same key, `-scrypt`.
    const BY_SCRYPT: &str = include_str!("../tests/data/ed25519-scrypt.pem");
    const PLAIN: &str = include_str!("../tests/data/ed25519.pem");

    fn why(text: &str, passphrase: &str) -> String {
        decrypt(text, passphrase).unwrap_err().to_string()
    }

    #[test]
    fn a_key_comes_back_with_its_passphrase_and_with_no_other() {
        for algorithm in [Algorithm::Ed25519, Algorithm::P256] {
            let key = IdentityKey::generate(algorithm, &mut rng(1)).unwrap();
            let plain = key.to_pem().unwrap();
            let text = encrypt(&plain, "correct horse", &mut rng(2)).unwrap();
            assert!(text.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"));
            assert_eq!(*decrypt(&text, "correct horse").unwrap(), *plain);
            assert!(why(&text, "correct hors").contains("the passphrase is wrong"));
            assert!(IdentityKey::from_pem(&text).is_err());
        }
        let short = encrypt(PLAIN, "1234567", &mut rng(3))
            .unwrap_err()
            .to_string();
        assert!(short.contains("at least 8 characters"), "{short}");
    }

    #[test]
    fn keys_of_openssl_are_read() {
        assert_eq!(
            decrypt(BY_OPENSSL, "correct horse").unwrap().as_str(),
            PLAIN
        );
        // One that is not encrypted needs no passphrase.
        assert_eq!(decrypt(PLAIN, "anything").unwrap().as_str(), PLAIN);
        assert!(why(BY_SCRYPT, "correct horse").contains("openssl pkcs8 -topk8 -v2 aes-256-cbc"));
        assert!(why("", "correct horse").contains("no section at all"));
    }

    #[test]
    fn a_wrong_passphrase_is_never_taken_for_a_right_one() {
        // About one of 256 ends in what looks like padding.
        for number in 0..600 {
            let said = why(BY_OPENSSL, &format!("wrong {number}"));
            assert!(said.contains("the passphrase is wrong"), "{said}");
        }
    }

    #[test]
    fn a_damaged_key_is_refused() {
        let cut = BY_OPENSSL.replace("\n-----END", "A\n-----END");
        assert!(decrypt(&cut, "correct horse").is_err());
        let half = format!(
            "{}\n-----END ENCRYPTED PRIVATE KEY-----\n",
            &BY_OPENSSL[..120]
        );
        assert!(decrypt(&half, "correct horse").is_err());
    }
}
