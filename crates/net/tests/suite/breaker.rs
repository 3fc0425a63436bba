//! BREAKER: what the mends of the network layer do not hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::proxy::Proxy;
use crate::common::raw::{Raw, hello, runtime};
use crate::common::*;
use blindsum_net::party::{Party, PartyConfig};
use blindsum_net::pb::coordinator_client::CoordinatorClient;
use blindsum_net::pb::coordinator_frame::Frame;
use blindsum_net::pb::{self, PartyFrame};
use blindsum_net::report::JobState;
use blindsum_net::{CHUNK, CredentialFiles, Credentials, NetError};
use blindsum_protocol::{JobSpec, ProtocolName};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

fn plain(rounds: u32) -> JobSpec {
    JobSpec {
        rounds,
        ..spec(ProtocolName::Plain, 3)
    }
}

fn rss() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4 / 1024
}

/// A stream that is opened, asks for a model, and reads nothing.
async fn asks_and_reads_nothing(
    url: &str,
    credentials: &Credentials,
    version: u64,
) -> (tonic::transport::Channel, mpsc::Sender<PartyFrame>, tonic::Streaming<pb::CoordinatorFrame>) {
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(&credentials.ca))
        .identity(Identity::from_pem(&credentials.certificate, credentials.key.as_bytes()))
        .domain_name("localhost");
    let channel = Endpoint::from_shared(url.to_owned())
        .unwrap()
        .tls_config(tls)
        .unwrap()
        .initial_stream_window_size(Some(1))
        .connect()
        .await
        .unwrap();
    let (frames, stream) = mpsc::channel(64);
    frames.try_send(hello("test", "m").into()).unwrap();
    frames.try_send(pb::ModelRequest { version }.into()).unwrap();
    let mut client = CoordinatorClient::new(channel.clone());
    let inbound = client.connect(ReceiverStream::new(stream)).await.unwrap().into_inner();
    (channel, frames, inbound)
}

/// 3. A member that asks for each model and reads nothing.
#[test]
fn b3_models_are_kept_for_a_member_that_reads_nothing() {
    let pki = Pki::new(62);
    let dim = 1 << 22;
    let spec = JobSpec {
        dim,
        rounds: 0,
        join_deadline: 0.5,
        stage_deadline: 20.0,
        input_deadline: 20.0,
        ..plain(0)
    };
    let mut config = config(&pki, vec![spec], None);
    config.limits.chunk_timeout = 5.0;
    config.limits.models_kept = 1;
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    let m = pki.party("m");
    let runtime = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let honest: Vec<_> = ["a", "b"]
        .map(|name| {
            let (config, stop) = (party_config(&url, pki.party(name)), stop.clone());
            std::thread::spawn(move || {
                let mut party = Party::join(config).unwrap();
                while !stop.load(Ordering::SeqCst) {
                    let Ok(Some(mut round)) = party.next_round() else { return };
                    let _ = round.submit(vec![1.0f32; 1 << 22], 1);
                    let _ = round.result();
                }
            })
        })
        .into();
    let mut held = Vec::new();
    let (mut version, begun) = (0, Instant::now());
    while held.len() < 14 && begun.elapsed() < Duration::from_secs(60) {
        let status = coordinator.wait("test", |status| status.model_version > version);
        version = status.model_version;
        held.push(runtime.block_on(asks_and_reads_nothing(&url, &m, version)));
        println!("version {version}: {} MB, connected {:?}", rss(), status.connected);
    }
    stop.store(true, Ordering::SeqCst);
    std::thread::sleep(Duration::from_secs(8));
    let connected = coordinator.wait("test", |_| true).connected;
    drop(honest);
    let with = rss();
    drop(held);
    runtime.shutdown_timeout(Duration::from_secs(1));
    std::thread::sleep(Duration::from_secs(2));
    println!("connected {connected:?}: {with} MB with its streams, {} MB without", rss());
    assert!(with - rss() < 60, "{} MB are kept", with - rss());
}

/// 4. Two processes of one party, the older one comes back from a cut link.
#[test]
fn b4_the_older_process_takes_the_name_back() {
    let pki = Pki::new(63);
    let coordinator = Running::start(&pki, vec![plain(1)], None);
    let (url, proxy) = (coordinator.url(), Proxy::to(coordinator.port));
    let a = pki.party("a");
    let patient = |url: &str| PartyConfig { give_up_after: 600.0, ..party_config(url, a.clone()) };
    let _older = Party::join(patient(&proxy.url())).unwrap();
    proxy.interrupt();
    coordinator.wait("test", |status| status.connected.is_empty());
    let mut newer = Party::join(patient(&url)).unwrap();
    proxy.mend();
    match newer.wait_round(Duration::from_secs(8)) {
        Ok(_) => {}
        Err(error) => panic!("the newer process has ended: {error}"),
    }
}

