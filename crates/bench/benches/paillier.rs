//! Paillier's scheme on one core: values of 16 bits in lanes of 22 for 40 parties, for each backend of the machine.
//!
//! A rate is of values: a ciphertext of 2048 bits has 93 of them. "Add 10" adds ten vectors and counts nine additions;
//! "add 2" is two multiplications for one addition. "Read" takes bytes and checks them.
//!
//! `cargo bench -p blindsum-bench --bench paillier` prints the best of many short runs, which a busy machine hardly
//! disturbs. The name of a backend behind `--` leaves out the others; `--json` prints an object a line. `cargo test` runs each
//! once, to see that it works.
#![allow(missing_docs)]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use blindsum_he::paillier::{Backend, Encryptor, Exponents, KeySize, Packing, SecretKey};
use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};
use rayon::ThreadPoolBuilder;

/// Ciphertexts of a vector.
const CIPHERTEXTS: usize = 64;

/// The shortest of as many runs as there is time for.
fn best(room: Duration, mut run: impl FnMut()) -> Duration {
    let mut time = || {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    let until = Instant::now() + room;
    let mut fastest = time();
    while Instant::now() < until {
        fastest = fastest.min(time());
    }
    fastest
}

fn measure(key: &SecretKey, room: Duration) {
    let public = key.public();
    let packing = Packing::new(public.size(), 16, 40).expect("lanes of 22 bits");
    let values: Vec<i64> = (0..(CIPHERTEXTS * packing.lanes()) as i64)
        .map(|i| i * 40_503 % 65_536 - 32_768)
        .collect();
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let report = |name: &str, additions: usize, time: Duration| {
        let seconds = time.as_secs_f64();
        let (bits, backend) = (public.size().bits(), public.backend().name());
        let rate = (additions * values.len()) as f64 / seconds;
        let us = 1e6 * seconds / (additions * CIPHERTEXTS) as f64;
        match std::env::args().any(|argument| argument == "--json") {
            true => println!(
                r#"{{"bits": {bits}, "backend": "{backend}", "work": "{name}", "rate": {rate}, "us": {us}}}"#
            ),
            false => println!(
                "{bits:5} {backend:9} {name:26} {us:9.2} µs a ciphertext {rate:12.0} values/s"
            ),
        }
    };
    let mut sent = None;
    for (name, exponents) in [
        ("encrypt", Exponents::Full),
        ("encrypt, short exponents", Exponents::Short),
    ] {
        let encryptor = Encryptor::new(public, exponents);
        let time = best(room, || {
            let plaintexts = packing.pack(&values).expect("of 16 bits");
            sent = encryptor.encrypt(&plaintexts, &mut rng).ok();
        });
        report(name, 1, time);
    }
    let sent = sent.expect("ciphertexts");
    for (name, vectors) in [("add 2", 2), ("add 10", 10)] {
        let vectors = vec![&sent; vectors];
        let time = best(room, || drop(black_box(public.sum(&vectors))));
        report(name, vectors.len() - 1, time);
    }
    let bytes = sent.to_bytes();
    report(
        "read",
        1,
        best(room, || drop(black_box(public.ciphertexts(&bytes)))),
    );
    let time = best(room, || {
        let plaintexts = key.decrypt(&sent).expect("of this key");
        black_box(packing.unpack(&plaintexts, values.len(), 1)).expect("packed");
    });
    report("decrypt", 1, time);
}

fn main() {
    // This thread is the pool, so that nothing runs on another core.
    let pool = ThreadPoolBuilder::new().num_threads(1).use_current_thread();
    pool.build_global().expect("the first pool");
    let given = |name: &str| std::env::args().any(|argument| argument == name);
    let room = Duration::from_millis(if given("--bench") { 1500 } else { 0 });
    let any_named = Backend::ALL.iter().any(|backend| given(backend.name()));
    for size in KeySize::ALL {
        let key = SecretKey::generate(size, &mut ChaCha20Rng::seed_from_u64(1));
        for backend in Backend::ALL {
            if backend.is_available() && (!any_named || given(backend.name())) {
                measure(&key.with_backend(backend), room);
            }
        }
    }
}
