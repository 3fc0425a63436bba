//! The choice of parameters, beside that of the thesis.

use blindsum_paper::PaperParameters;

use super::*;

/// Case 24: every feasible choice keeps all inequalities; every other is refused with one of them.
#[test]
fn case_24_inequalities() {
    let (mut chosen, mut refused) = (0, 0);
    for n in 1..=24 {
        for c in 0..=n {
            for d in 0..=n {
                for active in [false, true] {
                    for words in [0, 1, 2, 7, 100] {
                        let request = RampRequest {
                            active,
                            ..request(n, c, d, words)
                        };
                        let r = c.max(1);
                        let feasible = n >= 2 && words >= 1 && d < n && n - d > r;
                        let feasible = feasible && (!active || 2 * (n - d) > n + c);
                        let result = RampParameters::choose(&request);
                        assert_eq!(result.is_ok(), feasible, "{request:?} {result:?}");
                        let Ok(parameters) = result else {
                            refused += 1;
                            continue;
                        };
                        chosen += 1;
                        assert_eq!(parameters.threshold(), n - d);
                        assert!(parameters.packing() >= 1 && parameters.random() >= r);
                        // No packing has fewer blocks, and no smaller one as few.
                        let blocks = parameters.blocks(words);
                        assert_eq!(blocks, words.div_ceil(n - d - r));
                        let smaller = parameters.packing() - 1;
                        assert!(smaller == 0 || words.div_ceil(smaller) > blocks);
                    }
                }
            }
        }
    }
    assert!(chosen > 1000 && refused > 1000);
}

#[test]
fn errors_quote_the_numbers() {
    let text = |request: RampRequest| RampParameters::choose(&request).unwrap_err().to_string();
    assert_eq!(
        text(request(1, 0, 0, 5)),
        "parties: parties is 1 and must be at least 2"
    );
    assert_eq!(
        text(request(5, 0, 5, 5)),
        "dropout: of 5 parties 5 may drop out; at least one must be left"
    );
    let threshold = RampRequest {
        threshold: 5,
        ..request(5, 1, 1, 5)
    };
    assert_eq!(
        text(threshold),
        "threshold: the threshold is 5 and must be at most 4: 5 parties less 1 that may drop out"
    );
    let packing = RampRequest {
        packing: 4,
        ..request(5, 1, 1, 5)
    };
    assert_eq!(
        text(packing),
        "packing: packing is 4 and must be at most 3: the threshold 4 less 1 for 1 corrupt party"
    );
    assert!(
        text(request(5, 3, 2, 5)).starts_with(
            "dropout: the threshold is 3 and must be at least 4 with 3 corrupt parties"
        )
    );
    let active = RampRequest {
        active: true,
        ..request(10, 2, 4, 5)
    };
    assert!(
        text(active).starts_with(
            "dropout: 7 of 10 parties must give their shares where adversary = active"
        )
    );
}

/// The rule of the thesis, with its own numbers and where it wastes: a prime number of words is shared one by
/// one, and a power of two in n leaves most of the packing unused.
#[test]
fn the_rule_of_the_thesis() {
    let paper = PaperParameters::choose(729, 50, 100, 80_000).unwrap();
    assert_eq!(
        (paper.polynomial, paper.packing, paper.points),
        (512, 400, 2187)
    );
    let prime = PaperParameters::choose(100, 10, 10, 1009).unwrap();
    assert_eq!(
        (prime.polynomial, prime.packing, prime.points),
        (64, 1, 243)
    );
    let ours = RampParameters::choose(&request(100, 10, 10, 1009)).unwrap();
    assert_eq!((ours.packing(), ours.blocks(1009)), (78, 13));
    assert_eq!(PaperParameters::choose(10, 5, 0, 100), None);
    assert_eq!(PaperParameters::choose(10, 4, 0, 100), None);
}

#[test]
fn fields_by_the_largest_sum() {
    let p31 = 0x7f00_0001_u128;
    let p47 = 0x7fff_e438_0001_u128;
    let pair = p47 * 0x88b0_0000_0001;
    assert_eq!(Residues::for_sum(0), Some(Residues::Narrow));
    assert_eq!(Residues::for_sum(p31 - 1), Some(Residues::Narrow));
    assert_eq!(Residues::for_sum(p31), Some(Residues::Wide));
    assert_eq!(Residues::for_sum(p47 - 1), Some(Residues::Wide));
    assert_eq!(Residues::for_sum(p47), Some(Residues::Pair));
    assert_eq!(Residues::for_sum(pair - 1), Some(Residues::Pair));
    assert_eq!(Residues::for_sum(pair), None);
    assert_eq!(RESIDUES.map(Residues::share_len), [4, 6, 12]);
}
