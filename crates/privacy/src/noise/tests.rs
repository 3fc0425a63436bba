use blindsum_crypto::mask::{MaskKey, MaskSeed};
use blindsum_crypto::secret::Secret;
use proptest::prelude::*;

use super::*;

fn key(byte: u8) -> MaskKey {
    MaskKey::new(MaskSeed::from(Secret::from([byte; 32])))
}

fn sampler(mechanism: Mechanism, numerator: u64, denominator: u64) -> Sampler {
    Sampler::new(mechanism, Variance::new(numerator, denominator).unwrap()).unwrap()
}

fn drawn(sampler: &Sampler, byte: u8, count: usize) -> Vec<i32> {
    let mut numbers = vec![0; count];
    sampler.draw(&key(byte), 0, &mut numbers);
    numbers
}

/// Chi-square of counts in cells with these chances, and its degrees of freedom. Cells with fewer than 20 expected are
/// pooled with the one before.
fn chi_square(cells: &[(f64, f64)], count: f64) -> (f64, f64) {
    let (mut pooled, mut open): (Vec<(f64, f64)>, _) = (Vec::new(), (0.0, 0.0));
    for (seen, chance) in cells {
        open = (open.0 + seen, open.1 + chance * count);
        if open.1 >= 20.0 {
            pooled.push(open);
            open = (0.0, 0.0);
        }
    }
    if let Some(last) = pooled.last_mut() {
        *last = (last.0 + open.0, last.1 + open.1);
    }
    let sum = pooled
        .iter()
        .map(|(seen, expected)| (seen - expected).powi(2) / expected)
        .sum();
    (sum, pooled.len() as f64 - 1.0)
}

/// Mean k and variance 2k for k degrees of freedom: five standard deviations and a bit, since small k are skewed.
fn assert_fits(cells: &[(f64, f64)], count: f64, of: &str) {
    let (chi, k) = chi_square(cells, count);
    assert!(
        chi < k + 5.0 * (2.0 * k).sqrt() + 8.0,
        "{of}: {chi} with {k} degrees of freedom"
    );
}

/// Numbers against weights of 0, 1, 2 and so on, in cells of so many neighbours.
fn assert_distribution(
    numbers: &[i32],
    weight: impl Fn(f64) -> f64,
    cell: i32,
    reach: i32,
    of: &str,
) {
    let total = weight(0.0) + 2.0 * (1..=reach).map(|k| weight(f64::from(k))).sum::<f64>();
    let first = -(reach / cell) - 1;
    let mut cells = vec![(0.0, 0.0); (1 - 2 * first) as usize];
    let place = |number: i32| (number.div_euclid(cell) - first) as usize;
    for number in numbers {
        assert!(number.abs() <= reach, "{of}: {number}");
        cells[place(*number)].0 += 1.0;
    }
    for number in -reach..=reach {
        cells[place(number)].1 += weight(f64::from(number)) / total;
    }
    assert_fits(&cells, numbers.len() as f64, of);
}

const COUNT: usize = 1_000_000;

#[test]
fn case_39_discrete_gaussian_numbers_have_their_distribution() {
    for (a, b, cell, scans) in [
        (16, 1, 1, 1),
        (103, 1, 1, 1),
        (359 * 1024 + 1023, 1024, 1, 1),
        (360, 1, 1, 2),
        (50_000, 1, 1, 3),
        (13_700_000, 1, 16, 5),
        (2048, 1024, 1, 1),
    ] {
        let sampler = sampler(Mechanism::DiscreteGaussian, a, b);
        assert_eq!(sampler.scans(), scans);
        assert!(sampler.bytes() < 64 << 10);
        let numbers = drawn(&sampler, 1, COUNT);
        let v = a as f64 / b as f64;
        let weight = |x: f64| (-x * x / (2.0 * v)).exp();
        let of = format!("variance {v}");
        assert_distribution(&numbers, weight, cell, (9.0 * v.sqrt()) as i32, &of);
        // Levels are joined without a trace: all rests are alike.
        for modulus in [4, 16, 64] {
            let total: f64 = (-20_000..=20_000).map(|k| weight(f64::from(k))).sum();
            let mut cells = vec![(0.0, 0.0); modulus as usize];
            for number in &numbers {
                cells[number.rem_euclid(modulus) as usize].0 += 1.0;
            }
            for k in -20_000_i32..=20_000 {
                cells[k.rem_euclid(modulus) as usize].1 += weight(f64::from(k)) / total;
            }
            if v > 16.0 * f64::from(modulus * modulus) {
                assert!(
                    cells
                        .iter()
                        .all(|cell| (cell.1 * f64::from(modulus) - 1.0).abs() < 1e-3)
                );
            }
            assert_fits(&cells, COUNT as f64, &format!("{of}, modulo {modulus}"));
        }
    }
}

