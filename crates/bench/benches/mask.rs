//! Mask expansion fused with the addition: GB/s of keystream on one core, for every backend, width of
//! lane, number of keys and size of vector; and the limit of the machine, which is the AES rounds alone.
//!
//! `cargo bench -p blindsum-bench --bench mask` first prints the best of many short runs, and what
//! fraction of the limit that is (a busy machine hardly disturbs it), then criterion's statistics; a
//! filter such as `limit` or `vaes512` behind `--` limits the latter.
#![allow(missing_docs)]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use blindsum_crypto::{
    mask::{Backend, MaskSeed, MaskStream, Sign, aes_rounds_alone, apply_masks, backend},
    secret::Secret,
};
use blindsum_math::words::TileMut;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};

const IN_CACHE: usize = 64 << 10;
const IN_MEMORY: usize = 64 << 20;

fn streams(backend: Backend, keys: usize) -> Vec<MaskStream> {
    let stream = |key| {
        let seed = MaskSeed::from(Secret::from([key as u8; 32]));
        MaskStream::with_backend(seed, Sign::Add, backend).expect("the backend is available")
    };
    (0..keys).map(stream).collect()
}

/// The backends to measure. The scalar twin takes seconds for large vectors and says nothing new there.
fn backends(size: usize) -> impl Iterator<Item = Backend> {
    let available = Backend::ALL
        .into_iter()
        .filter(|backend| backend.is_available());
    available.filter(move |backend| *backend != Backend::Scalar || size == IN_CACHE)
}

fn masks(criterion: &mut Criterion) {
    for (size_name, size) in [("64KiB", IN_CACHE), ("64MiB", IN_MEMORY)] {
        let mut narrow = vec![0u32; size / 4];
        let mut wide = vec![0u64; size / 8];
        for keys in [1, 8] {
            let mut group = criterion.benchmark_group(format!("mask/{size_name}/{keys}-keys"));
            group.throughput(Throughput::Bytes((size * keys) as u64));
            for backend in backends(size) {
                let streams = streams(backend, keys);
                group.bench_function(BenchmarkId::new(backend.name(), "u32"), |bencher| {
                    bencher.iter(|| apply_masks(&streams, 0, TileMut::W32(black_box(&mut narrow))));
                });
                group.bench_function(BenchmarkId::new(backend.name(), "u64"), |bencher| {
                    bencher.iter(|| apply_masks(&streams, 0, TileMut::W64(black_box(&mut wide))));
                });
            }
        }
    }
}

fn limit(criterion: &mut Criterion) {
    if aes_rounds_alone(IN_CACHE).is_some() {
        let mut group = criterion.benchmark_group("limit");
        group.throughput(Throughput::Bytes(IN_CACHE as u64));
        group.bench_function("AES-256 rounds alone, 512 bit", |bencher| {
            bencher.iter(|| aes_rounds_alone(black_box(IN_CACHE)));
        });
    }
}

/// GB/s (10^9 bytes a second) of the fastest of many runs that each make `bytes` of keystream.
fn best(bytes: usize, mut run: impl FnMut()) -> f64 {
    let time = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    let until = Instant::now() + Duration::from_millis(400);
    let mut fastest = time(&mut run);
    while Instant::now() < until {
        fastest = fastest.min(time(&mut run));
    }
    bytes as f64 / fastest.as_secs_f64() / 1e9
}

/// The table of the best runs.
fn summary() {
    println!(
        "best of many runs, one core; backend in use: {}",
        backend().name()
    );
    let limit = aes_rounds_alone(IN_CACHE).map(|_| {
        best(IN_CACHE, || {
            black_box(aes_rounds_alone(black_box(IN_CACHE)));
        })
    });
    if let Some(limit) = limit {
        println!("{:32}{limit:6.1} GB/s", "limit (AES rounds alone)");
    }
    for (size_name, size) in [("64 KiB", IN_CACHE), ("64 MiB", IN_MEMORY)] {
        let mut narrow = vec![0u32; size / 4];
        let mut wide = vec![0u64; size / 8];
        for backend in backends(size) {
            for keys in [1, 8] {
                let streams = streams(backend, keys);
                let u32s = best(size * keys, || {
                    apply_masks(&streams, 0, TileMut::W32(black_box(&mut narrow)));
                });
                let u64s = best(size * keys, || {
                    apply_masks(&streams, 0, TileMut::W64(black_box(&mut wide)));
                });
                for (lane, speed) in [("u32", u32s), ("u64", u64s)] {
                    let row = format!("{size_name}, {keys} keys, {lane}, {}", backend.name());
                    let percent = limit.map(|limit| 100.0 * speed / limit);
                    let share =
                        percent.map_or(String::new(), |p| format!("{p:6.0} % of the limit"));
                    println!("{row:32}{speed:6.1} GB/s{share}");
                }
            }
        }
    }
}

fn config() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .without_plots()
}

criterion_group!(name = statistics; config = config(); targets = limit, masks);

fn main() {
    summary();
    statistics();
    Criterion::default().configure_from_args().final_summary();
}