/// 5. A revoked party goes on watching.
#[test]
fn b5_a_revoked_party_watches_on() {
    let pki = Pki::new(64);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let own = pki.coordinator();
    std::fs::write(path("own.pem"), &own.certificate).unwrap();
    std::fs::write(path("own.key"), own.key.as_bytes()).unwrap();
    std::fs::write(path("ca.pem"), pki.ca_pem()).unwrap();
    std::fs::write(path("crl.pem"), pki.revoke(&[])).unwrap();
    let mut config = config(&pki, vec![plain(1)], None);
    config.credentials = CredentialFiles {
        certificate: path("own.pem"),
        key: path("own.key"),
        ca: path("ca.pem"),
        revoked: Some(path("crl.pem")),
    }
    .read()
    .unwrap();
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    let m = pki.party("m");
    let runtime = runtime();
    let channel = raw::channel(&runtime, &url, &m).unwrap();
    let mut raw = Raw::join(&url, m.clone(), "m");
    let mut client = CoordinatorClient::new(channel);
    let watch = client.watch(pb::StatusRequest { job: "test".into() });
    let mut watch = runtime.block_on(watch).unwrap().into_inner();
    std::fs::write(path("new.pem"), pki.revoke(&[&m])).unwrap();
    std::fs::rename(path("new.pem"), path("crl.pem")).unwrap();
    println!("{:?}", raw.refusal());
    std::thread::sleep(Duration::from_secs(5));
    let _b = Raw::join(&url, pki.party("secret-b"), "secret-b");
    std::thread::sleep(Duration::from_secs(1));
    let seen = runtime.block_on(async {
        let look = async {
            loop {
                match watch.message().await {
                    Ok(Some(reply)) if reply.jobs.contains("secret-b") => return true,
                    Ok(Some(_)) => {}
                    _ => return false,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(3), look).await.unwrap_or(false)
    });
    let status = runtime.block_on(client.status(pb::StatusRequest { job: "test".into() }));
    println!("watch tells: {seen}; a new Status: {}", status.is_ok());
    assert!(!seen && status.is_err());
}

/// 6. A holder that sends a piece of the model (or nothing), and withholds its vector.
fn piece(bytes: usize) {
    let pki = Pki::new(65);
    let dim = 100_000usize;
    let spec = JobSpec {
        parties: 4,
        min_parties: 3,
        dim: dim as u64,
        input_deadline: 1.5,
        ..flashe(99)
    };
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let hostile = Arc::new(AtomicBool::new(false));
    let mut raw = Raw::join(&url, pki.party("a"), "a");
    raw.sealed = (bytes > 0).then(|| vec![7; bytes]);
    let now_hostile = hostile.clone();
    std::thread::spawn(move || {
        loop {
            let start = raw.begin();
            match now_hostile.load(Ordering::SeqCst) {
                false => drop(raw.play(&start, 1.0, u8::MAX)),
                true => {}
            }
        }
    });
    let honest = |name: &str| {
        let config = party_config(&url, pki.party(name));
        std::thread::spawn(move || -> Result<(), NetError> {
            let mut party = Party::join(config)?;
            loop {
                std::thread::sleep(Duration::from_millis(300));
                let Some(mut round) = party.next_round()? else { return Ok(()) };
                let _ = round.submit(vec![1.0f32; 100_000], 1);
                let _ = round.result();
            }
        })
    };
    let _others = ["b", "d"].map(honest);
    coordinator.wait("test", |status| status.rounds_done > 0);
    hostile.store(true, Ordering::SeqCst);
    let _c = honest("c");
    let begun = Instant::now();
    let before = coordinator.wait("test", |_| true).rounds_done;
    let mut most = 0;
    let status = coordinator.wait("test", |status| {
        if let Some(round) = &status.round {
            most = most.max(round.parties.len());
        }
        status.state == JobState::Failed || begun.elapsed() > Duration::from_secs(18)
            || status.rounds_done > before + 2
    });
    println!("{bytes}: {:?} after {:?}, {} then {} rounds, most {most}: {}", status.state, begun.elapsed(), before, status.rounds_done, status.reason);
    assert_ne!(status.state, JobState::Failed);
}

#[test]
fn b6_control_nothing_of_the_model() {
    piece(0);
}

#[test]
fn b6_a_piece_of_the_model_again_and_again() {
    piece(CHUNK + 48);
}

/// 7. What is said to a member that reads a piece now and then, and breaks the rules all the time.
#[test]
fn b7_refusals_pile_up() {
    let pki = Pki::new(66);
    let spec = JobSpec { dim: 1 << 22, stage_deadline: 60.0, input_deadline: 60.0, join_deadline: 60.0, ..plain(1) };
    let mut config = config(&pki, vec![spec], None);
    config.limits.chunk_timeout = 3.0;
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    let names = ["m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"];
    let runtime = runtime();
    let mut samples = vec![rss()];
    let members: Vec<_> = names.iter().map(|name| {
        let credentials = pki.party(name);
        let url = url.clone();
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&credentials.ca))
            .identity(Identity::from_pem(&credentials.certificate, credentials.key.as_bytes()))
            .domain_name("localhost");
        let name = name.to_string();
        runtime.spawn(async move {
            let channel = Endpoint::from_shared(url).unwrap().tls_config(tls).unwrap()
                .connect().await.unwrap();
            let (frames, stream) = mpsc::channel(64);
            frames.try_send(hello("test", &name).into()).unwrap();
            let mut client = CoordinatorClient::new(channel);
            let mut inbound = client.connect(ReceiverStream::new(stream)).await.unwrap().into_inner();
            tokio::spawn(async move {
                while frames.send(pb::ModelRequest { version: 0 }.into()).await.is_ok() {}
            });
            let mut read = 0;
            while let Ok(Some(frame)) = inbound.message().await {
                read += 1;
                if let Some(Frame::Refused(refused)) = frame.frame { println!("{read}: {refused:?}"); return read; }
                tokio::time::sleep(Duration::from_millis(700)).await;
            }
            read
        })
    }).collect();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_secs(2));
        samples.push(rss());
    }
    let connected = coordinator.wait("test", |_| true).connected.len();
    println!("connected {connected}, MB every 2 s: {samples:?}, ended {}", members.iter().filter(|m| m.is_finished()).count());
    assert!(samples[10] - samples[2] < 10);
}

