//! Liars, provers and verifiers: each is found by the test that is for it, and nobody else is.

use blindsum_math::field::Field;
use blindsum_math::prime_field::Field47;

use super::*;

const P: u64 = Field47::MODULUS;

fn refused_by(change: impl FnOnce(&mut Witness)) -> Test {
    let play = Play::new(statement(), &words(4), change);
    match play.verdict_of_all() {
        Verdict::Fails(test) => test,
        Verdict::Fits(wrong) => panic!("accepted but for {wrong:?}"),
    }
}

/// Sets a word with its square, its bits as they were.
fn set(witness: &mut Witness, block: usize, slot: usize, word: u64) {
    let layout = *witness.layout();
    *witness.at(block, slot) = word;
    let v = (word + P - OFFSET) % P;
    let square = u128::from(v) * u128::from(v + 1) % u128::from(P);
    *witness.at(layout.squares().start + block, slot) = square as u64;
}

#[test]
fn case_14_a_bit_that_is_none_fails_input_bit() {
    // The word is still the sum of its bits: 2 at place 0 for 1 at place 1.
    let test = refused_by(|witness| {
        let (bits, blocks) = (witness.layout().bits().start, witness.layout().blocks());
        *witness.at(0, 0) = 2;
        for bit in 0..BITS as usize {
            *witness.at(bits + bit * blocks, 0) = if bit == 0 { 2 } else { 0 };
        }
    });
    assert_eq!(test, Test::InputBit);
}

#[test]
fn case_14_a_wrong_square_fails_quadratic() {
    let test = refused_by(|witness| {
        let square = witness.layout().squares().start;
        *witness.at(square, 1) -= 1;
    });
    assert_eq!(test, Test::Quadratic);
}

#[test]
fn case_14_a_word_out_of_bounds_fails_input_bound() {
    for word in [256, 1 << 20, P - 1] {
        assert_eq!(
            refused_by(|witness| set(witness, 1, 2, word)),
            Test::InputBound
        );
    }
}

/// With rounding to nearest the last word that has as many bits is out of bounds.
#[test]
fn case_14_a_word_above_the_last_level_fails_input_bound() {
    let nearest = Statement {
        largest: 254,
        norm: None,
        ..statement()
    };
    let honest = Play::new(nearest, &[254; WORDS], |_| {});
    assert_eq!(honest.verdict_of_all(), fits(&[]));
    // All its bits are 1, as those of 254.
    let lying = Play::new(nearest, &[254; WORDS], |witness| *witness.at(0, 0) = 255);
    assert_eq!(lying.verdict_of_all(), Verdict::Fails(Test::InputBound));
}

#[test]
fn case_15_two_words_that_err_in_opposite_directions_fail_input_bound() {
    let shift = 1_000_000;
    let test = refused_by(|witness| {
        let (first, second) = (*witness.at(0, 0), *witness.at(0, 1));
        set(witness, 0, 0, first + shift);
        set(witness, 0, 1, P - shift + second);
    });
    assert_eq!(test, Test::InputBound);
    // A test of the sum of a block, as a public implementation has it, sees no difference.
    let residual = |words: [u64; 2], bits: [u64; 2]| {
        let sum = |pair: [u64; 2]| (pair[0] + pair[1]) % P;
        (sum(words) + P - sum(bits)) % P
    };
    let (honest, moved) = ([3, 5], [3 + shift, P - shift + 5]);
    assert_eq!(residual(honest, honest), residual(moved, honest));
}

#[test]
fn case_14_bits_of_a_norm_that_are_none_fail_norm_bit() {
    let test = refused_by(|witness| {
        let row = witness.layout().norm_bits().start;
        let (first, second) = (*witness.at(row, 0), *witness.at(row, 1));
        // The sum of the bits stays.
        *witness.at(row, 0) = first + 2;
        *witness.at(row, 1) = (second + P - 1) % P;
    });
    assert_eq!(test, Test::NormBit);
}

#[test]
fn case_14_bits_of_another_norm_fail_norm() {
    // Their vector has a norm above the bound, and its bits say what they can.
    let loud = [128 + 90; WORDS];
    let most = NormBound {
        most: 1 << 20,
        ..bound(1)
    };
    let free = Statement {
        norm: Some(most),
        ..statement()
    };
    assert_eq!(Play::new(free, &loud, |_| {}).verdict_of_all(), fits(&[]));
    let test = refused_by(|witness| {
        for slot in 0..4 {
            for block in 0..3 {
                if slot * 3 + block < WORDS {
                    set(witness, block, slot, loud[0]);
                    let (bits, blocks) = (witness.layout().bits().start, 3);
                    for bit in 0..BITS as usize {
                        *witness.at(bits + bit * blocks + block, slot) = loud[0] >> bit & 1;
                    }
                }
            }
        }
        for row in witness.layout().norm_bits() {
            for slot in 0..4 {
                *witness.at(row, slot) = 1;
            }
        }
    });
    assert_eq!(test, Test::Norm);
}

