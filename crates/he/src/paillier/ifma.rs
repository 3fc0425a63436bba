//! The backend for AVX-512 with IFMA: eight numbers side by side, in limbs of 52 bits.
//!
//! A block has one register for each limb. R = 2^(52·`L`) is at least 2^12 times the modulus m. So a product of residues
//! below 4m is below 2m before any subtraction, and only [`Kernel::store`] subtracts. A column of a product gets at most
//! 4·`L` terms below 2^52, which stay below 2^64 for `L` < 1024: carries are passed on once, at the end.
//!
//! No branch, address or instruction with a varying time depends on a number or a digit: tables are read as a whole.

use core::arch::x86_64::*;

use crypto_bigint::Uint;
use zeroize::{DefaultIsZeroes, ZeroizeOnDrop, Zeroizing};

use super::kernel::Kernel;
use super::portable::uint;

const LIMB_BITS: usize = 52;
const LIMB: u64 = (1 << LIMB_BITS) - 1;

/// Words of the widest number.
const MAX_WORDS: usize = 96;

/// One limb of each of eight numbers.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Lanes([u64; 8]);

impl DefaultIsZeroes for Lanes {}

impl Lanes {
    #[inline(always)]
    fn get(&self) -> __m512i {
        // SAFETY: 64 bytes at a multiple of 64; only called where the instructions are there.
        unsafe { _mm512_load_si512(self.0.as_ptr().cast()) }
    }

    #[inline(always)]
    fn set(&mut self, lanes: __m512i) {
        // SAFETY: 64 bytes at a multiple of 64; only called where the instructions are there.
        unsafe { _mm512_store_si512(self.0.as_mut_ptr().cast(), lanes) }
    }
}

/// Eight residues of `L` limbs; below 4m, every limb below 2^52.
#[derive(Clone, ZeroizeOnDrop)]
pub(super) struct Block<const L: usize>([Lanes; L]);

/// A modulus of `W` words, in `L` limbs. Whoever has one has a machine with the instructions.
#[derive(Clone, ZeroizeOnDrop)]
pub(super) struct Ifma<const L: usize, const W: usize> {
    modulus: Block<L>,
    /// −1/m mod 2^52.
    inverse: u64,
    one: Block<L>,
    r_squared: Block<L>,
    r_cubed: Block<L>,
}

/// Whether this machine has the instructions.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma")
}

impl<const L: usize, const W: usize> Ifma<L, W> {
    /// Arithmetic modulo an odd number of `W` words.
    ///
    /// # Panics
    /// If the machine cannot.
    pub fn new(modulus: &[u64]) -> Self {
        const { assert!(LIMB_BITS * L >= 64 * W + 12 && L < 1024) };
        assert!(is_available(), "a machine with AVX-512 IFMA");
        let odd = uint::<W>(modulus).to_odd().expect_copied("an odd modulus");
        // 2^(2·52·L), by doubling.
        let doubled = (0..2 * LIMB_BITS * L)
            .fold(Uint::<W>::ONE, |power, _| power.double_mod(odd.as_nz_ref()));
        // Newton's iteration doubles the bits that are right: 3, 6, 12, 24, 48, 96.
        let inverse = (0..5).fold(modulus[0], |inverse, _| {
            inverse.wrapping_mul(2u64.wrapping_sub(modulus[0].wrapping_mul(inverse)))
        });
        let mut this = Self {
            modulus: load(modulus, W, 0),
            inverse: inverse.wrapping_neg() & LIMB,
            one: load(Uint::<W>::ONE.as_words(), W, 0),
            r_squared: load(doubled.as_words(), W, 0),
            r_cubed: load(doubled.as_words(), W, 0),
        };
        let mut r_cubed = this.r_squared.clone();
        this.square(&mut r_cubed);
        this.r_cubed = r_cubed;
        this
    }
}

