//! Laws of the scheme against a slow model, and the abuse cases.

mod abuse;
mod laws;
mod prepared;
mod sparse;

use aes::{
    Aes256Enc,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use blindsum_crypto::{
    kdf::{Context, derive32},
    secret::Secret,
};
use blindsum_math::words::{Tile, TileMut, Width, Words};

use super::*;

const CONTEXT: Context = Context([1; 32]);

fn job_key(byte: u8) -> JobKey {
    JobKey::from(Secret::from([byte; 32]))
}

fn shape(scheme: Scheme, bits: u32, lanes: usize) -> Shape {
    Shape::new(scheme, Width::new(bits).unwrap(), lanes).unwrap()
}

/// A ticket of a party that has just got the key.
fn ticket(key: &JobKey, round: u64, rank: u32) -> EncryptionTicket {
    let persist = |_: &[u8; KeyState::SAVED]| Ok::<_, FlasheError>(());
    KeyState::new(key).reserve(round, rank, persist).unwrap()
}

/// A reader of `words`, which writes junk above the width too.
fn reader(words: &Words) -> impl Fn(usize, TileMut<'_>) -> Result<(), FlasheError> + Sync {
    |first, tile| {
        let range = first..first + tile.len();
        match (words.tile(range), tile) {
            (Tile::W32(from), TileMut::W32(to)) => to.copy_from_slice(from),
            (Tile::W64(from), TileMut::W64(to)) => to.copy_from_slice(from),
            _ => panic!("tiles of another lane type"),
        }
        Ok(())
    }
}

fn encrypt(key: &JobKey, round: u64, rank: u32, shape: Shape, words: &Words) -> Ciphertext {
    let round_key = key.round(round, &CONTEXT);
    let ticket = ticket(key, round, rank);
    round_key.encrypt(ticket, shape, reader(words)).unwrap()
}

/// Words that depend on the label only, 15 of which do not wrap, with junk above bit b.
fn words(shape: Shape, label: u64) -> Words {
    let junk_and_word = u64::MAX ^ shape.width().mask() ^ (shape.width().mask() >> 4);
    let lane = |d: u64| (d + 1 + (label << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let lane = |d: u64| lane(d).rotate_right(20) & junk_and_word;
    let mut words = Words::zeros(shape.width(), shape.lanes());
    match words.tile_mut(0..shape.lanes()) {
        TileMut::W32(lanes) => (0..).zip(lanes).for_each(|(d, to)| *to = lane(d) as u32),
        TileMut::W64(lanes) => (0..).zip(lanes).for_each(|(d, to)| *to = lane(d)),
    }
    words
}

/// The sum of ciphertexts.
fn added(shape: Shape, ciphertexts: &[Ciphertext]) -> Vec<u8> {
    let ciphertexts: Vec<&[u8]> = ciphertexts.iter().map(Ciphertext::as_bytes).collect();
    sum(shape, &ciphertexts).unwrap()
}

/// F(i‖j‖d) from its definition.
fn mask(key: u8, round: u64, rank: u32, shape: Shape, lane: u64) -> u64 {
    let secret = derive32(&Secret::from([key; 32]), &CONTEXT, "flashe round", &[]);
    let lane_bytes: u64 = if shape.width().bits() <= 32 { 4 } else { 8 };
    let number = (lane * lane_bytes / 16) as u32;
    let mut block = [0; 16];
    block[..8].copy_from_slice(&round.to_be_bytes());
    block[8..12].copy_from_slice(&rank.to_be_bytes());
    block[12..].copy_from_slice(&number.to_be_bytes());
    Aes256Enc::new(secret.expose().into()).encrypt_block((&mut block).into());
    let start = (lane * lane_bytes % 16) as usize;
    let bytes = &block[start..start + lane_bytes as usize];
    let lane = bytes
        .iter()
        .rev()
        .fold(0, |lane, &byte| lane << 8 | u64::from(byte));
    lane & shape.width().mask()
}

/// A number of the streams that checks are made of, from its definition.
fn check_number(key: u8, purpose: u64, rank: u32, i: usize) -> u128 {
    let round_key = derive32(&Secret::from([key; 32]), &CONTEXT, "flashe round", &[]);
    let secret = derive32(&round_key, &CONTEXT, "flashe check", &[]);
    let mut block = [0; 16];
    block[..8].copy_from_slice(&purpose.to_be_bytes());
    block[8..12].copy_from_slice(&rank.to_be_bytes());
    block[12..].copy_from_slice(&(i as u32 / 2).to_be_bytes());
    Aes256Enc::new(secret.expose().into()).encrypt_block((&mut block).into());
    u128::from_le_bytes(block) >> (64 * (i % 2)) & u128::from(u64::MAX)
}

/// H(m) + τ H(contributors) and the pad, modulo the primes one by one. Entries are coordinate, word and number of
/// contributors.
fn check_from_definition(
    key: u8,
    rank: u32,
    width: Width,
    entries: &[(usize, u64, u64)],
) -> [u8; 16] {
    let coefficient = |purpose, i| check_number(key, purpose, 0, i) % (1 << 60);
    let tau = coefficient(3, 0);
    let of_prime = |p: u128, pad: u128| {
        let terms = entries.iter().map(|&(d, word, contributors)| {
            let (i, weight) = match width.fits_u32() {
                true => (d % 4096 / 2, d % 2 * 32),
                false => (d % 4096, 0),
            };
            let coefficient = coefficient(0, i) * coefficient(1, d / 4096) % p;
            let both = (u128::from(word) + u128::from(contributors) * tau % p) % p;
            (coefficient << weight) % p * both % p
        });
        terms.fold(pad % p, |sum, term| (sum + term) % p)
    };
    let pad = |k| check_number(key, 2, rank, k) | check_number(key, 2, rank, k + 1) << 64;
    let p = 1_u128 << 61;
    let both = of_prime(p - 1, pad(0)) | of_prime(p - 31, pad(2)) << 64;
    both.to_le_bytes()
}
