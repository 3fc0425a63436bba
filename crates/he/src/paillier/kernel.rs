//! What is computed modulo one odd number: products, powers with one secret exponent, powers of one base. Written once,
//! over what the back ends have: Montgomery's multiplication of a block of numbers side by side.
//!
//! A block holds residues x in Montgomery form, x·R, or not: a product of blocks is x·y/R. No residue in a block need be
//! canonical; stored ones are.

use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

/// Bits of a window of a secret exponent that all numbers are raised to: a table for each number, so a small one.
const OWN_WINDOW: u32 = 4;

/// Blocks that one thread has at a time: they share what they read of a table.
const BLOCKS: usize = 8;

/// Montgomery's multiplication modulo one number, a block of numbers at a time, in a time that depends on no number.
pub(super) trait Kernel: Send + Sync + 'static {
    /// Numbers side by side.
    const LANES: usize;

    /// Bits of a window of a fixed base: a table for all numbers.
    const WINDOW: u32;

    /// `LANES` residues; wiped when dropped.
    type Block: Clone + Send + Sync;

    /// Powers of one base, for all windows of an exponent.
    type Table: Send + Sync;

    /// Words of a number.
    fn words(&self) -> usize;

    /// Writes numbers below the modulus, at least one, to a block; lanes that are left repeat them.
    fn load(&self, numbers: &[u64]) -> Self::Block;

    /// Writes numbers of twice as many words to a block, in Montgomery form.
    fn load_wide(&self, numbers: &[u64]) -> Self::Block;

    /// Writes as many canonical residues as there is room for.
    fn store(&self, block: &Self::Block, numbers: &mut [u64]);

    /// The number 1 in every lane.
    fn one(&self) -> &Self::Block;

    /// R² in every lane.
    fn r_squared(&self) -> &Self::Block;

    /// x ← x·y/R.
    fn multiply(&self, x: &mut Self::Block, y: &Self::Block);

    /// x ← x²/R.
    fn square(&self, x: &mut Self::Block);

    /// x ← the entry `digit` of a table whose entries are blocks, without telling which by time or address.
    fn choose(&self, x: &mut Self::Block, table: &[Self::Block], digit: u64);

    /// A table of residues as [`Kernel::store`] writes them: 2^`WINDOW` for each window.
    fn table(&self, residues: &[u64]) -> Self::Table;

    /// x ← in each lane the entry of its digit in one window, without telling which by time or address. There are
    /// `LANES` digits.
    fn look_up(&self, x: &mut Self::Block, table: &Self::Table, window: usize, digits: &[u8]);
}

/// What the scheme computes modulo one number. Numbers stand one behind the other.
pub(super) trait Arithmetic: Send + Sync {
    /// The product of vectors of numbers below the modulus, at each place; there is at least one vector.
    fn product(&self, vectors: &[&[u64]]) -> Vec<u64>;

    /// A number that shares with the modulus exactly the prime factors that one of these numbers shares with it.
    fn fold(&self, numbers: &[u64]) -> Vec<u64>;

    /// Numbers of twice as many words, each raised to a secret exponent.
    fn power(&self, numbers: &[u64], exponent: &[u64]) -> Zeroizing<Vec<u64>>;

    /// Powers of `base`, for exponents of so many bytes.
    fn powers(&self, base: &[u64], exponent_bytes: usize) -> Box<dyn Powers>;
}

/// Powers of one base.
pub(super) trait Powers: Send + Sync {
    /// Multiplies each factor by the base raised to a secret exponent, whose bytes start with the least significant.
    fn multiply(&self, factors: &mut [u64], exponents: &[u8]);
}

/// Arithmetic on a kernel.
pub(super) struct On<K>(pub K);

impl<K: Kernel + Clone> Arithmetic for On<K> {
    fn product(&self, vectors: &[&[u64]]) -> Vec<u64> {
        let kernel = &self.0;
        let mut out = vec![0; vectors[0].len()];
        let correction = correction(kernel, vectors.len());
        let step = K::LANES * kernel.words();
        out.par_chunks_mut(BLOCKS * step)
            .enumerate()
            .for_each(|(task, out)| {
                for (block, out) in out.chunks_mut(step).enumerate() {
                    let start = (task * BLOCKS + block) * step;
                    let mut parts = vectors.iter().map(|it| &it[start..start + out.len()]);
                    let mut product = kernel.load(parts.next().unwrap_or(&[]));
                    parts.for_each(|part| kernel.multiply(&mut product, &kernel.load(part)));
                    if vectors.len() > 1 {
                        kernel.multiply(&mut product, &correction);
                    }
                    kernel.store(&product, out);
                }
            });
        out
    }

    fn fold(&self, numbers: &[u64]) -> Vec<u64> {
        let kernel = &self.0;
        let words = kernel.words();
        let step = K::LANES * words;
        let fold = |numbers: &[u64], step: usize| {
            let mut blocks = numbers.chunks(step).map(|chunk| kernel.load(chunk));
            let mut product = blocks.next().expect("a number");
            blocks.for_each(|block| kernel.multiply(&mut product, &block));
            product
        };
        let products: Vec<Vec<u64>> = numbers
            .par_chunks(8 * BLOCKS * step)
            .map(|numbers| {
                let mut lanes = vec![0; step.min(numbers.len())];
                kernel.store(&fold(numbers, step), &mut lanes);
                lanes
            })
            .collect();
        let mut product = vec![0; words];
        kernel.store(&fold(&products.concat(), words), &mut product);
        product
    }

