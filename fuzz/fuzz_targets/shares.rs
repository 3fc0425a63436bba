//! Shares: read from any bytes; rebuilt although some are wrong, or refused.
#![no_main]

use arbitrary::Arbitrary;
use blindsum_sharing::{Point, SHARE_LEN, Share, reconstruct, robust_reconstruct, share};
use libfuzzer_sys::fuzz_target;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

#[derive(Arbitrary, Debug)]
struct Case {
    threshold: u8,
    secret: [u8; 32],
    ranks: Vec<u32>,
    wrong: Vec<(u8, [u8; SHARE_LEN])>,
    bytes: Vec<u8>,
}

fuzz_target!(|case: Case| {
    if let Ok(share) = Share::parse(&case.bytes) {
        assert_eq!(share.to_bytes()[..], case.bytes[..], "one encoding each");
    }
    let points: Vec<Point> = case
        .ranks
        .iter()
        .take(24)
        .filter_map(|&rank| Point::of_rank(rank).ok())
        .collect();
    let threshold = usize::from(case.threshold % 28);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let Ok(mut shares) = share(&case.secret, threshold, &points, &mut rng) else {
        let none: Vec<(Point, &Share)> = Vec::new();
        assert!(robust_reconstruct(threshold, &none).is_err());
        return;
    };
    let mut wrong = vec![false; shares.len()];
    for (holder, bytes) in &case.wrong {
        let holder = usize::from(*holder) % shares.len();
        if let Ok(other) = Share::parse(bytes) {
            wrong[holder] = true;
            shares[holder] = other;
        }
    }
    let held: Vec<(Point, &Share)> = points.iter().copied().zip(&shares).collect();
    let _ = reconstruct(threshold, &held);
    let liars = wrong.iter().filter(|wrong| **wrong).count();
    let rebuilt = robust_reconstruct(threshold, &held);
    if liars <= (shares.len() - threshold) / 2 {
        let (secret, named) = rebuilt.expect("few enough are wrong");
        assert_eq!(*secret, case.secret);
        let honest = points.iter().zip(&wrong).filter(|(_, wrong)| !**wrong);
        assert!(honest.into_iter().all(|(point, _)| !named.contains(point)));
    }
});
