//! Projections in the place of bits of words: what passes, what does not, and how often.

use blindsum_math::field::Field;
use blindsum_math::prime_field::Field47;

use super::super::projection::{largest_projection, project};
use super::*;

const P: u64 = Field47::MODULUS;

fn element(value: i64) -> Field47 {
    let small = Field47::from_canonical(value.unsigned_abs()).unwrap();
    if value < 0 { -small } else { small }
}

/// The coefficients of all projections of so many numbers, read from the stream bit by bit.
fn coefficients(seed: [u8; 32], numbers: usize) -> Vec<Vec<i64>> {
    use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign, apply_masks};
    let mut lanes = vec![0_u64; 4 * numbers];
    let stream = [MaskStream::new(
        MaskSeed::from(Secret::from(seed)),
        Sign::Add,
    )];
    apply_masks(&stream, 0, blindsum_math::words::TileMut::W64(&mut lanes));
    let of_number = |four: &[u64]| {
        let bit = |lane: usize, i: usize| (four[lane + i / 64] >> (i % 64) & 1) as i64;
        (0..128).map(|i| bit(0, i) - bit(2, i)).collect()
    };
    lanes.chunks_exact(4).map(of_number).collect()
}

#[test]
fn projections_are_sums_with_the_coefficients_of_the_stream() {
    // More than are drawn at a time.
    let numbers: Vec<i64> = (0..700).map(|t| t * 37 % 1001 - 500).collect();
    let found = project(SEED, numbers.iter().map(|&number| element(number)));
    let coefficients = coefficients(SEED, numbers.len());
    for (i, found) in found.into_iter().enumerate() {
        let terms = numbers.iter().zip(&coefficients);
        let sum: i64 = terms.map(|(number, z)| number * z[i]).sum();
        assert_eq!(found, element(sum), "projection {i}");
    }
    let mean = |of: fn(i64) -> i64| {
        let all = coefficients.iter().flatten();
        all.map(|&z| of(z)).sum::<i64>() as f64 / (128.0 * 700.0)
    };
    assert!(mean(|z| z).abs() < 0.02);
    assert!((mean(|z| z * z) - 0.5).abs() < 0.02);
}

#[test]
fn the_largest_projection_is_the_least_whose_square_is_enough() {
    for (most, numbers) in [(1, 1), (15, 4), (16_000, 12), ((1 << 34) - 1, 1 << 24)] {
        let square = |y: u64| u128::from(y) * u128::from(y);
        let enough = 34 * u128::from(2 * most + numbers);
        let found = largest_projection(most, numbers);
        assert!(square(found) >= enough && square(found - 1) < enough);
    }
    // 34 · (2 · 15 + 4) is a square.
    assert_eq!(largest_projection(15, 4), 34);
}

/// Where there are many words, they would have more bits than there are rows.
#[test]
fn long_vectors_pass() {
    let statement = Statement {
        words: 5_000,
        ..by_projections()
    };
    let words: Vec<u64> = (0..5_000).map(|at| OFFSET + at % 3 - 1).collect();
    let play = Play::new(statement, &words, |_| {});
    assert!(play.sharing.layout().rows() < 8 * play.sharing.layout().blocks());
    assert_eq!(play.verdict_of_all(), fits(&[]));
}

/// Sets words, with their squares, and the bits of a norm. The rest follows.
fn set(witness: &mut Witness, numbers: &[(usize, i64)]) {
    let layout = *witness.layout();
    let (blocks, packing) = (layout.blocks(), layout.packing());
    for &(at, v) in numbers {
        let (slot, block) = (at / blocks, at % blocks);
        let v = element(v);
        *witness.at(block, slot) = (v + element(OFFSET as i64)).to_canonical();
        *witness.at(layout.squares().start + block, slot) = (v * (v + Field47::ONE)).to_canonical();
    }
    let mut sum = Field47::ZERO;
    for row in layout.squares() {
        for slot in 0..packing {
            sum += Field47::from_canonical(*witness.at(row, slot)).unwrap();
        }
    }
    let norm = layout.statement().norm.unwrap();
    let bits = norm.bits().split(sum.to_canonical().min(norm.most));
    for (t, bit) in bits.into_iter().enumerate() {
        *witness.at(layout.norm_bits().start + t / packing, t % packing) = bit;
    }
}

