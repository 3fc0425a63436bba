//! Proving that every one of D words has 16 bits, and checking it: ours among 100 parties of which 10 may lie, and Prio3SumVec
//! of the crate prio between a client and two aggregators. One thread.
//!
//! The statement is the same, what it takes to rely on it is not: Prio's vector is secret unless both aggregators work
//! together and right only if neither lies; ours withstands any ten parties in both.
//!
//! `cargo bench -p blindsum-bench --bench proofs` prints the least CPU time of several runs; with `-- --json` one JSON object
//! a line; `--quick` takes the shortest vector only. `cargo test` runs it with `--quick`'s length once, to see that it
//! works.
#![allow(missing_docs)]

mod ours;
mod peer;

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Bits of a word.
const BITS: u32 = 16;
/// Words of a vector.
const DIMS: [usize; 3] = [1_000, 10_000, 100_000];

/// How measurements are taken and said.
struct Report {
    least: Duration,
    runs: usize,
    json: bool,
}

impl Report {
    /// Runs until enough time has passed and enough runs were made, and prints the least: of `many` pieces of work that
    /// a run does, what one takes; and the bytes that it gives somebody else.
    fn measure(
        &self,
        scheme: &str,
        dim: usize,
        work: &str,
        many: usize,
        bytes: usize,
        mut run: impl FnMut(),
    ) {
        let (start, mut best, mut runs) = (Instant::now(), Duration::MAX, 0);
        while runs < self.runs || start.elapsed() < self.least {
            let before = cpu_time();
            run();
            best = best.min(cpu_time() - before);
            runs += 1;
        }
        let ms = best.as_secs_f64() * 1e3 / many as f64;
        if self.json {
            let row = serde_json::json!({
                "scheme": scheme, "dim": dim, "bits": BITS, "work": work, "ms": ms, "bytes": bytes,
            });
            println!("{row}");
        } else {
            println!("{dim:>6} words: {scheme:>18} {work:>6} {ms:10.4} ms {bytes:>9} bytes");
        }
    }
}

/// Of this thread, the only one: runs of seconds would not escape other programs on the clock on the wall.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A word at a place.
fn word(place: usize) -> u64 {
    place as u64 * 40_503 % (1 << BITS)
}

fn main() {
    let given = |name: &str| std::env::args().any(|argument| argument == name);
    // Cargo says so to a bench that is run to be measured, not to be tested.
    let (measured, quick) = (given("--bench"), given("--quick") || !given("--bench"));
    let report = Report {
        least: Duration::from_millis(if measured { 500 } else { 0 }),
        runs: if measured { 5 } else { 1 },
        json: given("--json"),
    };
    for &dim in &DIMS[..if quick { 1 } else { DIMS.len() }] {
        ours::measure(dim, &report);
        peer::measure(dim, &report);
    }
}
