//! Certificates of three servers and their parties: from a CA in between, under a name that a server has, and revoked.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::dial::{channel_to, runtime};
use crate::common::intermediate::Intermediate;
use crate::common::three::*;
use crate::common::*;
use blindsum_net::party::PartyConfig;
use blindsum_net::pb::computing_client::ComputingClient;
use blindsum_net::pb::{LineFrame, LineHello, UploadChunk, WIRE_VERSIONS, line_frame};
use blindsum_net::report::RoundState;
use blindsum_net::{CredentialFiles, Credentials};
use tonic::Code;

/// What everybody is told of every round.
fn all_sums(parties: Vec<Played>, rounds: usize) {
    let until = Instant::now() + Duration::from_secs(60);
    for party in parties {
        while !party.is_finished() {
            assert!(Instant::now() < until, "a party hears nothing");
            std::thread::sleep(Duration::from_millis(10));
        }
        let results = party.join().unwrap().unwrap();
        assert_eq!(results.len(), rounds);
        for result in results {
            assert_eq!(result.unwrap().mean, mean(5));
        }
    }
}

/// The same party with other credentials.
fn played(three: &Three, i: usize, credentials: Credentials) -> Played {
    let config: PartyConfig = three.party_config(credentials);
    run_party(config, move |_| vec![VALUES[i]; 5])
}

#[test]
fn servers_of_an_intermediate_ca_compute_together() {
    let three = Three::with(mpc3(2), |pki, place| {
        let between = Intermediate::of(pki);
        match place {
            0 => between.coordinator(),
            place => between.server(HOSTS[place - 1]),
        }
    });
    let mut parties = three.parties(4);
    // Lines are looked at again meanwhile.
    let slow = |_| std::thread::sleep(Duration::from_millis(2500));
    parties.push(three.party(4, slow));
    all_sums(parties, 2);
}

/// Other parties check a party's certificate alone, so everybody must know the CA in between.
#[test]
fn parties_of_an_intermediate_ca_that_all_know_are_in_the_sum() {
    let pki = Pki::new(1);
    let between = Intermediate::of(&pki);
    let know = |mut credentials: Credentials| {
        credentials.ca.push_str(&between.pem);
        credentials
    };
    let three = Three::with(mpc3(1), |pki, place| match place {
        0 => know(pki.coordinator()),
        place => know(pki.server(HOSTS[place - 1])),
    });
    let parties = NAMES.iter().enumerate().map(|(i, name)| {
        let credentials = match i {
            0 | 1 => between.party(name),
            _ => three.pki.party(name),
        };
        played(&three, i, know(credentials))
    });
    all_sums(parties.collect(), 1);
}

/// Abuse case 58: the CA has given a party the name that is the host of a server.
#[test]
fn case_58_a_party_under_the_host_of_a_server_is_counted_for_itself() {
    let three = Three::new(mpc3(2));
    let mut parties = three.parties(4);
    parties.push(played(&three, 4, three.pki.party(HOSTS[0])));
    all_sums(parties, 2);
}

