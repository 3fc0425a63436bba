//! What each server computes by itself when products are verified: see [`verify`](crate::verify).
//!
//! Random factors are never held: their streams are expanded again where they are needed. Of what is opened there are two
//! numbers for each value, what a server says and what it knows; they become the opened value when the third one comes.

use std::sync::Arc;

use blindsum_crypto::kdf::hash;
use blindsum_crypto::mask::{MaskKey, MaskSeed, MaskStream, Sign};
use blindsum_crypto::secret::Secret;

use crate::arithmetic::{product, sum, triangle};
use crate::ledger::{And, Pending, Relation};
use crate::ring::{Flow, TILE};
use crate::vectors::lifted;
use crate::{Bits, Ring, Shares, Vectors};

/// Numbers that all three servers get to know at the same time, and that none of them chose.
pub(crate) struct Challenge {
    coin: [u8; 32],
    key: MaskKey,
}

impl Challenge {
    pub fn new(coin: [u8; 32]) -> Self {
        let key = MaskKey::new(MaskSeed::from(Secret::from(coin)));
        Self { coin, key }
    }

    /// 64-bit numbers for the relation with this number.
    pub fn words(&self, relation: usize, count: usize) -> Flow<u64> {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&(relation as u64).to_be_bytes());
        Flow::new(Arc::new(self.key.stream(nonce, Sign::Add)), count)
    }

    /// The same in the ring.
    pub fn numbers<R: Ring>(&self, relation: usize, count: usize) -> impl Iterator<Item = R> {
        self.words(relation, count).map(R::of)
    }

    /// A hash of one component of all checks.
    pub fn digest<R: Ring>(&self, numbers: &[R], word: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        R::write(numbers, &mut bytes);
        hash("mpc/zero", &[&self.coin, &bytes, &word.to_le_bytes()]).to_vec()
    }
}

/// Random factors: streams of a server's two keys.
pub(crate) struct Factors(pub Arc<MaskStream>, pub Arc<MaskStream>);

impl Factors {
    pub fn pairs<R: Ring>(&self, count: usize) -> impl Iterator<Item = (R, R)> {
        let flow = |stream: &Arc<MaskStream>| Flow::<R>::new(stream.clone(), count);
        flow(&self.0).zip(flow(&self.1))
    }
}

/// The random left factors, before the challenge is known.
pub(crate) struct Blinds<R> {
    /// Of each relation.
    pub factors: Vec<Factors>,
    /// c of all relations but those of vectors with each other; then, for these, one for each vector.
    pub products: Shares<R>,
    /// A word for each AND.
    pub words: Factors,
    /// c of all ANDs.
    pub word: [u64; 2],
}

/// Values that are about to be opened.
#[derive(Default)]
pub(crate) struct Masked<R> {
    /// The component that the next server lacks, as bytes.
    pub said: Vec<u8>,
    /// The components of each value that this server has.
    pub known: Vec<R>,
}

impl<R: Ring> Masked<R> {
    fn with_room(count: usize) -> Self {
        Self {
            said: Vec::with_capacity(count * R::BYTES),
            known: Vec::with_capacity(count),
        }
    }

    fn push(&mut self, (own, next): (R, R)) {
        R::write(&[own], &mut self.said);
        self.known.push(own.plus(next));
    }
}

/// Values that were opened, in the bytes in which they came.
pub(crate) struct Opened(Vec<u8>);

impl Opened {
    /// Combines a server's own components with received ones; `plus` adds the two.
    pub fn from<R: Ring>(known: Vec<R>, mut heard: Vec<u8>, plus: fn(R, R) -> R) -> Self {
        let mut bytes = Vec::with_capacity(TILE * R::BYTES);
        for (heard, known) in heard.chunks_mut(TILE * R::BYTES).zip(known.chunks(TILE)) {
            let values = R::read(heard).into_iter().zip(known);
            let values: Vec<R> = values.map(|(heard, known)| plus(heard, *known)).collect();
            bytes.clear();
            R::write(&values, &mut bytes);
            heard.copy_from_slice(&bytes);
        }
        Self(heard)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The values, of which a tile is in memory at a time.
    pub fn values<R: Ring>(&self) -> impl Iterator<Item = R> {
        self.0.chunks(TILE * R::BYTES).flat_map(R::read)
    }
}

/// What both components of a check are that must be 0 in sum.
pub(crate) struct Zero<R> {
    pub numbers: [Vec<R>; 2],
    pub word: [u64; 2],
}

impl<R: Ring> Relation<R> {
    /// How many random factors it takes, and how many values e has of it.
    pub fn width(&self) -> usize {
        match self {
            Self::Dots { y, .. } => y.len(),
            Self::Weighted { weights, .. } => weights.len(),
            Self::Gram { vectors, .. } => vectors.length(),
        }
    }