/// Limbs from limb `first` on of up to eight numbers as they stand; lanes that are left repeat them.
fn load<const L: usize>(numbers: &[u64], each: usize, first: usize) -> Block<L> {
    let mut block = Block([Lanes::default(); L]);
    // SAFETY: whoever loads has seen that the machine has the instructions.
    unsafe { cut(&mut block.0, numbers, each, first) };
    block
}

/// Words of 64 bits as limbs of 52.
#[target_feature(enable = "avx512f,avx512ifma")]
fn cut<const L: usize>(limbs: &mut [Lanes; L], numbers: &[u64], each: usize, first: usize) {
    // So many that no limb of the widest number lies behind them.
    let mut words = Zeroizing::new([Lanes::default(); MAX_WORDS + 2]);
    let mut rows = numbers.chunks_exact(each).cycle();
    for lane in 0..8 {
        for (words, word) in words.iter_mut().zip(rows.next().unwrap_or(&[])) {
            words.0[lane] = *word;
        }
    }
    let limb = _mm512_set1_epi64(LIMB as i64);
    for (at, out) in limbs.iter_mut().enumerate() {
        let (word, shift) = ((first + at) * LIMB_BITS / 64, (first + at) * LIMB_BITS % 64);
        let (lower, upper) = (words[word].get(), words[word + 1].get());
        let lower = _mm512_srlv_epi64(lower, _mm512_set1_epi64(shift as i64));
        // A shift by 64 gives 0.
        let upper = _mm512_sllv_epi64(upper, _mm512_set1_epi64(64 - shift as i64));
        out.set(_mm512_and_si512(_mm512_or_si512(lower, upper), limb));
    }
}

/// Limbs of 52 bits, each below 2^52, as words of 64: up to eight numbers of `W` words.
#[target_feature(enable = "avx512f,avx512ifma")]
fn join<const L: usize, const W: usize>(limbs: &[Lanes; L], numbers: &mut [u64]) {
    let mut words = Zeroizing::new([Lanes::default(); W]);
    let at = |limb: usize| limbs.get(limb).map_or(_mm512_setzero_si512(), Lanes::get);
    for (word, out) in words.iter_mut().enumerate() {
        let (limb, shift) = (word * 64 / LIMB_BITS, (word * 64 % LIMB_BITS) as i64);
        let low = _mm512_srlv_epi64(at(limb), _mm512_set1_epi64(shift));
        let middle = _mm512_sllv_epi64(at(limb + 1), _mm512_set1_epi64(52 - shift));
        // A shift by 64 or more gives 0.
        let high = _mm512_sllv_epi64(at(limb + 2), _mm512_set1_epi64(104 - shift));
        out.set(_mm512_or_si512(_mm512_or_si512(low, middle), high));
    }
    for (lane, number) in numbers.chunks_exact_mut(W).enumerate() {
        for (word, words) in number.iter_mut().zip(words.iter()) {
            *word = words.0[lane];
        }
    }
}