/// Credentials as files of a folder, with the CA's list.
fn filed(folder: &Path, place: usize, credentials: &Credentials, list: &str) -> Credentials {
    let path = |name: &str| folder.join(format!("{place}-{name}"));
    let write = |name: &str, text: &str| {
        let new = path("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, path(name)).unwrap();
    };
    write("key", &credentials.key);
    write("pem", &credentials.certificate);
    write("ca", &credentials.ca);
    write("crl", list);
    let files = CredentialFiles {
        certificate: path("pem"),
        key: path("key"),
        ca: path("ca"),
        revoked: Some(path("crl")),
    };
    files.read().unwrap()
}

/// Three servers that go by the CA's list, which revokes nobody yet.
fn with_lists(folder: &Path, rounds: u32) -> Three {
    Three::with(mpc3(rounds), |pki, place| {
        let credentials = match place {
            0 => pki.coordinator(),
            place => pki.server(HOSTS[place - 1]),
        };
        filed(folder, place, &credentials, &pki.revoke(&[]))
    })
}

/// The servers before this place are given a list that revokes a certificate.
fn revoke(three: &Three, folder: &Path, credentials: &Credentials, before: usize) {
    for place in 0..before {
        let new = folder.join("new");
        fs::write(&new, three.pki.revoke(&[credentials])).unwrap();
        fs::rename(new, folder.join(format!("{place}-crl"))).unwrap();
    }
}

/// Abuse case 32: a server that is revoked is sent away, also while it is connected, and comes back with a new certificate.
#[test]
fn case_32_a_revoked_server_is_in_no_round_until_it_has_a_new_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let three = with_lists(folder.path(), 100_000);
    let slow = |_| std::thread::sleep(Duration::from_millis(100));
    let parties: Vec<Played> = (0..4).map(|i| three.party(i, slow)).collect();
    three
        .coordinator
        .wait("test", |status| status.rounds_done > 1);
    revoke(&three, folder.path(), &three.credentials[1], 1);
    let waits = three.coordinator.wait("test", |status| {
        let is_over = |state| state == RoundState::Aborted || state == RoundState::Joining;
        status.warning.contains("without the third server")
            && status
                .round
                .as_ref()
                .is_some_and(|round| is_over(round.state))
    });
    std::thread::sleep(Duration::from_millis(500));
    let done = three.coordinator.wait("test", |_| true).rounds_done;
    assert_eq!(done, waits.rounds_done);
    let list = three.pki.revoke(&[&three.credentials[1]]);
    filed(folder.path(), 2, &three.pki.server(HOSTS[1]), &list);
    three
        .coordinator
        .wait("test", |status| status.rounds_done > done);
    drop((three, parties));
}

/// Abuse case 32: what is begun with a certificate ends when that is revoked: a line, and the right to upload.
#[test]
fn case_32_a_revoked_certificate_ends_lines_and_uploads() {
    let folder = tempfile::tempdir().unwrap();
    let mut three = with_lists(folder.path(), 1);
    // Its line is that of the test.
    three.stop(2);
    let (runtime, url) = (runtime(), three.urls_of(0)[1].clone());
    let channel = |credentials| channel_to(&runtime, &url, HOSTS[0], credentials).unwrap();
    let hello = LineFrame {
        frame: Some(line_frame::Frame::Hello(LineHello {
            first_version: *WIRE_VERSIONS.start(),
            last_version: *WIRE_VERSIONS.end(),
            job: "test".into(),
            place: 2,
        })),
    };
    let stays_open =
        tokio_stream::StreamExt::chain(tokio_stream::iter([hello]), tokio_stream::pending());
    let mut line = ComputingClient::new(channel(&three.credentials[1]));
    let talk = runtime.block_on(line.talk(stays_open)).unwrap();
    let mut line = talk.into_inner();
    assert!(runtime.block_on(line.message()).unwrap().is_some());
    let party = three.pki.party("a");
    let uploads = ComputingClient::new(channel(&party));
    let upload = |round| {
        let piece = UploadChunk {
            job: "test".into(),
            round,
            total: 1,
            data: vec![0].into(),
            ..UploadChunk::default()
        };
        let mut uploads = uploads.clone();
        async move { uploads.upload(tokio_stream::iter([piece])).await }
    };
    assert!(runtime.block_on(upload(0)).is_ok());
    // This one waits for its round, and keeps the connection.
    let waits = runtime.spawn(upload(1000));
    let both = three.pki.revoke(&[&three.credentials[1], &party]);
    fs::write(folder.path().join("new"), both).unwrap();
    fs::rename(folder.path().join("new"), folder.path().join("1-crl")).unwrap();
    let ended = async { tokio::time::timeout(PATIENCE, line.message()).await };
    let status = runtime.block_on(ended).unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    assert!(status.message().contains("revoked"), "{status}");
    let status = runtime.block_on(upload(0)).unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    waits.abort();
}