/// P[X = k] as the sum over j of two Poisson probabilities, from their logarithms.
fn skellam(v: f64, k: i32) -> f64 {
    let mean = v / 2.0;
    let reach = (mean + 12.0 * mean.sqrt() + 40.0) as i32;
    let mut log_factorial = vec![0.0];
    for j in 1..=reach + k {
        log_factorial.push(log_factorial[j as usize - 1] + f64::from(j).ln());
    }
    let poisson = |j: i32| f64::from(j) * mean.ln() - mean - log_factorial[j as usize];
    (0..=reach)
        .map(|j| (poisson(j) + poisson(j + k)).exp())
        .sum()
}

#[test]
fn case_39_skellam_numbers_have_their_distribution() {
    for (a, b, scans) in [(1, 1, 1), (5, 1, 1), (300, 1, 1), (20_000, 1, 2)] {
        let sampler = sampler(Mechanism::Skellam, a, b);
        assert_eq!(sampler.scans(), scans);
        assert!(sampler.bytes() < 64 << 10);
        let numbers = drawn(&sampler, 2, COUNT);
        let v = a as f64 / b as f64;
        let reach = (9.0 * v.sqrt() + 12.0) as i32;
        let chances: Vec<f64> = (0..=reach).map(|k| skellam(v, k)).collect();
        let weight = |x: f64| chances[x.abs() as usize];
        assert_distribution(
            &numbers,
            weight,
            1,
            reach,
            &format!("skellam, variance {v}"),
        );
    }
}

#[test]
fn case_39_the_variance_is_right_up_to_the_largest() {
    for (mechanism, bits, count) in [
        (Mechanism::DiscreteGaussian, 40, COUNT),
        (Mechanism::Skellam, 20, COUNT / 16),
    ] {
        let sampler = sampler(mechanism, 1 << bits, 1);
        let numbers = drawn(&sampler, 3, count);
        let squares: f64 = numbers.iter().map(|&x| f64::from(x).powi(2)).sum();
        let ratio = squares / count as f64 / f64::powi(2.0, bits);
        assert!(
            (ratio - 1.0).abs() < 5.0 * (2.0 / count as f64).sqrt(),
            "{ratio}"
        );
        let signs = numbers.iter().filter(|&&x| x < 0).count() as f64;
        assert!((signs / count as f64 - 0.5).abs() < 5.0 * 0.5 / (count as f64).sqrt());
    }
}

#[test]
fn variances_that_cannot_be_are_refused() {
    let refused = |a, b| Variance::new(a, b).unwrap_err().to_string();
    assert_eq!(
        refused(1, 0),
        "denominator of the variance = 0, but 1 <= denominator <= 2^10 must hold"
    );
    assert!(refused(1, 1025).starts_with("denominator"));
    assert_eq!(
        refused(0, 1),
        "numerator of the variance = 0, but 0 < variance <= 2^40 must hold"
    );
    assert!(refused((1 << 50) + 1, 1 << 10).starts_with("numerator"));
    let large = Variance::new((1 << 20) + 1, 1).unwrap();
    let error = Sampler::new(Mechanism::Skellam, large).err().unwrap();
    assert!(
        error
            .to_string()
            .starts_with("variance of a share = 1048577/1 <= 2^20")
    );
}

/// The index of a word of 128 bits, from the cuts alone.
fn by_definition(table: &Table, word: u32, [lower, upper]: [u64; 2]) -> i32 {
    let low = u128::from(upper) << 64 | u128::from(lower);
    let number = u128::from(word >> 1) << 97 | low >> 31;
    let cuts = table.high.iter().zip(&table.low);
    let cuts = cuts.map(|(&high, &low)| u128::from(high) << 64 | u128::from(low));
    let size = cuts.filter(|cut| *cut <= number).count() as i32;
    if word & 1 == 1 { -size } else { size }
}

fn tables() -> Vec<Table> {
    let variance = |numerator, denominator| Variance {
        numerator,
        denominator,
    };
    vec![
        Table::gaussian(variance(103, 1)),
        Table::gaussian(variance(16, 1)),
        Table::gaussian(variance(359, 1)),
        Table::gaussian(variance(1, 1024)),
        Table::gaussian(variance(1, 1)),
        Table::skellam(variance(1, 1)),
        Table::skellam(variance(2000, 1)),
    ]
}