/// The columns of a product, from the lowest that is not done.
type Columns<const L: usize> = [__m512i; L];

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn low(sum: __m512i, x: __m512i, y: __m512i) -> __m512i {
    _mm512_madd52lo_epu64(sum, x, y)
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn high(sum: __m512i, x: __m512i, y: __m512i) -> __m512i {
    _mm512_madd52hi_epu64(sum, x, y)
}

/// x·y/R, below 2m.
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply<const L: usize>(x: &mut [Lanes; L], y: &[Lanes; L], m: &[Lanes; L], inverse: u64) {
    let inverse = _mm512_set1_epi64(inverse as i64);
    let mut columns = [_mm512_setzero_si512(); L];
    for row in (0..L - L % 2).step_by(2) {
        two_rows(
            &mut columns,
            x,
            m,
            [y[row].get(), y[row + 1].get()],
            inverse,
        );
    }
    if L % 2 == 1 {
        one_row(&mut columns, x, m, y[L - 1].get(), inverse);
    }
    carry(x, &columns);
}

/// Adds x·y for two limbs of y, and the multiple of m that makes two limbs vanish.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn two_rows<const L: usize>(
    columns: &mut Columns<L>,
    x: &[Lanes; L],
    m: &[Lanes; L],
    y: [__m512i; 2],
    inverse: __m512i,
) {
    let zero = _mm512_setzero_si512();
    let (mut x2, mut m2) = (x[0].get(), m[0].get());
    let (mut x1, mut m1) = (x[1].get(), m[1].get());
    let first = low(columns[0], x2, y[0]);
    let q0 = low(zero, first, inverse);
    let carry = _mm512_srli_epi64::<52>(low(first, m2, q0));
    let ours = high(low(low(columns[1], x1, y[0]), x2, y[1]), x2, y[0]);
    let theirs = high(low(carry, m1, q0), m2, q0);
    let second = _mm512_add_epi64(ours, theirs);
    let q1 = low(zero, second, inverse);
    let mut carry = _mm512_srli_epi64::<52>(low(second, m2, q1));
    for at in 2..L {
        let (x0, m0) = (x[at].get(), m[at].get());
        let ours = low(low(columns[at], x0, y[0]), x1, y[1]);
        let ours = high(high(ours, x1, y[0]), x2, y[1]);
        let theirs = low(low(carry, m0, q0), m1, q1);
        let theirs = high(high(theirs, m1, q0), m2, q1);
        columns[at - 2] = _mm512_add_epi64(ours, theirs);
        carry = zero;
        (x2, x1, m2, m1) = (x1, x0, m1, m0);
    }
    let ours = high(high(low(zero, x1, y[1]), x1, y[0]), x2, y[1]);
    let theirs = high(high(low(zero, m1, q1), m1, q0), m2, q1);
    columns[L - 2] = _mm512_add_epi64(ours, theirs);
    columns[L - 1] = high(high(zero, x1, y[1]), m1, q1);
}

/// As [`two_rows`], for one limb of y.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn one_row<const L: usize>(
    columns: &mut Columns<L>,
    x: &[Lanes; L],
    m: &[Lanes; L],
    y: __m512i,
    inverse: __m512i,
) {
    let zero = _mm512_setzero_si512();
    let (mut x1, mut m1) = (x[0].get(), m[0].get());
    let first = low(columns[0], x1, y);
    let q = low(zero, first, inverse);
    let mut carry = _mm512_srli_epi64::<52>(low(first, m1, q));
    for at in 1..L {
        let (x0, m0) = (x[at].get(), m[at].get());
        let ours = high(low(columns[at], x0, y), x1, y);
        columns[at - 1] = _mm512_add_epi64(ours, high(low(carry, m0, q), m1, q));
        carry = zero;
        (x1, m1) = (x0, m0);
    }
    columns[L - 1] = high(high(zero, x1, y), m1, q);
}

/// x²/R, below 2m, for an even number of limbs: products of different limbs are computed once and doubled.
#[target_feature(enable = "avx512f,avx512ifma")]
fn square<const L: usize>(x: &mut [Lanes; L], m: &[Lanes; L], inverse: u64) {
    let zero = _mm512_setzero_si512();
    let mut columns = [[zero; L]; 2];
    let all = columns.as_flattened_mut();
    for row in 0..L - 1 {
        let (y, mut x1) = (x[row].get(), zero);
        for at in row + 1..L {
            let x0 = x[at].get();
            all[row + at] = high(low(all[row + at], x0, y), x1, y);
            x1 = x0;
        }
        all[row + L] = high(all[row + L], x1, y);
    }
    for (x, pair) in x.iter().zip(all.as_chunks_mut::<2>().0) {
        let doubled = pair.map(|column| _mm512_add_epi64(column, column));
        *pair = [
            low(doubled[0], x.get(), x.get()),
            high(doubled[1], x.get(), x.get()),
        ];
    }
    let inverse = _mm512_set1_epi64(inverse as i64);
    for row in (0..L).step_by(2) {
        vanish(&mut all[row..row + L + 2], m, inverse);
    }
    carry(x, &columns[1]);
}

