//! FLTrust of vectors of which few, or none, point where the root does.

use std::sync::Arc;

use proptest::prelude::*;

use crate::rules::{Bounds, Rule, Trusted, Weighed, total_of};
use crate::testing::{carry, server, shared};
use crate::{Mpc, MpcError, ServerIndex, Vectors, join};

const LENGTH: usize = 30;

/// The servers' result, and that in the clear with its error.
fn both(rows: &[Vec<i64>], root: &[f64], hide_total: bool) -> (Vec<f64>, Vec<f64>, f64) {
    let rule = |trusted| Rule::FlTrust {
        trusted,
        hide_total,
    };
    let clear = rule(Trusted::Known(root)).in_the_clear(rows);
    let code = |me: ServerIndex, line| {
        let components = rows.iter().map(|row| {
            let words: Vec<u64> = row.iter().map(|it| it.cast_unsigned()).collect();
            shared(me, &words).components().map(<[u64]>::to_vec)
        });
        let vectors = Arc::new(Vectors::new(components.collect()).unwrap());
        let (mpc, root) = (server::<u64>(me, line), root.to_vec());
        async move {
            let trusted = Trusted::Known(&root);
            let weighed = mpc
                .fltrust(&vectors, Bounds::new(20)?, trusted, hide_total)
                .await?;
            shown(&mpc, weighed).await
        }
    };
    let found = carry(code, |_| {}).unwrap().results[0].clone();
    (found, clear.mean, clear.error)
}

/// The result as whoever learns it has it.
async fn shown(mpc: &Mpc<u64>, weighed: Weighed<u64>) -> Result<Vec<f64>, MpcError> {
    let total = weighed
        .total
        .clone()
        .unwrap_or_else(|| crate::Shares::zeros(0));
    let (sum, total) = join(mpc.reveal(&weighed.sum), mpc.reveal(&total)).await?;
    let total = total.first().map_or(Some(1.0), |total| total_of(*total));
    let mean = |word: &u64| {
        total.map_or(0.0, |total| {
            word.cast_signed() as f64 / weighed.divisor / total
        })
    };
    Ok(sum.iter().map(mean).collect())
}

/// A vector with so much along the root and the rest across it.
fn tilted(along: i64, across: usize) -> Vec<i64> {
    let mut vector = vec![0; LENGTH];
    vector[0] = along;
    vector[1 + across] = 60_000;
    vector
}

/// Abuse case 39: a root across all vectors singles nobody out, whether the sum of trust is shown or hidden.
#[test]
fn case_39_whoever_is_hardly_trusted_does_not_count() {
    let mut root = vec![0.0; LENGTH];
    root[0] = 50_000.0;
    for along in [-30_000, -1, 0, 1, 30, 300, 900] {
        let rows = [
            tilted(along, 0),
            tilted(0, 1),
            tilted(0, 2),
            tilted(-30_000, 3),
        ];
        for hide_total in [false, true] {
            let (found, clear, error) = both(&rows, &root, hide_total);
            assert!(clear.iter().all(|it| *it == 0.0), "{along}");
            let most = if hide_total { 1.5 } else { 0.0 };
            assert_eq!(error.max(most), error);
            let largest = found.iter().fold(0.0, |most: f64, it| most.max(it.abs()));
            assert!(largest <= most, "{along}, {hide_total}: {found:?}");
        }
    }
    // Just enough.
    for hide_total in [false, true] {
        let (found, clear, error) = both(&[tilted(1000, 0), tilted(0, 1)], &root, hide_total);
        assert!(found[1] > 40_000.0, "{found:?}");
        let off = found
            .iter()
            .zip(&clear)
            .map(|(found, clear)| (found - clear).abs());
        assert!(off.fold(0.0, f64::max) <= error);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn random_vectors_are_within_their_bounds(
        rows in prop::collection::vec(prop::collection::vec(-9000i64..9000, LENGTH), 3..8),
        root in prop::collection::vec(-9000i64..9000, LENGTH),
        hide_total: bool,
    ) {
        let root: Vec<f64> = root.into_iter().map(|it| it as f64).collect();
        let (found, clear, error) = both(&rows, &root, hide_total);
        for (found, clear) in found.iter().zip(&clear) {
            let off = (found - clear).abs();
            prop_assert!(off <= error, "{off} of {error}");
        }
    }
}

/// The bits that are hidden follow from the bits of the norm, at powers of two and next to them, on every platform alike.
#[test]
fn even_bits_of_trust_follow_from_the_bits_of_the_norm() {
    let bounds = Bounds::new(20).unwrap();
    for exponent in 0..60 {
        let power = 2f64.powi(exponent);
        let most = 48u32.saturating_sub(exponent as u32);
        assert_eq!(bounds.even_of_trust(power), most, "2^{exponent}");
        assert_eq!(
            bounds.even_of_trust(power.next_up()),
            most.saturating_sub(1),
            "above 2^{exponent}"
        );
        assert_eq!(
            bounds.even_of_trust(power.next_down()),
            most.min(48),
            "below 2^{exponent}"
        );
    }
    for norm in [0.0, -1.0, f64::MIN_POSITIVE, f64::NAN] {
        assert_eq!(bounds.even_of_trust(norm), 48, "{norm}");
    }
    for norm in [f64::MAX, f64::INFINITY] {
        assert_eq!(bounds.even_of_trust(norm), 0, "{norm}");
    }
}