/// What a process of the campaign does.
#[test]
#[ignore]
fn child() {
    let Ok(folder) = std::env::var("BREAKER_DIR") else { return };
    let folder = std::path::Path::new(&folder);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let index: usize = read("index").parse().unwrap();
    let credentials = Credentials::new(read("pem"), read("key"), read("ca"));
    let config = PartyConfig {
        give_up_after: 600.0,
        ..config_in(&folder.join("state"), &read("url"), &credentials)
    };
    let mut party = Party::join(config).unwrap();
    loop {
        match party.next_round() {
            Ok(Some(mut round)) => {
                let number = round.number();
                let mut update = vec![0.0f32; 5];
                update[index] = (index + 1) as f32;
                update[4] = 1.0;
                let _ = round.submit(update, 1);
                match round.result() {
                    Ok(r) => println!("\n@RESULT {number} {} {:?}", r.survivors.join(","), r.mean),
                    Err(NetError::Missed { round, .. }) => println!("\n@MISSED {round}"),
                    Err(error) => println!("\n@ERROR {number} {error}"),
                }
            }
            Ok(None) => return println!("\n@DONE"),
            Err(NetError::Missed { round, .. }) => println!("\n@MISSED {round}"),
            Err(error @ NetError::Refused { .. }) => return println!("\n@END {error}"),
            Err(error) => println!("\n@REFUSED {error}"),
        }
    }
}

