//! The round context, key derivation and hashing. All of it is framed so that two different lists of
//! inputs never give the same bytes.
//!
//! [`derive32`] is HKDF-SHA256 (RFC 5869) with an empty salt and, in the notation of TLS (RFC 8446
//! section 3), the info
//!
//! ```text
//! struct {
//!     opaque label<0..255>;        // 1-byte length
//!     opaque context[32];
//!     opaque part<0..2^16-1>;      // 2-byte length, repeated once for each part, in order
//! } Info;
//! ```
//!
//! [`hash`] is SHA-256 of
//!
//! ```text
//! struct {
//!     opaque label<0..255>;        // 1-byte length
//!     opaque part<0..2^64-1>;      // 8-byte length, repeated once for each part, in order
//! } Preimage;
//! ```
//!
//! Lengths are big-endian. The number of parts is not written: a label stands for one fixed list.

use aws_lc_rs::{digest, hkdf};

use crate::secret::Secret;

/// What everybody in a round must agree on: the hash of job, round, roster and starting model.
///
/// It is public, and it enters every derived key and every signature, so two parties who were told
/// different things get different keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Context(pub [u8; 32]);

/// Derives 32 secret bytes from `secret`, most often of as many bytes, for the purpose named by `label` and `parts`.
///
/// # Panics
///
/// If `label` is longer than 255 bytes or a part longer than 65,535: both are chosen by the caller's
/// code, never by a peer.
pub fn derive32<const N: usize>(
    secret: &Secret<N>,
    context: &Context,
    label: &str,
    parts: &[&[u8]],
) -> Secret<32> {
    let mut info = Vec::with_capacity(96);
    // guard: labels-separate
    put_label(&mut info, label);
    // guard: a-key-for-each-round
    info.extend_from_slice(&context.0);
    for part in parts {
        let length =
            u16::try_from(part.len()).expect("a part of a derivation has at most 65,535 bytes");
        info.extend_from_slice(&length.to_be_bytes());
        info.extend_from_slice(part);
    }
    let mut derived = Secret::zeroed();
    expand(&[], secret.expose(), &info, derived.expose_mut());
    derived
}

/// Plain SHA-256, for what others check with tools of their own.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

/// SHA-256 of `label` and `parts`, framed as the module says.
///
/// # Panics
///
/// If `label` is longer than 255 bytes.
pub fn hash(label: &str, parts: &[&[u8]]) -> [u8; 32] {
    let mut framing = Vec::with_capacity(1 + label.len());
    put_label(&mut framing, label);
    let mut state = digest::Context::new(&digest::SHA256);
    state.update(&framing);
    for part in parts {
        state.update(&(part.len() as u64).to_be_bytes());
        state.update(part);
    }
    let mut out = [0; 32];
    out.copy_from_slice(state.finish().as_ref());
    out
}

/// Appends `label` with its one-byte length.
pub(crate) fn put_label(out: &mut Vec<u8>, label: &str) {
    out.push(u8::try_from(label.len()).expect("a label has at most 255 bytes"));
    out.extend_from_slice(label.as_bytes());
}

/// HKDF-SHA256: extract with `salt`, expand with `info` into `out`.
///
/// # Panics
///
/// If `out` is longer than 255 hashes; every caller asks for a constant length below that.
pub(crate) fn expand(salt: &[u8], secret: &[u8], info: &[u8], out: &mut [u8]) {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let length = out.len();
    hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
        .extract(secret)
        .expand(&[info], Length(length))
        .and_then(|okm| okm.fill(out))
        .expect("HKDF-SHA256 gives up to 8160 bytes");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_util::hex;

    #[test]
    fn rfc_5869_test_case_1() {
        let mut okm = [0; 42];
        expand(
            &hex("000102030405060708090a0b0c"),
            &[0x0b; 22],
            &hex("f0f1f2f3f4f5f6f7f8f9"),
            &mut okm,
        );
        let expected = hex(concat!(
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf",
            "34007208d5b887185865"
        ));
        assert_eq!(okm[..], expected[..]);
    }

    #[test]
    fn rfc_5869_test_case_2_long_inputs() {
        let salt: Vec<u8> = (0x60..=0xaf).collect();
        let secret: Vec<u8> = (0x00..=0x4f).collect();
        let info: Vec<u8> = (0xb0..=0xff).collect();
        let mut okm = [0; 82];
        expand(&salt, &secret, &info, &mut okm);
        let expected = hex(concat!(
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c",
            "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71",
            "cc30c58179ec3e87c14c01d5c1f3434f1d87"
        ));
        assert_eq!(okm[..], expected[..]);
    }

    #[test]
    fn rfc_5869_test_case_3_empty_salt_and_info() {
        let mut okm = [0; 42];
        expand(&[], &[0x0b; 22], &[], &mut okm);
        let expected = hex(concat!(
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d",
            "9d201395faa4b61a96c8"
        ));
        assert_eq!(okm[..], expected[..]);
    }

    #[test]
    fn the_info_is_framed_as_documented() {
        let secret = Secret::from([9; 32]);
        let context = Context([3; 32]);
        let derived = derive32(&secret, &context, "share", &[&[0, 0, 0, 1], b"x"]);
        let mut info = vec![5];
        info.extend_from_slice(b"share");
        info.extend_from_slice(&[3; 32]);
        info.extend_from_slice(&[0, 4, 0, 0, 0, 1, 0, 1, b'x']);
        let mut expected = [0; 32];
        expand(&[], &[9; 32], &info, &mut expected);
        assert_eq!(derived.expose(), &expected);
    }

    #[test]
    fn the_hash_is_framed_as_documented() {
        let mut preimage = vec![1, b'h', 0, 0, 0, 0, 0, 0, 0, 2, b'a', b'b'];
        preimage.extend_from_slice(&[0; 8]);
        let expected = digest::digest(&digest::SHA256, &preimage);
        assert_eq!(hash("h", &[b"ab", b""]), expected.as_ref());
    }

    #[test]
    fn every_input_separates() {
        let secret = || Secret::from([1; 32]);
        let derive = |s: Secret<32>, c, l: &str, p: &[&[u8]]| {
            *derive32(&s, &Context([c; 32]), l, p).expose()
        };
        let base = derive(secret(), 2, "a", &[b"bc", b"d"]);
        assert_eq!(base, derive(secret(), 2, "a", &[b"bc", b"d"]));
        assert_ne!(base, derive(Secret::from([2; 32]), 2, "a", &[b"bc", b"d"]));
        assert_ne!(base, derive(secret(), 3, "a", &[b"bc", b"d"]));
        assert_ne!(base, derive(secret(), 2, "b", &[b"bc", b"d"]));
        assert_ne!(base, derive(secret(), 2, "a", &[b"b", b"cd"]));
        assert_ne!(base, derive(secret(), 2, "a", &[b"bcd"]));
    }

    proptest! {
        #[test]
        fn hashes_of_different_part_lists_differ(
            a in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3), 0..4),
            b in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3), 0..4),
        ) {
            let of = |list: &[Vec<u8>]| hash("t", &list.iter().map(Vec::as_slice).collect::<Vec<_>>());
            prop_assert_eq!(a == b, of(&a) == of(&b));
        }
    }
}
