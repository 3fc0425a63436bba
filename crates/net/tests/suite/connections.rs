//! Who is let in, and what becomes of those who misbehave.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::fake::{Fake, job, one_round, welcome};
use crate::common::raw::{Raw, certificate, channel, hello, runtime};
use crate::common::*;
use blindsum_crypto::pki::{Kind, Validity};
use blindsum_net::coordinator::Config;
use blindsum_net::party::{Party, PartyConfig};
use blindsum_net::pb::coordinator_client::CoordinatorClient;
use blindsum_net::pb::{self, RefusalCode};
use blindsum_net::status::Question;
use blindsum_net::{CredentialFiles, Credentials, JobError, NetError};
use blindsum_protocol::{Fixed64, JobSpec, ProtocolName};
use rcgen::ExtendedKeyUsagePurpose;
use tonic::Code;

/// Joining must fail at once with this message.
fn refused(config: PartyConfig, says: &[&str]) -> NetError {
    let Err(error) = Party::join(config) else {
        panic!("it was let in");
    };
    for text in says {
        assert!(
            error.to_string().contains(text),
            "{text:?} is missing: {error}"
        );
    }
    error
}

#[test]
fn case_32_a_party_of_another_ca_is_refused() {
    let (pki, other) = (Pki::new(1), Pki::new(2));
    let coordinator = coordinator(&pki);
    // It trusts the coordinator, but its certificate is of a CA of its own.
    let mut credentials = other.party("a");
    credentials.ca = format!("{}{}", pki.ca_pem(), other.ca_pem());
    let config = party_config(&coordinator.url(), credentials);
    let error = refused(config, &["does not accept this side's certificate"]);
    assert!(matches!(error, NetError::Tls { .. }), "{error}");
    honest_round_works(&pki, &coordinator);
}

#[test]
fn case_32_a_coordinator_of_another_ca_is_refused() {
    let (pki, other) = (Pki::new(3), Pki::new(4));
    let coordinator = coordinator(&pki);
    let config = party_config(&coordinator.url(), other.party("a"));
    let error = refused(config, &["not signed by the CA that is trusted here"]);
    assert!(matches!(error, NetError::Tls { .. }), "{error}");
}

#[test]
fn case_32_a_coordinator_of_another_host_is_refused() {
    let pki = Pki::new(25);
    let mut config = config(&pki, vec![spec(ProtocolName::Plain, 3)], None);
    let hosts = vec!["elsewhere.example".to_owned()];
    let validity = Validity::days(now() - 60, 1);
    config.credentials = pki.issue("other", &Kind::Coordinator { hosts }, validity);
    let coordinator = Running::with(config).unwrap();
    let mut config = party_config(&coordinator.url(), pki.party("a"));
    refused(config, &["for other hosts than localhost", "server_name"]);
    config = party_config(&coordinator.url(), pki.party("a"));
    config.server_name = Some("elsewhere.example".into());
    Party::join(config).unwrap();
}

#[test]
fn case_32_an_expired_certificate_is_refused_on_both_sides() {
    let pki = Pki::new(5);
    let coordinator = coordinator(&pki);
    let validity = Validity {
        not_before: now() - 7200,
        not_after: now() - 3600,
    };
    let expired = pki.issue("a", &Kind::Party, validity);
    // The party's own program says it first.
    refused(
        party_config(&coordinator.url(), expired.clone()),
        &["expired"],
    );
    let said = foreign_client_hears(&coordinator, &expired);
    assert!(said.contains("CertificateExpired"), "{said}");
}

#[test]
fn case_32_a_revoked_certificate_is_refused() {
    let pki = Pki::new(6);
    let revoked = pki.party("a");
    let mut config = config(&pki, vec![spec(ProtocolName::Plain, 3)], None);
    config.credentials = config.credentials.with_revoked(pki.revoke(&[&revoked]));
    let coordinator = Running::with(config).unwrap();
    let config = party_config(&coordinator.url(), revoked);
    refused(
        config,
        &["does not accept this side's certificate", "evoked"],
    );
    honest_round_works(&pki, &coordinator);
}

