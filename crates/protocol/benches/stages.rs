//! What the stages of a client take within a round, from the update to the message and from the message to the sum:
//! encoding, packing, frames and fresh pages included, beside which the bench `flashe` times the cipher.
//!
//! One core. Each stage is timed in many rounds for every party; the least is what it takes, the median what the
//! machine made of it. Pages are the minor faults of one party, where the system counts them.
//!
//! ```text
//! cargo bench -p blindsum-protocol --bench stages -- 262144
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_encode::Encoder;
use blindsum_protocol::{
    Answer, AnySurvivors, Client, ClientSetup, Closed, Excuse, Fault, FaultKind, Follower,
    FollowerSetup, Input, Job, JobMemory, JobSpec, KnownServers, MemoryVault, Message, Outcome,
    Outgoing, PartyId, PartySet, ProtocolName, Round, RoundSum, Seat, Server, ServerIdentity,
    ServerIndex, ServerRole, SparseInput,
};

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use testing::Rig;

const PARTIES: u32 = 10;
const BUDGET: Duration = Duration::from_secs(4);

/// What was measured of one stage.
#[derive(Default)]
struct Stage(Vec<(Duration, Option<u64>)>);

impl Stage {
    fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (faults, started) = (minor_faults(), Instant::now());
        let done = work();
        let took = started.elapsed();
        let faults = minor_faults().zip(faults);
        self.0
            .push((took, faults.map(|(after, before)| after - before)));
        done
    }

    fn print(mut self, name: &str) {
        self.0.sort();
        let milliseconds = |(took, _): &(Duration, Option<u64>)| 1e3 * took.as_secs_f64();
        let middle = self.0[self.0.len() / 2];
        let pages = middle.1.map_or("unknown".into(), |pages| pages.to_string());
        println!(
            "  {name:<8} least {:.3} ms, median {:.3} ms, pages {pages}",
            milliseconds(&self.0[0]),
            milliseconds(&middle)
        );
    }
}

/// Pages that this thread touched for the first time.
fn minor_faults() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    // The name, in brackets, may hold anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(7)?.parse().ok()
}

/// The two stages of a client of `flashe`, in as many rounds as there is time for.
fn flashe(dim: u64) {
    let spec = JobSpec {
        protocol: ProtocolName::Flashe.into(),
        parties: PARTIES,
        dim,
        ..JobSpec::default()
    };
    // Parties that hold the key; their first round is not used.
    let rig = Rig::new(spec, 2);
    let (job, roster) = (rig.cohort.round.job(), rig.cohort.round.roster());
    let values: Vec<f32> = (0..dim).map(|d| (d as f32 * 0.37).sin() * 1.01).collect();
    let (mut upload, mut open) = (Stage::default(), Stage::default());
    let (mut rng, until) = (rig.rng.clone(), Instant::now() + BUDGET);
    for number in 10.. {
        let round = Round::new(job.clone(), number, roster.clone(), &[9; 32]);
        let cohort = rig.cohort.begin(round.expect("a round of the job"));
        let mut server = Server::start(cohort.round.clone()).expect("feasible");
        let mut clients = BTreeMap::new();
        for party in cohort.round.everyone() {
            let setup = cohort.setup(party);
            let (client, answer) = upload.time(|| {
                let seed = MaskSeed::from(Secret::from([7; 32]));
                let words = Encoder::new(job.encoding(), &values[..], 1, seed).expect("finite");
                Client::start(setup, Some(&words), &mut rng).expect("an unused round")
            });
            let message = answer.message().expect("all speak first");
            server.receive(party, &message).expect("a ciphertext");
            clients.insert(party, client);
        }
        let Closed::Done { messages, .. } = server.close(&mut rng).expect("everybody is there")
        else {
            panic!("flashe has one stage");
        };
        for (seat, outgoing) in messages {
            let message = outgoing.assemble(|_| None::<&[u8]>).expect("one piece");
            let client = (seat.party())
                .and_then(|party| clients.get_mut(&party))
                .expect("it has sent something");
            let answer = open.time(|| client.answer(&message, None, &mut rng));
            assert!(matches!(answer, Ok(Answer::Done(_))));
        }
        if Instant::now() > until {
            break;
        }
    }
    println!(
        "flashe, {PARTIES} parties, {dim} coordinates, {} bits",
        job.width().bits()
    );
    upload.print("upload");
    open.print("open");
}

fn main() {
    // This thread is the pool, so that nothing runs on another core.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread();
    pool.build_global().expect("the first pool");
    let sizes: Vec<u64> = std::env::args()
        .filter_map(|arg| arg.parse().ok())
        .collect();
    for dim in if sizes.is_empty() {
        vec![262_144]
    } else {
        sizes
    } {
        flashe(dim);
    }
}