fn campaign(protocol: ProtocolName, seed: u64, seconds: u64) {
    use rand_core::Rng;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let pki = Pki::new(70);
    let folder = tempfile::tempdir().unwrap();
    let spec = JobSpec {
        rounds: 0,
        parties: 4,
        min_parties: if protocol == ProtocolName::Plain { 2 } else { 3 },
        corrupt: if protocol == ProtocolName::Plain { 0.1 } else { 0.0 },
        dropout: if protocol == ProtocolName::Plain { 0.5 } else { 0.25 },
        protocol,
        ..plain(0)
    };
    let mut config = config(&pki, vec![spec], Some(&folder.path().join("store.db")));
    config.limits.failed_rounds = 1000;
    let coordinator = Running::with(config).unwrap();
    let proxy = Proxy::to(coordinator.port);
    let lines = Arc::new(std::sync::Mutex::new(Vec::<(String, String)>::new()));
    let names = ["a", "b", "c", "d"];
    for (i, name) in names.iter().enumerate() {
        let at = folder.path().join(name);
        std::fs::create_dir(&at).unwrap();
        let own = pki.party(name);
        for (file, text) in [("pem", own.certificate.as_str()), ("key", own.key.as_str()), ("ca", pki.ca_pem()),
            ("url", &if i < 2 { proxy.url() } else { coordinator.url() }), ("index", &i.to_string())] {
            std::fs::write(at.join(file), text).unwrap();
        }
    }
    let spawn = |name: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "breaker::child", "--nocapture", "--ignored"])
            .env("BREAKER_DIR", folder.path().join(name))
            .env("RUST_LOG", "off")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (out, lines, name) = (child.stdout.take().unwrap(), lines.clone(), name.to_owned());
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if line.starts_with('@') {
                    lines.lock().unwrap().push((name.clone(), line));
                }
            }
        });
        child
    };
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut children: Vec<_> = names.iter().map(|name| spawn(name)).collect();
    let begun = Instant::now();
    let (mut kills, mut cuts, mut stops) = (0, 0, 0);
    let mut ends = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(Duration::from_millis(50 + u64::from(rng.next_u32() % 500)));
        for i in 0..4 {
            if children[i].try_wait().unwrap().is_some() { ends += 1; children[i] = spawn(names[i]); }
        }
        let i = (rng.next_u32() % 4) as usize;
        match rng.next_u32() % 5 {
            0 | 1 => {
                children[i].kill().unwrap();
                children[i].wait().unwrap();
                std::thread::sleep(Duration::from_millis(u64::from(rng.next_u32() % 400)));
                children[i] = spawn(names[i]);
                kills += 1;
            }
            2 => { proxy.cut(); cuts += 1; }
            3 => { proxy.lose(); cuts += 1; }
            _ => {
                let pid = children[i].id().to_string();
                Command::new("kill").args(["-STOP", &pid]).status().unwrap();
                std::thread::sleep(Duration::from_millis(u64::from(rng.next_u32() % 1500)));
                Command::new("kill").args(["-CONT", &pid]).status().unwrap();
                stops += 1;
            }
        }
    }
    std::thread::sleep(Duration::from_secs(4));
    for child in &mut children { let _ = child.kill(); let _ = child.wait(); }
    let status = coordinator.wait("test", |_| true);
    coordinator.stop().unwrap();
    let store = blindsum_net::store::SqliteStore::open(&folder.path().join("store.db"), 3).unwrap();
    use blindsum_net::store::Store;
    let lines = lines.lock().unwrap();
    let (mut done, mut untold, mut wrong, mut told_otherwise, mut missed) = (0, vec![], 0, vec![], 0);
    let rounds = store.rounds("test", 100_000).unwrap();
    let last = rounds.iter().map(|r| r.number).max().unwrap();
    for report in &rounds {
        if report.survivors.is_empty() || report.number + 3 > last { continue; }
        done += 1;
        for name in &report.survivors {
            let mine: Vec<_> = lines.iter().filter(|(n, l)| n == name && l.split(' ').nth(1) == Some(&report.number.to_string())).map(|(_, l)| l).collect();
            if mine.is_empty() { untold.push((report.number, name.clone())); }
            for line in mine {
                if line.starts_with("@ERROR") { told_otherwise.push(format!("{name}: {line}")); }
                if line.starts_with("@MISSED") { missed += 1; }
                if line.starts_with("@RESULT") {
                    let n = report.survivors.len() as f32;
                    let mut mean = vec![0.0f32; 5];
                    for s in &report.survivors {
                        let k = names.iter().position(|x| x == s).unwrap();
                        mean[k] = (k + 1) as f32 / n;
                    }
                    mean[4] = 1.0;
                    let same = line.contains(&report.survivors.join(","));
                    let text = line.split('[').nth(1).unwrap().trim_end_matches(']');
                    let got: Vec<f32> = text.split(", ").map(|x| x.parse().unwrap()).collect();
                    if !same || got.iter().zip(&mean).any(|(a, b)| (a - b).abs() > 1e-3) { wrong += 1; println!("WRONG {name} {line} {:?}", report.survivors); }
                }
            }
        }
    }
    println!("{protocol:?}: {kills} kills, {cuts} cuts, {stops} stops, {ends} ended by themselves; {} rounds, {done} counted; wrong {wrong}, missed {missed}, untold {} {:?}", rounds.len(), untold.len(), &untold[..untold.len().min(6)]);
    println!("told otherwise {}: {:#?}", told_otherwise.len(), &told_otherwise[..told_otherwise.len().min(5)]);
    let mut odd: Vec<_> = lines.iter().filter(|(_, l)| l.starts_with("@END") || l.starts_with("@REFUSED")).map(|(n, l)| format!("{n} {l}")).collect();
    odd.sort(); odd.dedup();
    println!("ends {odd:#?}; state {:?} {}", status.state, status.reason);
}

#[test]
fn c1_campaign_plain() {
    campaign(ProtocolName::Plain, 1, 50);
}

#[test]
fn c2_campaign_secagg() {
    campaign(ProtocolName::SecAgg, 2, 60);
}
