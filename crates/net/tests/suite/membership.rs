//! Leases of parties, kept in the process and in a stand-in for etcd. `make etcd` tests the same with the real one.

use std::time::{Duration, Instant};

use blindsum_net::coordinator::ConfigFile;
use blindsum_net::report::{JobStatus, RoundState};
use blindsum_net::{Membership, NetError};
use blindsum_protocol::{JobSpec, ProtocolName};

use super::common::etcd::{Etcd, nobody};
use super::common::proxy::{Proxy, Way};
use super::common::raw::Raw;
use super::common::{
    Pki, Played, Running, config, constant, join, logs, party_config, run_party, spec,
};

/// Rounds without end of up to three parties, of which one may be missing.
fn rounds() -> JobSpec {
    JobSpec {
        rounds: 0,
        min_parties: 2,
        dropout: 0.4,
        join_deadline: 5.0,
        stage_deadline: 60.0,
        input_deadline: 60.0,
        ..spec(ProtocolName::Plain, 3)
    }
}

fn with(pki: &Pki, membership: Membership, lease: f64) -> Running {
    let mut config = config(pki, vec![rounds()], None);
    config.membership = membership;
    config.limits.lease = lease;
    // A connection that stands still is not known to be lost for as long.
    config.limits.keepalive = 60.0;
    config.limits.chunk_timeout = 60.0;
    Running::with(config).unwrap()
}

/// Gives the same update in every round, a moment after it begins.
fn takes_part(pki: &Pki, url: &str, name: &str) -> Played {
    let config = party_config(url, pki.party(name));
    run_party(config, |_| {
        std::thread::sleep(Duration::from_millis(20));
        vec![1.0; 5]
    })
}

fn survivors(status: &JobStatus) -> &[String] {
    let round = status.round.as_ref();
    let done = round.filter(|round| round.state == RoundState::Done);
    done.map_or(&[], |round| &round.survivors)
}

/// Some rounds more have a sum, of these parties.
fn goes_on_with(coordinator: &Running, parties: &[&str]) {
    let begun = coordinator.wait("test", |_| true).rounds_done;
    coordinator.wait("test", |status| {
        status.rounds_done > begun + 2 && survivors(status) == parties
    });
}

#[test]
fn a_party_of_which_nothing_is_heard_fails_and_takes_part_again_when_it_is_back() {
    let pki = Pki::new(1);
    let coordinator = with(&pki, Membership::default(), 1.0);
    let proxy = Proxy::to(coordinator.port);
    let _others = ["a", "b"].map(|name| takes_part(&pki, &coordinator.url(), name));
    let _third = takes_part(&pki, &proxy.url(), "silent");
    goes_on_with(&coordinator, &["a", "b", "silent"]);
    // Nothing comes any more, and the coordinator does not see why.
    let begun = Instant::now();
    proxy.lead(Way::Held);
    proxy.lose();
    goes_on_with(&coordinator, &["a", "b"]);
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        logs::lines(
            "silent",
            "failed: its lease ran out: it gave no sign of life"
        ),
        1
    );
    proxy.mend();
    goes_on_with(&coordinator, &["a", "b", "silent"]);
    coordinator.stop().unwrap();
}

/// Who only waits says nothing of itself: that its end of the connection answers is a sign of life.
#[test]
fn who_only_waits_keeps_its_lease() {
    let pki = Pki::new(2);
    let coordinator = with(&pki, Membership::default(), 1.0);
    let parties = join(&pki, &coordinator.url(), &["idle"]);
    coordinator.wait("test", |status| status.connected == ["idle"]);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(coordinator.wait("test", |_| true).connected, ["idle"]);
    assert_eq!(
        logs::lines("idle", "failed: its lease ran out: it gave no sign of life"),
        0
    );
    drop(parties);
    coordinator.stop().unwrap();
}

