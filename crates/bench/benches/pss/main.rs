//! Sharing a vector among 729 parties, the sizes of Table II of the PSS thesis, one thread: milliseconds of our
//! transforms on every backend and of the whole sharing; of the thesis' radix-2 and radix-3 transforms in
//! plain compiled code; and of the same transforms by the crate tfhe-ntt.
//!
//! `cargo bench -p blindsum-bench --bench pss` prints the least time of many runs, which a busy machine
//! hardly disturbs; with `-- --json` one JSON object a line; `--quick` takes the smallest size only.
//! `cargo test` runs it with `--quick`'s size once, to see that it works.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_math::field::Field;
use blindsum_math::prime_field::{Field47, NttField};
use blindsum_math::transform::{Backend, CosetTransform, Interpolation, Row};
use blindsum_paper::PaperSharing;
use blindsum_sharing::SharingError;
use blindsum_sharing::ramp::{Embedding, RampParameters, RampRequest, RampSharing, Residues};

type Element = Field47;

const SHARES: usize = 729;
const LOG3_SHARES: u32 = 6;

/// Inputs and inputs a block.
const SIZES: [(usize, usize); 12] = [
    (20_000, 500),
    (20_000, 100),
    (20_000, 50),
    (40_000, 500),
    (40_000, 100),
    (40_000, 50),
    (60_000, 500),
    (60_000, 100),
    (60_000, 50),
    (80_000, 500),
    (80_000, 100),
    (80_000, 50),
];

/// One line of the table.
struct Size {
    inputs: usize,
    block: usize,
    /// Inputs and random elements of a block, d2: the power of two above `block`.
    values: usize,
}

impl Size {
    fn blocks(&self) -> usize {
        self.inputs.div_ceil(self.block)
    }

    fn tiles(&self) -> usize {
        self.blocks().div_ceil(8)
    }
}

/// How measurements are taken and said.
struct Report {
    least: Duration,
    runs: usize,
    json: bool,
}

impl Report {
    /// Runs until enough time has passed and enough runs were made, and prints the least.
    fn measure(&self, size: &Size, work: &str, backend: &str, mut run: impl FnMut()) {
        let (start, mut best, mut runs) = (Instant::now(), Duration::MAX, 0);
        while runs < self.runs || start.elapsed() < self.least {
            let before = Instant::now();
            run();
            best = best.min(before.elapsed());
            runs += 1;
        }
        let ms = best.as_secs_f64() * 1e3;
        let Size {
            inputs,
            block,
            values,
        } = *size;
        if self.json {
            let row = serde_json::json!({
                "inputs": inputs, "block": block, "blocks": size.blocks(), "values": values,
                "shares": SHARES, "work": work, "backend": backend, "ms": ms,
            });
            println!("{row}");
        } else {
            println!(
                "{inputs:>6} inputs, blocks of {block:>3}: {work:>12} {backend:>9} {ms:8.3} ms"
            );
        }
    }
}

fn noise(i: usize) -> Element {
    Element::from_wide((i as u128 + 1).pow(5))
}

fn thesis(size: &Size, report: &Report) {
    let log2 = size.values.ilog2();
    let values: Vec<Element> = (0..size.values * size.blocks()).map(noise).collect();
    let paper = PaperSharing::<Element>::new(log2, LOG3_SHARES).expect("the field has the roots");
    let mut row = vec![Element::ZERO; paper.shares()];
    report.measure(size, "radix-2", "thesis", || {
        for values in values.chunks_exact(size.values) {
            row[..size.values].copy_from_slice(values);
            paper.interpolate(black_box(&mut row[..size.values]));
        }
    });
    report.measure(size, "radix-3", "thesis", || {
        for values in values.chunks_exact(size.values) {
            row[..size.values].copy_from_slice(values);
            row[size.values..].fill(Element::ZERO);
            paper.evaluate(black_box(&mut row));
        }
    });
}

