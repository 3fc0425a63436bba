//! Whether noise of differential privacy is what it must be, with more draws than a test has time for: its distribution, the
//! last bits of its numbers, and whether the time of a draw tells anything of the numbers.
//!
//! `cargo bench -p blindsum-bench --bench noise_quality` prints a chi-square statistic of 10⁸ draws for each variance and each
//! grouping, as a number of standard deviations, and t of Welch's test on the times of 10⁶ blocks (Reparaz, Balasch and
//! Verbauwhede 2017). `-- --draws 1000000 --blocks 10000` takes a second. It fails where a statistic is beyond 5, or t beyond 4.5.
#![allow(missing_docs)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use blindsum_crypto::mask::{MaskKey, MaskSeed};
use blindsum_crypto::secret::Secret;
use blindsum_privacy::{Mechanism, Sampler, Variance};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

/// Numbers that are drawn at once.
const CHUNK: usize = 1 << 16;
/// Numbers of a block, which has a stream of its own.
const BLOCK: usize = 1024;
/// Cells of a distribution at most, and draws that a cell is expected to have at least.
const CELLS: i64 = 400;
const LEAST: f64 = 50.0;
/// The largest chi-square statistic in standard deviations, and the largest t.
const MOST: f64 = 5.0;
const MOST_T: f64 = 4.5;
/// The slowest times are those of interruptions.
const KEPT: f64 = 0.9;

/// Variances of one level and of several.
const VARIANCES: [u64; 4] = [16, 103, 50_000, 13_700_000];

fn sampler(variance: u64) -> Sampler {
    let variance = Variance::new(variance, 1).expect("it is in its range");
    Sampler::new(Mechanism::DiscreteGaussian, variance).expect("it is in its range")
}

fn key(seed: &[u8; 32]) -> MaskKey {
    MaskKey::new(MaskSeed::from(Secret::from(*seed)))
}

/// How often each number from `-most` on is drawn.
fn counted(sampler: &Sampler, key: &MaskKey, draws: usize, most: i64) -> Vec<u64> {
    let count = |mut counts: Vec<u64>, chunk: usize| {
        let mut numbers = vec![0_i32; CHUNK];
        sampler.draw(key, (chunk * CHUNK) as u64, &mut numbers);
        for number in numbers {
            let at =
                usize::try_from(i64::from(number) + most).expect("within 15 standard deviations");
            *counts.get_mut(at).expect("within 15 standard deviations") += 1;
        }
        counts
    };
    let empty = || vec![0; 2 * most as usize + 1];
    let all = (0..draws.div_ceil(CHUNK))
        .into_par_iter()
        .fold(empty, count);
    all.reduce(empty, |mut counts, other| {
        counts
            .iter_mut()
            .zip(other)
            .for_each(|(count, other)| *count += other);
        counts
    })
}

/// Pearson's statistic of these cells as a number of standard deviations (Wilson and Hilferty 1931).
fn deviation(cells: &[(f64, u64)], draws: f64) -> f64 {
    let of_cell = |(expected, count): &(f64, u64)| {
        let expected = expected * draws;
        (*count as f64 - expected).powi(2) / expected
    };
    let degrees = (cells.len() - 1) as f64;
    let statistic: f64 = cells.iter().map(of_cell).sum();
    let ninth = 2.0 / (9.0 * degrees);
    ((statistic / degrees).cbrt() - (1.0 - ninth)) / ninth.sqrt()
}

/// Neighbours of numbers as cells: as many as fit, and what is rare at both ends as one.
fn cells(chances: &[f64], counts: &[u64], most: i64, draws: f64) -> Vec<(f64, u64)> {
    let width = ((2 * most + 1) / CELLS).max(1) as usize;
    let groups = chances.chunks(width).zip(counts.chunks(width));
    let groups = groups.map(|(chances, counts)| (chances.iter().sum(), counts.iter().sum()));
    let mut cells = Vec::new();
    let mut open = (0.0, 0);
    for (chance, count) in groups {
        let (chance, count): (f64, u64) = (chance, count);
        open = (open.0 + chance, open.1 + count);
        if open.0 * draws >= LEAST {
            cells.push(std::mem::take(&mut open));
        }
    }
    if let Some(last) = cells.last_mut() {
        *last = (last.0 + open.0, last.1 + open.1);
    }
    cells
}

/// Numbers by their rest.
fn residues(chances: &[f64], counts: &[u64], most: i64, modulus: i64) -> Vec<(f64, u64)> {
    let mut cells = vec![(0.0, 0); modulus as usize];
    for (at, (chance, count)) in chances.iter().zip(counts).enumerate() {
        let rest = (at as i64 - most).rem_euclid(modulus) as usize;
        let cell = &mut cells[rest];
        *cell = (cell.0 + chance, cell.1 + count);
    }
    cells
}