/// Case 32: a party that is revoked while it watches is told nothing more, over the connection that it has.
#[test]
fn case_32_a_party_that_is_revoked_does_not_watch_on() {
    let pki = Pki::new(6);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let own = pki.coordinator();
    for (name, text) in [
        ("own.pem", own.certificate.as_str()),
        ("own.key", own.key.as_str()),
        ("ca.pem", pki.ca_pem()),
        ("crl.pem", &pki.revoke(&[])),
    ] {
        std::fs::write(path(name), text).unwrap();
    }
    let files = CredentialFiles {
        certificate: path("own.pem"),
        key: path("own.key"),
        ca: path("ca.pem"),
        revoked: Some(path("crl.pem")),
    };
    let mut config = config(&pki, vec![spec(ProtocolName::Plain, 3)], None);
    config.credentials = files.read().unwrap();
    let coordinator = Running::with(config).unwrap();
    let (url, revoked) = (coordinator.url(), pki.party("m"));
    let runtime = runtime();
    let mut client = CoordinatorClient::new(channel(&runtime, &url, &revoked).unwrap());
    let question = || pb::StatusRequest { job: "test".into() };
    let watch = runtime.block_on(client.watch(question()));
    let mut watch = watch.unwrap().into_inner();
    let mut raw = Raw::join(&url, revoked.clone(), "m");
    std::fs::write(path("new.pem"), pki.revoke(&[&revoked])).unwrap();
    std::fs::rename(path("new.pem"), path("crl.pem")).unwrap();
    assert_eq!(raw.refusal().0, RefusalCode::RefusalCertificate);
    let _other = Raw::join(&url, pki.party("unseen"), "unseen");
    let seen = async {
        loop {
            match watch.message().await {
                Ok(reply) => assert!(!reply.unwrap().jobs.contains("unseen")),
                Err(status) => return status,
            }
        }
    };
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, seen).await });
    assert_eq!(ended.unwrap().code(), Code::Unauthenticated);
    let again = runtime.block_on(client.status(question()));
    assert_eq!(again.unwrap_err().code(), Code::Unauthenticated);
}

/// Case 59: TLS takes a certificate without extended key usage for everything, and one with both for both. Here they
/// are for nothing, on either side.
#[test]
fn case_59_certificates_of_no_role_and_of_two_are_refused_on_both_sides() {
    let pki = Pki::new(59);
    let coordinator = coordinator(&pki);
    let both = [
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::ServerAuth,
    ];
    for usages in [&[][..], &both] {
        let unusual = pki.unusual("a", usages);
        let own = party_config(&coordinator.url(), unusual.clone());
        refused(
            own,
            &["client authentication as its only extended key usage"],
        );
        let said = foreign_client_hears(&coordinator, &unusual);
        assert_ne!(said, "let in", "{usages:?}");
        let fake = Fake::with(&pki, pki.unusual("localhost", usages));
        let honest = party_config(&fake.url(), pki.party("b"));
        let error = refused(honest, &["shows no coordinator's certificate"]);
        assert!(matches!(error, NetError::Tls { .. }), "{error}");
        let own = Config {
            credentials: pki.unusual("localhost", usages),
            ..config(&pki, vec![spec(ProtocolName::Plain, 3)], None)
        };
        let error = Running::with(own).err().expect("it starts").to_string();
        assert!(error.contains("server authentication"), "{error}");
    }
    honest_round_works(&pki, &coordinator);
}

/// Case 59: an operator's certificate, too, is for its one role, and that is in no job.
#[test]
fn case_59_an_operator_s_certificate_is_refused_on_both_sides() {
    let pki = Pki::new(60);
    let coordinator = coordinator(&pki);
    let operator = |name: &str| pki.issue(name, &Kind::Operator, Validity::days(now() - 60, 1));
    let own = party_config(&coordinator.url(), operator("a"));
    refused(
        own,
        &["client authentication as its only extended key usage"],
    );
    assert_ne!(foreign_client_hears(&coordinator, &operator("a")), "let in");
    let fake = Fake::with(&pki, operator("localhost"));
    let error = refused(party_config(&fake.url(), pki.party("b")), &[]);
    assert!(matches!(error, NetError::Tls { .. }), "{error}");
    honest_round_works(&pki, &coordinator);
}

#[test]
fn case_32_without_a_certificate_nobody_is_let_in() {
    let pki = Pki::new(7);
    let coordinator = coordinator(&pki);
    let runtime = raw::runtime();
    let tls = tonic::transport::ClientTlsConfig::new()
        .ca_certificate(tonic::transport::Certificate::from_pem(pki.ca_pem()))
        .domain_name("localhost");
    let endpoint = tonic::transport::Endpoint::from_shared(coordinator.url()).unwrap();
    let channel = runtime.block_on(endpoint.tls_config(tls).unwrap().connect());
    let said = first_answer(&runtime, channel.map_err(|e| format!("{e:?}")));
    assert!(said.contains("CertificateRequired"), "{said}");
}

