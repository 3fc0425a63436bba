//! What sharing and rebuilding promise, on random inputs, and every rule that they enforce.

use blindsum_math::field::Field;
use blindsum_math::field61::Field61;
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use super::super::{
    Point, Reconstructor, SHARE_LEN, Share, reconstruct, robust_reconstruct, share,
};
use crate::SharingError;

fn points(values: &[u32]) -> Vec<Point> {
    values.iter().map(|&x| Point::new(x).unwrap()).collect()
}

fn pick<'a>(
    points: &[Point],
    shares: &'a [Share],
    positions: impl IntoIterator<Item = usize>,
) -> Vec<(Point, &'a Share)> {
    positions
        .into_iter()
        .map(|i| (points[i], &shares[i]))
        .collect()
}

/// A threshold t, n ≥ t distinct points, and the positions of all n in random order.
fn sharing(max_holders: usize) -> impl Strategy<Value = (usize, Vec<Point>, Vec<usize>)> {
    prop::collection::hash_set(1..=u32::MAX, 1..=max_holders).prop_flat_map(|values| {
        let values: Vec<u32> = values.into_iter().collect();
        let order = Just((0..values.len()).collect::<Vec<_>>()).prop_shuffle();
        (1..=values.len(), Just(points(&values)), order)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_t_shares_rebuild((t, points, order) in sharing(24), secret: [u8; 32], seed: [u8; 32]) {
        let shares = share(&secret, t, &points, &mut ChaCha20Rng::from_seed(seed)).unwrap();
        let chosen = pick(&points, &shares, order.into_iter().take(t));
        prop_assert_eq!(*reconstruct(t, &chosen).unwrap(), secret);
    }

    #[test]
    fn one_reconstructor_serves_many_secrets(
        (t, points, order) in sharing(12),
        secrets: [[u8; 32]; 3],
        seed: [u8; 32],
    ) {
        let rng = &mut ChaCha20Rng::from_seed(seed);
        let holders: Vec<Point> = order.iter().map(|&i| points[i]).collect();
        let reconstructor = Reconstructor::new(t, &holders).unwrap();
        for secret in secrets {
            let shares = share(&secret, t, &points, rng).unwrap();
            let used: Vec<&Share> = order.iter().take(t).map(|&i| &shares[i]).collect();
            prop_assert_eq!(*reconstructor.reconstruct(&used).unwrap(), secret);
        }
    }

    #[test]
    fn encoding_round_trips(secret: [u8; 32], seed: [u8; 32]) {
        let holders = points(&[1, 2, 3]);
        for share in share(&secret, 2, &holders, &mut ChaCha20Rng::from_seed(seed)).unwrap() {
            let again = Share::parse(&*share.to_bytes()).unwrap();
            prop_assert_eq!(again.to_bytes(), share.to_bytes());
        }
    }

    #[test]
    fn fewer_than_t_shares_give_something_else((t, points, order) in sharing(12), seed: [u8; 32]) {
        prop_assume!(t > 1);
        let secret = [0x5a; 32];
        let shares = share(&secret, t, &points, &mut ChaCha20Rng::from_seed(seed)).unwrap();
        let chosen = pick(&points, &shares, order.into_iter().take(t - 1));
        let guess = reconstruct(t - 1, &chosen);
        prop_assert!(guess.map_or(true, |guess| *guess != secret));
    }

    #[test]
    fn wrong_shares_up_to_the_bound_are_found(
        ((t, points, order), limb) in (sharing(14), 0..super::super::LIMBS),
        secret: [u8; 32],
        seed: [u8; 32],
        all_limbs: bool,
    ) {
        let mut shares = share(&secret, t, &points, &mut ChaCha20Rng::from_seed(seed)).unwrap();
        for wrong in 0..=(points.len() - t) / 2 {
            if wrong > 0 {
                let liar = &mut shares[order[wrong - 1]];
                for (i, value) in liar.0.iter_mut().enumerate() {
                    if all_limbs || i == limb {
                        *value += Field61::from_u32(wrong as u32);
                    }
                }
            }
            let all = pick(&points, &shares, 0..points.len());
            let (rebuilt, liars) = robust_reconstruct(t, &all).unwrap();
            prop_assert_eq!(*rebuilt, secret);
            let expected: Vec<Point> =
                (0..points.len()).filter(|i| order[..wrong].contains(i)).map(|i| points[i]).collect();
            prop_assert_eq!(liars, expected);
        }
    }

    #[test]
    fn more_random_errors_are_refused((t, points, order) in sharing(14), seed: [u8; 32]) {
        // With t = m every word is a codeword; one share more is needed to see an error at all.
        prop_assume!(points.len() > t);
        let rng = &mut ChaCha20Rng::from_seed(seed);
        let correctable = (points.len() - t) / 2;
        let mut shares = share(&[3; 32], t, &points, rng).unwrap();
        for &liar in &order[..=correctable] {
            Field61::fill_random(&mut shares[liar].0, rng);
        }
        let refused = robust_reconstruct(t, &pick(&points, &shares, 0..points.len())).err();
        let got = points.len();
        prop_assert_eq!(refused, Some(SharingError::Undecodable { got, threshold: t, correctable }));
    }
}

#[test]
fn liars_who_split_the_limbs_among_them_are_counted_together() {
    let holders = points(&[1, 2, 3, 4, 5]);
    let rng = &mut ChaCha20Rng::from_seed([8; 32]);
    let mut shares = share(&[9; 32], 3, &holders, rng).unwrap();
    shares[0].0[0] += Field61::ONE;
    let (_, liars) = robust_reconstruct(3, &pick(&holders, &shares, 0..5)).unwrap();
    assert_eq!(liars, points(&[1]));
    shares[1].0[1] += Field61::ONE;
    let refused = robust_reconstruct(3, &pick(&holders, &shares, 0..5)).err();
    let rule = SharingError::Undecodable {
        got: 5,
        threshold: 3,
        correctable: 1,
    };
    assert_eq!(refused, Some(rule));
}

/// Case 23 of the abuse suite.
#[test]
fn no_share_holds_a_limb_of_the_secret() {
    let rng = &mut ChaCha20Rng::from_seed([2; 32]);
    let holders: Vec<Point> = (0..100).map(|rank| Point::of_rank(rank).unwrap()).collect();
    for secret in [[0; 32], [0xff; 32], [0x31; 32]] {
        let limbs = super::super::split(&secret);
        for share in share(&secret, 67, &holders, rng).unwrap() {
            assert!(share.0.iter().all(|value| !limbs.contains(value)));
        }
    }
}

/// Case 24 of the abuse suite.
#[test]
fn thresholds_out_of_range_are_refused() {
    let rng = &mut ChaCha20Rng::from_seed([0; 32]);
    let two = points(&[1, 2]);
    for (threshold, holders) in [(0, &two[..]), (3, &two[..]), (0, &[]), (1, &[])] {
        let rule = SharingError::Threshold {
            threshold,
            holders: holders.len(),
        };
        assert_eq!(share(&[0; 32], threshold, holders, rng).err(), Some(rule));
    }
    let message = share(&[0; 32], 3, &two, rng).err().unwrap().to_string();
    assert!(message.contains("t = 3, n = 2") && message.contains("1 <= t <= n"));
    let rule = SharingError::Threshold {
        threshold: 0,
        holders: 2,
    };
    assert_eq!(Reconstructor::new(0, &two).err(), Some(rule));
}

/// Case 24 of the abuse suite.
#[test]
fn one_holder_alone_works() {
    let rng = &mut ChaCha20Rng::from_seed([0; 32]);
    let holder = points(&[1]);
    let shares = share(&[4; 32], 1, &holder, rng).unwrap();
    assert_eq!(
        *reconstruct(1, &[(holder[0], &shares[0])]).unwrap(),
        [4; 32]
    );
}

/// Case 23 of the abuse suite.
#[test]
fn equal_points_are_refused() {
    let rng = &mut ChaCha20Rng::from_seed([0; 32]);
    let twice = points(&[3, 1, 3]);
    let rule = Some(SharingError::DuplicatePoint { point: 3 });
    assert_eq!(share(&[0; 32], 2, &twice, rng).err(), rule);
    assert_eq!(Reconstructor::new(2, &twice).err(), rule);
    let shares = share(&[0; 32], 2, &points(&[1, 3]), rng).unwrap();
    let both = [(twice[0], &shares[1]), (twice[2], &shares[1])];
    assert_eq!(reconstruct(2, &both).err(), rule);
    assert_eq!(robust_reconstruct(2, &both).err(), rule);
}

/// Case 24 of the abuse suite.
#[test]
fn too_few_or_too_many_shares_are_refused() {
    let rng = &mut ChaCha20Rng::from_seed([0; 32]);
    let holders = points(&[1, 2, 3]);
    let shares = share(&[0; 32], 3, &holders, rng).unwrap();
    let two = pick(&holders, &shares, 0..2);
    let rule = Some(SharingError::TooFewShares {
        got: 2,
        threshold: 3,
    });
    assert_eq!(reconstruct(3, &two).err(), rule);
    assert_eq!(robust_reconstruct(3, &two).err(), rule);
    let all: Vec<&Share> = shares.iter().collect();
    let reconstructor = Reconstructor::new(2, &holders).unwrap();
    let rule = Some(SharingError::ShareCount { got: 3, points: 2 });
    assert_eq!(reconstructor.reconstruct(&all).err(), rule);
}

#[test]
fn shares_of_other_lengths_are_refused() {
    for got in [0, SHARE_LEN - 1, SHARE_LEN + 1] {
        let refused = Share::parse(&vec![0; got]).err();
        assert_eq!(
            refused,
            Some(SharingError::ShareLength {
                got,
                need: SHARE_LEN
            })
        );
    }
}