#[test]
fn members_have_keys_until_they_leave_by_themselves() {
    let pki = Pki::new(3);
    let etcd = Etcd::start(&pki);
    let coordinator = with(&pki, etcd.membership(&pki), 2.0);
    assert!(etcd.members().is_empty());
    let mut parties = join(&pki, &coordinator.url(), &["a", "b", "c"]);
    etcd.wait_for(&["a", "b", "c"]);
    // For longer than a lease.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(etcd.members(), ["a", "b", "c"]);
    drop(parties.pop());
    etcd.wait_for(&["a", "b"]);
    assert_eq!(etcd.leases(), 2);
    // A coordinator that stops leaves nothing behind.
    coordinator.stop().unwrap();
    assert!(etcd.members().is_empty());
    assert_eq!(etcd.leases(), 0);
}

#[test]
fn a_lease_that_ends_in_etcd_fails_its_party_in_the_middle_of_a_round() {
    let pki = Pki::new(4);
    let etcd = Etcd::start(&pki);
    let coordinator = with(&pki, etcd.membership(&pki), 60.0);
    let _others = ["a", "b"].map(|name| takes_part(&pki, &coordinator.url(), name));
    coordinator.wait("test", |status| status.connected == ["a", "b"]);
    let mut failed = Raw::join(&coordinator.url(), pki.party("c"), "c");
    failed.begin();
    coordinator.wait("test", |status| status.waiting_for == ["c"]);
    etcd.fail("c");
    let status = coordinator.wait("test", |status| survivors(status) == ["a", "b"]);
    assert!(!status.connected.contains(&"c".to_owned()));
    etcd.wait_for(&["a", "b"]);
    // It comes back with a new lease.
    let _third = takes_part(&pki, &coordinator.url(), "c");
    etcd.wait_for(&["a", "b", "c"]);
    goes_on_with(&coordinator, &["a", "b", "c"]);
    coordinator.stop().unwrap();
}

#[test]
fn rounds_go_on_while_etcd_is_away_and_leases_are_made_again() {
    let pki = Pki::new(5);
    let mut etcd = Etcd::start(&pki);
    let coordinator = with(&pki, etcd.membership(&pki), 1.0);
    let proxy = Proxy::to(coordinator.port);
    let _others = ["a", "b"].map(|name| takes_part(&pki, &coordinator.url(), name));
    let _third = takes_part(&pki, &proxy.url(), "c");
    goes_on_with(&coordinator, &["a", "b", "c"]);
    let away = "etcd cannot be reached: until it is back leases run in this process";
    let back = "etcd is back: leases are there again";
    for (turn, forgets) in [(1, false), (2, true)] {
        etcd.kill();
        if forgets {
            etcd.forget();
        }
        // For longer than a lease, and nobody fails who lives.
        std::thread::sleep(Duration::from_secs(2));
        goes_on_with(&coordinator, &["a", "b", "c"]);
        assert_eq!(
            (logs::lines("", away), logs::lines("", back)),
            (turn, turn - 1)
        );
        etcd.start_again();
        etcd.wait_for(&["a", "b", "c"]);
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(etcd.members(), ["a", "b", "c"]);
        assert_eq!((logs::lines("", away), logs::lines("", back)), (turn, turn));
        goes_on_with(&coordinator, &["a", "b", "c"]);
    }
    // Who fails meanwhile does so without etcd.
    etcd.kill();
    proxy.lead(Way::Held);
    proxy.lose();
    goes_on_with(&coordinator, &["a", "b"]);
    etcd.start_again();
    etcd.wait_for(&["a", "b"]);
    // Etcd that never comes back holds nobody up.
    etcd.kill();
    coordinator.stop().unwrap();
}

