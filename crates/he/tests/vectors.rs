//! Agreement with the slow model `vectors/model/flashe.py`, through the public interface only.

#[path = "../../../vectors/support.rs"]
#[allow(dead_code)]
mod support;

use blindsum_crypto::{kdf::Context, secret::Secret};
use blindsum_he::{
    HeError,
    flashe::{HighWaterMark, JobKey, KeyState, RoundKey, Scheme, Shape, Survivors, sum},
};
use blindsum_math::words::{Tile, TileMut, Width, Words};
use serde::Deserialize;
use support::{Hex, load};

const FLASHE: &str = include_str!("../../../vectors/flashe.json");

#[derive(Deserialize)]
struct Round {
    scheme: String,
    bits: u32,
    lanes: usize,
    parties: u32,
    round: u64,
    key: Hex,
    context: Hex,
    key_id: Hex,
    confirmation: Hex,
    state: Hex,
    uploads: Vec<Upload>,
    sum: Hex,
    decrypted: Vec<u64>,
}

#[derive(Deserialize)]
struct Upload {
    rank: u32,
    words: Vec<u64>,
    ciphertext: Hex,
}

impl Round {
    fn key(&self) -> JobKey {
        JobKey::from(Secret::from(self.key.array()))
    }

    fn shape(&self) -> Shape {
        let scheme = [Scheme::Single, Scheme::Double];
        let scheme = scheme.into_iter().find(|s| s.name() == self.scheme);
        let width = Width::new(self.bits).unwrap();
        Shape::new(scheme.unwrap(), width, self.lanes).unwrap()
    }
}

/// Encrypts as `upload` says and compares.
fn check_upload(round: &Round, key: &RoundKey, upload: &Upload) {
    let shape = round.shape();
    let mut state = KeyState::new(&round.key());
    let mut saved = Vec::new();
    let ticket = state.reserve(round.round, upload.rank, |bytes| {
        saved.extend_from_slice(bytes);
        Ok::<_, HeError>(())
    });
    assert_eq!(saved, round.state.0);

    let words = Words::from_values(shape.width(), &upload.words).unwrap();
    let read = |first: usize, tile: TileMut<'_>| {
        match (words.tile(first..first + tile.len()), tile) {
            (Tile::W32(from), TileMut::W32(to)) => to.copy_from_slice(from),
            (Tile::W64(from), TileMut::W64(to)) => to.copy_from_slice(from),
            _ => panic!("tiles of another lane type"),
        }
        Ok::<_, HeError>(())
    };
    let ciphertext = key.encrypt(ticket.unwrap(), shape, read).unwrap();
    assert_eq!(ciphertext.as_bytes(), upload.ciphertext.0);
}

#[test]
fn rounds() {
    for round in load::<Round>(FLASHE, "rounds") {
        let job_key = round.key();
        let context = Context(round.context.array());
        assert_eq!(job_key.id().0[..], round.key_id.0);
        assert_eq!(job_key.confirmation(&context)[..], round.confirmation.0);
        let restored = KeyState::restore(&job_key, &round.state.0, HighWaterMark::ZERO).unwrap();
        assert_eq!(restored.mark(), HighWaterMark::after(round.round).unwrap());

        let key = job_key.round(round.round, &context);
        round
            .uploads
            .iter()
            .for_each(|upload| check_upload(&round, &key, upload));
        let ciphertexts = round.uploads.iter().map(|u| &u.ciphertext.0[..]);
        let added = sum(round.shape(), &ciphertexts.collect::<Vec<_>>()).unwrap();
        assert_eq!(added, round.sum.0);
        let ranks: Vec<u32> = round.uploads.iter().map(|upload| upload.rank).collect();
        let survivors = Survivors::new(round.parties, &ranks).unwrap();
        let words = key.decrypt(round.shape(), &survivors, &added).unwrap();
        assert_eq!(words.iter().collect::<Vec<_>>(), round.decrypted);
    }
}
