//! Which vectors and statements are accepted.

use proptest::prelude::*;

use super::*;

fn accepts(statement: Statement, words: &[u64]) {
    let play = Play::new(statement, words, |_| {});
    assert_eq!(play.verdict_of_all(), fits(&[]), "{words:?}");
}

#[test]
fn case_14_what_is_exactly_at_the_bounds_is_accepted() {
    let bound = bound(1);
    for words in [
        [0; WORDS],
        [255; WORDS],
        [128; WORDS],
        [127; WORDS],
        [0, 255, 0, 255, 128, 127, 1, 254, 0, 255],
    ] {
        let norm: u64 = words.iter().map(|&word| bound.square(word)).sum();
        // The least bound is 1; a vector of zeros has less.
        let most = norm.max(1);
        let norm = Some(NormBound { most, ..bound });
        accepts(
            Statement {
                norm,
                ..statement()
            },
            &words,
        );
        accepts(
            Statement {
                norm: None,
                ..statement()
            },
            &words,
        );
    }
}

#[test]
fn case_14_what_is_one_above_a_bound_has_no_witness() {
    let layout = |norm| {
        Layout::new(
            Statement {
                norm,
                ..statement()
            },
            4,
            1 << 46,
        )
        .unwrap()
    };
    let words = [200; WORDS];
    let norm: u64 = words.iter().map(|&word| bound(1).square(word)).sum();
    assert!(Witness::new(layout(Some(bound(norm))), &words).is_ok());
    let refused = Witness::new(layout(Some(bound(norm - 1))), &words).err();
    assert_eq!(refused, Some(ValidityError::Norm { most: norm - 1 }));
    let mut words = [0; WORDS];
    words[9] = 256;
    let refused = Witness::new(layout(None), &words).err();
    assert_eq!(refused, Some(ValidityError::Word { most: 255 }));
    let refused = Witness::new(layout(None), &words[..9]).err();
    assert_eq!(refused, Some(ValidityError::Words { got: 9, need: 10 }));
}

#[test]
fn case_24_statements_that_break_a_rule_quote_it() {
    let p = 1 << 30;
    let refused = |statement: Statement| Layout::new(statement, 4, p).err().unwrap().to_string();
    let with = |norm| Statement {
        norm: Some(norm),
        ..statement()
    };
    assert!(
        refused(Statement {
            largest: 0,
            ..statement()
        })
        .contains("1 <= largest word = 0 < 2^32")
    );
    assert!(
        refused(Statement {
            largest: 1 << 32,
            ..statement()
        })
        .contains("largest word = 4294967296 < 2^32")
    );
    assert!(
        refused(Statement {
            largest: 1 << 30,
            ..statement()
        })
        .contains("< p")
    );
    assert!(
        refused(Statement {
            words: 0,
            ..statement()
        })
        .contains("words = 0")
    );
    assert!(refused(with(bound(0))).contains("1 <= T = 0"));
    assert!(refused(with(bound(p))).contains("T = 1073741824 < p"));
    let zero = |offset, slope| NormBound {
        offset,
        slope,
        most: 5,
    };
    for norm in [zero(256, 1), zero(128, 2)] {
        assert!(refused(with(norm)).contains("the word for zero must be a word"));
    }
    let wide = Statement {
        largest: (1 << 14) - 1,
        words: 17,
        range: RangeProof::Bits,
        norm: Some(NormBound {
            offset: 1 << 13,
            slope: 1,
            most: 5,
        }),
    };
    assert!(
        refused(wide).contains("B * l * largest square = 20 * 67"),
        "{}",
        refused(wide)
    );
    assert!(Layout::new(Statement { words: 15, ..wide }, 5, p).is_ok());
}

