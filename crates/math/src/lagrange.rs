//! Lagrange's basis polynomials at points without structure, as matrices to apply to many vectors of values.

use crate::MathError;
use crate::dense::Matrix;
use crate::field::batch_invert;
use crate::polynomial::Polynomial;
use crate::prime_field::NttField;

/// The first `rows` coefficients of each basis polynomial: `[rows × points]`.
///
/// Multiplied with the values of a polynomial of degree < `points.len()` at the points, it gives the polynomial's first
/// `rows` coefficients. Takes O(points²) multiplications.
///
/// # Errors
/// [`MathError::EqualPoints`] if two points are equal, [`MathError::CodeDimension`] unless 1 ≤ `rows` ≤ `points.len()`.
pub fn coefficients_matrix<F: NttField>(points: &[F], rows: usize) -> Result<Matrix<F>, MathError> {
    let columns = points.len();
    if rows == 0 || rows > columns {
        return Err(MathError::CodeDimension {
            dimension: rows,
            length: columns,
        });
    }
    let (locator, weights) = locator_and_weights(points)?;
    let mut entries = vec![F::ZERO; rows * columns];
    for (column, (&point, &weight)) in points.iter().zip(&weights).enumerate() {
        // Synthetic division: coefficient i of locator / (X − point) from coefficient i + 1.
        let mut coefficient = F::ZERO;
        for row in (0..columns).rev() {
            coefficient = coefficient * point + locator.coefficients()[row + 1];
            if row < rows {
                entries[row * columns + column] = coefficient * weight;
            }
        }
    }
    Matrix::new(rows, columns, entries)
}

/// The values of each basis polynomial at the targets: `[targets × points]`.
///
/// Multiplied with the values of a polynomial of degree < `points.len()` at the points, it gives the polynomial's
/// values at the targets. A target may be one of the points. Takes O(points · (points + targets)) multiplications.
///
/// # Errors
/// [`MathError::EqualPoints`] if two points are equal.
pub fn values_matrix<F: NttField>(points: &[F], targets: &[F]) -> Result<Matrix<F>, MathError> {
    let (locator, weights) = locator_and_weights(points)?;
    let mut entries = Vec::with_capacity(points.len() * targets.len());
    for &target in targets {
        if points.contains(&target) {
            entries.extend(
                points
                    .iter()
                    .map(|&point| if point == target { F::ONE } else { F::ZERO }),
            );
            continue;
        }
        let start = entries.len();
        entries.extend(points.iter().map(|&point| target - point));
        batch_invert(&mut entries[start..])?;
        let value = locator.evaluate(target);
        for (entry, &weight) in entries[start..].iter_mut().zip(&weights) {
            *entry *= value * weight;
        }
    }
    Matrix::new(targets.len(), points.len(), entries)
}

/// ∏ (X − point), and the inverse of its derivative at each point.
fn locator_and_weights<F: NttField>(points: &[F]) -> Result<(Polynomial<F>, Vec<F>), MathError> {
    let locator = Polynomial::with_roots(points);
    let slope = locator.derivative();
    let mut weights: Vec<F> = points.iter().map(|&point| slope.evaluate(point)).collect();
    // A root is repeated exactly when the derivative vanishes there.
    batch_invert(&mut weights).map_err(|_| MathError::EqualPoints)?;
    Ok((locator, weights))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::field::Field;
    use crate::prime_field::{Field31, Field48};

    fn distinct<F: NttField>(seeds: &[u64]) -> Vec<F> {
        let mut values: Vec<u64> = seeds.iter().map(|seed| seed % F::MODULUS).collect();
        values.sort_unstable();
        values.dedup();
        values
            .into_iter()
            .map(|value| F::from_wide(value.into()))
            .collect()
    }

    fn apply<F: NttField>(matrix: &Matrix<F>, values: &[F]) -> Vec<F> {
        let rows = matrix.entries().chunks_exact(matrix.columns());
        rows.map(|row| {
            row.iter()
                .zip(values)
                .fold(F::ZERO, |sum, (&a, &b)| sum + a * b)
        })
        .collect()
    }

    fn check<F: NttField>(seeds: &[u64], message: u64, rows: usize) {
        let points = distinct::<F>(seeds);
        let rows = rows.min(points.len());
        let coefficients: Vec<F> = (0..points.len() as u64)
            .map(|i| F::from_wide(u128::from(message) * u128::from(i + 3)))
            .collect();
        let polynomial = Polynomial::new(coefficients.clone());
        let values: Vec<F> = points
            .iter()
            .map(|&point| polynomial.evaluate(point))
            .collect();
        let matrix = coefficients_matrix(&points, rows).expect("distinct points");
        assert_eq!((matrix.rows(), matrix.columns()), (rows, points.len()));
        assert_eq!(apply(&matrix, &values), coefficients[..rows]);
        let mut targets = vec![points[0], F::ZERO, F::ONE, F::GENERATOR];
        targets.push(points[points.len() - 1] + F::ONE);
        let expected: Vec<F> = targets
            .iter()
            .map(|&target| polynomial.evaluate(target))
            .collect();
        assert_eq!(
            apply(
                &values_matrix(&points, &targets).expect("distinct points"),
                &values
            ),
            expected
        );
    }

    #[test]
    fn equal_points_are_refused() {
        let points = [5, 7, 5].map(Field31::from_wide);
        assert_eq!(
            coefficients_matrix(&points, 2).err(),
            Some(MathError::EqualPoints)
        );
        assert_eq!(
            values_matrix(&points, &[Field31::ONE]).err(),
            Some(MathError::EqualPoints)
        );
        assert_eq!(
            values_matrix(&points, &points[..1]).err(),
            Some(MathError::EqualPoints)
        );
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let points = [Field31::ONE, Field31::ZERO];
        for dimension in [0, 3] {
            let refusal = MathError::CodeDimension {
                dimension,
                length: 2,
            };
            assert_eq!(coefficients_matrix(&points, dimension).err(), Some(refusal));
        }
    }

    proptest! {
        #[test]
        fn matrices_interpolate(
            seeds in prop::collection::vec(any::<u64>(), 1..30),
            message: u64,
            rows in 1_usize..30,
        ) {
            check::<Field31>(&seeds, message, rows);
            check::<Field48>(&seeds, message, rows);
        }
    }
}