fn fails(change: impl FnOnce(&mut Witness)) -> Verdict {
    Play::new(by_projections(), &words(4), change).verdict_of_all()
}

/// Numbers whose squares v·(v + 1) add up to the modulus and a little more.
fn wrapping(most: u64) -> Vec<(usize, i64)> {
    let mut left = P as i64;
    let mut numbers = Vec::new();
    while left > 0 {
        // The last one goes beyond, no further than the bound allows.
        let root = (left as f64).sqrt() as i64;
        let beyond = (root - 2..).find(|v| v * (v + 1) >= left).unwrap();
        let v = if (beyond * (beyond + 1) - left) as u64 <= most {
            beyond
        } else {
            beyond - 1
        };
        left -= v * (v + 1);
        numbers.push((numbers.len(), v));
    }
    numbers
}

#[test]
fn case_14_a_norm_that_wraps_around_fails_projection() {
    let numbers = wrapping(16_000);
    let mut rows = Play::new(by_projections(), &[OFFSET; WORDS], |_| {}).witness;
    set(&mut rows, &numbers);
    let wrong = Play::new(by_projections(), &[OFFSET; WORDS], |witness| {
        set(witness, &numbers)
    });
    // All tests but one hold: without projections this vector would be accepted.
    assert_eq!(wrong.verdict_of_all(), Verdict::Fails(Test::Projection));
}

#[test]
fn case_14_a_word_that_is_no_number_near_zero_fails() {
    // Halves: v = ½ has the square ¾, and two times ¾ and once ½ … are integers again, if v may be anything in the field.
    let half = (P as i64 + 1) / 2;
    for numbers in [
        vec![(0, half), (1, half), (2, half), (3, half)],
        vec![(3, P as i64 / 3)],
        vec![(0, 1 << 30)],
    ] {
        assert!(
            matches!(fails(|witness| set(witness, &numbers)), Verdict::Fails(_)),
            "{numbers:?}"
        );
    }
    let mut four = Witness::new(
        *Play::new(by_projections(), &words(4), |_| {})
            .sharing
            .layout(),
        &[OFFSET; WORDS],
    )
    .unwrap();
    set(&mut four, &[(0, half), (1, half), (2, half), (3, half)]);
    // Four times ¾ are 3: the norm holds.
    let bits = four.layout().norm_bits().start;
    assert_eq!(
        (*four.at(bits, 0), *four.at(bits, 1), *four.at(bits, 2)),
        (1, 1, 0)
    );
    assert!(four.project(SEED).is_err());
    let sharing = Play::new(by_projections(), &words(4), |_| {}).sharing;
    assert_eq!(
        Play::with(sharing, four).verdict_of_all(),
        Verdict::Fails(Test::Projection)
    );
}

#[test]
fn case_14_a_norm_above_its_bound_fails_norm() {
    let sum = |numbers: &[(usize, i64)]| numbers.iter().map(|(_, v)| v * (v + 1)).sum::<i64>();
    let at = [(0, 125), (1, 14), (2, 5), (3, 4)];
    assert_eq!(sum(&at), 16_010);
    let quiet = Play::new(by_projections(), &[OFFSET; WORDS], |witness| {
        set(witness, &at)
    });
    assert_eq!(quiet.verdict_of_all(), Verdict::Fails(Test::Norm));
    let at = [(0, 125), (1, 14), (2, 5), (3, 3), (4, 1)];
    assert_eq!(sum(&at), 16_004);
    let quiet = Play::new(by_projections(), &[OFFSET; WORDS], |witness| {
        set(witness, &at[..3])
    });
    assert_eq!(quiet.verdict_of_all(), fits(&[]));
}

#[test]
fn case_14_bits_of_projections_that_are_none_fail_projection_bit() {
    let play = Play::new(by_projections(), &words(4), |_| {});
    let Play {
        sharing,
        mut witness,
        ..
    } = play;
    let row = witness.layout().projection_bits().start;
    // Bits 0 and 1 of a projection, whose sum stays.
    let (first, second) = (*witness.at(row, 0), *witness.at(row, 1));
    *witness.at(row, 0) = first + 2;
    *witness.at(row, 1) = (second + P - 1) % P;
    assert_eq!(
        Play::with(sharing, witness).verdict_of_all(),
        Verdict::Fails(Test::ProjectionBit)
    );
}

