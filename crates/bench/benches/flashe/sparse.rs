//! Sparse vectors: each party has a tenth of the coordinates, chosen without regard to the others.

use std::hint::black_box;

use blindsum_crypto::{kdf::Context, secret::Secret};
use blindsum_he::flashe::{
    Ciphertext, FlasheError, JobKey, KeyState, RoundKey, Scheme, Shape, Survivors,
    sparse::{EncryptedSparseSum, Participation, SparseMask, SparseSum},
};
use blindsum_math::words::{TileMut, Width};

use super::{LANES, Measure, PARTIES, ROUND};

/// What the operations need.
pub struct Sparse {
    key: JobKey,
    round: RoundKey,
    shape: Shape,
    masks: Vec<SparseMask>,
    ciphertexts: Vec<Ciphertext>,
    survivors: Survivors,
}

impl Sparse {
    pub fn new(scheme: Scheme) -> Self {
        let key = JobKey::from(Secret::from([7; 32]));
        let width = Width::new(20).expect("20 bits");
        let ranks: Vec<u32> = (0..PARTIES).collect();
        let mut setup = Sparse {
            round: key.round(ROUND, &Context([1; 32])),
            key,
            shape: Shape::new(scheme, width, LANES).expect("a short vector"),
            masks: ranks.iter().map(|&rank| tenth(rank)).collect(),
            ciphertexts: Vec::new(),
            survivors: Survivors::new(PARTIES, &ranks).expect("a set"),
        };
        setup.ciphertexts = ranks.iter().map(|&rank| setup.encrypt(rank)).collect();
        setup
    }

    fn encrypt(&self, rank: u32) -> Ciphertext {
        let mut state = KeyState::new(&self.key);
        let ticket = state.reserve(ROUND, rank, |_| Ok::<_, FlasheError>(()));
        let read = |places: &[u32], tile: TileMut<'_>| -> Result<(), FlasheError> {
            if let TileMut::W32(lanes) = tile {
                let pairs = lanes.iter_mut().zip(places);
                pairs.for_each(|(lane, place)| *lane = place & 0xffff);
            }
            Ok(())
        };
        let mask = &self.masks[rank as usize];
        let ticket = ticket.expect("an unused round");
        let encrypted = self.round.encrypt_sparse(ticket, self.shape, mask, read);
        encrypted.expect("a ticket of this round")
    }

    fn sum(&self) -> Vec<u8> {
        let sum = EncryptedSparseSum::new(self.shape.width(), LANES);
        let mut sum = sum.expect("few coordinates");
        for (mask, ciphertext) in self.masks.iter().zip(&self.ciphertexts) {
            sum.add(mask, ciphertext.as_bytes()).expect("of this shape");
        }
        sum.to_bytes()
    }

    fn decrypt(&self, sum: &[u8]) -> SparseSum {
        let decrypted = self
            .round
            .decrypt_sparse(self.shape, self.participation(), 2, sum);
        decrypted.expect("a sum of these parties")
    }

    fn participation(&self) -> Participation<'_> {
        Participation::new(&self.survivors, &self.masks).expect("a mask for each")
    }

    /// The operations by name.
    pub fn each(&self, mut measure: impl Measure) {
        let sum = self.sum();
        let permutation = || self.round.permutation(LANES).expect("few coordinates");
        let permuted = permutation();
        let mut nothing = || ();
        measure("sparse: draw the permutation", &mut nothing, &mut || {
            drop(black_box(permutation()));
        });
        measure("sparse: permute a mask", &mut nothing, &mut || {
            let places = permuted.permute(&self.masks[0]);
            drop(black_box(places.expect("of this shape")));
        });
        let bytes = self.masks[0].to_bytes();
        measure("sparse: write a mask", &mut nothing, &mut || {
            drop(black_box(self.masks[0].to_bytes()));
        });
        measure("sparse: read a mask", &mut nothing, &mut || {
            let mask = SparseMask::from_bytes(LANES, &bytes);
            drop(black_box(mask.expect("the bytes of a mask")));
        });
        measure("sparse: count masks", &mut nothing, &mut || {
            black_box(self.participation().mask_counts());
        });
        measure("sparse: encrypt", &mut nothing, &mut || {
            drop(black_box(self.encrypt(4)));
        });
        measure("sparse: add 10", &mut nothing, &mut || {
            drop(black_box(self.sum()))
        });
        measure("sparse: decrypt", &mut nothing, &mut || {
            drop(black_box(self.decrypt(&sum)));
        });
        let decrypted = self.decrypt(&sum);
        measure("sparse: restore the order", &mut nothing, &mut || {
            let restored = permuted.restore(&decrypted);
            drop(black_box(restored.expect("of this shape")));
        });
    }

    /// Masks to encrypt and decrypt, and bytes that a party sends.
    pub fn print_counts(&self) {
        let counts = self.participation().mask_counts();
        let (double, single) = (counts.double.decrypt, counts.single.decrypt);
        println!("sparse: masks to decrypt: {double} double, {single} single");
        let (mask, words) = (
            self.masks[0].to_bytes().len(),
            self.ciphertexts[0].as_bytes().len(),
        );
        let dense = self.shape.ciphertext_len();
        println!("sparse: {mask} bytes of mask and {words} of words, dense {dense}");
    }
}

/// About a tenth of the coordinates.
fn tenth(rank: u32) -> SparseMask {
    let mixed =
        |d: u32| (u64::from(d) + 1 + (u64::from(rank) << 33)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let chosen = |d: &u32| (mixed(*d) >> 40).is_multiple_of(10);
    let coordinates: Vec<u32> = (0..LANES as u32).filter(chosen).collect();
    SparseMask::new(LANES, &coordinates).expect("in order")
}
