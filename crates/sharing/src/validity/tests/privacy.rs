//! That the tests show nothing: masks run through all polynomials that an honest prover can have, whatever c verifiers know.

use std::collections::BTreeMap;

use blindsum_math::field::Field;
use blindsum_math::prime_field::Field47;
use blindsum_math::tiny_field::TinyField;

use super::super::points::{Points, evaluate};
use super::*;

/// The rank of a matrix over a field.
fn rank<F: Field>(mut rows: Vec<Vec<F>>) -> usize {
    let columns = rows.first().map_or(0, Vec::len);
    let mut rank = 0;
    for column in 0..columns {
        let Some(pivot) = (rank..rows.len()).find(|&row| rows[row][column] != F::ZERO) else {
            continue;
        };
        rows.swap(rank, pivot);
        let scale = rows[rank][column].inverse();
        rows[rank].iter_mut().for_each(|entry| *entry *= scale);
        let pivot = rows[rank].clone();
        for row in rows.iter_mut().skip(rank + 1) {
            let factor = row[column];
            row.iter_mut()
                .zip(&pivot)
                .for_each(|(entry, &of)| *entry -= factor * of);
        }
        rank += 1;
    }
    rank
}

/// A mask for each unit vector of its freedom, as coefficients.
fn masks<F: Field>(points: &Points<F>, test: Test, k: usize, l: usize) -> Vec<Vec<F>> {
    let freedom = test.freedom(k, l);
    let unit = |i: usize| {
        (0..freedom)
            .map(|j| if i == j { F::ONE } else { F::ZERO })
            .collect::<Vec<F>>()
    };
    let mask = |i| {
        let mut coefficients = points.mask(test, &unit(i)).to_vec();
        coefficients.resize(test.coefficients(k, l), F::ZERO);
        coefficients
    };
    (0..freedom).map(mask).collect()
}

#[test]
fn case_22_masks_fill_the_space_of_honest_polynomials() {
    let play = Play::new(statement(), &words(1), |_| {});
    let (k, l) = (
        play.sharing.parameters().threshold(),
        play.sharing.parameters().packing(),
    );
    let c = play.sharing.parameters().corrupt();
    let points = &play.sharing.points;
    for test in Test::ALL {
        let masks = masks(points, test, k, l);
        // Every mask is honest, and there are as many as honest polynomials: those of so many coefficients that fulfil one
        // condition for each word, one for all, or none.
        assert_eq!(rank(masks.clone()), test.freedom(k, l), "{test}");
        for mask in &masks {
            let values: Vec<Field47> = points
                .words
                .iter()
                .map(|&point| evaluate(mask, point))
                .collect();
            assert!(Points::fits(test, &values), "{test}");
        }
        // What c verifiers know of the mask does not bind what is opened beyond their own points: the map to the columns
        // of any c verifiers has full rank, so that the masks that agree there are a translate of those that vanish there.
        let known: Vec<Vec<Field47>> = masks
            .iter()
            .map(|mask| {
                points.shares[..c]
                    .iter()
                    .map(|&point| evaluate(mask, point))
                    .collect()
            })
            .collect();
        assert_eq!(rank(known), c, "{test}");
    }
}

/// Products of rows need a mask of 2k − 1 coefficients: one of degree below k, as the rows have, leaves k − 1 coefficients
/// of what is opened in the clear.
#[test]
fn case_22_a_mask_of_the_degree_of_rows_fails() {
    let play = Play::new(statement(), &words(1), |_| {});
    let (k, l) = (
        play.sharing.parameters().threshold(),
        play.sharing.parameters().packing(),
    );
    let points = &play.sharing.points;
    let short = masks(points, Test::InputBound, k, l);
    let need = Test::Quadratic.freedom(k, l);
    assert!(rank(short) < need);
    assert_eq!(need - Test::InputBound.freedom(k, l), k - 1);
}

/// Over a field of 7 elements, with one word, two coefficients and one curious verifier: whatever the word is, all that the
/// verifier and the coordinator see together is as likely: the verifier's shares of the rows and of the mask, and the
/// polynomial that is opened.
#[test]
fn case_22_by_enumeration_in_a_tiny_field() {
    type Tiny = TinyField<7>;
    let element = |value| Tiny::from_canonical(value).unwrap();
    let points = Points::new(vec![element(1)], vec![element(3), element(5)], 4);
    let row = |value: Tiny, random: u64| [value - element(random), element(random)];
    let square = |row: [Tiny; 2]| {
        [
            row[0] * row[0],
            row[0] * row[1] + row[0] * row[1],
            row[1] * row[1],
        ]
    };
    // What is opened beside the mask: β − β², or y − u².
    let bit = |beta: [Tiny; 2], _: [Tiny; 2]| beta;
    let quadratic = |_: [Tiny; 2], y: [Tiny; 2]| y;
    type Linear = fn([Tiny; 2], [Tiny; 2]) -> [Tiny; 2];
    let cases: [(Test, &[u64], Linear); 2] = [
        (Test::InputBit, &[0, 1], bit),
        (Test::Quadratic, &[0, 1, 2, 3, 4, 5, 6], quadratic),
    ];
    for (test, words, linear) in cases {
        assert_eq!(test.freedom(2, 1), 2);
        let views = |word: u64| {
            let mut views = BTreeMap::new();
            for random in 0..7_u64.pow(4) {
                let draw = |i: u32| random / 7_u64.pow(i) % 7;
                let (word_row, square_row) = (
                    row(element(word), draw(0)),
                    row(element(word) * element(word), draw(1)),
                );
                let mask = points.mask(test, &[element(draw(2)), element(draw(3))]);
                let mut opened = mask.to_vec();
                opened
                    .iter_mut()
                    .zip(square(word_row))
                    .for_each(|(place, term)| *place -= term);
                let linear = linear(word_row, square_row);
                opened
                    .iter_mut()
                    .zip(linear)
                    .for_each(|(place, term)| *place += term);
                assert_eq!(evaluate(&opened, points.words[0]), Tiny::ZERO);
                let at = points.shares[0];
                let shares = [
                    evaluate(&word_row, at),
                    evaluate(&square_row, at),
                    evaluate(&mask, at),
                ];
                let view: Vec<u64> = opened
                    .iter()
                    .chain(&shares)
                    .map(|one| one.to_canonical())
                    .collect();
                *views.entry(view).or_insert(0) += 1;
            }
            views
        };
        let first = views(words[0]);
        assert!(words.iter().all(|&word| views(word) == first), "{test}");
    }
}

#[test]
fn case_23_no_share_is_a_word_and_all_points_differ() {
    let play = Play::new(statement(), &words(1), |_| {});
    let points = &play.sharing.points;
    let all: std::collections::BTreeSet<u64> = points
        .words
        .iter()
        .chain(&points.shares)
        .map(|point| point.to_canonical())
        .collect();
    assert_eq!(all.len(), points.words.len() + points.shares.len());
}
