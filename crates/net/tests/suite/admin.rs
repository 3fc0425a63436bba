//! The admin interface: who is let in, what is seen, and what is ordered.

use crate::common::*;
use blindsum_crypto::pki::{Kind, Validity};
use blindsum_net::admin::{Admin, AdminError};
use blindsum_net::pb::DescribeRequest;
use blindsum_net::pb::admin_client::AdminClient;
use blindsum_net::{CredentialFiles, Credentials, NetError};
use blindsum_protocol::{JobSpec, ProtocolName};
use serde_json::Value;

const PAUSE: &str = r#"{"command":"pause"}"#;

fn served(pki: &Pki) -> Running {
    let mut config = config(pki, vec![spec(ProtocolName::Plain, 3)], None);
    config.admin = Some("127.0.0.1:0".into());
    Running::with(config).unwrap()
}

fn operator(pki: &Pki) -> Credentials {
    pki.issue("olga", &Kind::Operator, Validity::days(now() - 60, 1))
}

/// Pauses the job, as whoever shows these.
fn pause(coordinator: &Running, credentials: &Credentials) -> Result<String, AdminError> {
    let url = coordinator.admin_url();
    coordinator.block_on(async {
        let mut admin = Admin::connect(&url, credentials, None).await?;
        admin.order("test", PAUSE, "an attack").await
    })
}

fn described(coordinator: &Running, pki: &Pki, job: &str) -> Value {
    let (url, operator) = (coordinator.admin_url(), operator(pki));
    let text = coordinator.block_on(async {
        let mut admin = Admin::connect(&url, &operator, None).await.unwrap();
        admin.describe(job).await.unwrap()
    });
    serde_json::from_str(&text).unwrap()
}

/// Nobody has paused it, and it goes on.
fn goes_on(coordinator: &Running) {
    let status = coordinator.control().status("test").unwrap();
    assert_eq!(status.held, "");
}

fn refuses(coordinator: &Running, credentials: &Credentials) {
    match pause(coordinator, credentials) {
        Err(AdminError::Net(NetError::Unreachable { .. } | NetError::Tls { .. })) => {}
        other => panic!("{other:?} in the place of a refusal"),
    }
    goes_on(coordinator);
}

#[test]
fn case_68_strangers_that_never_finish_a_handshake_keep_no_operator_out() {
    let pki = Pki::new(1);
    let mut config = config(&pki, vec![spec(ProtocolName::Plain, 3)], None);
    (config.admin, config.limits.handshake_timeout) = (Some("127.0.0.1:0".into()), 600.0);
    let coordinator = Running::with(config).unwrap();
    let address = coordinator
        .admin_url()
        .replace("https://localhost", "127.0.0.1");
    let idle = || std::net::TcpStream::connect(&address).unwrap();
    let _strangers: Vec<_> = (0..100).map(|_| idle()).collect();
    pause(&coordinator, &operator(&pki)).unwrap();
}

#[test]
fn case_68_a_party_that_knocks_is_in_the_audit_trail() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let trail = folder.path().join("audit.jsonl");
    let mut config = config(&pki, vec![spec(ProtocolName::Plain, 3)], None);
    (config.admin, config.audit) = (Some("127.0.0.1:0".into()), Some(trail.clone()));
    let coordinator = Running::with(config).unwrap();
    refuses(&coordinator, &pki.party("a"));
    // The entry is written once the party has been sent away.
    let refused = loop {
        let text = std::fs::read_to_string(&trail).unwrap();
        let found = text.lines().find(|line| line.contains("handshake-refused"));
        if let Some(line) = found.filter(|_| text.ends_with('\n')) {
            break serde_json::from_str::<Value>(line).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    assert_eq!(refused["name"], "a");
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.contains("admin address"), "{reason}");
}

#[test]
fn case_68_a_party_a_coordinator_and_a_server_give_no_orders() {
    let pki = Pki::new(1);
    let coordinator = served(&pki);
    refuses(&coordinator, &pki.party("a"));
    refuses(&coordinator, &pki.coordinator());
    refuses(&coordinator, &pki.server("127.0.0.2"));
    pause(&coordinator, &operator(&pki)).unwrap();
    let status = coordinator.control().status("test").unwrap();
    assert_eq!(status.held, "paused by olga: an attack");
}

#[test]
fn case_68_an_operator_of_another_ca_gives_no_orders() {
    let (pki, other) = (Pki::new(1), Pki::new(2));
    let coordinator = served(&pki);
    let mut stranger = operator(&other);
    stranger.ca = format!("{}{}", pki.ca_pem(), other.ca_pem());
    refuses(&coordinator, &stranger);
}

#[test]
fn case_68_nobody_without_a_certificate_gives_orders() {
    let pki = Pki::new(1);
    let coordinator = served(&pki);
    let runtime = dial::runtime();
    let channel = dial::channel_of_nobody(&runtime, &coordinator.admin_url(), pki.ca_pem());
    let said = channel.and_then(|channel| {
        let asked = DescribeRequest::default();
        let answer = runtime.block_on(AdminClient::new(channel).describe(asked));
        answer.map_err(|status| format!("{status:?}"))
    });
    assert!(said.is_err(), "{said:?}");
    goes_on(&coordinator);
}

