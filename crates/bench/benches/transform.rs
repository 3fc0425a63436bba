//! Packed sharing, in ns a share on one core: interpolation of the k values of a block, evaluation at n points and
//! encoding; and the products that put secrets together again.
//!
//! `cargo bench -p blindsum-bench --bench transform` first prints the best of many short runs, which a busy machine
//! hardly disturbs, then criterion's statistics.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use blindsum_math::dense::Matrix;
use blindsum_math::field::Field;
use blindsum_math::prime_field::{Field47, NttField};
use blindsum_math::residues::pack_columns;
use blindsum_math::transform::{Backend, CosetTransform, Interpolation, Row};
use blindsum_paper::PaperSharing;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use rayon::ThreadPoolBuilder;

type Element = Field47;

/// Values a block k, shares a block n, blocks.
const SIZES: [(usize, usize, usize); 11] = [
    (16, 40, 1600),
    (32, 40, 1600),
    (32, 100, 1600),
    (64, 100, 1600),
    (70, 100, 1600),
    (64, 729, 1600),
    (128, 729, 800),
    (512, 729, 160),
    (256, 2187, 400),
    (512, 2187, 160),
    (700, 1000, 160),
];

/// Tiles of eight blocks that are encoded together.
const TILES: usize = 8;

fn noise(rows: usize) -> Vec<Row> {
    let residue = |i: usize| Element::from_wide((i as u128 + 1).pow(5)).to_canonical();
    (0..rows)
        .map(|row| Row(std::array::from_fn(|lane| residue(8 * row + lane))))
        .collect()
}

/// Calls `work` with the name of each stage, the shares that one run makes, and the run.
fn each_stage(
    k: usize,
    n: usize,
    blocks: usize,
    backend: Backend,
    mut work: impl FnMut(&str, usize, &mut dyn FnMut()),
) {
    let transform = CosetTransform::<Element>::with_backend(k, n, backend).expect("a size");
    let interpolation = Interpolation::<Element>::with_backend(k, backend).expect("a size");
    let tiles = blocks / 8;
    let values = noise(k * tiles);
    let mut rows = vec![Row::default(); transform.scratch_rows()];
    work("evaluate", n * blocks, &mut || {
        for values in values.chunks_exact(k) {
            rows[..k].copy_from_slice(values);
            transform.evaluate(black_box(&mut rows));
        }
    });
    work("interpolate", n * blocks, &mut || {
        for values in values.chunks_exact(k) {
            rows[..k].copy_from_slice(values);
            interpolation.interpolate(black_box(&mut rows));
        }
    });
    let mut packed = vec![0; n * blocks * Element::ENCODED_LEN];
    let mut columns: Vec<Option<&mut [u8]>> = packed
        .chunks_exact_mut(blocks * Element::ENCODED_LEN)
        .map(Some)
        .collect();
    let mut tiles = vec![rows; TILES];
    work("whole", n * blocks, &mut || {
        for (number, values) in values.chunks(k * TILES).enumerate() {
            for (rows, values) in tiles.iter_mut().zip(values.chunks_exact(k)) {
                rows[..k].copy_from_slice(values);
                interpolation.interpolate(rows);
                transform.evaluate(rows);
            }
            let tiles: Vec<&[Row]> = tiles
                .iter()
                .take(values.len() / k)
                .map(|rows| &rows[..])
                .collect();
            let at = number * TILES * 8 * Element::ENCODED_LEN;
            pack_columns::<Element>(&tiles, 8 * tiles.len(), at, &mut columns);
        }
        black_box(&columns);
    });
}

/// Calls `work` for every size, stage and backend of this machine.
fn each(mut work: impl FnMut(&str, Backend, usize, &mut dyn FnMut())) {
    for (k, n, blocks) in SIZES {
        for backend in Backend::ALL.into_iter().filter(|b| b.is_available()) {
            each_stage(k, n, blocks, backend, |stage, shares, run| {
                work(
                    &format!("k={k} n={n} blocks={blocks} {stage}"),
                    backend,
                    shares,
                    run,
                );
            });
        }
    }
}

