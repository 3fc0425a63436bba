//! What a server computes by itself, in time of one processor: the range gate's projections against one pass over the
//! vectors in memory, noise, and FLTrust with a gate as a whole, whose messages cost nothing here.
//!
//!     cargo bench -p blindsum-mpc --bench local

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::kex::{KeyPair, SharedSecret, Suite};
use blindsum_crypto::secret::Secret;
use blindsum_mpc::line::{Line, Progress, Script};
use blindsum_mpc::rules::{Bounds, Trusted};
use blindsum_mpc::{
    Agreed, Gate, Gaussian, Mpc, NoiseKeys, PairKeys, Ring, ServerIndex, Vectors, project,
};

const PARTIES: usize = 16;

fn vectors(length: usize) -> Vectors {
    let row = |party: usize| {
        let number = |at: usize| (party * length + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) as u64;
        [0, 1].map(|part| (0..length).map(|at| number(2 * at + part)).collect())
    };
    Vectors::new((0..PARTIES).map(row).collect()).expect("rows of one length")
}

/// Time that this thread has had a processor for, where Linux says so: others may be busy too.
fn processor_time() -> Duration {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = said.split(' ').next().and_then(|it| it.parse().ok());
    Duration::from_nanos(first.unwrap_or_default())
}

/// The shortest of seven times.
fn fastest(mut work: impl FnMut()) -> Duration {
    let times = (0..7).map(|_| {
        let begin = processor_time();
        work();
        processor_time() - begin
    });
    times.min().unwrap_or_default()
}

/// What server `me` shares with the one before, and with the next one.
fn secrets(me: ServerIndex) -> [SharedSecret; 2] {
    let pair = |server: ServerIndex| {
        let secret = Secret::from([server.number() + 1; 32]);
        KeyPair::from_secret(Suite::X25519, secret).expect("any secret will do")
    };
    [me.previous(), me.next()].map(|other| {
        let agreed = pair(me).agree(pair(other).public());
        agreed.expect("two keys of one kind")
    })
}

fn keys<R: Ring>(me: ServerIndex) -> PairKeys<R> {
    let [previous, next] = secrets(me);
    let agreed = Agreed {
        round: [0; 32],
        begun: [1; 32],
    };
    PairKeys::derive(me, &previous, &next, &agreed)
}

/// All of FLTrust at three servers, the vectors behind a gate.
fn fltrust<R: Ring>(server: fn(PairKeys<R>, Line) -> Mpc<R>, vectors: &[Arc<Vectors>; 3]) {
    let root = vec![1.0; vectors[0].length()];
    let start = |me: ServerIndex| {
        let (vectors, root) = (vectors[usize::from(me.number())].clone(), root.clone());
        let code = |line| {
            let mpc = server(keys(me), line);
            async move {
                let bounds = Bounds::gated(Gate::new(1 << 20, [3; 32])?);
                let trusted = Trusted::Known(&root);
                let weighed = mpc.fltrust(&vectors, bounds, trusted, false).await?;
                mpc.verify().await?;
                mpc.reveal(&weighed.sum).await
            }
        };
        Script::start(me, code).expect("it begins")
    };
    let [zero, one, two] = ServerIndex::ALL.map(start);
    let (mut scripts, mut states) = ([zero.0, one.0, two.0], [zero.1, one.1, two.1]);
    loop {
        let said = states.map(|state| match state {
            Progress::Says(round) => Some(round),
            Progress::Done(_) => None,
        });
        let [Some(zero), Some(one), Some(two)] = said else {
            return;
        };
        let messages = [
            (one.to_previous, two.to_next),
            (two.to_previous, zero.to_next),
            (zero.to_previous, one.to_next),
        ];
        let mut heard = scripts.iter_mut().zip(messages);
        states = std::array::from_fn(|_| {
            let (script, (next, previous)) = heard.next().expect("three servers");
            script
                .receive(next, previous)
                .expect("they follow the protocol")
        });
    }
}

/// Vectors of small numbers as the three servers hold them; components are not random here.
fn held(length: usize) -> [Arc<Vectors>; 3] {
    ServerIndex::ALL.map(|me| {
        let component = |server: ServerIndex, party: usize| -> Vec<u64> {
            let masks = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let of = |at: usize| match server.number() {
                0 => masks(at),
                1 => masks(at + 7),
                _ => ((at * party) as u64 % 50)
                    .wrapping_sub(masks(at))
                    .wrapping_sub(masks(at + 7)),
            };
            (0..length).map(of).collect()
        };
        let row = |party| [component(me, party), component(me.next(), party)];
        Arc::new(Vectors::new((1..=PARTIES).map(row).collect()).expect("rows of one length"))
    })
}

/// Words of a number in an extension of the ring in which a proof by folding fails with a probability near 2^-40.
const DEGREE: usize = 47;

/// The first step of such a proof, and only of its prover: halves of the vectors are added up, one times a number r of the
/// extension and one times 1 - r. The results stay where they are: a proof would have to keep all of them.
fn folded(numbers: &[u64], r: &[u64; DEGREE], rest: &[u64; DEGREE]) {
    let (left, right) = numbers.split_at(numbers.len() / 2);
    for (left, right) in left.iter().zip(right) {
        let mut sum = [0u64; DEGREE];
        for (sum, (r, rest)) in sum.iter_mut().zip(r.iter().zip(rest)) {
            *sum = left
                .wrapping_mul(*rest)
                .wrapping_add(right.wrapping_mul(*r));
        }
        black_box(&sum);
    }
}

fn main() {
    for length in [100_000, 1_000_000] {
        let vectors = vectors(length);
        let projected = fastest(|| {
            black_box(project::<u64>(black_box(&vectors), [7; 32]));
        });
        let passed = fastest(|| {
            black_box(black_box(&vectors).sum::<u64>());
        });
        let each = |time: Duration| time.as_secs_f64() * 1e9 / (2 * PARTIES * length) as f64;
        println!(
            "{PARTIES} vectors of {length}: {projected:.1?}, {:.2} ns for each number; their sum, one pass over memory, {:.2} ns",
            each(projected),
            each(passed),
        );
        let drawn = fastest(|| {
            let [previous, next] = secrets(ServerIndex::ALL[0]);
            let agreed = Agreed {
                round: [0; 32],
                begun: [1; 32],
            };
            let keys = NoiseKeys::derive(ServerIndex::ALL[0], &previous, &next, &agreed);
            let gaussian = Gaussian::new(10_000, 1).expect("a variance");
            black_box(keys.draw::<u64>(Some(&gaussian), 0, length));
        });
        let one = drawn.as_secs_f64() * 1e9 / (2 * length) as f64;
        println!("noise for {length}: {drawn:.1?}, {one:.0} ns for each number of a component");
        drop(vectors);
        let numbers: Vec<u64> = (0..PARTIES * length)
            .map(|at| at as u64 * 0x9e37_79b9)
            .collect();
        let (r, rest) = black_box(([7; DEGREE], [9; DEGREE]));
        let first = fastest(|| (0..2).for_each(|_| folded(black_box(&numbers), &r, &rest)));
        println!("the first step of a proof by folding, both components: {first:.1?} and more");
        drop(numbers);
        let held = held(length);
        let semi_honest = fastest(|| fltrust(Mpc::<u64>::new, &held)) / 3;
        let verifying = fastest(|| fltrust(Mpc::verifying, &held)) / 3;
        println!(
            "FLTrust behind a gate, {length}: {semi_honest:.1?} a server, {verifying:.1?} where servers verify"
        );
    }
}