    fn power(&self, numbers: &[u64], exponent: &[u64]) -> Zeroizing<Vec<u64>> {
        let kernel = &self.0;
        let words = kernel.words();
        let mut out = Zeroizing::new(vec![0; numbers.len() / 2]);
        numbers
            .par_chunks(2 * K::LANES * words)
            .zip(out.par_chunks_mut(K::LANES * words))
            .for_each(|(numbers, out)| {
                let mut power = power(kernel, kernel.load_wide(numbers), exponent);
                kernel.multiply(&mut power, kernel.one());
                kernel.store(&power, out);
            });
        out
    }

    fn powers(&self, base: &[u64], exponent_bytes: usize) -> Box<dyn Powers> {
        let kernel = self.0.clone();
        let windows = (8 * exponent_bytes).div_ceil(K::WINDOW as usize);
        let table = kernel.table(&residues(&kernel, base, windows));
        Box::new(FixedBase {
            kernel,
            table,
            windows,
            exponent_bytes,
        })
    }
}

/// What takes the powers of R out of a product of so many factors: R to that number.
fn correction<K: Kernel>(kernel: &K, factors: usize) -> K::Block {
    let mut power = kernel.r_squared().clone();
    for _ in 2..factors {
        kernel.multiply(&mut power, kernel.r_squared());
    }
    power
}

/// A block in Montgomery form, raised to a secret exponent.
pub(super) fn power<K: Kernel>(kernel: &K, base: K::Block, exponent: &[u64]) -> K::Block {
    let mut one = kernel.one().clone();
    kernel.multiply(&mut one, kernel.r_squared());
    let mut table = vec![one, base];
    for entry in 2..1 << OWN_WINDOW {
        let mut next = table[entry - 1].clone();
        kernel.multiply(&mut next, &table[1]);
        table.push(next);
    }
    let mut result = table[0].clone();
    let mut factor = table[0].clone();
    for window in (0..64 * exponent.len() as u32 / OWN_WINDOW).rev() {
        for _ in 0..OWN_WINDOW {
            kernel.square(&mut result);
        }
        let at = window * OWN_WINDOW;
        let digit = exponent[(at / 64) as usize] >> (at % 64) & ((1 << OWN_WINDOW) - 1);
        kernel.choose(&mut factor, &table, digit);
        kernel.multiply(&mut result, &factor);
    }
    result
}

/// The table of a fixed base g: entry e of window j is g^(e·2^(w·j)), in Montgomery form.
fn residues<K: Kernel>(kernel: &K, base: &[u64], windows: usize) -> Vec<u64> {
    let words = kernel.words();
    let entries = 1 << K::WINDOW;
    let mut bases = vec![0; windows * words];
    let mut power = kernel.load(base);
    kernel.multiply(&mut power, kernel.r_squared());
    for base in bases.chunks_exact_mut(words) {
        kernel.store(&power, base);
        (0..K::WINDOW).for_each(|_| kernel.square(&mut power));
    }
    let mut one = kernel.one().clone();
    kernel.multiply(&mut one, kernel.r_squared());
    let mut all = vec![0; windows * entries * words];
    let table = all.par_chunks_mut(K::LANES * entries * words);
    table
        .zip(bases.par_chunks(K::LANES * words))
        .for_each(|(table, bases)| {
            let mut row = vec![0; bases.len()];
            let (mut power, base) = (one.clone(), kernel.load(bases));
            for entry in 0..entries {
                kernel.store(&power, &mut row);
                let places = table.chunks_exact_mut(words).skip(entry).step_by(entries);
                for (place, residue) in places.zip(row.chunks_exact(words)) {
                    place.copy_from_slice(residue);
                }
                kernel.multiply(&mut power, &base);
            }
        });
    all
}

/// Powers of one base on a kernel.
struct FixedBase<K: Kernel> {
    kernel: K,
    table: K::Table,
    windows: usize,
    exponent_bytes: usize,
}

impl<K: Kernel> Powers for FixedBase<K> {
    fn multiply(&self, factors: &mut [u64], exponents: &[u8]) {
        let step = K::LANES * self.kernel.words();
        factors
            .par_chunks_mut(BLOCKS * step)
            .zip(exponents.par_chunks(BLOCKS * K::LANES * self.exponent_bytes))
            .for_each(|(factors, exponents)| self.multiply_blocks(factors, exponents));
    }
}

impl<K: Kernel> FixedBase<K> {
    /// Window by window for all blocks.
    fn multiply_blocks(&self, factors: &mut [u64], exponents: &[u8]) {
        let kernel = &self.kernel;
        let step = K::LANES * kernel.words();
        let mut products: Vec<_> = factors.chunks(step).map(|it| kernel.load(it)).collect();
        let mut power = kernel.one().clone();
        let mut digits = Zeroizing::new(vec![0; K::LANES]);
        for window in 0..self.windows {
            let exponents = exponents.chunks(K::LANES * self.exponent_bytes);
            for (product, exponents) in products.iter_mut().zip(exponents) {
                let exponents = exponents.chunks_exact(self.exponent_bytes);
                for (digit, exponent) in digits.iter_mut().zip(exponents) {
                    *digit = digit_of(exponent, window as u32 * K::WINDOW, K::WINDOW);
                }
                kernel.look_up(&mut power, &self.table, window, &digits);
                kernel.multiply(product, &power);
            }
        }
        digits.zeroize();
        for (product, factors) in products.iter().zip(factors.chunks_mut(step)) {
            kernel.store(product, factors);
        }
    }
}

/// The digit of `window` bits that starts at bit `at` of a little-endian number.
fn digit_of(exponent: &[u8], at: u32, window: u32) -> u8 {
    let byte = |place: usize| u32::from(exponent.get(place).copied().unwrap_or(0));
    let place = at as usize / 8;
    let two = byte(place) | byte(place + 1) << 8;
    (two >> (at % 8) & ((1 << window) - 1)) as u8
}