/// Inverse of `values` points, then forward of the next power of two above the shares; both are twisted, so
/// that their points are disjoint.
fn tfhe_ntt(size: &Size, report: &Report) {
    let plan = |points| {
        let plan = tfhe_ntt::prime64::Plan::try_new(points, Element::MODULUS);
        plan.expect("the field has roots for it")
    };
    let points = SHARES.next_power_of_two();
    let (inverse, forward) = (plan(size.values), plan(points));
    let values: Vec<u64> = (0..size.values * size.blocks())
        .map(|i| noise(i).to_canonical())
        .collect();
    let mut there_and_back = values[..size.values].to_vec();
    inverse.fwd(&mut there_and_back);
    inverse.inv(&mut there_and_back);
    inverse.normalize(&mut there_and_back);
    assert!(there_and_back == values[..size.values], "inverse transform");
    let mut row = vec![0; points];
    report.measure(size, "transforms", "tfhe-ntt", || {
        for values in values.chunks_exact(size.values) {
            row[..size.values].copy_from_slice(values);
            inverse.inv(&mut row[..size.values]);
            row[size.values..].fill(0);
            forward.fwd(black_box(&mut row));
        }
    });
}

fn ours(size: &Size, backend: Backend, report: &Report) {
    let k = size.values;
    let transform = CosetTransform::<Element>::with_backend(k, SHARES, backend).expect("a size");
    let interpolation = Interpolation::<Element>::with_backend(k, backend).expect("a size");
    let lanes = |row: usize| {
        Row(std::array::from_fn(|lane| {
            noise(8 * row + lane).to_canonical()
        }))
    };
    let values: Vec<Row> = (0..k * size.tiles()).map(lanes).collect();
    let mut rows = vec![Row::default(); transform.scratch_rows()];
    report.measure(size, "transforms", backend.name(), || {
        for values in values.chunks_exact(k) {
            rows[..k].copy_from_slice(values);
            interpolation.interpolate(&mut rows);
            transform.evaluate(black_box(&mut rows));
        }
    });
}

/// Words in, packed columns out, the random elements drawn from their stream.
fn share(size: &Size, report: &Report) {
    let parameters = RampParameters::choose(&RampRequest {
        parties: SHARES,
        corrupt: size.values - size.block,
        dropouts: SHARES - size.values,
        active: false,
        words: size.inputs,
        threshold: size.values,
        packing: size.block,
    });
    let sharing = RampSharing::new(
        parameters.expect("feasible"),
        Embedding::Evaluations,
        Residues::Wide,
        size.inputs,
    );
    let sharing = sharing.expect("the field has roots for it");
    let input: Vec<u64> = (0..size.inputs as u64).map(|i| i & 0xffff).collect();
    let mut packed = vec![0; SHARES * sharing.column_len()];
    report.measure(
        size,
        "share",
        blindsum_math::transform::backend().name(),
        || {
            let mut columns: Vec<Option<&mut [u8]>> = packed
                .chunks_exact_mut(sharing.column_len())
                .map(Some)
                .collect();
            let read = |first: usize, words: &mut [u64]| {
                words.copy_from_slice(&input[first..first + words.len()]);
                Ok::<(), SharingError>(())
            };
            let seed = MaskSeed::from(Secret::from([7; 32]));
            sharing
                .share(seed, read, &mut columns)
                .expect("the shapes fit");
            black_box(&columns);
        },
    );
}

fn main() {
    let given = |name: &str| std::env::args().any(|argument| argument == name);
    // Cargo says so to a bench that is run to be measured, not to be tested.
    let (measured, quick) = (given("--bench"), given("--quick") || !given("--bench"));
    let report = Report {
        least: Duration::from_millis(if measured { 250 } else { 0 }),
        runs: if measured { 5 } else { 1 },
        json: given("--json"),
    };
    for &(inputs, block) in &SIZES[..if quick { 1 } else { SIZES.len() }] {
        let values = block.next_power_of_two();
        let size = Size {
            inputs,
            block,
            values,
        };
        thesis(&size, &report);
        tfhe_ntt(&size, &report);
        for backend in Backend::ALL.into_iter().filter(|b| b.is_available()) {
            ours(&size, backend, &report);
        }
        share(&size, &report);
    }
}