#[test]
fn case_32_a_coordinators_certificate_is_none_of_a_party() {
    let pki = Pki::new(8);
    let coordinator = coordinator(&pki);
    let credentials = pki.coordinator();
    refused(
        party_config(&coordinator.url(), credentials.clone()),
        &["client authentication"],
    );
    let said = foreign_client_hears(&coordinator, &credentials);
    assert!(said.contains("alert"), "{said}");
}

#[test]
fn case_32_plaintext_is_refused_on_both_sides() {
    let pki = Pki::new(9);
    let coordinator = coordinator(&pki);
    let mut stream = TcpStream::connect(("127.0.0.1", coordinator.port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.len() < 16, "more than an alert: {answer:?}");
    let url = coordinator.url().replace("https", "http");
    refused(
        party_config(&url, pki.party("a")),
        &["url", "must begin with https://"],
    );
    honest_round_works(&pki, &coordinator);
}

#[test]
fn case_32_tls_1_2_is_not_spoken() {
    let pki = Pki::new(10);
    let coordinator = coordinator(&pki);
    let mut roots = rustls::RootCertStore::empty();
    let ca = Credentials::new(pki.ca_pem(), "", "");
    roots.add(certificate(&ca).into()).unwrap();
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let config = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let mut tls = rustls::ClientConnection::new(config.into(), name).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", coordinator.port)).unwrap();
    let error = tls.complete_io(&mut stream).unwrap_err().to_string();
    assert!(error.contains("ProtocolVersion"), "{error}");
}

#[test]
fn case_32_the_name_in_the_hello_must_be_the_one_in_the_certificate() {
    let pki = Pki::new(11);
    let coordinator = coordinator(&pki);
    let mut raw = Raw::open(
        &coordinator.url(),
        pki.party("mallory"),
        hello("test", "alice"),
    );
    let (code, reason) = raw.refusal();
    assert_eq!(code, RefusalCode::RefusalName);
    assert!(
        reason.contains("alice") && reason.contains("mallory"),
        "{reason}"
    );
    honest_round_works(&pki, &coordinator);
}

#[test]
fn case_42_versions_that_do_not_meet_are_refused_with_both_in_the_message() {
    let pki = Pki::new(12);
    let coordinator = coordinator(&pki);
    let newer = pb::Hello {
        first_version: 7,
        last_version: 9,
        program: "blindsum 9.9".into(),
        ..hello("test", "a")
    };
    let (code, reason) = Raw::open(&coordinator.url(), pki.party("a"), newer).refusal();
    assert_eq!(code, RefusalCode::RefusalVersion);
    assert!(
        reason.contains("4 to 4") && reason.contains("9.9 speaks 7 to 9"),
        "{reason}"
    );
}

#[test]
fn an_unknown_job_is_named() {
    let pki = Pki::new(13);
    let coordinator = coordinator(&pki);
    let mut config = party_config(&coordinator.url(), pki.party("a"));
    config.job = "tumor".into();
    let error = refused(config, &["there is no job \"tumor\" here"]);
    assert!(matches!(
        error,
        NetError::Job(JobError::Refused {
            code: RefusalCode::RefusalUnknownJob,
            ..
        })
    ));
}

#[test]
fn nobody_there_is_said_after_the_time_allowed() {
    let pki = Pki::new(14);
    let port = Running::start(&pki, vec![spec(ProtocolName::Plain, 3)], None).port;
    let mut config = party_config(&format!("https://localhost:{port}"), pki.party("a"));
    config.give_up_after = 0.3;
    let error = refused(
        config,
        &["not reached within 0.3 s", "nothing listens there"],
    );
    assert!(matches!(error, NetError::Unreachable { .. }), "{error}");
}

#[test]
fn case_55_two_parties_with_one_name_are_told_apart_by_their_certificates() {
    let pki = Pki::new(15);
    let coordinator = coordinator(&pki);
    let url = coordinator.url();
    let first = pki.party("a");
    let mut raw = Raw::join(&url, first.clone(), "a");
    let error = refused(
        party_config(&url, pki.party("a")),
        &["two parties with one name", "\"a\""],
    );
    assert!(matches!(
        error,
        NetError::Job(JobError::Refused {
            code: RefusalCode::RefusalNameTaken,
            ..
        })
    ));
    // The same party may come again: its older connection ends.
    let again = Raw::join(&url, first, "a");
    assert_eq!(raw.refusal().0, RefusalCode::RefusalReplaced);
    let connected = coordinator.wait("test", |_| true).connected;
    assert_eq!(connected, ["a"]);
    drop(again);
}

#[test]
fn the_status_is_told_to_certified_parties_only() {
    let pki = Pki::new(22);
    let coordinator = coordinator(&pki);
    let mut question = Question {
        url: coordinator.url(),
        credentials: pki.party("watcher"),
        server_name: None,
        job: Some("test".into()),
    };
    let jobs = question.ask_blocking().unwrap();
    assert_eq!((jobs.len(), jobs[0].protocol.as_str()), (1, "plain"));
    honest_round_works(&pki, &coordinator);
    let jobs = question.ask_blocking().unwrap();
    assert_eq!(jobs[0].round.as_ref().unwrap().survivors.len(), 2);
    question.job = Some("other".into());
    assert!(
        question
            .ask_blocking()
            .unwrap_err()
            .to_string()
            .contains("no job")
    );
    question.credentials = Pki::new(23).party("watcher");
    question.credentials.ca = pki.ca_pem().into();
    assert!(question.ask_blocking().is_err());
}

#[test]
fn clients_ask_with_job_specs_that_hash_the_same_on_both_sides() {
    let pki = Pki::new(24);
    let odd = JobSpec {
        encoding: Fixed64 {
            clip: 0.1 + 0.2,
            max_weight: 10,
            ..Default::default()
        }
        .into(),
        corrupt: 1.0 / 3.0,
        ..spec(ProtocolName::Plain, 2)
    };
    let coordinator = Running::start(&pki, vec![odd.clone()], None);
    let party = Party::join(party_config(&coordinator.url(), pki.party("a"))).unwrap();
    assert_eq!(*party.job().spec(), odd);
}

/// What a foreign client hears when it asks for the status.
fn first_answer(
    runtime: &tokio::runtime::Runtime,
    channel: Result<tonic::transport::Channel, String>,
) -> String {
    let channel = match channel {
        Ok(channel) => channel,
        Err(error) => return error,
    };
    let mut client = pb::coordinator_client::CoordinatorClient::new(channel);
    let job = String::new();
    match runtime.block_on(client.status(pb::StatusRequest { job })) {
        Ok(_) => "let in".into(),
        Err(status) => format!("{status:?}"),
    }
}

fn foreign_client_hears(coordinator: &Running, credentials: &Credentials) -> String {
    let runtime = raw::runtime();
    let channel = raw::channel(&runtime, &coordinator.url(), credentials);
    first_answer(&runtime, channel)
}

/// A job of a newer coordinator, with options that this party does not know: it refuses no other job, and says what.
#[test]
fn case_12_what_a_party_does_not_know_is_refused_by_name() {
    let job = job();
    for (seed, spec, says) in [
        (
            30,
            r#"{"dim":5,"job":"test","parties":3,"discretion":"central","protocol":"plain"}"#,
            "discretion: is unknown",
        ),
        (
            31,
            r#"{"dim":5,"job":"test","parties":3,"protocol":{"name":"plain","novelty":1}}"#,
            "protocol.novelty: is unknown",
        ),
        (
            32,
            r#"{"dim":5,"job":"test","parties":3,"protocol":"mpc7"}"#,
            "protocol: must be one of plain, secagg,",
        ),
        (
            33,
            r#"{"dim":5,"job":"test","parties":3,"protocol":{"name":"plain","neighbours":0}}"#,
            "protocol.neighbours: is an option of secagg+, not of plain",
        ),
    ] {
        let pki = Pki::new(seed);
        let fake = Fake::start(&pki);
        let party = one_round(party_config(&fake.url(), pki.party("a")));
        let (mut line, _) = fake.accept();
        line.send(pb::Welcome {
            job_spec: spec.into(),
            ..welcome(&job)
        });
        line.leaves();
        let error = party.join().unwrap().0.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert!(error.contains("may be too far apart"), "{error}");
    }
}