#[test]
fn case_14_a_row_of_too_high_degree_fails_degree() {
    let mut play = Play::new(statement(), &words(4), |_| {});
    // Values of a polynomial of degree k instead.
    for (column, point) in play.columns.iter_mut().zip(&play.sharing.points.shares) {
        let share = Field47::read_from(&column[..6]).unwrap();
        let more = point.power(play.sharing.parameters().threshold() as u64);
        (share + more).write_to(&mut column[..6]);
    }
    assert_eq!(play.verdict_of_all(), Verdict::Fails(Test::Degree));
}

#[test]
fn case_16_wrong_shares_point_at_their_victims() {
    for victims in [vec![4], vec![2, 9, 23]] {
        let mut play = Play::new(statement(), &words(4), |_| {});
        for &victim in &victims {
            play.columns[victim][12] ^= 1;
        }
        assert_eq!(play.verdict_of_all(), fits(&victims));
    }
}

#[test]
fn case_17_verifiers_that_lie_are_pointed_at_and_the_prover_is_not() {
    let play = Play::new(statement(), &words(4), |_| {});
    let verifiers: Vec<usize> = (2..24).collect();
    assert_eq!(play.verdict(&verifiers, &[5, 7, 23]), fits(&[5, 7, 23]));
    assert_eq!(play.verdict(&verifiers, &[]), fits(&[]));
    // More than may lie: whoever asks for the verdict knows by their number that it was the prover.
    let many = [5, 7, 8, 9, 10];
    assert_eq!(play.verdict(&verifiers[..21], &many), fits(&many));
    // More than the test of degree can tell apart.
    let most = [2, 3, 4, 5, 7, 8, 9, 10];
    let fails = Verdict::Fails(Test::Degree);
    assert_eq!(play.verdict(&verifiers[..21], &most), fails);
}

/// What is wrong of two provers' answers adds up to nothing: the first test of all together must not add it up.
#[test]
fn case_17_wrong_answers_about_two_provers_do_not_cancel() {
    let play = Play::new(statement(), &words(4), |_| {});
    let challenge = play.sharing.challenge([7; 32]);
    let answers: Vec<Answer> = (0..24)
        .map(|j| {
            let column = &play.columns[j];
            play.sharing.answer(&challenge, j, column, SEED).unwrap()
        })
        .collect();
    let wrong = |by: Field47| {
        let mut answers = answers.clone();
        answers[5].0.iter_mut().for_each(|element| *element += by);
        answers
    };
    let both = [wrong(Field47::ONE), wrong(-Field47::ONE)];
    let about: Vec<Vec<Option<&Answer>>> = both
        .iter()
        .map(|of| of.iter().map(Some).collect())
        .collect();
    let everybody: Vec<usize> = (0..24).collect();
    let verdicts = play.sharing.judge(&everybody, &about, &mut rng(1));
    assert_eq!(verdicts, [fits(&[5]), fits(&[5])]);
}

#[test]
fn missing_answers_count_as_erased() {
    let play = Play::new(statement(), &words(4), |_| {});
    let challenge = play.sharing.challenge([7; 32]);
    let verifiers: Vec<usize> = (0..22).collect();
    let mut answers: Vec<Option<Answer>> = verifiers
        .iter()
        .map(|&j| {
            Some(
                play.sharing
                    .answer(&challenge, j, &play.columns[j], SEED)
                    .unwrap(),
            )
        })
        .collect();
    answers[3] = None;
    answers[4] = answers[5].clone();
    let about = vec![answers.iter().map(Option::as_ref).collect()];
    let verdict = play
        .sharing
        .judge(&verifiers, &about, &mut rng(1))
        .remove(0);
    assert_eq!(verdict, fits(&[4]));
}

#[test]
fn answers_and_columns_of_other_lengths_or_beyond_the_field_are_refused() {
    let play = Play::new(statement(), &words(4), |_| {});
    let (sharing, column) = (&play.sharing, &play.columns[0]);
    let challenge = sharing.challenge([7; 32]);
    assert!(sharing.answer(&challenge, 0, &column[1..], SEED).is_err());
    assert!(sharing.answer(&challenge, 24, column, SEED).is_err());
    assert!(sharing.words_of(&column[1..]).is_err());
    let mut large = column.clone();
    large[..6].fill(0xff);
    assert!(sharing.answer(&challenge, 0, &large, SEED).is_err());
    let answer = sharing.write_answer(&sharing.answer(&challenge, 0, column, SEED).unwrap());
    assert!(sharing.read_answer(&answer[1..]).is_err());
    assert!(sharing.read_answer(&vec![0xff; answer.len()]).is_err());
    let mut columns = vec![vec![0; 1]; 24];
    let mut places: Vec<_> = columns
        .iter_mut()
        .map(|column| Some(&mut column[..]))
        .collect();
    assert!(
        sharing
            .deal_words(&seeds(1), &play.witness, &mut places)
            .is_err()
    );
    assert!(
        sharing
            .deal_proof(&seeds(1), &play.witness, &mut places)
            .is_err()
    );
}
