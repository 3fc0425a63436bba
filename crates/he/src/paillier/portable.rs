//! The backend for every machine, one number of `W` words at a time: multiplication is [ours](super::montgomery), all else
//! of `crypto-bigint`.

use crypto_bigint::Uint;
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::kernel::Kernel;
use super::montgomery::Modulus;

/// A modulus of `W` words.
#[derive(Clone)]
pub(super) struct Portable<const W: usize> {
    params: FixedMontyParams<W>,
    modulus: Modulus<W>,
    one: Residue<W>,
    r_squared: Residue<W>,
}

/// One residue; canonical.
#[derive(Clone, ZeroizeOnDrop)]
pub(super) struct Residue<const W: usize>([u64; W]);

impl<const W: usize> Drop for Portable<W> {
    fn drop(&mut self) {
        self.params.zeroize();
    }
}

impl<const W: usize> Portable<W> {
    /// Arithmetic modulo an odd number of `W` words.
    pub fn new(modulus: &[u64]) -> Self {
        let modulus = uint::<W>(modulus).to_odd().expect_copied("an odd modulus");
        let params = FixedMontyParams::new(modulus);
        Self {
            one: Residue(Uint::ONE.to_words()),
            r_squared: Residue(params.r2().to_words()),
            modulus: Modulus::new(modulus.as_ref().to_words()),
            params,
        }
    }
}

/// The number with these words, which must be `W`.
pub(super) fn uint<const W: usize>(words: &[u64]) -> Uint<W> {
    Uint::from_words(words.try_into().expect("as many words as asked for"))
}

impl<const W: usize> Kernel for Portable<W> {
    const LANES: usize = 1;
    const WINDOW: u32 = 6;

    type Block = Residue<W>;
    type Table = Vec<[u64; W]>;

    fn words(&self) -> usize {
        W
    }

    fn load(&self, numbers: &[u64]) -> Residue<W> {
        Residue(numbers.try_into().expect("one number"))
    }

    fn load_wide(&self, numbers: &[u64]) -> Residue<W> {
        let (low, high) = numbers.split_at(W);
        let wide = (uint(low), uint(high));
        let reduced = Uint::rem_wide(wide, self.params.modulus().as_nz_ref());
        let form = FixedMontyForm::new(&reduced, &self.params);
        Residue(form.as_montgomery().to_words())
    }

    fn store(&self, block: &Residue<W>, numbers: &mut [u64]) {
        numbers.copy_from_slice(&block.0);
    }

    fn one(&self) -> &Residue<W> {
        &self.one
    }

    fn r_squared(&self) -> &Residue<W> {
        &self.r_squared
    }

    fn multiply(&self, x: &mut Residue<W>, y: &Residue<W>) {
        x.0 = self.modulus.multiply(&x.0, &y.0);
    }

    fn square(&self, x: &mut Residue<W>) {
        x.0 = self.modulus.multiply(&x.0, &x.0);
    }

    fn choose(&self, x: &mut Residue<W>, table: &[Residue<W>], digit: u64) {
        x.0 = scan(table.iter().map(|entry| &entry.0), digit);
    }

    fn table(&self, residues: &[u64]) -> Vec<[u64; W]> {
        residues.as_chunks().0.to_vec()
    }

    fn look_up(&self, x: &mut Residue<W>, table: &Vec<[u64; W]>, window: usize, digits: &[u8]) {
        let entries = 1 << Self::WINDOW;
        let table = &table[window * entries..][..entries];
        x.0 = scan(table.iter(), u64::from(digits[0]));
    }
}

/// The entry at a place: all of them are read.
fn scan<'a, const W: usize>(entries: impl Iterator<Item = &'a [u64; W]>, digit: u64) -> [u64; W] {
    let mut chosen = [0; W];
    for (place, entry) in entries.enumerate() {
        let mask = u64::from((place as u64).ct_eq(&digit).unwrap_u8()).wrapping_neg();
        for (chosen, word) in chosen.iter_mut().zip(entry) {
            *chosen |= word & mask;
        }
    }
    chosen
}
