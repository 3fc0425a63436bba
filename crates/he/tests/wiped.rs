//! Keys, masks and words leave nothing behind on the heap.

#[path = "../../crypto/tests/inspector/mod.rs"]
mod inspector;

use blindsum_crypto::{
    kdf::{Context, derive32},
    mask::{MaskKey, MaskSeed, Sign, apply_masks},
    secret::Secret,
};
use blindsum_he::flashe::{
    EncryptionTicket, FlasheError, JobKey, KeyState, RoundKey, Scheme, Shape, Survivors,
    sparse::{Participation, SparseMask},
};
use blindsum_math::words::{TileMut, Width};
use inspector::left_behind;

const CONTEXT: Context = Context([1; 32]);
const ROUND: u64 = 5;
const RANK: u32 = 3;
const LANES: usize = 10_000;

fn canary() -> [u8; 32] {
    std::array::from_fn(|i| 0x5a ^ (7 * i) as u8)
}

fn job_key() -> JobKey {
    JobKey::from(Secret::from(canary()))
}

fn round_key() -> RoundKey {
    job_key().round(ROUND, &CONTEXT)
}

fn derived(labels: &[&str]) -> Secret<32> {
    let key = Secret::from(canary());
    labels
        .iter()
        .fold(key, |key, label| derive32(&key, &CONTEXT, label, &[]))
}

fn ticket() -> EncryptionTicket {
    let persist = |_: &[u8; KeyState::SAVED]| Ok::<_, FlasheError>(());
    KeyState::new(&job_key())
        .reserve(ROUND, RANK, persist)
        .expect("a new round")
}

/// Words 0x50000, 0x50001, ... below 2^20.
fn read(first: usize, tile: TileMut<'_>) -> Result<(), FlasheError> {
    if let TileMut::W32(lanes) = tile {
        (0x50000 + first as u32..)
            .zip(lanes)
            .for_each(|(word, lane)| *lane = word);
    }
    Ok(())
}

/// The first 16 bytes of the masks of the party.
fn masks() -> [u8; 16] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&ROUND.to_be_bytes());
    nonce[8..].copy_from_slice(&RANK.to_be_bytes());
    let key = MaskKey::new(MaskSeed::from(derived(&["flashe round"])));
    let mut lanes = [0; 4];
    apply_masks(&[key.stream(nonce, Sign::Add)], 0, TileMut::W32(&mut lanes));
    bytes_of(lanes)
}

/// The first two coefficients of the check.
fn coefficients() -> [u8; 16] {
    let key = MaskKey::new(MaskSeed::from(derived(&["flashe round", "flashe check"])));
    let mut numbers = [0; 2];
    apply_masks(
        &[key.stream([0; 12], Sign::Add)],
        0,
        TileMut::W64(&mut numbers),
    );
    let [first, second] = numbers.map(|number| u128::from(number % (1 << 60)));
    (first | second << 64).to_le_bytes()
}

fn bytes_of(lanes: [u32; 4]) -> [u8; 16] {
    let number = lanes
        .into_iter()
        .rev()
        .fold(0, |number, lane| number << 32 | u128::from(lane));
    number.to_le_bytes()
}

/// One test, because there is one allocator for all threads.
#[test]
fn nothing_is_left_behind() {
    let shape = Shape::new(Scheme::Single, Width::new(20).expect("20 bits"), LANES);
    let shape = shape.expect("few lanes");
    let prepared = || {
        let key = round_key();
        key.prepare_encryption(RANK, shape, usize::MAX)
            .expect("a rank");
        key
    };
    for needle in [masks(), coefficients()] {
        assert_eq!(
            left_behind(&needle, || Box::new(needle)),
            1,
            "what is not wiped is seen"
        );
    }
    assert_eq!(left_behind(&canary(), job_key), 0);
    for labels in [
        &["flashe round"][..],
        &["flashe round", "flashe check"],
        &["flashe round", "flashe permutation"],
    ] {
        let key = *derived(labels).expose();
        assert_eq!(left_behind(&key, round_key), 0, "{labels:?}");
    }
    assert_eq!(left_behind(&coefficients(), round_key), 0);
    assert_eq!(left_behind(&masks(), prepared), 0);

    let places = round_key().permutation(LANES).expect("few coordinates");
    let first = bytes_of([0, 1, 2, 3].map(|place| places.coordinate(place)));
    let draw = || round_key().permutation(LANES).expect("few coordinates");
    assert_eq!(left_behind(&first, draw), 0);

    let words = bytes_of([0, 1, 2, 3].map(|d| 0x50000 + d));
    for needle in [words, masks()] {
        let encrypt = || {
            prepared()
                .encrypt(ticket(), shape, read)
                .expect("of this round")
        };
        assert_eq!(left_behind(&needle, encrypt), 0);
        let all = SparseMask::new(LANES, &(0..LANES as u32).collect::<Vec<_>>()).expect("in order");
        let read = |coordinates: &[u32], tile: TileMut<'_>| read(coordinates[0] as usize, tile);
        let encrypt = || {
            round_key()
                .encrypt_sparse(ticket(), shape, &all, read)
                .expect("of this round")
        };
        assert_eq!(left_behind(&needle, encrypt), 0);
    }
    words_of_too_few_parties(shape, &words);
}

/// What only one party has, while two are asked for, is not handed out and not left behind.
fn words_of_too_few_parties(shape: Shape, words: &[u8; 16]) {
    let all = SparseMask::new(LANES, &(0..LANES as u32).collect::<Vec<_>>()).expect("in order");
    let masks = [all];
    let read = |coordinates: &[u32], tile: TileMut<'_>| read(coordinates[0] as usize, tile);
    let sent = round_key().encrypt_sparse(ticket(), shape, &masks[0], read);
    let sent = sent.expect("of this round").into_bytes();
    let survivors = Survivors::new(4, &[RANK]).expect("a set");
    let participation = Participation::new(&survivors, &masks).expect("a mask for each");
    let decrypt = |minimum| {
        let sum = round_key().decrypt_sparse(shape, participation, minimum, &sent);
        sum.expect("the sum of one")
    };
    assert!(
        left_behind(words, || decrypt(1)) > 0,
        "the result is its owner's to wipe"
    );
    assert_eq!(left_behind(words, || decrypt(2)), 0);
}