#[test]
fn an_etcd_that_cannot_be_used_is_refused_at_the_start() {
    let (pki, other) = (Pki::new(6), Pki::new(7));
    let etcd = Etcd::start(&pki);
    let refused = |membership: Membership| {
        let mut config = config(&pki, vec![rounds()], None);
        config.membership = membership;
        match Running::with(config).err() {
            Some(NetError::Config { field, rule }) if field == "membership" => rule,
            Some(other) => panic!("{other}"),
            None => panic!("it was taken"),
        }
    };
    let right = || etcd.membership(&pki);
    let at = |place: String| Membership { place, ..right() };
    let with = |credentials| Membership {
        credentials,
        ..right()
    };
    let rule = refused(at(format!("etcd://localhost:{}", nobody())));
    assert!(rule.contains("nothing listens there"), "{rule}");
    let rule = refused(at("etcd://no-such-host.invalid:2379".into()));
    assert!(rule.contains("no-such-host.invalid"), "{rule}");
    let rule = refused(at(format!("etcd://127.0.0.1:{}", etcd.port)));
    assert!(rule.contains("is for other hosts than 127.0.0.1"), "{rule}");
    // What listens there is no etcd.
    let coordinator = Running::with(config(&pki, vec![rounds()], None)).unwrap();
    let rule = refused(at(format!("etcd://localhost:{}", coordinator.port)));
    assert!(rule.starts_with("etcd at localhost:"), "{rule}");
    let mut strange = other.party("to-etcd");
    let rule = refused(with(Some(strange.clone())));
    assert!(
        rule.contains("is not signed by the CA that is trusted here"),
        "{rule}"
    );
    strange.ca = pki.ca_pem().into();
    let rule = refused(with(Some(strange)));
    assert!(
        rule.contains("does not accept this side's certificate"),
        "{rule}"
    );
    let rule = refused(with(None));
    assert!(
        rule.contains("certificates with client authentication"),
        "{rule}"
    );
    let rule = refused(Membership {
        place: "embedded".into(),
        credentials: Some(pki.party("to-etcd")),
    });
    assert!(rule.contains("leave them out"), "{rule}");
}

#[test]
fn any_server_of_a_cluster_will_do() {
    let pki = Pki::new(8);
    let etcd = Etcd::start(&pki);
    let place = format!("etcd://localhost:{},localhost:{}", nobody(), etcd.port);
    let membership = Membership {
        place,
        ..etcd.membership(&pki)
    };
    let coordinator = with(&pki, membership, 2.0);
    let parties = join(&pki, &coordinator.url(), &["a"]);
    etcd.wait_for(&["a"]);
    drop(parties);
    etcd.wait_for(&[]);
    let party = run_party(
        party_config(&coordinator.url(), pki.party("b")),
        constant(1.0),
    );
    etcd.wait_for(&["b"]);
    coordinator.stop().unwrap();
    drop(party);
}

/// The file of `blindsumd` says where leases are kept, and what etcd is shown.
#[test]
fn a_configuration_file_names_etcd_and_its_certificates() {
    let pki = Pki::new(9);
    let etcd = Etcd::start(&pki);
    let folder = tempfile::tempdir().unwrap();
    let (own, client) = (pki.coordinator(), pki.party("to-etcd"));
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("agg.pem", &own.certificate);
    write("agg.key", &own.key);
    write("ca.pem", &own.ca);
    write("to-etcd.pem", &client.certificate);
    write("to-etcd.key", &client.key);
    write(
        "blindsumd.toml",
        "listen = '127.0.0.1:0'\ncertificate = 'agg.pem'\nkey = 'agg.key'\nca = 'ca.pem'\n\
         membership_certificate = 'to-etcd.pem'\nmembership_key = 'to-etcd.key'\n\
         [[jobs]]\njob = 'test'\nprotocol = 'plain'\nparties = 2\ndim = 5\n",
    );
    let file = folder.path().join("blindsumd.toml");
    let read = |settings: &[String]| ConfigFile::read(Some(&file), settings).unwrap();
    let place = format!("membership=etcd://localhost:{}", etcd.port);
    // The CA is the job's where none is named.
    let coordinator = Running::with(read(std::slice::from_ref(&place)).load().unwrap()).unwrap();
    let parties = join(&pki, &coordinator.url(), &["a"]);
    etcd.wait_for(&["a"]);
    drop(parties);
    coordinator.stop().unwrap();
    let refused = |settings: &[String]| match read(settings).load() {
        Err(NetError::Config { field, rule }) => (field, rule),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was taken"),
    };
    let (field, _) = refused(&[place.clone(), "membership_ca=nowhere.pem".into()]);
    assert_eq!(field, "membership_ca");
    let (field, _) = refused(&[place.clone(), "membership_key=nowhere.key".into()]);
    assert_eq!(field, "membership_key");
    let mut other = read(&[place, "state_dir=state".into()]);
    other.server = 1;
    assert!(
        matches!(other.load_server(), Err(NetError::Config { field, .. }) if field == "membership")
    );
}