/// Logs of values to base 2 and of shares to base 3, blocks: sharing one block at a time as the literature has it.
const PAPER: [(u32, u32, usize); 3] = [(6, 6, 1600), (7, 6, 800), (9, 6, 160)];

/// Calls `work` with the name of each size, the shares that one run makes, and the run.
fn each_of_the_paper(mut work: impl FnMut(&str, usize, &mut dyn FnMut())) {
    for (log_values, log_shares, blocks) in PAPER {
        let sharing = PaperSharing::<Element>::new(log_values, log_shares).expect("roots");
        let (k, n) = (sharing.values(), sharing.shares());
        let values: Vec<Element> = (0..n)
            .map(|i| Element::from_wide((i as u128).pow(7)))
            .collect();
        let mut block = values.clone();
        work(
            &format!("k={k} n={n} blocks={blocks} paper"),
            n * blocks,
            &mut || {
                for _ in 0..blocks {
                    block[..k].copy_from_slice(&values[..k]);
                    sharing.share(black_box(&mut block));
                }
            },
        );
    }
}

/// Words a block l, columns t, blocks.
const PRODUCTS: [(usize, usize, usize); 4] = [
    (50, 64, 1600),
    (50, 365, 1600),
    (100, 128, 800),
    (500, 512, 160),
];

/// Calls `work` with the name of each product, its words, and a run on one thread.
fn each_product(mut work: impl FnMut(&str, usize, &mut dyn FnMut())) {
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .expect("a thread");
    for (l, t, blocks) in PRODUCTS {
        let entries = (0..l * t).map(|i| Element::from_wide((i as u128 + 7).pow(5)));
        let matrix = Matrix::new(l, t, entries.collect()).expect("a full matrix");
        let values: Vec<u64> = noise(t * blocks / 8).iter().flat_map(|row| row.0).collect();
        let columns: Vec<&[u64]> = values.chunks_exact(blocks).collect();
        let mut out = vec![0; l * blocks];
        work(
            &format!("l={l} t={t} blocks={blocks} product"),
            l * blocks,
            &mut || {
                pool.install(|| matrix.multiply(black_box(&columns), &mut out));
            },
        );
    }
}

/// The shortest of the runs in a quarter of a second, in ns.
fn best(run: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    let mut best = Duration::MAX;
    while start.elapsed() < Duration::from_millis(250) {
        let before = Instant::now();
        run();
        best = best.min(before.elapsed());
    }
    best.as_secs_f64() * 1e9
}

fn best_of_short_runs() {
    each(|name, backend, shares, run| {
        let nanos = best(run);
        let (share, total) = (nanos / shares as f64, nanos / 1e6);
        println!(
            "{name:>40} {:>8}: {share:.3} ns a share, {total:.3} ms",
            backend.name()
        );
    });
    each_of_the_paper(|name, shares, run| {
        let nanos = best(run);
        let (share, total) = (nanos / shares as f64, nanos / 1e6);
        println!("{name:>40}: {share:.3} ns a share, {total:.3} ms");
    });
    each_product(|name, words, run| {
        let nanos = best(run);
        let (word, total) = (nanos / words as f64, nanos / 1e6);
        println!("{name:>40}: {word:.3} ns a word, {total:.3} ms");
    });
}

fn statistics(criterion: &mut Criterion) {
    each(|name, backend, shares, run| {
        let mut group = criterion.benchmark_group(format!("transform/{name}"));
        group.throughput(Throughput::Elements(shares as u64));
        group.bench_function(BenchmarkId::from_parameter(backend.name()), |bencher| {
            bencher.iter(&mut *run)
        });
    });
    each_product(|name, words, run| {
        let mut group = criterion.benchmark_group("transform/products");
        group.throughput(Throughput::Elements(words as u64));
        group.bench_function(name, |bencher| bencher.iter(&mut *run));
    });
}

criterion_group!(benches, statistics);

fn main() {
    best_of_short_runs();
    benches();
    Criterion::default().configure_from_args().final_summary();
}
