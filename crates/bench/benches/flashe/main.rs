//! FLASHE on one core: 262,144 values of 16 bits for ten parties, packed to 20 bits.
//!
//! Addition is bound by the last-level cache: "read 10" is the time to load ten ciphertexts and do nothing,
//! "add 10, in cache" adds one of them, which stays in the second-level cache, ten times.
//!
//! Sparse vectors have a tenth of the coordinates each.
//!
//! `cargo bench -p blindsum-bench --bench flashe` first prints the best of many short runs (a busy machine
//! hardly disturbs it), then criterion's statistics; a filter such as `decrypt` behind `--` limits the
//! latter.
#![allow(missing_docs)]

mod sparse;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use blindsum_crypto::{kdf::Context, secret::Secret};
use blindsum_he::flashe::{
    self, Ciphertext, EncryptedSum, FlasheError, JobKey, KeyState, RoundKey, Scheme, Shape,
    Survivors,
};
use blindsum_math::{
    inner_product::Coefficients,
    words::{TileMut, Width, Words},
};
use criterion::{BatchSize, Criterion, criterion_group};
use rayon::ThreadPoolBuilder;
use sparse::Sparse;

const LANES: usize = 262_144;
const PARTIES: u32 = 10;
const ROUND: u64 = 3;

/// Takes the name of an operation, what is done before and not measured, and the operation.
trait Measure: FnMut(&str, &mut dyn FnMut(), &mut dyn FnMut()) {}

impl<F: FnMut(&str, &mut dyn FnMut(), &mut dyn FnMut())> Measure for F {}

/// What the operations need.
struct Setup {
    key: JobKey,
    round: RoundKey,
    shape: Shape,
    values: Vec<u32>,
    ciphertexts: Vec<Ciphertext>,
    survivors: Survivors,
}

impl Setup {
    fn new(scheme: Scheme) -> Self {
        let key = JobKey::from(Secret::from([7; 32]));
        let width = Width::new(20).expect("20 bits");
        let ranks: Vec<u32> = (0..PARTIES).collect();
        let mut setup = Setup {
            round: key.round(ROUND, &Context([1; 32])),
            key,
            shape: Shape::new(scheme, width, LANES).expect("a short vector"),
            values: (0..LANES as u32).map(|d| (d * 40_503) & 0xffff).collect(),
            ciphertexts: Vec::new(),
            survivors: Survivors::new(PARTIES, &ranks).expect("a set"),
        };
        setup.ciphertexts = ranks.iter().map(|&rank| setup.encrypt(rank)).collect();
        setup
    }

