//! How a job ends for a party that has heard that it is done, and not got its last model yet.

use std::thread::JoinHandle;

use blindsum_net::party::{Party, PartyConfig};
use blindsum_net::pb::party_frame::Frame;
use blindsum_net::pb::{self, RefusalCode};
use blindsum_net::{Model, NetError};

use crate::common::fake::{Fake, job, name};
use crate::common::*;

/// A party that waits for a round, and how that ends: by an error, or with a model.
fn waiting(config: PartyConfig) -> JoinHandle<Result<Option<Model>, NetError>> {
    std::thread::spawn(move || {
        let mut party = Party::join(config).unwrap();
        party
            .next_round()
            .map(|round| assert!(round.is_none()))
            .map(|()| party.final_model().cloned())
    })
}

/// The job is done, with a model that this coordinator does not send.
fn done() -> pb::JobDone {
    let mut model = name(&Model::initial(&job()));
    model.version = 3;
    model.hash = vec![7; 32];
    pb::JobDone {
        model: Some(model),
        ..pb::JobDone::default()
    }
}

/// Whoever answers after that may know nothing of the job any more: it stays done.
#[test]
fn case_54_a_job_that_is_done_stays_so_whoever_refuses_the_party() {
    for code in [
        RefusalCode::RefusalUnknownJob,
        RefusalCode::RefusalJobFailed,
        RefusalCode::RefusalCertificate,
    ] {
        let pki = Pki::new(1);
        let fake = Fake::start(&pki);
        let party = waiting(party_config(&fake.url(), pki.party("a")));
        let mut line = fake.welcome(&job());
        line.send(done());
        assert!(matches!(line.next(), Some(Frame::ModelRequest(_))));
        line.close();
        drop(line);
        let (line, _) = fake.accept();
        line.send(pb::Refused::new(code, "gone"));
        let model = party.join().unwrap().unwrap();
        assert!(model.is_none(), "{code:?}");
    }
}