#[test]
fn case_14_bits_of_other_projections_fail_projection() {
    for (row, slot) in [(0, 0), (1, 3), (2, 2)] {
        let Play {
            sharing,
            mut witness,
            ..
        } = Play::new(by_projections(), &words(4), |_| {});
        let row = witness.layout().projection_bits().start + row;
        *witness.at(row, slot) ^= 1;
        assert_eq!(
            Play::with(sharing, witness).verdict_of_all(),
            Verdict::Fails(Test::Projection)
        );
    }
}

/// A verifier that takes another seed answers something else: the test depends on the coefficients.
#[test]
fn answers_depend_on_the_seed_of_the_prover() {
    let play = Play::new(by_projections(), &words(4), |_| {});
    let challenge = play.sharing.challenge([7; 32]);
    let answer = |seed| {
        play.sharing
            .answer(&challenge, 3, &play.columns[3], seed)
            .unwrap()
    };
    assert_ne!(answer(SEED), answer([5; 32]));
}

#[test]
fn case_24_projections_that_prove_nothing_are_refused() {
    let refused =
        |statement: Statement, p: u64| Layout::new(statement, 4, p).err().unwrap().to_string();
    let without = Statement {
        norm: None,
        ..by_projections()
    };
    assert!(refused(without, P).contains("a norm must have a bound"));
    let with = |most| Statement {
        norm: Some(bound(most)),
        ..by_projections()
    };
    // The words 256 and −1 stand for 128 and −129.
    assert!(Layout::new(with(128 * 129 - 1), 4, P).is_ok());
    let rule = refused(with(128 * 129), P);
    assert!(
        rule.contains("T = 16512 < 16512, the square of a word out of range"),
        "{rule}"
    );
    // Y² is the square next to 34 · (2 · 16000 + 12).
    let largest = largest_projection(16_000, 12);
    assert_eq!(largest, 1044);
    let p = 148 * largest * largest;
    assert!(refused(by_projections(), p).contains("148 * Y^2 = 148 * 1044^2 < p = 161310528"));
    assert!(Layout::new(by_projections(), 4, p + 1).is_ok());
    let many = Statement {
        words: 400_000,
        norm: Some(bound(1)),
        ..by_projections()
    };
    let p = 800_001 * largest_projection(1, 400_000);
    let rule = refused(many, p);
    assert!(
        rule.contains("(2 * B * l + 1) * Y = (2 * 400000 + 1) * 3688 < p"),
        "{rule}"
    );
    assert!(Layout::new(many, 4, p + 1).is_ok());
}

/// What the soundness of projections rests on: long vectors of any shape pass one with probability at most ½, and short ones fail it
/// hardly ever.
#[test]
fn one_projection_of_a_long_vector_passes_at_most_every_second_time() {
    let most = 40_000_u64;
    let y = largest_projection(most, 64);
    let passes = |numbers: &[i64]| {
        let tries = 64;
        let all = (0..tries)
            .flat_map(|seed: u8| project([seed; 32], numbers.iter().map(|&v| element(v))));
        let passed = all
            .filter(|&of| (of + element(y as i64)).to_canonical() <= 2 * y)
            .count();
        passed as f64 / (f64::from(tries) * 128.0)
    };
    // As long as a vector must be to wrap: 74 · Y².
    let long = (74.0_f64.sqrt() * y as f64) as i64 + 1;
    for count in [1, 2, 3, 18, 19, 64] {
        let each = (long as f64 / f64::from(count).sqrt()) as i64 + 1;
        let numbers = vec![each; count as usize];
        let passed = passes(&numbers);
        assert!(passed < 0.53, "{count} numbers of {each} pass {passed}");
    }
    let mut mixed = vec![1; 60];
    mixed.push(long);
    assert!(passes(&mixed) < 0.53);
    let short = vec![((most as f64 / 64.0).sqrt()) as i64; 64];
    assert_eq!(passes(&short), 1.0);
}