/// Adds the multiple of m that makes the two lowest of `L` + 2 columns vanish, and passes on their carry.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn vanish<const L: usize>(columns: &mut [__m512i], m: &[Lanes; L], inverse: __m512i) {
    let zero = _mm512_setzero_si512();
    let (mut m2, mut m1) = (m[0].get(), m[1].get());
    let q0 = low(zero, columns[0], inverse);
    let carry = _mm512_srli_epi64::<52>(low(columns[0], m2, q0));
    let lower = high(low(carry, m1, q0), m2, q0);
    let second = _mm512_add_epi64(columns[1], lower);
    let q1 = low(zero, second, inverse);
    let mut carry = _mm512_srli_epi64::<52>(low(second, m2, q1));
    for (column, m) in columns[2..L].iter_mut().zip(&m[2..]) {
        let m0 = m.get();
        let first = high(low(*column, m0, q0), m1, q0);
        let second = high(low(carry, m1, q1), m2, q1);
        *column = _mm512_add_epi64(first, second);
        carry = zero;
        (m2, m1) = (m1, m0);
    }
    columns[L] = high(high(low(columns[L], m1, q1), m1, q0), m2, q1);
    columns[L + 1] = high(columns[L + 1], m1, q1);
}

/// Limbs below 2^52.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn carry<const L: usize>(out: &mut [Lanes; L], columns: &Columns<L>) {
    let limb = _mm512_set1_epi64(LIMB as i64);
    let mut carry = _mm512_setzero_si512();
    for (out, column) in out.iter_mut().zip(columns) {
        let sum = _mm512_add_epi64(*column, carry);
        out.set(_mm512_and_si512(sum, limb));
        carry = _mm512_srli_epi64::<52>(sum);
    }
}

/// x + y.
#[target_feature(enable = "avx512f,avx512ifma")]
fn add<const L: usize>(x: &mut [Lanes; L], y: &[Lanes; L]) {
    let sums = core::array::from_fn(|at| _mm512_add_epi64(x[at].get(), y[at].get()));
    carry(x, &sums);
}

/// x, less m where that is not negative.
#[target_feature(enable = "avx512f,avx512ifma")]
fn reduce<const L: usize>(x: &mut [Lanes; L], m: &[Lanes; L]) {
    let limb = _mm512_set1_epi64(LIMB as i64);
    let mut borrow = _mm512_setzero_si512();
    let less: [__m512i; L] = core::array::from_fn(|at| {
        let difference = _mm512_sub_epi64(x[at].get(), m[at].get());
        let difference = _mm512_add_epi64(difference, borrow);
        borrow = _mm512_srai_epi64::<52>(difference);
        _mm512_and_si512(difference, limb)
    });
    // All ones where the difference is negative.
    for (x, less) in x.iter_mut().zip(less) {
        let kept = _mm512_and_si512(borrow, x.get());
        x.set(_mm512_or_si512(kept, _mm512_andnot_si512(borrow, less)));
    }
}

/// The entry at a place: all of them are read.
#[target_feature(enable = "avx512f,avx512ifma")]
fn choose<const L: usize>(x: &mut [Lanes; L], table: &[Block<L>], digit: u64) {
    let digit = _mm512_set1_epi64(digit as i64);
    for (at, x) in x.iter_mut().enumerate() {
        let mut chosen = _mm512_setzero_si512();
        for (place, entry) in table.iter().enumerate() {
            let here = _mm512_cmpeq_epi64_mask(digit, _mm512_set1_epi64(place as i64));
            chosen = _mm512_mask_mov_epi64(chosen, here, entry.0[at].get());
        }
        x.set(chosen);
    }
}