#[test]
fn case_24_parameters_that_break_a_rule_quote_it() {
    let refused = |request| {
        ValidityParameters::choose(&request)
            .unwrap_err()
            .to_string()
    };
    assert!(
        refused(ValidityRequest {
            parties: 1,
            ..REQUEST
        })
        .contains("parties is 1 and must be at least 2")
    );
    assert!(
        refused(ValidityRequest {
            words: 0,
            ..REQUEST
        })
        .contains("dim is 0 and must be at least 1")
    );
    assert!(
        refused(ValidityRequest {
            dropouts: 24,
            ..REQUEST
        })
        .contains("of 24 parties 24 may drop out")
    );
    // n - d = 22 answers allow k = 8, hence l = 5.
    let most = ValidityParameters::choose(&ValidityRequest {
        packing: 5,
        ..REQUEST
    })
    .unwrap();
    assert_eq!((most.threshold(), most.answers()), (8, 21));
    let refused_packing = refused(ValidityRequest {
        packing: 6,
        ..REQUEST
    });
    assert!(
        refused_packing.contains("at least 25 parties are needed where packing = 6; there are 24"),
        "{refused_packing}"
    );
    assert!(
        refused(ValidityRequest {
            corrupt: 6,
            packing: 0,
            ..REQUEST
        })
        .contains("with 6 corrupt parties and 2 that may drop out, at least 27 parties are needed; there are 24")
    );
    // Twelve of 24 may be lost: 12 - 3 signers are left, and 14 are needed.
    let lossy = ValidityRequest {
        dropouts: 12,
        packing: 1,
        corrupt: 1,
        ..REQUEST
    };
    assert!(ValidityParameters::choose(&lossy).is_ok());
    let lossy = ValidityRequest {
        active: true,
        ..lossy
    };
    assert!(refused(lossy).contains(
        "of 24 parties 13 must confirm the survivors where adversary = active, and 11 are left"
    ));
    // Of those with as few rows the smallest.
    let chosen = ValidityParameters::choose(&ValidityRequest {
        packing: 0,
        ..REQUEST
    })
    .unwrap();
    assert_eq!((chosen.packing(), chosen.threshold()), (5, 8));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn honest_proofs_are_accepted_and_sums_of_columns_are_columns_of_sums(
        seed in any::<u64>(), words_count in 1usize..40, bits in 2u32..12, packing in 1usize..6,
        (has_norm, is_projected, has_middle) in any::<(bool, bool, bool)>(),
    ) {
        let mut draws = rng(seed);
        // With a word in the middle the largest is no power of 2 less one.
        let (largest, slope) = if has_middle { ((1 << bits) - 2, 0) } else { ((1 << bits) - 1, 1) };
        let offset = (largest + slope) / 2;
        let outside = (offset + 1) * (offset + 1 - slope);
        let most = if is_projected { outside - 1 } else { 1 << 30 };
        let norm = (has_norm || is_projected).then_some(NormBound { offset, slope, most });
        let range = if is_projected { RangeProof::Projections } else { RangeProof::Bits };
        let statement = Statement { words: words_count, largest, norm, range };
        let parameters = ValidityParameters::choose(&ValidityRequest { words: words_count, packing, ..REQUEST }).unwrap();
        let sharing = ValiditySharing::new(parameters, statement).unwrap();
        let challenge = sharing.challenge([1; 32]);
        let n = REQUEST.parties;
        let mut sums: Vec<_> = (0..n).map(|_| sharing.words().zero_column()).collect();
        let mut expected = vec![0_u64; words_count];
        let mut provers = Vec::new();
        for prover in 0..3 {
            let mut words: Vec<u64> = (0..words_count).map(|_| draws.next_u64() % (largest + 1)).collect();
            if is_projected {
                // One word as large as may be, all others next to zero.
                words.fill(offset);
                words[draws.next_u64() as usize % words_count] = draws.next_u64() % (largest + 1);
            }
            expected.iter_mut().zip(&words).for_each(|(sum, word)| *sum += word);
            let mut witness = Witness::new(*sharing.layout(), &words).unwrap();
            let projected = [prover as u8; 32];
            witness.project(projected).unwrap();
            let columns = deal(&sharing, &seeds(seed ^ prover), &witness);
            for (sum, column) in sums.iter_mut().zip(&columns) {
                sharing.words().add(sum, sharing.words_of(column).unwrap()).unwrap();
            }
            let answers: Vec<Answer> = (0..n)
                .map(|j| {
                    let answer = sharing.answer(&challenge, j, &columns[j], projected).unwrap();
                    let read = sharing.read_answer(&sharing.write_answer(&answer)).unwrap();
                    assert_eq!(read, answer);
                    read
                })
                .collect();
            provers.push(answers);
        }
        let verifiers: Vec<usize> = (0..n).collect();
        let about: Vec<Vec<Option<&Answer>>> = provers.iter().map(|of| of.iter().map(Some).collect()).collect();
        let verdicts = sharing.judge(&verifiers, &about, &mut rng(3));
        prop_assert!(verdicts.iter().all(|verdict| *verdict == fits(&[])));
        let k = parameters.threshold();
        let holders: Vec<usize> = (n - k..n).collect();
        let columns: Vec<_> = sums[n - k..].iter().collect();
        let mut sum = blindsum_math::words::Words::zeros(blindsum_math::words::Width::new(20).unwrap(), words_count);
        sharing.words().reconstructor(&holders).unwrap().reconstruct(&columns, &mut sum).unwrap();
        let found: Vec<u64> = (0..words_count).map(|i| sum.get(i)).collect();
        prop_assert_eq!(found, expected);
    }
}
