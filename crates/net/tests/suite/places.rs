//! Places of a coordinator: nobody takes those of others, and nobody keeps one without using it.

use std::time::Duration;

use crate::common::raw::{channel, runtime};
use crate::common::*;
use blindsum_net::Credentials;
use blindsum_net::coordinator::Config;
use blindsum_net::party::Party;
use blindsum_net::pb::coordinator_client::CoordinatorClient;
use blindsum_net::pb::{StatusReply, StatusRequest};
use blindsum_protocol::ProtocolName;
use tokio::runtime::Runtime;
use tonic::Streaming;

/// A coordinator with six places, for two parties.
fn with_six_places(pki: &Pki, change: impl FnOnce(&mut Config)) -> Running {
    let mut config = config(pki, vec![spec(ProtocolName::Plain, 2)], None);
    config.limits.connections = 6;
    change(&mut config);
    Running::with(config).unwrap()
}

/// What a party hears of the job over a connection of its own; none where it gets no place.
fn watch(
    runtime: &Runtime,
    url: &str,
    credentials: &Credentials,
) -> Option<Streaming<StatusReply>> {
    let mut client = CoordinatorClient::new(channel(runtime, url, credentials).ok()?);
    let question = StatusRequest { job: "test".into() };
    let watch = runtime.block_on(client.watch(question)).ok()?;
    Some(watch.into_inner())
}

/// Case 58: one certificate opens connection after connection and uses them.
#[test]
fn case_58_one_certificate_takes_only_its_own_places() {
    let pki = Pki::new(58);
    let coordinator = with_six_places(&pki, |config| config.limits.connections_per_party = 3);
    let (url, many, runtime) = (coordinator.url(), pki.party("m"), runtime());
    let watches: Vec<_> = (0..12)
        .filter_map(|_| watch(&runtime, &url, &many))
        .collect();
    assert_eq!(watches.len(), 3);
    honest_round_works(&pki, &coordinator);
}

/// Case 58: every place is taken by connections over which nothing is asked; newcomers get in all the same.
#[test]
fn case_58_idle_connections_keep_nobody_out() {
    let pki = Pki::new(58);
    let coordinator = with_six_places(&pki, |_| ());
    let (url, runtime) = (coordinator.url(), runtime());
    let idle = (0..6).map(|n| channel(&runtime, &url, &pki.party(&format!("idle-{n}"))));
    let idle: Vec<_> = idle.map(Result::unwrap).collect();
    honest_round_works(&pki, &coordinator);
    drop(idle);
}

/// Whoever listens uses its connection, though it says nothing.
#[test]
fn a_connection_over_which_somebody_listens_stays() {
    let pki = Pki::new(58);
    let coordinator = with_six_places(&pki, |config| config.limits.hello_timeout = 0.2);
    let (url, runtime) = (coordinator.url(), runtime());
    let mut watch = watch(&runtime, &url, &pki.party("m")).unwrap();
    std::thread::sleep(Duration::from_millis(800));
    let _party = Party::join(party_config(&url, pki.party("a"))).unwrap();
    let hears = async {
        while let Some(reply) = watch.message().await.unwrap() {
            if reply.jobs.contains(r#""connected":["a"]"#) {
                return;
            }
        }
        panic!("the watch has ended");
    };
    runtime.block_on(async { tokio::time::timeout(PATIENCE, hears).await.unwrap() });
}
