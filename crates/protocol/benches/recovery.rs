//! What holders with wrong shares cost the server: the last stage of `secagg` rounds on the complete graph, honest
//! and with liars. Everything before it happens once, and is then replayed to new servers.
//!
//! ```text
//! cargo bench -p blindsum-protocol --bench recovery -- 300 1000
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use blindsum_protocol::{
    Adversary, Answer, AnySurvivors, Client, ClientSetup, Closed, Excuse, Fault, FaultKind,
    Follower, FollowerSetup, Input, Job, JobMemory, JobSpec, KnownServers, MemoryVault, Message,
    Outcome, Outgoing, PartyId, PartySet, ProtocolName, Round, RoundSum, Seat, Server,
    ServerIdentity, ServerIndex, ServerRole, SparseInput,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use testing::{Rig, body, with_body};

/// Bytes of a revealed share with its owner's rank.
const ENTRY: usize = 44;
const REPEATS: usize = 5;

/// Whether a liar, by rank, lies about an owner.
type About<'a> = &'a dyn Fn(u32, u32) -> bool;

/// What parties say, stage by stage.
type Said = Vec<BTreeMap<PartyId, Message>>;

/// Every answer of a round in which nobody lies, and the words that come out.
fn honest_round(n: u32) -> (Rig, Said) {
    let spec = JobSpec {
        protocol: ProtocolName::SecAgg.into(),
        adversary: Adversary::Active,
        parties: n,
        dim: 100,
        ..JobSpec::default()
    };
    let (mut rig, mut said) = (Rig::new(spec, 1), Said::new());
    while rig.outcome.is_none() {
        if !rig.up.is_empty() {
            said.push(rig.up.clone());
        }
        rig.serve().expect("nobody lies");
        rig.answer_all().expect("nobody lies");
    }
    (rig, said)
}

/// The message of a holder whose shares are wrong for these owners.
fn lie(message: &Message, about: impl Fn(u32) -> bool) -> Message {
    let mut changed = body(message).to_vec();
    let prefix = changed.len() % ENTRY;
    for entry in changed[prefix..].chunks_exact_mut(ENTRY) {
        let owner = u32::from_be_bytes([entry[0], entry[1], entry[2], entry[3]]);
        entry[4] ^= u8::from(about(owner));
    }
    with_body(message, &changed)
}

/// Closes the last stage of a round with these answers, and takes the time; the fewest of several runs.
fn last_stage(rig: &Rig, said: &Said) -> (Duration, usize) {
    let expected = rig.cohort.sum_of(rig.cohort.round.everyone());
    let mut best = (Duration::MAX, 0);
    for _ in 0..REPEATS {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let mut server = Server::start(rig.cohort.round.clone()).expect("feasible");
        let mut stages = said.iter().peekable();
        while let Some(answers) = stages.next() {
            for (&party, message) in answers {
                server.receive(party, message).expect("a valid message");
            }
            let started = Instant::now();
            match server.close(&mut rng).expect("few enough lie") {
                Closed::Next { server: next, .. } => server = next,
                Closed::Done { outcome, .. } => {
                    best = best.min((started.elapsed(), outcome.faults.len()));
                    assert!(outcome.sum == Some(expected.clone()), "a wrong sum");
                    assert!(stages.peek().is_none());
                    break;
                }
            }
        }
    }
    best
}

fn report(n: u32) {
    let (rig, said) = honest_round(n);
    let threshold = 2 * n / 3 + 1;
    let most = (n - threshold) / 2;
    let with_lies = |liars: u32, about: About| {
        let mut said = said.clone();
        let last = said.last_mut().expect("there are stages");
        for liar in 0..liars {
            let message = last.get_mut(&PartyId(liar)).expect("everybody is there");
            *message = lie(message, |owner| about(liar, owner));
        }
        said
    };
    let (honest, _) = last_stage(&rig, &said);
    println!(
        "{n} parties, t = {threshold}, threads = {}",
        rayon::current_num_threads()
    );
    println!("  nobody lies: {:.1} ms", 1e3 * honest.as_secs_f64());
    let everyone = |_, _| true;
    let turns = |liar, owner| owner % most == liar;
    // Each lies about every owner but those that were decoded before.
    let later = |liar, owner| owner >= liar;
    let scenarios: [(&str, u32, About); 4] = [
        ("one liar about every owner", 1, &everyone),
        ("most liars about every owner", most, &everyone),
        ("most liars, one for each owner in turn", most, &turns),
        ("most liars, one more for each owner", most, &later),
    ];
    for (name, liars, about) in scenarios {
        let (took, faults) = last_stage(&rig, &with_lies(liars, about));
        let ratio = took.as_secs_f64() / honest.as_secs_f64();
        println!(
            "  {name} ({liars}): {:.1} ms, {ratio:.2} x, {faults} faults",
            1e3 * took.as_secs_f64()
        );
    }
}

fn main() {
    let sizes: Vec<u32> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    for n in if sizes.is_empty() { vec![300] } else { sizes } {
        report(n);
    }
}
