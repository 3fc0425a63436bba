//! Packing words and adding packed words, in ns a lane on one core: a tile in the cache, and a server that
//! folds uploads of 10^6 words into a sum.
//!
//! `cargo bench -p blindsum-bench --bench words` first prints the best of many short runs, which a busy machine
//! hardly disturbs, then criterion's statistics.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use blindsum_math::words::{Width, Words, pack_tile};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};

const WIDTHS: [u32; 14] = [1, 2, 4, 8, 12, 16, 20, 23, 24, 27, 31, 32, 40, 64];
const TILE: usize = 4096;
const UPLOAD: usize = 1_000_000;

fn words(bits: u32, lanes: usize) -> Words {
    let width = Width::new(bits).expect("1 to 64 bits");
    let values: Vec<u64> = (0..lanes as u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & width.mask())
        .collect();
    Words::from_values(width, &values).expect("reduced values")
}

/// Calls `work` for every width with both operations on vectors of `lanes` lanes.
fn each(lanes: usize, mut work: impl FnMut(&str, u32, &mut dyn FnMut())) {
    for bits in WIDTHS {
        let one = words(bits, lanes);
        let mut packed = Vec::with_capacity(one.width().packed_len(lanes));
        work("pack", bits, &mut || {
            packed.clear();
            pack_tile(one.width(), black_box(one.tile(0..lanes)), &mut packed);
            black_box(&packed);
        });
        let packed = one.pack();
        let mut sum = Words::zeros(one.width(), lanes);
        work("add_packed", bits, &mut || {
            sum.add_packed(black_box(&packed))
                .expect("the right length");
        });
        black_box(&sum);
    }
}

fn best_of_short_runs() {
    for (name, lanes) in [("tile of 4096", TILE), ("10^6 words", UPLOAD)] {
        each(lanes, |operation, bits, run| {
            let start = Instant::now();
            let mut best = Duration::MAX;
            while start.elapsed() < Duration::from_millis(250) {
                let before = Instant::now();
                run();
                best = best.min(before.elapsed());
            }
            let nanos = best.as_secs_f64() * 1e9 / lanes as f64;
            println!("{operation:>10}, {name:>12}, {bits:>2} bits: {nanos:.3} ns a lane");
        });
    }
}

fn statistics(criterion: &mut Criterion) {
    for (name, lanes) in [("tile", TILE), ("upload", UPLOAD)] {
        each(lanes, |operation, bits, run| {
            let mut group = criterion.benchmark_group(format!("words/{name}/{operation}"));
            group.throughput(Throughput::Elements(lanes as u64));
            group.bench_function(BenchmarkId::from_parameter(bits), |bencher| {
                bencher.iter(&mut *run)
            });
        });
    }
}

criterion_group!(benches, statistics);

fn main() {
    best_of_short_runs();
    benches();
    Criterion::default().configure_from_args().final_summary();
}