#[test]
fn case_68_a_revoked_operator_gives_no_more_orders_over_its_connection() {
    let pki = Pki::new(1);
    let (folder, operator) = (tempfile::tempdir().unwrap(), operator(&pki));
    let mut config = config(&pki, vec![spec(ProtocolName::Plain, 3)], None);
    let path = |name: &str| folder.path().join(name);
    let (own, list) = (pki.coordinator(), path("crl.pem"));
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
        revoked: Some(list.clone()),
    };
    config.credentials = files.read().unwrap();
    config.admin = Some("127.0.0.1:0".into());
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.admin_url();
    let mut admin = coordinator
        .block_on(Admin::connect(&url, &operator, None))
        .unwrap();
    coordinator.block_on(admin.describe("test")).unwrap();
    std::fs::write(&list, pki.revoke(&[&operator])).unwrap();
    assert!(coordinator.reload());
    let error = coordinator
        .block_on(admin.order("test", PAUSE, "an attack"))
        .unwrap_err();
    assert!(
        error.to_string().contains("not accepted any more"),
        "{error}"
    );
    goes_on(&coordinator);
}

#[test]
fn an_operator_sees_a_job_and_what_was_ordered() {
    let pki = Pki::new(1);
    let coordinator = served(&pki);
    let (url, operator) = (coordinator.admin_url(), operator(&pki));
    let mut admin = coordinator
        .block_on(Admin::connect(&url, &operator, None))
        .unwrap();
    let mut order = |job: &str, command: &str, reason: &str| {
        let ordered = admin.order(job, command, reason);
        match coordinator.block_on(ordered) {
            Ok(outcome) => outcome,
            Err(AdminError::Refused { code, .. }) => code,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(
        order("test", PAUSE, "maintenance"),
        "paused now: no round is under way"
    );
    assert_eq!(order("test", PAUSE, "again"), "unchanged");
    assert_eq!(order("test", PAUSE, " "), "value");
    assert_eq!(order("test", r#"{"command":"stop"}"#, "now"), "value");
    assert_eq!(order("other", PAUSE, "now"), "unknown-job");
    let jobs = described(&coordinator, &pki, "");
    assert_eq!(jobs.as_array().unwrap().len(), 1);
    let job = &described(&coordinator, &pki, "test")[0];
    assert_eq!(
        (&job["stage"], &job["held"]),
        (&"waiting".into(), &"paused by olga: maintenance".into())
    );
    let orders = job["orders"].as_array().unwrap();
    let told: Vec<_> = orders
        .iter()
        .map(|order| {
            (
                order["by"].as_str(),
                order["reason"].as_str(),
                order["refused"].as_bool(),
            )
        })
        .collect();
    let refused = Some(true);
    let all = [
        (Some("olga"), Some(" "), refused),
        (Some("olga"), Some("again"), refused),
        (Some("olga"), Some("maintenance"), Some(false)),
    ];
    assert_eq!(told, all);
    assert_eq!(
        order("test", r#"{"command":"resume"}"#, "done"),
        "rounds begin again"
    );
    honest_round_works(&pki, &coordinator);
    let job = &described(&coordinator, &pki, "test")[0];
    assert_eq!(
        (&job["stage"], &job["ended"][0]["survivors"]),
        (&"done".into(), &2.into())
    );
}

#[test]
fn an_operator_adds_a_job_and_drains_the_coordinator() {
    let pki = Pki::new(1);
    let coordinator = served(&pki);
    let (url, operator) = (coordinator.admin_url(), operator(&pki));
    let mut admin = coordinator
        .block_on(Admin::connect(&url, &operator, None))
        .unwrap();
    let more = JobSpec {
        job: "more".into(),
        ..spec(ProtocolName::Plain, 3)
    };
    let json = serde_json::to_string(&more).unwrap();
    let added = coordinator
        .block_on(admin.add(&json, false, "a study"))
        .unwrap();
    assert!(
        added.starts_with("job more was added; after a restart it is not served"),
        "{added}"
    );
    for (spec, reason, code) in [
        (&*json, "again", "value"),
        ("{", "wrong", "value"),
        (&*json, "", "value"),
    ] {
        match coordinator.block_on(admin.add(spec, false, reason)) {
            Err(AdminError::Refused { code: found, .. }) => assert_eq!(found, code),
            other => panic!("{other:?} in the place of a refusal"),
        }
    }
    let told = coordinator.block_on(admin.reload("new files")).unwrap();
    assert!(told.contains("were read again"), "{told}");
    let drain = r#"{"command":"drain","within":9.0}"#;
    let begun = coordinator.block_on(admin.order("", drain, "an upgrade"));
    let begun = begun.unwrap();
    assert!(
        begun.contains("job more: stops now: no round is under way"),
        "{begun}"
    );
    assert!(begun.ends_with("\nthe coordinator stops then"), "{begun}");
    coordinator.block_on(coordinator.control().is_drained());
    coordinator.stop().unwrap();
}
