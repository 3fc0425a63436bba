//! What one member that lies costs ten honest ones: the rounds of 200 that give no result.
//!
//! `cargo bench -p blindsum-sim --bench liar` runs one job for each protocol, and for each chance with which a frame of
//! the liar is a lie. Nothing in it depends on the machine.
#![allow(missing_docs)]

use blindsum_protocol::{JobSpec, ProtocolName};
use blindsum_sim::beside_a_liar;

/// How likely a frame of the liar is a lie.
const CHANCES: [f64; 3] = [0.1, 0.4, 1.0];
const ROUNDS: u32 = 200;

fn main() {
    println!("| protocol | lies | frames that lied | rounds that count | rounds spoilt | of all |");
    println!("|---|---:|---:|---:|---:|---:|");
    // Nobody can tell who spoilt a sum of FLASHE, which tolerates no liar.
    let others = |name: &&ProtocolName| **name != ProtocolName::Flashe;
    for protocol in ProtocolName::ALL.iter().filter(others) {
        for lie in CHANCES {
            let spec = JobSpec {
                protocol: (*protocol).into(),
                parties: 11,
                rounds: ROUNDS,
                dim: 4,
                ..JobSpec::default()
            };
            match beside_a_liar(&spec, lie, 1) {
                Ok(tally) => {
                    let of = tally.spoilt as f64 / (tally.spoilt + tally.rounds) as f64;
                    println!(
                        "| `{protocol}` | {lie} | {} | {} | {} | {:.1} % |",
                        tally.lies,
                        tally.rounds,
                        tally.spoilt,
                        100.0 * of
                    );
                }
                Err(error) => println!("| `{protocol}` | {lie} | {error} |"),
            }
        }
    }
}
