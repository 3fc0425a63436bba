use proptest::prelude::*;

use super::*;
use crate::test_util::{hex, hex_array};

/// A stream for every backend that this machine has.
fn streams(key: [u8; 32], sign: Sign) -> Vec<(Backend, MaskStream)> {
    let stream =
        |backend| MaskStream::with_backend(MaskSeed::from(Secret::from(key)), sign, backend);
    let available = Backend::ALL
        .into_iter()
        .filter(|backend| backend.is_available());
    available
        .map(|backend| (backend, stream(backend).unwrap()))
        .collect()
}

fn masks_u32(stream: &MaskStream, first_lane: u64, count: usize) -> Vec<u32> {
    let mut lanes = vec![0; count];
    apply_masks(
        std::slice::from_ref(stream),
        first_lane,
        TileMut::W32(&mut lanes),
    );
    lanes
}

fn bytes(stream: &MaskStream, first_lane: u64, count: usize) -> Vec<u8> {
    let lanes = masks_u32(stream, first_lane, count).into_iter();
    lanes.flat_map(u32::to_le_bytes).collect()
}

/// NIST SP 800-38A section F.5.5 (CTR-AES256.Encrypt), whose counter does not start at 0.
#[test]
fn nist_sp_800_38a() {
    let key = hex_array("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
    let plaintext = hex(concat!(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51",
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
    ));
    let ciphertext = hex(concat!(
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5",
        "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6",
    ));
    let keystream: Vec<u8> = plaintext
        .iter()
        .zip(ciphertext)
        .map(|(p, c)| p ^ c)
        .collect();
    for (backend, mut stream) in streams(key, Sign::Add) {
        stream.origin = u128::from_be_bytes(hex_array("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"));
        assert_eq!(bytes(&stream, 0, 16), keystream, "{}", backend.name());
    }
}

/// Blocks 0, 1, 2 and 2^32 under the key of FIPS 197 appendix C.3, from `openssl enc -aes-256-ctr`.
#[test]
fn counts_from_zero() {
    let key = hex_array("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
    let first = concat!(
        "f29000b62a499fd0a9f39a6add2e7780f05d76ae4ab99fe5a6f69b3148c2363d",
        "0ebcb5deb52c83bd08a8a935182c9199",
    );
    for (backend, stream) in streams(key, Sign::Add) {
        assert_eq!(bytes(&stream, 0, 12), hex(first), "{}", backend.name());
        let far = hex("641d1a3a80becff6f0f38f9764fdcf96");
        assert_eq!(bytes(&stream, 4 << 32, 4), far, "{}", backend.name());
    }
}

#[test]
fn wide_lanes_are_the_same_bytes() {
    for (backend, stream) in streams([5; 32], Sign::Add) {
        let mut wide = vec![0u64; 100];
        apply_masks(std::slice::from_ref(&stream), 33, TileMut::W64(&mut wide));
        let wide: Vec<u8> = wide.into_iter().flat_map(u64::to_le_bytes).collect();
        assert_eq!(wide, bytes(&stream, 66, 200), "{}", backend.name());
    }
}

#[test]
fn the_last_lanes_of_a_stream_can_be_reached() {
    let mut all = streams([6; 32], Sign::Add).into_iter();
    let (_, scalar) = all.next().unwrap();
    let expected = masks_u32(&scalar, u64::MAX - 9, 10);
    for (backend, stream) in all {
        assert_eq!(
            masks_u32(&stream, u64::MAX - 9, 10),
            expected,
            "{}",
            backend.name()
        );
    }
}

/// The first block of a nonce, from the block cipher alone.
fn first_block(key: [u8; 32], nonce: [u8; 12], number: u32) -> [u8; 16] {
    use aes::cipher::BlockCipherEncrypt;
    let mut block = [0; 16];
    block[..12].copy_from_slice(&nonce);
    block[12..].copy_from_slice(&number.to_be_bytes());
    Aes256Enc::new(&key.into()).encrypt_block((&mut block).into());
    block
}

#[test]
fn streams_of_one_key_begin_at_their_nonce() {
    let key = [4; 32];
    for backend in Backend::ALL.into_iter().filter(|b| b.is_available()) {
        let masks = MaskKey::with_backend(MaskSeed::from(Secret::from(key)), backend).unwrap();
        for nonce in [[0; 12], [0xff; 12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]] {
            let stream = masks.stream(nonce, Sign::Add);
            for number in [0, 1, 1 << 31, u32::MAX - 40, u32::MAX] {
                let block = bytes(&stream, 4 * u64::from(number), 4);
                let expected = first_block(key, nonce, number);
                assert_eq!(block, expected, "{} {number}", backend.name());
            }
        }
    }
}

#[test]
fn streams_of_one_key_agree_with_the_scalar_twin() {
    let masks = |backend| MaskKey::with_backend(MaskSeed::from(Secret::from([9; 32])), backend);
    let nonce = [0xff; 12];
    let last = NONCE_STREAM_BYTES / 4 - 9000;
    let expect = |first, count| {
        let scalar = masks(Backend::Scalar).unwrap();
        masks_u32(&scalar.stream(nonce, Sign::Sub), first, count)
    };
    for backend in Backend::ALL.into_iter().filter(|b| b.is_available()) {
        let stream = masks(backend).unwrap().stream(nonce, Sign::Sub);
        for (first, count) in [(0, 9000), (3, 5000), (last, 9000), (last + 8999, 1)] {
            let lanes = masks_u32(&stream, first, count);
            assert_eq!(lanes, expect(first, count), "{} {first}", backend.name());
        }
    }
}

#[test]
#[should_panic(expected = "a stream with a nonce has 68719476736 bytes")]
fn a_stream_with_a_nonce_ends_before_the_next_nonce() {
    let masks = MaskKey::new(MaskSeed::from(Secret::from([9; 32])));
    let stream = masks.stream([0; 12], Sign::Add);
    masks_u32(&stream, NONCE_STREAM_BYTES / 4 - 1, 2);
}

/// Lanes one by one: the first and last of blocks, one twice, backwards, and many in a row.
#[test]
fn scattered_lanes_are_those_of_the_stream() {
    let some = [0, 3, 4, 5, 5, 9, 1 << 20, (1 << 20) + 1, 7, 6, 2, u32::MAX];
    let lanes: Vec<u32> = some
        .into_iter()
        .chain((100..2000).step_by(3))
        .chain(5000..5600)
        .collect();
    for backend in Backend::ALL
        .into_iter()
        .filter(|backend| backend.is_available())
    {
        let key = MaskKey::with_backend(MaskSeed::from(Secret::from([6; 32])), backend).unwrap();
        for sign in [Sign::Add, Sign::Sub] {
            let stream = key.stream([3; 12], sign);
            for count in [0, 1, 2, 130, lanes.len()] {
                let (mut narrow, mut wide) = (vec![7; count], vec![7; count]);
                apply_masks_at(&stream, &lanes[..count], TileMut::W32(&mut narrow));
                apply_masks_at(&stream, &lanes[..count], TileMut::W64(&mut wide));
                for (k, &d) in lanes[..count].iter().enumerate() {
                    let (mut one, mut one_wide) = ([7], [7]);
                    let stream = std::slice::from_ref(&stream);
                    apply_masks(stream, d.into(), TileMut::W32(&mut one));
                    apply_masks(stream, d.into(), TileMut::W64(&mut one_wide));
                    assert_eq!(
                        (narrow[k], wide[k]),
                        (one[0], one_wide[0]),
                        "{}, lane {d}",
                        backend.name()
                    );
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "lanes of the stream and of the tile")]
fn scattered_lanes_are_as_many_as_the_tile_has() {
    let stream = MaskStream::new(MaskSeed::from(Secret::from([6; 32])), Sign::Add);
    apply_masks_at(&stream, &[1, 2], TileMut::W32(&mut [0]));
}

#[test]
fn the_default_is_the_fastest_available() {
    assert!(backend().is_available());
    let default = MaskStream::new(MaskSeed::from(Secret::from([1; 32])), Sign::Add);
    let same =
        MaskStream::with_backend(MaskSeed::from(Secret::from([1; 32])), Sign::Add, backend());
    assert_eq!(masks_u32(&default, 3, 50), masks_u32(&same.unwrap(), 3, 50));
}

#[test]
fn a_mask_taken_off_again_leaves_the_vector() {
    let original: Vec<u64> = (0..10_000)
        .map(|d: u64| d.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    for (backend, plus) in streams([8; 32], Sign::Add) {
        let minus =
            MaskStream::with_backend(MaskSeed::from(Secret::from([8; 32])), Sign::Sub, backend);
        let mut lanes = original.clone();
        apply_masks(&[plus], 1, TileMut::W64(&mut lanes));
        assert!(
            lanes
                .iter()
                .zip(&original)
                .all(|(masked, original)| masked != original)
        );
        apply_masks(&[minus.unwrap()], 1, TileMut::W64(&mut lanes));
        assert_eq!(lanes, original);
    }
}

/// Applies `keys` (each with a sign) with one backend to a copy of `lanes`.
macro_rules! masked {
    ($tile:path, $keys:expr, $backend:expr, $first:expr, $lanes:expr) => {{
        let stream = |&(key, sub): &(u8, bool)| {
            let sign = if sub { Sign::Sub } else { Sign::Add };
            MaskStream::with_backend(MaskSeed::from(Secret::from([key; 32])), sign, $backend)
                .unwrap()
        };
        let streams: Vec<MaskStream> = $keys.iter().map(stream).collect();
        let mut lanes = $lanes.clone();
        // Start anywhere in memory: kernels must not assume an alignment.
        apply_masks(&streams, $first, $tile(&mut lanes[1..]));
        lanes
    }};
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn backends_agree(
        keys in proptest::collection::vec((any::<u8>(), any::<bool>()), 0..5),
        first in prop_oneof![0..10_000u64, any::<u64>().prop_map(|d| d >> 1)],
        narrow in proptest::collection::vec(any::<u32>(), 1..9000),
        wide in proptest::collection::vec(any::<u64>(), 1..5000),
    ) {
        let narrow_expected = masked!(TileMut::W32, keys, Backend::Scalar, first, narrow);
        let wide_expected = masked!(TileMut::W64, keys, Backend::Scalar, first, wide);
        prop_assert_eq!(narrow_expected[0], narrow[0]);
        for backend in Backend::ALL.into_iter().filter(|backend| backend.is_available()) {
            prop_assert_eq!(&masked!(TileMut::W32, keys, backend, first, narrow), &narrow_expected);
            prop_assert_eq!(&masked!(TileMut::W64, keys, backend, first, wide), &wide_expected);
        }
    }

    #[test]
    fn a_vector_may_be_worked_off_in_any_tiles(
        cuts in proptest::collection::vec(0..3000usize, 0..6),
        first in 0..1000u64,
    ) {
        for (backend, stream) in streams([3; 32], Sign::Sub) {
            let whole = masks_u32(&stream, first, 3000);
            let mut tiled = vec![0; 3000];
            let mut cuts = cuts.clone();
            cuts.extend([0, 3000]);
            cuts.sort_unstable();
            for ends in cuts.windows(2) {
                let tile = TileMut::W32(&mut tiled[ends[0]..ends[1]]);
                apply_masks(std::slice::from_ref(&stream), first + ends[0] as u64, tile);
            }
            prop_assert_eq!(&tiled, &whole, "{}", backend.name());
        }
    }
}
