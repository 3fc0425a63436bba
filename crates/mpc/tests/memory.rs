//! What a server needs in memory for each rule, counted: vectors and what is as long as them are never copied.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use blindsum_crypto::{
    kex::{KeyPair, Suite},
    secret::Secret,
};
use blindsum_mpc::{
    Agreed, Mpc, MpcError, PairKeys, Ring, ServerIndex, Vectors,
    line::{Line, Progress, Round, Script},
    rules::{Bounds, Rule, Trusted},
};

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counter;

// SAFETY: every request is passed on to the system's allocator, its size is only counted.
unsafe impl GlobalAlloc for Counter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: the caller's promise about `layout`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise about `block` and `layout`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTER: Counter = Counter;

const PARTIES: usize = 5;

fn keys<R: Ring>(me: ServerIndex) -> PairKeys<R> {
    let pair = |server: ServerIndex| {
        KeyPair::from_secret(Suite::X25519, Secret::from([server.number() + 1; 32])).unwrap()
    };
    let with = |other| pair(me).agree(pair(other).public()).unwrap();
    let agreed = Agreed {
        round: [0; 32],
        begun: [1; 32],
    };
    PairKeys::derive(me, &with(me.previous()), &with(me.next()), &agreed)
}

fn vectors(me: ServerIndex, dim: usize) -> Vectors {
    let row = |party: usize| {
        let component = |server: ServerIndex| -> Vec<u64> {
            let made_up =
                |at: usize, number: u64| (at as u64 + number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let of = |at: usize| match server.number() {
                2 => ((at * party) as u64 % 7)
                    .wrapping_sub(made_up(at, 0))
                    .wrapping_sub(made_up(at, 1)),
                other => made_up(at, other.into()),
            };
            (0..dim).map(of).collect()
        };
        [component(me), component(me.next())]
    };
    Vectors::new((1..=PARTIES).map(row).collect()).unwrap()
}

/// Bytes for one server, at most: a third of what three have.
fn peak<R: Ring>(
    server: impl Fn(PairKeys<R>, Line) -> Mpc<R>,
    rule: Rule<'static>,
    dim: usize,
) -> u64 {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let start = |me: ServerIndex| {
        Script::start(me, |line| {
            let (mpc, vectors) = (server(keys(me), line), Arc::new(vectors(me, dim)));
            async move {
                let bounds = Bounds::new(24)?;
                let weighed = rule.compute(&mpc, &vectors, bounds).await?;
                mpc.verify().await?;
                mpc.reveal(&weighed.sum).await
            }
        })
        .unwrap()
    };
    let [zero, one, two] = ServerIndex::ALL.map(start);
    let (mut scripts, mut states) = ([zero.0, one.0, two.0], [zero.1, one.1, two.1]);
    while let Some([zero, one, two]) = said(states) {
        let messages = [
            (one.to_previous, two.to_next),
            (two.to_previous, zero.to_next),
            (zero.to_previous, one.to_next),
        ];
        let mut heard = scripts.iter_mut().zip(messages);
        states = std::array::from_fn(|_| {
            let (script, (from_next, from_previous)) = heard.next().unwrap();
            script.receive(from_next, from_previous).unwrap()
        });
    }
    (PEAK.load(Relaxed) - before) as u64 / 3
}

fn said<T>(states: [Progress<T>; 3]) -> Option<[Round; 3]> {
    let rounds = states.into_iter().filter_map(|state| match state {
        Progress::Says(round) => Some(round),
        Progress::Done(_) => None,
    });
    <[Round; 3]>::try_from(rounds.collect::<Vec<_>>()).ok()
}

/// One test, because there is one count for all threads.
#[test]
fn each_rule_needs_what_it_says() -> Result<(), MpcError> {
    let root: &[f64] = vec![1.0; 300_000].leak();
    let trusted = Trusted::Known(root);
    let hide_total = false;
    for (rule, dim) in [
        (Rule::Clipped { clip: 1000 }, 300_000),
        (
            Rule::FlTrust {
                trusted,
                hide_total,
            },
            300_000,
        ),
        (
            Rule::Krum {
                bad: 1,
                keep: Some(2),
            },
            300_000,
        ),
        (Rule::Unlike, 300_000),
        (Rule::Median { bits: 16 }, 3000),
        (Rule::Trimmed { bits: 8, trim: 1 }, 3000),
    ] {
        for verifies in [false, true] {
            let counted = match verifies {
                true => peak(Mpc::verifying, rule, dim),
                false => peak(Mpc::<u64>::new, rule, dim),
            };
            let said = rule.memory(PARTIES, dim, verifies);
            // A few megabytes do not grow with vectors.
            assert!(counted < said + 4_000_000, "{counted} and not {said}");
            assert!(2 * said < 3 * counted, "{counted} and not {said}");
        }
    }
    Ok(())
}
