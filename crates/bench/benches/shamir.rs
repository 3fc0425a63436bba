//! Sharing and rebuilding on a complete graph of 100 parties with threshold 67.

use std::hint::black_box;

use blindsum_sharing::{Point, Reconstructor, Share, robust_reconstruct, share};
use criterion::{Criterion, criterion_group, criterion_main};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

const HOLDERS: u32 = 100;
const THRESHOLD: usize = 67;

fn shamir(criterion: &mut Criterion) {
    let rng = &mut ChaCha20Rng::from_seed([3; 32]);
    let points: Vec<Point> = (0..HOLDERS)
        .map(|rank| Point::of_rank(rank).expect("small"))
        .collect();
    let secret = [0x5c; 32];
    let sharing = |rng: &mut ChaCha20Rng| share(&secret, THRESHOLD, &points, rng).expect("valid");

    criterion.bench_function("share one secret, 67 of 100", |bencher| {
        bencher.iter(|| black_box(sharing(rng)));
    });

    criterion.bench_function("Lagrange coefficients, 67 holders", |bencher| {
        bencher.iter(|| Reconstructor::new(THRESHOLD, black_box(&points)).expect("valid"));
    });

    let shares = sharing(rng);
    let reconstructor = Reconstructor::new(THRESHOLD, &points).expect("valid");
    let used: Vec<&Share> = shares.iter().take(THRESHOLD).collect();
    criterion.bench_function("rebuild 100 secrets, 67 shares each", |bencher| {
        bencher.iter(|| {
            for _ in 0..100 {
                black_box(reconstructor.reconstruct(black_box(&used)).expect("valid"));
            }
        });
    });

    let honest: Vec<(Point, &Share)> = points.iter().copied().zip(&shares).collect();
    criterion.bench_function("robust, 67 of 100, none wrong", |bencher| {
        bencher.iter(|| robust_reconstruct(THRESHOLD, black_box(&honest)).expect("valid"));
    });

    let others = sharing(rng);
    let mut lied = honest.clone();
    for (entry, other) in lied.iter_mut().zip(&others).take(16) {
        entry.1 = other;
    }
    criterion.bench_function("robust, 67 of 100, 16 wrong", |bencher| {
        bencher.iter(|| robust_reconstruct(THRESHOLD, black_box(&lied)).expect("valid"));
    });
}

criterion_group!(benches, shamir);
criterion_main!(benches);