    /// Copies values out of an array: encoding without the arithmetic.
    fn encrypt(&self, rank: u32) -> Ciphertext {
        let mut state = KeyState::new(&self.key);
        let ticket = state.reserve(ROUND, rank, |_| Ok::<_, FlasheError>(()));
        let ticket = ticket.expect("an unused round");
        let read = |first: usize, tile: TileMut<'_>| -> Result<(), FlasheError> {
            if let TileMut::W32(lanes) = tile {
                lanes.copy_from_slice(&self.values[first..first + lanes.len()]);
            }
            Ok(())
        };
        let encrypted = self.round.encrypt(ticket, self.shape, read);
        encrypted.expect("a ticket of this round")
    }

    fn bytes(&self) -> Vec<&[u8]> {
        self.ciphertexts.iter().map(Ciphertext::as_bytes).collect()
    }

    fn sum(&self) -> Vec<u8> {
        flashe::sum(self.shape, &self.bytes()).expect("ciphertexts of this shape")
    }

    fn decrypt(&self, sum: &[u8]) -> Words {
        let words = self.round.decrypt(self.shape, &self.survivors, sum);
        words.expect("a sum of this shape")
    }

    /// A server that takes ciphertexts one by one.
    fn fold(&self, sum: &mut EncryptedSum) {
        for ciphertext in self.bytes() {
            sum.add(ciphertext).expect("of this shape");
        }
    }

    /// The operations by name.
    fn each(&self, mut measure: impl Measure) {
        let sum = self.sum();
        let mut folded = EncryptedSum::new(self.shape);
        let mut nothing = || ();
        let mut encrypt = || drop(black_box(self.encrypt(4)));
        let mut decrypt = || drop(black_box(self.decrypt(&sum)));
        let mut to_encrypt = || {
            let filled = self.round.prepare_encryption(4, self.shape, usize::MAX);
            filled.expect("a rank");
        };
        let mut to_decrypt = || {
            self.round
                .prepare_decryption(&self.survivors, self.shape, usize::MAX);
        };
        measure("encrypt", &mut nothing, &mut encrypt);
        measure("encrypt, masks prepared", &mut to_encrypt, &mut encrypt);
        measure("decrypt", &mut nothing, &mut decrypt);
        measure("decrypt, masks prepared", &mut to_decrypt, &mut decrypt);
        let key = Coefficients::new((1..=4096).collect());
        let mut lanes = self.values.clone();
        measure("inner products of the check", &mut nothing, &mut || {
            for tile in lanes.chunks_mut(4096) {
                black_box(key.reduce_and_multiply(self.shape.width(), TileMut::W32(tile)));
            }
        });
        measure("add 10", &mut nothing, &mut || drop(black_box(self.sum())));
        let same = vec![self.ciphertexts[0].as_bytes(); PARTIES as usize];
        measure("add 10, in cache", &mut nothing, &mut || {
            drop(black_box(flashe::sum(self.shape, &same)));
        });
        measure("fold in 10", &mut nothing, &mut || {
            self.fold(black_box(&mut folded))
        });
        measure("read 10", &mut nothing, &mut || {
            black_box(self.bytes().into_iter().map(read_all).fold(0, |a, b| a ^ b));
        });
    }
}

/// Loads every byte: the limit that memory sets to addition.
fn read_all(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words
        .iter()
        .fold(0, |sum, word| sum ^ u64::from_le_bytes(*word))
}

/// The shortest of many runs.
fn best(prepare: &mut dyn FnMut(), run: &mut dyn FnMut()) -> Duration {
    let mut time = || {
        prepare();
        let start = Instant::now();
        run();
        start.elapsed()
    };
    let until = Instant::now() + Duration::from_millis(1500);
    let mut fastest = time();
    while Instant::now() < until {
        fastest = fastest.min(time());
    }
    fastest
}

/// The operations on dense and on sparse vectors.
struct All(Setup, Sparse);

impl All {
    fn new(scheme: Scheme) -> Self {
        All(Setup::new(scheme), Sparse::new(scheme))
    }

    fn name(&self) -> &'static str {
        self.0.shape.scheme().name()
    }

    fn each(&self, mut measure: impl Measure) {
        self.0.each(&mut measure);
        self.1.each(&mut measure);
    }
}

fn summary(setups: &[All]) {
    println!("best of many runs, one core, D = {LANES}, b = 20 bits, {PARTIES} parties");
    for setup in setups {
        setup.each(
            |name: &str, prepare: &mut dyn FnMut(), run: &mut dyn FnMut()| {
                let name = format!("{name} ({})", setup.name());
                println!("{name:38}{:8.3} ms", best(prepare, run).as_secs_f64() * 1e3);
            },
        );
        setup.1.print_counts();
    }
}

fn statistics(criterion: &mut Criterion, setups: &[All]) {
    for setup in setups {
        let mut group = criterion.benchmark_group(format!("flashe/{}", setup.name()));
        setup.each(
            |name: &str, prepare: &mut dyn FnMut(), run: &mut dyn FnMut()| {
                group.bench_function(name, |bencher| {
                    bencher.iter_batched(&mut *prepare, |()| run(), BatchSize::PerIteration);
                });
            },
        );
    }
}

fn all(criterion: &mut Criterion) {
    let setups = [Scheme::Double, Scheme::Single].map(All::new);
    summary(&setups);
    statistics(criterion, &setups);
}

fn config() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .without_plots()
}

criterion_group!(name = benches; config = config(); targets = all);

fn main() {
    // This thread is the pool, so that nothing runs on another core.
    let pool = ThreadPoolBuilder::new().num_threads(1).use_current_thread();
    pool.build_global().expect("the first pool");
    benches();
    Criterion::default().configure_from_args().final_summary();
}
