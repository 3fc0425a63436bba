//! What follows from linear combinations: the unit vectors in the row space of a matrix.

use crate::field::Field;

/// The columns whose unit vector is a linear combination of the rows, ascending. The rows are used up.
///
/// # Panics
/// If the rows are not all of one length.
pub fn unit_vectors<F: Field>(mut rows: Vec<Vec<F>>) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    assert!(rows.iter().all(|row| row.len() == columns), "a matrix");
    // In reduced row echelon form each row is the only vector of the space with these entries at the pivots. So a unit
    // vector of the space is one of the rows.
    let pivots = reduce(&mut rows, columns);
    let is_unit = |row: &[F]| row.iter().filter(|entry| **entry != F::ZERO).count() == 1;
    let units = pivots
        .into_iter()
        .zip(&rows)
        .filter(|(_, row)| is_unit(row));
    units.map(|(pivot, _)| pivot).collect()
}

/// Brings the rows into reduced row echelon form; gives the column of each pivot. Rows behind these are zero.
fn reduce<F: Field>(rows: &mut [Vec<F>], columns: usize) -> Vec<usize> {
    let mut pivots = Vec::new();
    for column in 0..columns {
        let done = pivots.len();
        let Some(found) = (done..rows.len()).find(|&row| rows[row][column] != F::ZERO) else {
            continue;
        };
        rows.swap(done, found);
        let scale = rows[done][column].inverse();
        rows[done].iter_mut().for_each(|entry| *entry *= scale);
        let pivot = rows[done].clone();
        for (at, row) in rows.iter_mut().enumerate() {
            let factor = row[column];
            if at == done || factor == F::ZERO {
                continue;
            }
            for (entry, of_pivot) in row.iter_mut().zip(&pivot) {
                *entry -= factor * *of_pivot;
            }
        }
        pivots.push(column);
    }
    pivots
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::field61::Field61;

    fn matrix(rows: &[&[u64]]) -> Vec<Vec<Field61>> {
        let element = |&entry: &u64| Field61::from_canonical(entry).unwrap();
        rows.iter()
            .map(|row| row.iter().map(element).collect())
            .collect()
    }

    #[test]
    fn small_spaces() {
        assert!(unit_vectors::<Field61>(Vec::new()).is_empty());
        assert!(unit_vectors(matrix(&[&[0, 0, 0]])).is_empty());
        assert_eq!(unit_vectors(matrix(&[&[0, 7, 0]])), [1]);
        assert_eq!(unit_vectors(matrix(&[&[1, 1, 1], &[0, 1, 1]])), [0]);
        // (a + b − c) / 2.
        assert_eq!(
            unit_vectors(matrix(&[&[1, 1, 0], &[1, 0, 1], &[0, 1, 1]])),
            [0, 1, 2]
        );
    }

    proptest! {
        /// A unit vector is in the space if and only if adding it as a row leaves the rank as it is.
        #[test]
        fn a_unit_vector_of_the_space_adds_no_rank(
            rows in prop::collection::vec(prop::collection::vec(0..2_u64, 6), 1..6),
        ) {
            let rows: Vec<&[u64]> = rows.iter().map(Vec::as_slice).collect();
            let rank = |mut rows: Vec<Vec<Field61>>| reduce(&mut rows, 6).len();
            let found = unit_vectors(matrix(&rows));
            for column in 0..6 {
                let unit: Vec<u64> = (0..6).map(|at| u64::from(at == column)).collect();
                let more = rank(matrix(&[&rows[..], &[&unit]].concat())) > rank(matrix(&rows));
                prop_assert_eq!(found.contains(&column), !more);
            }
        }
    }
}
