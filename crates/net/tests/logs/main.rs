//! What the logs say, and what they must never say.

#[path = "../suite/common/mod.rs"]
mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};

use blindsum_protocol::{JobSpec, ProtocolName};
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

#[test]
fn case_41_no_key_and_no_value_of_an_update_is_logged() {
    let lines = Lines::default();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(lines.clone())
        .init();
    let pki = Pki::new(1);
    let spec = JobSpec {
        min_parties: 0,
        ..spec(ProtocolName::SecAgg, 3)
    };
    let coordinator = Running::start(&pki, vec![spec], None);
    let state = tempfile::tempdir().unwrap();
    let credentials = ["a", "b", "c"].map(|name| pki.party(name));
    let parties = credentials.clone().map(|credentials| {
        let mut config = party_config(&coordinator.url(), credentials);
        config.state_dir = Some(
            state
                .path()
                .join(config.credentials.key[40..60].replace('/', "_")),
        );
        run_party(config, constant(777.4375))
    });
    for party in parties {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds[0].as_ref().unwrap().mean, [777.4375; 5]);
    }
    coordinator.stop().unwrap();
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    for said in [
        "party joined",
        "round started",
        "stage ended",
        "round done",
        "TRACE",
    ] {
        assert!(log.contains(said), "{said:?} is missing");
    }
    assert!(!log.contains("777.4"), "a value is logged");
    for credentials in &credentials {
        // The one line of base64 that is the key.
        let key = credentials.key.lines().nth(1).unwrap();
        assert!(key.len() > 40 && !log.contains(key), "a key is logged");
    }
}