    /// This server's part of the products of the random factors with the right factors: added to `one`, or one for each
    /// vector.
    pub fn blind_products(&self, factors: &Factors, one: &mut R, parts: &mut Vec<R>) {
        let mut factors = factors.pairs::<R>(self.width());
        match self {
            Self::Dots { y, .. } | Self::Weighted { weights: y, .. } => {
                let products = factors.zip(y.pairs()).map(|(a, y)| product(a, y));
                *one = one.plus(sum(products));
            }
            Self::Gram { vectors, .. } => {
                let mut all = vec![R::ZERO; vectors.count()];
                for tile in 0..vectors.length().div_ceil(TILE) {
                    let factors: Vec<(R, R)> = factors.by_ref().take(TILE).collect();
                    for (row, part) in all.iter_mut().enumerate() {
                        let products = lifted(vectors, row, tile).zip(&factors);
                        *part = part.plus(sum(products.map(|(x, a)| product(x, *a))));
                    }
                }
                parts.extend(all);
            }
        }
    }

    /// e, before it is opened.
    fn mask(&self, number: usize, factors: &Factors, challenge: &Challenge, to: &mut Masked<R>) {
        let factors = factors.pairs::<R>(self.width());
        match self {
            Self::Dots { x, length, z, .. } => {
                let r = challenge.numbers::<R>(number, z.len());
                let r = r.flat_map(|r| std::iter::repeat_n(r, *length));
                for (((x, x_next), (a, a_next)), r) in x.pairs().zip(factors).zip(r) {
                    to.push((r.times(x).plus(a), r.times(x_next).plus(a_next)));
                }
            }
            Self::Weighted { vectors, z, .. } => {
                let r = challenge.numbers::<R>(number, z.len());
                let along = along(vectors, r).into_iter().zip(factors);
                along.for_each(|((x, x_next), (a, a_next))| {
                    to.push((x.plus(a), x_next.plus(a_next)))
                });
            }
            Self::Gram { vectors, .. } => {
                let r: Vec<R> = challenge.numbers(number, vectors.count()).collect();
                across(vectors, &r, factors, |e| to.push(e));
            }
        }
    }
}

/// Σ_t r_t x_ct for each vector c, both components.
fn along<R: Ring>(vectors: &Vectors, mut r: impl Iterator<Item = R>) -> Vec<(R, R)> {
    let mut sums = vec![(R::ZERO, R::ZERO); vectors.count()];
    for tile in 0..vectors.length().div_ceil(TILE) {
        let r: Vec<R> = r.by_ref().take(TILE).collect();
        for (row, to) in sums.iter_mut().enumerate() {
            for ((x, x_next), r) in lifted::<R>(vectors, row, tile).zip(&r) {
                *to = (to.0.plus(x.times(*r)), to.1.plus(x_next.times(*r)));
            }
        }
    }
    sums
}

/// Σ_c r_c x_c + a, both components, coordinate by coordinate.
fn across<R: Ring>(
    vectors: &Vectors,
    r: &[R],
    mut factors: impl Iterator<Item = (R, R)>,
    mut each: impl FnMut((R, R)),
) {
    for tile in 0..vectors.length().div_ceil(TILE) {
        let mut sums: Vec<(R, R)> = factors.by_ref().take(TILE).collect();
        for (row, r) in r.iter().enumerate() {
            for (to, (x, x_next)) in sums.iter_mut().zip(lifted::<R>(vectors, row, tile)) {
                *to = (to.0.plus(x.times(*r)), to.1.plus(x_next.times(*r)));
            }
        }
        sums.into_iter().for_each(&mut each);
    }
}

/// The bits of one side of all ANDs, each as a word of zeros or ones.
pub(crate) fn bits<R>(
    pending: &Pending<R>,
    side: impl Fn(&And) -> &Bits,
) -> impl Iterator<Item = (u64, u64)> {
    pending.ands.iter().flat_map(move |and| {
        let bits = side(and);
        let (words, width) = (bits.words(), bits.width());
        let whole = |word: u64, place: usize| (word >> place & 1).wrapping_neg();
        bits.pairs().enumerate().flat_map(move |(at, (own, next))| {
            let places = 0..(width - 64 * (at % words)).min(64);
            places.map(move |place| (whole(own, place), whole(next, place)))
        })
    })
}

/// Number of ANDs.
pub(crate) fn count_ands<R>(pending: &Pending<R>) -> usize {
    let ands = pending.ands.iter();
    ands.map(|and| and.x.width() * and.x.rows()).sum()
}

/// e of every relation, before it is opened.
pub(crate) fn masked<R: Ring>(
    pending: &Pending<R>,
    blinds: &Blinds<R>,
    challenge: &Challenge,
) -> Masked<R> {
    let relations = || pending.relations.iter();
    let mut all = Masked::with_room(relations().map(Relation::width).sum());
    for (number, (relation, factors)) in relations().zip(&blinds.factors).enumerate() {
        relation.mask(number, factors, challenge, &mut all);
    }
    all
}

/// e of every AND, before it is opened.
pub(crate) fn masked_words<R: Ring>(
    pending: &Pending<R>,
    blinds: &Blinds<R>,
    challenge: &Challenge,
) -> Masked<u64> {
    let count = count_ands(pending);
    let mut all = Masked::with_room(count);
    let x = bits(pending, |and| &and.x);
    let r = challenge.words(pending.relations.len(), count);
    let factors = blinds.words.pairs::<u64>(count);
    for (((x, x_next), (a, a_next)), r) in x.zip(factors).zip(r) {
        let (own, next) = (r & x ^ a, r & x_next ^ a_next);
        u64::write(&[own], &mut all.said);
        all.known.push(own ^ next);
    }
    all
}

/// What must be 0 of everything, component by component.
pub(crate) fn zeros<R: Ring>(
    pending: &Pending<R>,
    blinds: &Blinds<R>,
    challenge: &Challenge,
    e: &Opened,
    words: &Opened,
) -> Zero<R> {
    let mut numbers: [Vec<R>; 2] = Default::default();
    let (mut products, mut e) = (blinds.products.pairs(), e.values::<R>());
    let mut one = products.next().unwrap_or((R::ZERO, R::ZERO));
    for (number, relation) in pending.relations.iter().enumerate() {
        let mut e = e.by_ref().take(relation.width());
        match relation {
            Relation::Dots { y, z, .. } | Relation::Weighted { weights: y, z, .. } => {
                let r = challenge.numbers::<R>(number, z.len());
                for ((z, z_next), r) in z.pairs().zip(r) {
                    one = (one.0.plus(z.times(r)), one.1.plus(z_next.times(r)));
                }
                for ((y, y_next), e) in y.pairs().zip(e) {
                    one = (one.0.minus(y.times(e)), one.1.minus(y_next.times(e)));
                }
            }
            Relation::Gram { vectors, z } => {
                let r: Vec<R> = challenge.numbers(number, vectors.count()).collect();
                let shown = along(vectors, &mut e);
                for (row, (shown, c)) in shown.into_iter().zip(products.by_ref()).enumerate() {
                    let left = of_gram(z, &r, row);
                    numbers[0].push(left.0.plus(c.0).minus(shown.0));
                    numbers[1].push(left.1.plus(c.1).minus(shown.1));
                }
            }
        }
    }
    numbers[0].push(one.0);
    numbers[1].push(one.1);
    let word = zero_word(pending, blinds, challenge, words);
    Zero { numbers, word }
}

/// Σ_j r_j G_ij for row i, both components.
fn of_gram<R: Ring>(z: &Shares<R>, r: &[R], row: usize) -> (R, R) {
    let count = r.len();
    let places = (0..count).map(|other| triangle(count, row.min(other), row.max(other)));
    let row = z.at(places);
    let terms = row.pairs().zip(r);
    terms.fold((R::ZERO, R::ZERO), |sum, ((z, z_next), r)| {
        (sum.0.plus(z.times(*r)), sum.1.plus(z_next.times(*r)))
    })
}

/// The same for all ANDs.
fn zero_word<R: Ring>(
    pending: &Pending<R>,
    blinds: &Blinds<R>,
    challenge: &Challenge,
    words: &Opened,
) -> [u64; 2] {
    let r = challenge.words(pending.relations.len(), count_ands(pending));
    let (y, z) = (bits(pending, |and| &and.y), bits(pending, |and| &and.z));
    let all = r.zip(words.values::<u64>()).zip(y).zip(z);
    all.fold(blinds.word, |[own, next], (((r, e), y), z)| {
        [own ^ r & z.0 ^ e & y.0, next ^ r & z.1 ^ e & y.1]
    })
}
