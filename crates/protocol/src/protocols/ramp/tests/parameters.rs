//! Job specifications that these protocols refuse.

use super::*;

fn refused(change: impl FnOnce(&mut JobSpec), base: &JobSpec, field: &str, rule: &str) {
    let mut spec = base.clone();
    change(&mut spec);
    let error = spec.validate().unwrap_err();
    assert_eq!(error.field, field, "{error}");
    assert!(error.rule.contains(rule), "{error}");
}

/// Case 24: every inequality broken by one; the error quotes it.
#[test]
fn case_24_inequalities() {
    // n = 10, c = 2: k = 10 - 3 = 7 > 6.
    let active = JobSpec {
        dropout: 0.3,
        ..active(10)
    };
    active.clone().validate().unwrap();
    let confirmed = "7 of 10 parties must give their shares where adversary = active, with 2 corrupt parties; the threshold is 6";
    refused(|s| s.dropout = 0.4, &active, "dropout", confirmed);
    refused(
        |s| *s = with(s.clone(), 6, 0),
        &active,
        "protocol.threshold",
        confirmed,
    );
    let most = "the threshold is 8 and must be at most 7: 10 parties less 3 that may drop out";
    refused(
        |s| *s = with(s.clone(), 8, 0),
        &active,
        "protocol.threshold",
        most,
    );
    let most = "packing is 6 and must be at most 5";
    refused(
        |s| *s = with(s.clone(), 0, 6),
        &active,
        "protocol.packing",
        most,
    );
    refused(
        |s| s.min_parties = 3,
        &active,
        "min_parties",
        "must be at least 4 (is 3): with 2",
    );
    let two = "must be at least 3 (is 2): with 1";
    refused(|s| s.parties = 2, &active, "parties", two);
    let way_out = "two parties can only sum with adversary = semi-honest";
    refused(|s| s.parties = 2, &active, "parties", way_out);
    refused(|s| s.dim = 0, &active, "dim", "dim");
    let most = "n = 16385 <= 16384";
    refused(|s| s.parties = 16_385, &active, "parties", most);
    let semi_honest = JobSpec {
        adversary: Adversary::SemiHonest,
        ..active
    };
    let least = "the threshold is 2 and must be at least 3 with 2 corrupt parties";
    refused(|s| s.dropout = 0.8, &semi_honest, "dropout", least);
}

/// Case 25: as many words as coefficients, which leaves nothing random, cannot be had.
#[test]
fn case_25_no_sharing_without_randomness() {
    for variant in VARIANTS {
        let base = JobSpec {
            corrupt: 0.0,
            dropout: 0.0,
            ..spec(variant, 10)
        };
        let packed = |s: &mut JobSpec| *s = with(s.clone(), 0, 10);
        refused(
            packed,
            &base,
            "protocol.packing",
            "packing is 10 and must be at most",
        );
    }
}