/// Words at cuts, beside them, and at both ends.
fn words_of(table: &Table, others: &[u32]) -> Vec<u32> {
    let beside = |high: &u64| {
        let word = (high >> 32) as u32;
        [-2, -1, 0, 1, 2].map(|by| word.wrapping_add_signed(by))
    };
    let at = table
        .high
        .iter()
        .flat_map(beside)
        .chain([0, 1, u32::MAX, u32::MAX - 1]);
    at.chain(others.iter().copied()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Both passes are the definition, and the first one says of each word whether it can tell.
    #[test]
    fn case_39_passes_follow_the_cuts_on_every_instruction_set(
        others in prop::collection::vec(any::<u32>(), 100),
        fill in prop_oneof![Just(0), Just(u64::MAX), any::<u64>()],
    ) {
        for table in tables() {
            for words in words_of(&table, &others).chunks(BLOCK) {
                let mut block = [others[0]; BLOCK];
                block[..words.len()].copy_from_slice(words);
                // The rest of a number: that of the first cut that it meets, or one less.
                let mut low = [fill; 2 * BLOCK];
                for (word, low) in block.iter().zip(low.as_chunks_mut::<2>().0) {
                    let at = table.high.iter().position(|high| (high >> 33) as u32 == word >> 1);
                    if let Some(at) = at {
                        let cut = (u128::from(table.high[at]) << 64 | u128::from(table.low[at]))
                            .wrapping_sub(u128::from(fill & 1));
                        let rest = cut << 31;
                        *low = [rest as u64, (rest >> 64) as u64];
                    }
                }
                let expected: Vec<i32> = (0..BLOCK)
                    .map(|i| by_definition(&table, block[i], [low[2 * i], low[2 * i + 1]]))
                    .collect();
                struct Both<'a>(&'a Table, &'a [u32; BLOCK], &'a [u64; 2 * BLOCK]);
                impl simd::Kernel for Both<'_> {
                    type Output = (bool, Vec<i32>, Vec<i32>);
                    #[inline(always)]
                    fn run(self) -> Self::Output {
                        let Self(table, words, low) = self;
                        let (mut first, mut second) = ([0; BLOCK], [0; BLOCK]);
                        let tie = FirstPass { table, words, least: &mut [0; BLOCK], drawn: &mut first }.run();
                        SecondPass { table, words, low, wide: &mut Wide::default(), drawn: &mut second }.run();
                        (tie, first.to_vec(), second.to_vec())
                    }
                }
                for (tie, first, second) in simd::run_on_all(|| Both(&table, &block, &low)) {
                    prop_assert_eq!(&second, &expected);
                    let shares = |word: &u32| {
                        let upper = |word: u32| word >> table.index_bits;
                        upper(*word) == 0 || table.high.iter().any(|high| upper((high >> 32) as u32) == upper(*word))
                    };
                    prop_assert_eq!(tie, block.iter().any(shares));
                    for i in 0..BLOCK {
                        prop_assert!(shares(&block[i]) || first[i] == expected[i], "{}", block[i]);
                    }
                }
            }
        }
    }

    /// Each range of numbers is that of the whole, wherever it begins and ends.
    #[test]
    fn ranges_are_drawn_each_by_itself(first in 0..5000_usize, count in 0..3000_usize) {
        let sampler = sampler(Mechanism::DiscreteGaussian, 50_000, 1);
        let all = drawn(&sampler, 4, 8000);
        let mut some = vec![0; count];
        sampler.draw(&key(4), first as u64, &mut some);
        prop_assert_eq!(&some[..], &all[first..first + count]);
    }
}

/// Whole draws, of which some need the second pass, against the streams and the cuts.
#[test]
fn case_39_draws_follow_the_streams_and_the_cuts() {
    for (mechanism, variance, blocks) in [
        (Mechanism::DiscreteGaussian, 50_000, 300),
        (Mechanism::Skellam, 20_000, 30),
    ] {
        let sampler = sampler(mechanism, variance, 1);
        let key = key(5);
        let mut second_passes = 0;
        for number in 0..blocks {
            let mut nonce = [0; 12];
            nonce[4..].copy_from_slice(&u64::to_be_bytes(number));
            let stream = key.stream(nonce, Sign::Add);
            let mut expected = [0; BLOCK];
            for scan in 0..sampler.scans {
                let table = match scan {
                    0 => &sampler.first,
                    _ => sampler.others.as_ref().unwrap_or(&sampler.first),
                };
                let (mut words, mut low) = ([0; BLOCK], [0; 2 * BLOCK]);
                let lane = BLOCK as u64 * u64::from(scan);
                add(&stream, lane, TileMut::W32(&mut words));
                let lane = BLOCK as u64 * u64::from(sampler.scans + 4 * scan) / 2;
                add(&stream, lane, TileMut::W64(&mut low));
                let mut drawn = [0; BLOCK];
                let drawn = &mut drawn;
                second_passes += u32::from(simd::run(FirstPass {
                    table,
                    words: &words,
                    least: &mut [0; BLOCK],
                    drawn,
                }));
                for i in 0..BLOCK {
                    let number = by_definition(table, words[i], [low[2 * i], low[2 * i + 1]]);
                    expected[i] = (expected[i] << sampler.shift) + number;
                }
            }
            let mut numbers = [0; BLOCK];
            sampler.draw(&key, BLOCK as u64 * number, &mut numbers);
            assert_eq!(numbers, expected, "block {number}");
        }
        assert!(second_passes > 0);
    }
}

#[test]
fn the_last_numbers_of_a_key_can_be_drawn() {
    let sampler = sampler(Mechanism::DiscreteGaussian, 50_000, 1);
    let mut last = [0; 4];
    sampler.draw(&key(4), u64::MAX - 3, &mut last);
    assert!(last.iter().any(|&it| it != 0));
}
