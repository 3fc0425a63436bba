//! Who may do what among three servers: each certificate is for one role and one place.

use blindsum_net::coordinator::Config;
use blindsum_net::follower::{Follower, FollowerConfig};
use blindsum_net::party::Party;
use blindsum_net::pb::computing_client::ComputingClient;
use blindsum_net::pb::{LineFrame, LineHello, UploadChunk, WIRE_VERSIONS, line_frame};
use blindsum_net::{Credentials, NetError};
use tonic::Code;

use crate::common::dial::{channel_to, runtime};
use crate::common::three::*;
use crate::common::*;

/// A hello of the server that says it is in this place.
fn hello(job: &str, place: u32) -> LineFrame {
    let hello = LineHello {
        first_version: *WIRE_VERSIONS.start(),
        last_version: *WIRE_VERSIONS.end(),
        job: job.into(),
        place,
    };
    LineFrame {
        frame: Some(line_frame::Frame::Hello(hello)),
    }
}

/// What the second server says to who begins a line like this; none where it lets the line be.
fn talk(three: &Three, credentials: &Credentials, first: LineFrame) -> Option<(Code, String)> {
    let runtime = runtime();
    let url = &three.urls_of(0)[1];
    let channel = match channel_to(&runtime, url, HOSTS[0], credentials) {
        Ok(channel) => channel,
        Err(error) => return Some((Code::Unavailable, error)),
    };
    runtime.block_on(async {
        let stays_open =
            tokio_stream::StreamExt::chain(tokio_stream::iter([first]), tokio_stream::pending());
        let talk = ComputingClient::new(channel).talk(stays_open).await;
        talk.err()
            .map(|status| (status.code(), status.message().to_owned()))
    })
}

#[test]
fn case_32_a_line_is_only_with_the_server_whose_certificate_is_shown() {
    let three = Three::new(mpc3(1));
    let (code, reason) = talk(&three, &three.pki.party("a"), hello("test", 2)).unwrap();
    assert_eq!(code, Code::PermissionDenied);
    assert!(
        reason.contains("connections between servers need"),
        "{reason}"
    );
    let third = three.pki.server(HOSTS[1]);
    let (code, reason) = talk(&three, &third, hello("test", 0)).unwrap();
    assert_eq!(code, Code::FailedPrecondition);
    assert!(reason.contains("claims to be server 0"), "{reason}");
    let (code, reason) = talk(&three, &third, hello("other", 2)).unwrap();
    assert_eq!(code, Code::NotFound);
    assert!(reason.contains("other"), "{reason}");
    let (_, reason) = talk(&three, &third, LineFrame::default()).unwrap();
    assert!(reason.contains("must be a hello"), "{reason}");
    // No line with itself, and none that goes the other way.
    let (code, reason) = talk(&three, &three.pki.server(HOSTS[0]), hello("test", 1)).unwrap();
    assert_eq!(code, Code::FailedPrecondition, "{reason}");
    // Certificates of other hosts, of no role here, and of the coordinator's host are not let in at all.
    for stranger in [
        three.pki.server("127.0.0.9"),
        three.pki.server("localhost"),
        three.pki.coordinator(),
    ] {
        assert!(talk(&three, &stranger, hello("test", 2)).is_some());
    }
    assert_eq!(talk(&three, &third, hello("test", 2)), None);
}

#[test]
fn case_59_a_server_is_no_party_and_a_party_no_server() {
    let three = Three::new(mpc3(1));
    let server = three.pki.server(HOSTS[1]);
    let refused = Party::join(three.party_config(server.clone()))
        .err()
        .unwrap();
    assert!(
        refused
            .to_string()
            .contains("client authentication as its only"),
        "{refused}"
    );
    let runtime = runtime();
    let url = &three.urls_of(0)[1];
    let channel = channel_to(&runtime, url, HOSTS[0], &server).unwrap();
    let nothing = tokio_stream::iter(Vec::<UploadChunk>::new());
    let upload = runtime.block_on(async { ComputingClient::new(channel).upload(nothing).await });
    let status = upload.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(
        status
            .message()
            .contains("uploads need the certificate of a party")
    );
    for credentials in [three.pki.party("a"), three.pki.coordinator()] {
        let config = FollowerConfig {
            credentials,
            ..three.follower_config(1)
        };
        let refused = Follower::check(&config).unwrap_err().to_string();
        assert!(
            refused.contains("client and server authentication"),
            "{refused}"
        );
    }
}