/// In each lane the entry of its digit: all of them are read. A row has the entries of one limb.
#[target_feature(enable = "avx512f,avx512ifma")]
fn look_up<const L: usize>(x: &mut [Lanes; L], rows: &[[Lanes; ROW]], digits: &[u64; 8]) {
    let digits = Lanes(*digits).get();
    let upper = _mm512_srli_epi64::<4>(digits);
    let here: [__mmask8; ROW / 2] =
        core::array::from_fn(|pair| _mm512_cmpeq_epi64_mask(upper, _mm512_set1_epi64(pair as i64)));
    for (x, row) in x.iter_mut().zip(rows) {
        let mut chosen = _mm512_setzero_si512();
        for (here, pair) in here.iter().zip(row.as_chunks::<2>().0) {
            let entry = _mm512_permutex2var_epi64(pair[0].get(), digits, pair[1].get());
            chosen = _mm512_mask_mov_epi64(chosen, *here, entry);
        }
        x.set(chosen);
    }
}

/// Bits of a window of a fixed base.
const WINDOW: u32 = 7;

/// Registers that the entries of one limb take.
const ROW: usize = (1 << WINDOW) / 8;

impl<const L: usize, const W: usize> Kernel for Ifma<L, W> {
    const LANES: usize = 8;
    const WINDOW: u32 = WINDOW;

    type Block = Block<L>;
    type Table = Vec<[Lanes; ROW]>;

    fn words(&self) -> usize {
        W
    }

    fn load(&self, numbers: &[u64]) -> Block<L> {
        load(numbers, W, 0)
    }

    fn load_wide(&self, numbers: &[u64]) -> Block<L> {
        let mut lower = load(numbers, 2 * W, 0);
        let mut upper = load(numbers, 2 * W, L);
        self.multiply(&mut lower, &self.r_squared);
        self.multiply(&mut upper, &self.r_cubed);
        // SAFETY: the machine has the instructions.
        unsafe { add(&mut lower.0, &upper.0) };
        lower
    }

    fn store(&self, block: &Block<L>, numbers: &mut [u64]) {
        let mut block = block.clone();
        // SAFETY: the machine has the instructions.
        unsafe { reduce(&mut block.0, &self.modulus.0) };
        // SAFETY: the machine has the instructions.
        unsafe { join::<L, W>(&block.0, numbers) };
    }

    fn one(&self) -> &Block<L> {
        &self.one
    }

    fn r_squared(&self) -> &Block<L> {
        &self.r_squared
    }

    fn multiply(&self, x: &mut Block<L>, y: &Block<L>) {
        // SAFETY: the machine has the instructions.
        unsafe { multiply(&mut x.0, &y.0, &self.modulus.0, self.inverse) }
    }

    fn square(&self, x: &mut Block<L>) {
        if L.is_multiple_of(2) {
            // SAFETY: the machine has the instructions.
            unsafe { square(&mut x.0, &self.modulus.0, self.inverse) }
        } else {
            // Modulo N², where only tables take squares.
            let y = x.clone();
            self.multiply(x, &y);
        }
    }

    fn choose(&self, x: &mut Block<L>, table: &[Block<L>], digit: u64) {
        // SAFETY: the machine has the instructions.
        unsafe { choose(&mut x.0, table, digit) }
    }

    fn table(&self, residues: &[u64]) -> Vec<[Lanes; ROW]> {
        let mut table = Vec::with_capacity(residues.len() / W / 8 / ROW * L);
        for window in residues.chunks_exact((1 << WINDOW) * W) {
            let blocks: Vec<Block<L>> = window.chunks(8 * W).map(|it| load(it, W, 0)).collect();
            table.extend((0..L).map(|limb| core::array::from_fn(|at| blocks[at].0[limb])));
        }
        table
    }

    fn look_up(&self, x: &mut Block<L>, table: &Vec<[Lanes; ROW]>, window: usize, digits: &[u8]) {
        let rows = &table[window * L..][..L];
        let digits = core::array::from_fn(|lane| u64::from(digits[lane]));
        // SAFETY: the machine has the instructions.
        unsafe { look_up(&mut x.0, rows, &digits) }
    }
}
