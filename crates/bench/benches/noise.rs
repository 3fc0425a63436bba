//! Noise of differential privacy on one core: numbers a second, random bytes included, and the time of the tables.
//!
//! `cargo bench -p blindsum-bench --bench noise` first prints the best of many short runs, which a busy
//! machine hardly disturbs, then criterion's statistics.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use blindsum_crypto::mask::{MaskKey, MaskSeed};
use blindsum_crypto::secret::Secret;
use blindsum_privacy::{Mechanism, Sampler, Variance};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};

/// Numbers of a run: a tile of the encoder.
const COUNT: usize = 16 * 1024;

/// Shares of noise: their name, their distribution and their variance.
fn cases() -> [(&'static str, Mechanism, u64); 5] {
    [
        ("gaussian, sd 4", Mechanism::DiscreteGaussian, 16),
        ("gaussian, sd 230", Mechanism::DiscreteGaussian, 230 * 230),
        (
            "gaussian, sd 3664",
            Mechanism::DiscreteGaussian,
            3664 * 3664,
        ),
        ("gaussian, sd 2^20", Mechanism::DiscreteGaussian, 1 << 40),
        ("skellam, sd 128", Mechanism::Skellam, 1 << 14),
    ]
}

fn sampler(mechanism: Mechanism, variance: u64) -> Sampler {
    let variance = Variance::new(variance, 1).expect("it is in its range");
    Sampler::new(mechanism, variance).expect("it is in its range")
}

fn key() -> MaskKey {
    MaskKey::new(MaskSeed::from(Secret::from([1; 32])))
}

/// The shortest of many runs.
fn best(runs: u32, mut run: impl FnMut()) -> Duration {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..runs).map(time).min().unwrap_or_default()
}

fn print_best() {
    println!("best of many runs on one core:");
    for (name, mechanism, variance) in cases() {
        let tables = best(20, || drop(black_box(sampler(mechanism, variance))));
        let (sampler, key) = (sampler(mechanism, variance), key());
        let mut numbers = vec![0; COUNT];
        let time = best(500, || sampler.draw(&key, 0, black_box(&mut numbers)));
        let rate = COUNT as f64 / time.as_secs_f64() / 1e6;
        println!(
            "  {name:>20}: {rate:7.1} M numbers/s, {} scans, tables of {:.1} KiB in {tables:.1?}",
            sampler.scans(),
            sampler.bytes() as f64 / 1024.0
        );
    }
}

fn draws(c: &mut Criterion) {
    let mut group = c.benchmark_group("noise");
    group.throughput(Throughput::Elements(COUNT as u64));
    for (name, mechanism, variance) in cases() {
        let (sampler, key) = (sampler(mechanism, variance), key());
        let mut numbers = vec![0; COUNT];
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| sampler.draw(&key, 0, black_box(&mut numbers)));
        });
    }
    group.finish();
}

criterion_group!(benches, draws);

fn main() {
    print_best();
    benches();
    Criterion::default().configure_from_args().final_summary();
}
