//! Agreement with the slow models `vectors/model/flashe.py` and `flashe_sparse.py`, through the public interface only.

#[path = "../../../vectors/support.rs"]
#[allow(dead_code)]
mod support;

use blindsum_crypto::{
    kdf::{Context, hash},
    secret::Secret,
};
use blindsum_he::flashe::{
    EncryptionTicket, FlasheError, HighWaterMark, JobKey, KeyState, RoundKey, Scheme, Shape,
    Survivors,
    sparse::{EncryptedSparseSum, Participation, SparseMask},
    sum,
};
use blindsum_math::words::{Tile, TileMut, Width, Words};
use serde::Deserialize;
use support::{Hex, load};

const FLASHE: &str = include_str!("../../../vectors/flashe.json");
const SPARSE: &str = include_str!("../../../vectors/flashe_sparse.json");

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
    job_data: Hex,
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

#[derive(Deserialize)]
struct SparseRound {
    scheme: String,
    bits: u32,
    lanes: usize,
    parties: u32,
    minimum: u32,
    round: u64,
    key: Hex,
    context: Hex,
    permutation: Vec<u32>,
    uploads: Vec<SparseUpload>,
    mask_counts: Counts,
    sum: Hex,
    kept: Vec<u32>,
    decrypted: Vec<u64>,
    contributors: Vec<u32>,
}

#[derive(Deserialize)]
struct SparseUpload {
    rank: u32,
    coordinates: Vec<u32>,
    mask: Hex,
    words: Vec<u64>,
    ciphertext: Hex,
}

#[derive(Deserialize)]
struct Counts {
    double: Count,
    single: Count,
}

#[derive(Deserialize)]
struct Count {
    encrypt: u64,
    decrypt: u64,
}

fn shape_of(scheme: &str, bits: u32, lanes: usize) -> Shape {
    let schemes = [Scheme::Single, Scheme::Double];
    let scheme = schemes.into_iter().find(|s| s.name() == scheme);
    Shape::new(scheme.unwrap(), Width::new(bits).unwrap(), lanes).unwrap()
}

impl Round {
    fn key(&self) -> JobKey {
        JobKey::from(Secret::from(self.key.array()))
    }

    fn shape(&self) -> Shape {
        shape_of(&self.scheme, self.bits, self.lanes)
    }
}

/// Encrypts as `upload` says and compares.
fn check_upload(round: &Round, key: &RoundKey, upload: &Upload) {
    let shape = round.shape();
    let mut state = KeyState::new(&round.key());
    let mut saved = Vec::new();
    let ticket = state.reserve(round.round, upload.rank, |bytes| {
        saved.extend_from_slice(bytes);
        Ok::<_, FlasheError>(())
    });
    assert_eq!(saved, round.state.0);

    let words = Words::from_values(shape.width(), &upload.words).unwrap();
    let read = |first: usize, tile: TileMut<'_>| {
        match (words.tile(first..first + tile.len()), tile) {
            (Tile::W32(from), TileMut::W32(to)) => to.copy_from_slice(from),
            (Tile::W64(from), TileMut::W64(to)) => to.copy_from_slice(from),
            _ => panic!("tiles of another lane type"),
        }
        Ok::<_, FlasheError>(())
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
        let data = job_key.storage_key().open(b"header", &round.job_data.0);
        let label = format!("flashe/{}/{}", round.scheme, round.bits);
        assert_eq!(data.unwrap()[..], *label.as_bytes());

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

/// Vectors of several tiles, of whose ciphertexts the model gives a digest.
#[test]
fn long_vectors() {
    #[derive(Deserialize)]
    struct Long {
        scheme: String,
        bits: u32,
        lanes: usize,
        rank: u32,
        round: u64,
        key: Hex,
        context: Hex,
        packed_hash: Hex,
        check: Hex,
    }
    for long in load::<Long>(FLASHE, "long") {
        let shape = shape_of(&long.scheme, long.bits, long.lanes);
        let job_key = JobKey::from(Secret::from(long.key.array()));
        let key = job_key.round(long.round, &Context(long.context.array()));
        let ticket =
            KeyState::new(&job_key).reserve(long.round, long.rank, |_| Ok::<_, FlasheError>(()));
        let read = |first: usize, tile: TileMut<'_>| {
            match tile {
                TileMut::W32(to) => (first as u32..)
                    .zip(to)
                    .for_each(|(d, to)| *to = d.wrapping_mul(d)),
                TileMut::W64(to) => (first as u64..).zip(to).for_each(|(d, to)| *to = d * d),
            }
            Ok::<_, FlasheError>(())
        };
        let ciphertext = key.encrypt(ticket.unwrap(), shape, read).unwrap();
        let (packed, check) = ciphertext.as_bytes().split_at(shape.packed_len());
        assert_eq!(check, long.check.0);
        assert_eq!(hash("packed words", &[packed]), long.packed_hash.array());
    }
}

