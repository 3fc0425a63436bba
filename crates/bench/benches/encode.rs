//! Encoding and decoding, in ns a coordinate on one core: a tile in the cache, and a vector of 10^6. Then what
//! sparse rounds and clipping bounds from earlier rounds need.
//!
//! `cargo bench -p blindsum-bench --bench encode` first prints the best of many short runs, which a busy
//! machine hardly disturbs, then criterion's statistics.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_encode::{
    ClipSpec, DensitySchedule, Divisor, Encoder, Encoding, EncodingKind, EncodingSpec, Rounding,
    Sparsifier,
};
use blindsum_math::words::Words;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};

const TILE: usize = 4096;

fn kinds() -> [(&'static str, EncodingKind); 5] {
    let quantised = |bits, clip, rounding| EncodingKind::Quantised {
        bits,
        clip,
        rounding,
    };
    let clip = ClipSpec::Tensor(1.0);
    [
        ("16 bits, nearest", quantised(16, clip, Rounding::Nearest)),
        (
            "16 bits, stochastic",
            quantised(16, clip, Rounding::Stochastic),
        ),
        (
            "16 bits, L2, stochastic",
            quantised(16, ClipSpec::L2(1.0), Rounding::Stochastic),
        ),
        (
            "32 bits, stochastic",
            quantised(32, clip, Rounding::Stochastic),
        ),
        ("fixed64", EncodingKind::Fixed64 { clip: 1.0 }),
    ]
}

fn encoding(kind: EncodingKind, dim: usize) -> Encoding {
    let spec = EncodingSpec {
        dim,
        kind,
        max_weight: 1,
        parties: 100,
        tensors: Vec::new(),
        tells_reach: false,
        metrics: Vec::new(),
        noise: None,
    };
    spec.validate().expect("a valid encoding")
}

fn encoder<'a>(encoding: &'a Encoding, values: &'a [f32]) -> Encoder<'a> {
    let seed = MaskSeed::from(Secret::from([7; 32]));
    Encoder::new(encoding, values, 1, seed).expect("a valid vector")
}

/// Calls `work` for every encoding with judging, encoding and decoding vectors of `dim` coordinates.
fn each(dim: usize, mut work: impl FnMut(&str, &str, &mut dyn FnMut())) {
    let values: Vec<f32> = (0..dim).map(|i| (i as f32 * 0.37).sin() * 1.01).collect();
    let mut mean = vec![0.0_f32; dim];
    for (name, kind) in kinds() {
        let encoding = encoding(kind, dim);
        work("judge", name, &mut || {
            black_box(encoder(&encoding, black_box(&values)));
        });
        let encoder = encoder(&encoding, &values);
        let mut words = Words::zeros(encoding.width(), encoding.lanes());
        work("encode", name, &mut || {
            for first in (0..dim).step_by(TILE) {
                let tile = words.tile_mut(first..dim.min(first + TILE));
                encoder
                    .encode_tile(first, tile)
                    .expect("a tile of the vector");
            }
            black_box(&words);
        });
        work("decode", name, &mut || {
            let decoded = encoding.decode_mean(black_box(&words), 1, &mut mean);
            assert!(decoded.is_ok());
            black_box(&mean);
        });
    }
}

/// Calls `work` with choosing a tenth of a million coordinates, with the means of as many, of which every
/// count differs from the last, and with what a history makes of them.
fn each_between_rounds(mut work: impl FnMut(&str, &str, &mut dyn FnMut())) {
    let dim = 1_000_000;
    let values: Vec<f32> = (0..dim as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 * 1.2e-7 - 1.0)
        .collect();
    for (name, kind) in [kinds()[1], kinds()[4]] {
        let encoding = encoding(kind, dim);
        let schedule = DensitySchedule::new(0.1, 0.1, 0, 1).expect("a valid schedule");
        let sparsifier = Sparsifier::new(&encoding, schedule).expect("a valid encoding");
        work("select", name, &mut || {
            let selection = sparsifier.select(&encoding, 0, black_box(&values[..]));
            assert!(selection.is_ok());
        });
        let words = Words::zeros(encoding.width(), encoding.lanes());
        let counts: Vec<u32> = (0..dim as u64)
            .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32 % 10)
            .collect();
        let mut mean = vec![0.0_f32; dim];
        work("counted", name, &mut || {
            let decoded = encoding.decode_sparse_mean(
                black_box(&words),
                &counts,
                (2, Divisor::Parties(10)),
                &mut mean,
            );
            assert!(decoded.is_ok());
        });
    }
}

fn best_of_short_runs() {
    let print = |size: &str, dim: usize, operation: &str, name: &str, run: &mut dyn FnMut()| {
        let start = Instant::now();
        let mut best = Duration::MAX;
        while start.elapsed() < Duration::from_millis(250) {
            let before = Instant::now();
            run();
            best = best.min(before.elapsed());
        }
        let nanos = best.as_secs_f64() * 1e9 / dim as f64;
        println!("{operation:>7}, {size:>12}, {name:>23}: {nanos:.3} ns a coordinate");
    };
    for (size, dim) in [("tile of 4096", TILE), ("10^6", 1_000_000)] {
        each(dim, |operation, name, run| {
            print(size, dim, operation, name, run)
        });
    }
    each_between_rounds(|operation, name, run| print("10^6", 1_000_000, operation, name, run));
}

fn statistics(criterion: &mut Criterion) {
    for (size, dim) in [("tile", TILE), ("million", 1_000_000)] {
        each(dim, |operation, name, run| {
            let mut group = criterion.benchmark_group(format!("encode/{size}/{operation}"));
            group.throughput(Throughput::Elements(dim as u64));
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
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
