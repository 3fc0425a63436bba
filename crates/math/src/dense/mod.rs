//! Products of a matrix with many vectors at once, for interpolation at points without structure.
//!
//! The vectors lie side by side: row k of the right operand holds entry k of every vector ("block"), so that a step of
//! the kernel multiplies one matrix entry with a run of neighbours. Sums of products are reduced once at the end.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ifma;

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::MathError;
use crate::prime_field::NttField;
use crate::transform::Row;

/// Blocks of a strip: as many as two rows have lanes.
const STRIP: usize = 16;

/// Strips gathered at a time: longer runs of each column than one strip has.
const GATHERED: usize = 4;

/// Multiplications that are worth more than one thread.
const PARALLEL_WORK: usize = 1 << 20;

/// The entries of one line of a strip.
type Line = [Row; 2];

/// A matrix of public field elements.
pub struct Matrix<F> {
    rows: usize,
    columns: usize,
    /// Row by row.
    entries: Vec<F>,
}

impl<F: NttField> Matrix<F> {
    /// The matrix with these entries, row by row.
    ///
    /// # Errors
    /// [`MathError::MatrixShape`] unless there are `rows` · `columns` entries.
    pub fn new(rows: usize, columns: usize, entries: Vec<F>) -> Result<Self, MathError> {
        if rows.checked_mul(columns) != Some(entries.len()) {
            return Err(MathError::MatrixShape {
                got: entries.len(),
                rows,
                columns,
            });
        }
        Ok(Self {
            rows,
            columns,
            entries,
        })
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The entries, row by row.
    #[must_use]
    pub fn entries(&self) -> &[F] {
        &self.entries
    }

    /// Multiplies this matrix with a matrix `[columns × blocks]`. `columns[k]` is row k of that matrix: one canonical
    /// residue for each block. The product `[rows × blocks]` goes to `out`, row by row.
    ///
    /// Large products run on the threads of the current pool; the result is the same on any number of them.
    ///
    /// # Panics
    /// If there is not one slice for each column of this matrix, if the slices differ in length, or if `out` has
    /// another size than the product.
    pub fn multiply(&self, columns: &[&[u64]], out: &mut [u64]) {
        assert_eq!(columns.len(), self.columns, "one slice a column");
        let blocks = columns.first().map_or(0, |column| column.len());
        assert!(
            columns.iter().all(|column| column.len() == blocks),
            "columns of {blocks} blocks each"
        );
        assert_eq!(out.len(), self.rows * blocks, "room for the product");
        if out.is_empty() {
            return;
        }
        let strips = blocks.div_ceil(STRIP);
        let mut product = Zeroizing::new(vec![Line::default(); strips * self.rows]);
        let work = |(number, product): (usize, &mut [Line])| {
            let strips = product.len() / self.rows;
            let operand = gather(columns, number * GATHERED * STRIP, strips);
            let operands = operand.chunks_exact(self.columns);
            for (operand, product) in operands.zip(product.chunks_exact_mut(self.rows)) {
                multiply_strip(&self.entries, operand, product);
            }
        };
        let piece = GATHERED * self.rows;
        if self.entries.len().saturating_mul(blocks) < PARALLEL_WORK {
            product.chunks_mut(piece).enumerate().for_each(work);
        } else {
            product.par_chunks_mut(piece).enumerate().for_each(work);
        }
        for (number, product) in product.chunks_exact(self.rows).enumerate() {
            for (line, out) in product.iter().zip(out.chunks_exact_mut(blocks)) {
                for (row, out) in line.iter().zip(out[number * STRIP..].chunks_mut(8)) {
                    match <&mut [u64; 8]>::try_from(&mut *out) {
                        Ok(out) => *out = row.0,
                        Err(_) => out.copy_from_slice(&row.0[..out.len()]),
                    }
                }
            }
        }
    }
}

/// The residues of `strips` strips from block `first` on, strip by strip, zero where there are no more.
fn gather(columns: &[&[u64]], first: usize, strips: usize) -> Zeroizing<Vec<Line>> {
    let mut gathered = Zeroizing::new(vec![Line::default(); strips * columns.len()]);
    for (k, column) in columns.iter().enumerate() {
        for (strip, run) in column[first..].chunks(STRIP).take(strips).enumerate() {
            let line = &mut gathered[strip * columns.len() + k];
            for (row, run) in line.iter_mut().zip(run.chunks(8)) {
                match <&[u64; 8]>::try_from(run) {
                    Ok(run) => row.0 = *run,
                    Err(_) => row.0[..run.len()].copy_from_slice(run),
                }
            }
        }
    }
    gathered
}

/// One strip of the product, by the fastest code that this machine can run.
fn multiply_strip<F: NttField>(entries: &[F], operand: &[Line], product: &mut [Line]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(detected) = ifma::Detected::detect() {
        return detected.multiply(entries, operand, product);
    }
    multiply_portable(entries, operand, product);
}

/// Terms of a sum of products that 128 bits hold.
const PORTABLE_TERMS: usize = 1 << 32;

/// One lane at a time.
fn multiply_portable<F: NttField>(entries: &[F], operand: &[Line], product: &mut [Line]) {
    debug_assert!(operand.len() <= PORTABLE_TERMS, "products below 2^96");
    for (coefficients, line) in entries.chunks_exact(operand.len()).zip(product) {
        for (row, lanes) in line.iter_mut().enumerate() {
            let mut sums = [0_u128; 8];
            for (coefficient, operand) in coefficients.iter().zip(operand) {
                for (sum, &value) in sums.iter_mut().zip(&operand[row].0) {
                    *sum += u128::from(coefficient.to_canonical()) * u128::from(value);
                }
            }
            *lanes = Row(sums.map(|sum| F::from_wide(sum).to_canonical()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::field::Field;
    use crate::prime_field::{Field31, Field47, Field48};

    /// The product by the definition.
    fn by_definition<F: NttField>(matrix: &Matrix<F>, columns: &[&[u64]]) -> Vec<u64> {
        let blocks = columns[0].len();
        let element = |value| F::from_canonical(value).expect("canonical");
        let entry = |row: usize, block: usize| {
            let terms = (0..matrix.columns())
                .map(|k| matrix.entries()[row * matrix.columns() + k] * element(columns[k][block]));
            terms.fold(F::ZERO, |sum, term| sum + term).to_canonical()
        };
        (0..matrix.rows() * blocks)
            .map(|i| entry(i / blocks, i % blocks))
            .collect()
    }

    fn check<F: NttField>(
        rows: usize,
        columns: usize,
        blocks: usize,
        mut draw: impl FnMut() -> u64,
    ) {
        let entries = (0..rows * columns)
            .map(|_| F::from_wide(draw().into()))
            .collect();
        let matrix = Matrix::<F>::new(rows, columns, entries).expect("a full matrix");
        let values: Vec<u64> = (0..columns * blocks).map(|_| draw() % F::MODULUS).collect();
        let vectors: Vec<&[u64]> = values.chunks_exact(blocks).collect();
        let mut out = vec![u64::MAX; rows * blocks];
        matrix.multiply(&vectors, &mut out);
        #[cfg(target_arch = "x86_64")]
        if let Some(detected) = ifma::Detected::detect() {
            let operand = gather(&vectors, 0, 1);
            let mut products = [vec![Line::default(); rows], vec![Line::default(); rows]];
            multiply_portable(matrix.entries(), &operand, &mut products[0]);
            detected.multiply(matrix.entries(), &operand, &mut products[1]);
            assert!(
                products[0] == products[1],
                "{rows} x {columns} by either code"
            );
        }
        assert!(
            out == by_definition(&matrix, &vectors),
            "{rows} x {columns}, {blocks} blocks"
        );
    }

    fn check_all(rows: usize, columns: usize, blocks: usize, mut draw: impl FnMut() -> u64) {
        check::<Field31>(rows, columns, blocks, &mut draw);
        check::<Field47>(rows, columns, blocks, &mut draw);
        check::<Field48>(rows, columns, blocks, &mut draw);
    }

    fn noise() -> impl FnMut() -> u64 {
        let mut state = 1_u64;
        move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            state ^ state >> 29
        }
    }

    #[test]
    fn largest_entries() {
        for columns in [1, 511, 512, 513, 1500] {
            check::<Field31>(5, columns, 3, || Field31::MODULUS - 1);
            check::<Field47>(5, columns, 3, || Field47::MODULUS - 1);
            check::<Field48>(5, columns, 3, || Field48::MODULUS - 1);
        }
    }

    #[test]
    fn large_enough_for_threads() {
        check::<Field47>(37, 101, 16 * 20 + 3, noise());
    }

    #[test]
    fn empty_products() {
        let matrix = Matrix::<Field31>::new(0, 3, Vec::new()).expect("no entries");
        matrix.multiply(&[&[1], &[2], &[3]], &mut []);
        let matrix = Matrix::<Field31>::new(3, 0, Vec::new()).expect("no entries");
        matrix.multiply(&[], &mut []);
    }

    #[test]
    fn entries_must_fill_the_matrix() {
        let refusal = MathError::MatrixShape {
            got: 5,
            rows: 2,
            columns: 3,
        };
        assert_eq!(
            Matrix::new(2, 3, vec![Field31::ONE; 5]).err(),
            Some(refusal)
        );
        assert!(Matrix::new(usize::MAX, 2, vec![Field31::ONE; 5]).is_err());
    }

    #[test]
    #[should_panic(expected = "columns of 2 blocks each")]
    fn ragged_columns_are_a_bug() {
        let matrix = Matrix::new(1, 2, vec![Field31::ONE; 2]).expect("a full matrix");
        matrix.multiply(&[&[1, 2], &[3]], &mut [0; 2]);
    }

    proptest! {
        #[test]
        fn products_are_sums_of_products(
            rows in 1_usize..12,
            columns in 1_usize..24,
            blocks in 1_usize..50,
        ) {
            check_all(rows, columns, blocks, noise());
        }
    }
}