fn check_distribution(draws: usize) -> bool {
    let draws = draws.div_ceil(CHUNK) * CHUNK;
    println!(
        "chi-square of {draws} draws, in standard deviations: values, and residues by 4, 16, 64"
    );
    let mut is_right = true;
    for variance in VARIANCES {
        let deviation_of_one = (variance as f64).sqrt();
        let most = (15.0 * deviation_of_one) as i64;
        let counts = counted(&sampler(variance), &key(&[7; 32]), draws, most);
        let weight = |k: i64| (-((k * k) as f64) / (2.0 * variance as f64)).exp();
        let total: f64 = (-most..=most).map(weight).sum();
        let chances: Vec<f64> = (-most..=most).map(|k| weight(k) / total).collect();
        let by_value = cells(&chances, &counts, most, draws as f64);
        let by_rest = [4, 16, 64].map(|modulus| residues(&chances, &counts, most, modulus));
        let found: Vec<f64> = [by_value]
            .iter()
            .chain(&by_rest)
            .map(|cells| deviation(cells, draws as f64))
            .collect();
        is_right &= found.iter().all(|found| found.abs() <= MOST);
        let found: Vec<String> = found.iter().map(|found| format!("{found:6.2}")).collect();
        println!("  variance {variance:>10}: {}", found.join(" "));
    }
    is_right
}

/// Welch's t of two samples without their slowest times, and by how much their means differ.
fn compare(mut both: [Vec<f64>; 2]) -> (f64, f64) {
    let mut all: Vec<f64> = both.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let most = all[(all.len() as f64 * KEPT) as usize];
    for times in &mut both {
        times.retain(|time| *time <= most);
    }
    let moments = both.map(|times| {
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let spread = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, spread / count)
    });
    let [(one, of_one), (other, of_other)] = moments;
    (
        (one - other) / (of_one + of_other).sqrt(),
        one / other - 1.0,
    )
}

/// The time of one block, and how large its numbers are together.
fn timed(sampler: &Sampler, seed: &[u8; 32], numbers: &mut [i32]) -> (f64, i64) {
    let key = key(seed);
    let begin = Instant::now();
    sampler.draw(&key, 0, black_box(&mut *numbers));
    let time = begin.elapsed().as_secs_f64();
    (
        time,
        numbers.iter().map(|number| i64::from(number.abs())).sum(),
    )
}

fn check_times(blocks: usize) -> bool {
    println!(
        "time of {blocks} blocks: t, and the difference of the means, of the same numbers against others, of small against large ones"
    );
    let mut dice = ChaCha20Rng::seed_from_u64(1);
    let mut is_right = true;
    for variance in VARIANCES {
        let sampler = sampler(variance);
        let mut numbers = vec![0_i32; BLOCK];
        let (mut fixed, mut others) = (Vec::new(), Vec::new());
        for _ in 0..blocks {
            // Before the clock starts both kinds are the same work.
            let mut seed = [0; 32];
            dice.fill_bytes(&mut seed);
            let is_fixed = dice.next_u32().is_multiple_of(2);
            let kept = if is_fixed { 0 } else { u8::MAX };
            seed.iter_mut()
                .for_each(|byte| *byte = *byte & kept | 9 & !kept);
            let block = timed(&sampler, &seed, &mut numbers);
            match is_fixed {
                true => fixed.push(block.0),
                false => others.push(block),
            }
        }
        let mut sums: Vec<i64> = others.iter().map(|(_, sum)| *sum).collect();
        sums.sort_unstable();
        let middle = sums[sums.len() / 2];
        let by_size = |is_small: bool| {
            let some = others.iter().filter(|(_, sum)| (*sum < middle) == is_small);
            some.map(|(time, _)| *time).collect()
        };
        let sizes = [by_size(true), by_size(false)];
        let found = [
            compare([fixed, others.into_iter().map(|it| it.0).collect()]),
            compare(sizes),
        ];
        is_right &= found.iter().all(|(t, _)| t.abs() <= MOST_T);
        let found = found.map(|(t, by)| format!("{t:6.2} ({:+.3} %)", 100.0 * by));
        println!("  variance {variance:>10}: {}", found.join("  "));
    }
    is_right
}

fn number(name: &str, default: usize) -> usize {
    let mut words = std::env::args().skip_while(|word| word != name);
    let given = words.nth(1);
    given.map_or(default, |text| text.parse().expect("a whole number"))
}

fn main() -> ExitCode {
    let distribution = check_distribution(number("--draws", 100_000_000));
    let times = check_times(number("--blocks", 1_000_000));
    match distribution && times {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