#[test]
fn a_party_uploads_to_nobody_who_is_no_server() {
    let three = Three::new(mpc3(1));
    let staying = three.parties(4);
    // A coordinator's certificate, for the right host.
    let hosts = vec!["localhost".to_owned(), HOSTS[1].to_owned()];
    let kind = blindsum_crypto::pki::Kind::Coordinator { hosts };
    let validity = blindsum_crypto::pki::Validity::days(now() - 60, 1);
    let mut other = config(
        &three.pki,
        vec![spec(blindsum_protocol::ProtocolName::Plain, 3)],
        None,
    );
    other.credentials = three.pki.issue("other", &kind, validity);
    other.listen = format!("{}:0", HOSTS[1]);
    let other = Running::with(other).unwrap();
    let mut config = three.party_config(three.pki.party("e"));
    config.servers[2] = format!("https://{}:{}", HOSTS[1], other.port);
    let mut party = Party::join(config).unwrap();
    let mut round = party.next_round().unwrap().unwrap();
    round.submit(vec![VALUES[4]; 5], 1).unwrap();
    let error = round.result().unwrap_err().to_string();
    assert!(
        error.contains("no certificate of a server that computes"),
        "{error}"
    );
    for party in staying {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds.last().unwrap().as_ref().unwrap().mean, mean(4));
    }
}

/// A party whose list has two servers exchanged is told so. It leaves the round before: a server that has the other one's
/// part must not get its own.
#[test]
fn a_party_that_takes_one_server_for_another_is_told_so() {
    let three = Three::new(mpc3(1));
    let staying = three.parties(4);
    let mut config = three.party_config(three.pki.party("e"));
    config.servers.swap(1, 2);
    let urls = config.servers.clone();
    let mut party = Party::join(config).unwrap();
    let mut round = party.next_round().unwrap().unwrap();
    round.submit(vec![VALUES[4]; 5], 1).unwrap();
    assert!(round.result().is_err());
    drop(round);
    let rule = servers_rule(party.next_round());
    let told = [(1, 2), (2, 1)].map(|(i, place)| {
        let in_list = format!(
            "{} is server {place} of the job, and server {i} in the list",
            urls[i]
        );
        rule.contains(&in_list)
    });
    assert!(told.contains(&true), "{rule}");
    assert!(rule.contains("in the order of the servers"), "{rule}");
    for party in staying {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds.last().unwrap().as_ref().unwrap().mean, mean(4));
    }
}

/// The rule that a configuration of the field `servers` breaks.
fn servers_rule<T>(refused: Result<T, NetError>) -> String {
    match refused.err() {
        Some(NetError::Config { field, rule }) if field == "servers" => rule,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_list_of_servers_is_checked_before_anything_runs() {
    let three = Three::new(mpc3(1));
    let coordinator = |servers: Vec<String>| {
        servers_rule(Running::with(Config {
            servers,
            ..config(&three.pki, vec![mpc3(1)], None)
        }))
    };
    assert!(coordinator(Vec::new()).contains("three URLs"));
    assert!(coordinator(three.urls_of(0)[..2].to_vec()).contains("must be three URLs"));
    let mut moved = three.urls_of(0);
    moved.rotate_left(1);
    assert!(coordinator(moved.clone()).contains("server 0, this one"));
    let follower = |servers: Vec<String>| {
        servers_rule(Follower::check(&FollowerConfig {
            servers,
            ..three.follower_config(1)
        }))
    };
    assert!(follower(moved).contains("server 1, this one"));
    assert!(follower(Vec::new()).contains("0 URLs"));
    let mut party = three.party_config(three.pki.party("a"));
    party.servers.swap(0, 1);
    assert!(servers_rule(Party::join(party)).contains("must be url"));
    let mut party = three.party_config(three.pki.party("a"));
    party.servers.clear();
    assert!(servers_rule(Party::join(party)).contains("three servers"));
    for place in [0, 3] {
        let config = FollowerConfig {
            place,
            ..three.follower_config(1)
        };
        let error = Follower::check(&config).unwrap_err().to_string();
        assert!(error.contains("must be from 1 to 2"), "{error}");
    }
}
