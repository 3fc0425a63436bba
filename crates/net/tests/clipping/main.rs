//! What clipping did to a party's update is told to that party, and to nobody else.

#[path = "../suite/common/mod.rs"]
mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};

use blindsum_net::party::Clipped;
use blindsum_protocol::{Clipping, JobSpec, ProtocolName, Quantised};
use common::*;
use tracing_subscriber::fmt::MakeWriter;

/// Every log line of the process.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// What two parties are told of a job: one gives fives, the other halves.
fn clipped(spec: JobSpec) -> [Vec<Option<Clipped>>; 2] {
    let pki = Pki::new(1);
    let coordinator = Running::start(&pki, vec![spec], None);
    let parties = [("a", 5.0), ("b", 0.5)].map(|(name, value)| {
        let config = party_config(&coordinator.url(), pki.party(name));
        run_party(config, constant(value))
    });
    let clipped = parties.map(|party| {
        let rounds = party.join().unwrap().unwrap();
        rounds
            .into_iter()
            .map(|round| round.unwrap().clipped)
            .collect()
    });
    let status = coordinator.wait_done("test");
    let told = serde_json::to_string(&status).unwrap();
    assert!(!told.contains("clip") && !told.contains("scaled"), "{told}");
    clipped
}

#[test]
fn a_party_hears_what_clipping_did_to_its_own_update() {
    let lines = Lines::default();
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(lines.clone())
        .init();
    let base = JobSpec {
        encoding: Quantised {
            clip: 1.0,
            max_weight: 10,
            ..Default::default()
        }
        .into(),
        rounds: 2,
        ..spec(ProtocolName::Plain, 2)
    };
    let nothing = Clipped::default();
    let all = Clipped {
        coordinates: 5,
        ..nothing
    };
    assert_eq!(clipped(base.clone()), [[Some(all); 2], [Some(nothing); 2]]);
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("was clipped"))
        .collect();
    assert_eq!(told.len(), 2, "{log}");
    assert!(
        told.iter()
            .all(|line| line.contains("party=a") && line.contains("coordinates=5"))
    );
    assert!(told[0].contains("WARN") && told[0].contains("raise clip in the job"));
    assert!(told[1].contains("INFO"), "{}", told[1]);
    // Of the norm 5·√5 a bound of 2.5·√5 leaves a half.
    let by_norm = JobSpec {
        encoding: Quantised {
            clipping: Clipping::L2,
            max_weight: 10,
            clip: 2.5 * 5.0_f64.sqrt(),
            ..Default::default()
        }
        .into(),
        rounds: 1,
        ..base
    };
    let [scaled, whole] = clipped(by_norm);
    let factor = scaled[0].and_then(|clipped| clipped.scaled_by).unwrap();
    assert!((factor - 0.5).abs() < 1e-12, "{factor}");
    assert_eq!(whole, [Some(nothing)]);
}