/// The upload of a sparse round as computed here, compared with the model's; its mask.
fn check_sparse_upload(
    round: &SparseRound,
    key: &RoundKey,
    ticket: EncryptionTicket,
    upload: &SparseUpload,
) -> SparseMask {
    let shape = shape_of(&round.scheme, round.bits, round.lanes);
    let permutation = key.permutation(round.lanes).unwrap();
    let natural = SparseMask::new(round.lanes, &upload.coordinates).unwrap();
    let (mask, _) = permutation.permute(&natural).unwrap();
    assert_eq!(mask.to_bytes(), upload.mask.0);
    assert!(SparseMask::from_bytes(round.lanes, &upload.mask.0).unwrap() == mask);
    let mut words = upload.words.iter();
    let read = |_: &[u32], tile: TileMut<'_>| {
        match tile {
            TileMut::W32(to) => to
                .iter_mut()
                .zip(&mut words)
                .for_each(|(to, w)| *to = *w as u32),
            TileMut::W64(to) => to.iter_mut().zip(&mut words).for_each(|(to, w)| *to = *w),
        }
        Ok::<_, FlasheError>(())
    };
    let ciphertext = key.encrypt_sparse(ticket, shape, &mask, read).unwrap();
    assert_eq!(ciphertext.as_bytes(), upload.ciphertext.0);
    mask
}

#[test]
fn sparse_rounds() {
    for round in load::<SparseRound>(SPARSE, "rounds") {
        let job_key = JobKey::from(Secret::from(round.key.array()));
        let key = job_key.round(round.round, &Context(round.context.array()));
        let permutation = key.permutation(round.lanes).unwrap();
        let coordinates = (0..round.lanes as u32).map(|place| permutation.coordinate(place));
        assert_eq!(coordinates.collect::<Vec<_>>(), round.permutation);

        let shape = shape_of(&round.scheme, round.bits, round.lanes);
        let mut sum = EncryptedSparseSum::new(shape.width(), round.lanes).unwrap();
        let mut masks = Vec::new();
        for upload in &round.uploads {
            let mut state = KeyState::new(&job_key);
            let ticket = state.reserve(round.round, upload.rank, |_| Ok::<_, FlasheError>(()));
            let mask = check_sparse_upload(&round, &key, ticket.unwrap(), upload);
            sum.add(&mask, &upload.ciphertext.0).unwrap();
            masks.push(mask);
        }
        assert_eq!(sum.to_bytes(), round.sum.0);

        let ranks: Vec<u32> = round.uploads.iter().map(|upload| upload.rank).collect();
        let survivors = Survivors::new(round.parties, &ranks).unwrap();
        let participation = Participation::new(&survivors, &masks).unwrap();
        let counts = participation.mask_counts();
        let pairs = [
            (counts.double, round.mask_counts.double),
            (counts.single, round.mask_counts.single),
        ];
        for (got, expected) in pairs {
            assert_eq!(
                (got.encrypt, got.decrypt),
                (expected.encrypt, expected.decrypt)
            );
        }
        let sum = key
            .decrypt_sparse(shape, participation, round.minimum, &round.sum.0)
            .unwrap();
        let mut words = vec![0; round.lanes];
        for (&d, &word) in round.kept.iter().zip(&round.decrypted) {
            words[d as usize] = word;
        }
        assert_eq!(sum.words().iter().collect::<Vec<_>>(), words);
        let counts = round.kept.iter().map(|&d| sum.contributors()[d as usize]);
        assert_eq!(counts.collect::<Vec<_>>(), round.contributors);
    }
}
