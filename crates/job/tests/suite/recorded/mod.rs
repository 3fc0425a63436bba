//! Whole connections as `vectors/connection.json` has them: recorded anew, the bytes are the same.

mod world;

use std::path::Path;

use blindsum_job::Model;
use blindsum_protocol::JobSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::support::{Hex, load};
use world::World;

const FILE: &str = include_str!("../../../../../vectors/connection.json");

/// A job, who takes part, what happens, and what one party hears and says.
#[derive(Deserialize)]
pub struct Connection {
    spec: JobSpec,
    job_hash: Hex,
    now: u64,
    ca: String,
    /// Values of the first model; none where the job was given none.
    initial: Option<Hex>,
    parties: Vec<Party>,
    recorded: usize,
    cuts: Vec<Cut>,
    rounds: Vec<Expected>,
    frames: Vec<Row>,
}

#[derive(Deserialize)]
struct Party {
    name: String,
    certificate: Hex,
    private_key: String,
    /// By round.
    updates: Vec<Hex>,
}

/// A connection that ends once its party has said its answer to a stage.
#[derive(Deserialize, Clone)]
struct Cut {
    party: usize,
    round: u64,
    stage: u8,
    /// Whether the answer reaches the coordinator.
    arrives: bool,
    /// Whether the party comes back.
    returns: bool,
}

/// What the recorded party has at the end of a round.
#[derive(Deserialize)]
struct Expected {
    number: u64,
    survivors: Vec<String>,
    mean: Hex,
    model: ModelName,
    result_name: Hex,
}

#[derive(Deserialize)]
struct ModelName {
    version: u64,
    hash: Hex,
}

/// Somebody says something.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
struct Row {
    /// Number of the connection of the recorded party.
    connection: u64,
    from: Side,
    frame: String,
    /// Whether it did not come through.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
}

#[derive(Deserialize, Serialize, Clone, Copy, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Side {
    Party,
    Coordinator,
}

impl Connection {
    /// What the recorded party was told at the end of each round, and of the job.
    fn check(&self, world: &World) {
        let party = &world.members[self.recorded];
        assert_eq!(party.results.len(), self.rounds.len());
        for (expected, (number, result)) in self.rounds.iter().zip(&party.results) {
            assert_eq!(*number, expected.number);
            assert_eq!(
                result.mean.to_bytes(),
                expected.mean.0,
                "mean of round {number}"
            );
            assert_eq!(result.survivors, expected.survivors);
            expected.model.check(&result.model);
            assert_eq!(result.result, expected.result_name.array());
        }
        let last = &self.rounds[self.rounds.len() - 1];
        last.model.check(party.last.as_ref().unwrap());
    }
}

impl ModelName {
    fn check(&self, model: &Model) {
        assert_eq!(model.version(), self.version);
        assert_eq!(*model.hash(), self.hash.array(), "version {}", self.version);
    }
}

#[test]
fn connections_are_the_same_byte_by_byte() {
    let connections = load::<Connection>(FILE, "connections");
    let mut is_new = false;
    let mut file: Value = serde_json::from_str(FILE).unwrap();
    for (at, connection) in connections.iter().enumerate() {
        let world = World::play(connection);
        is_new |= world.rows != connection.frames;
        file["connections"][at]["frames"] = serde_json::to_value(&world.rows).unwrap();
        if !is_new {
            connection.check(&world);
        }
    }
    if is_new {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("connection.json");
        std::fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
        panic!(
            "other bytes than in vectors/connection.json. Where that is meant:\n\
             cp {} vectors/ && python3 vectors/make.py connection",
            path.display()
        );
    }
}
