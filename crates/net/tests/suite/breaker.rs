//! BREAKER: what the mends of the network layer do not hold.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::proxy::Proxy;
use crate::common::scene::Scene;
use crate::common::*;
use blindsum_crypto::pki::{Validity, request};
use blindsum_crypto::sign::Algorithm;
use blindsum_net::party::{NextRound, Party, PartyConfig};
use blindsum_net::report::JobState;
use blindsum_net::{CredentialFiles, Credentials, NetError};
use blindsum_protocol::{JobSpec, ProtocolName};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

fn plain(rounds: u32) -> JobSpec {
    JobSpec {
        rounds,
        ..spec(ProtocolName::Plain, 3)
    }
}

/// 1. A survivor killed with its vector out in round `first`+1, back after that round has its result.
fn survivor_is_killed(protocol: ProtocolName, before: u32, rounds: u32) {
    let spec = JobSpec {
        min_parties: if protocol == ProtocolName::Plain {
            2
        } else {
            0
        },
        corrupt: if protocol == ProtocolName::Plain {
            0.1
        } else {
            0.0
        },
        dropout: 0.4,
        ..JobSpec {
            protocol,
            ..plain(rounds)
        }
    };
    let scene = Scene::new(spec, |_| ());
    let (folder, credentials) = (tempfile::tempdir().unwrap(), scene.pki.party("a"));
    let url = scene.coordinator().url();
    let config = || config_in(folder.path(), &url, &credentials);
    let mut mortal = Party::join(config()).unwrap();
    let _near = scene.near("b", constant(1.0));
    let mut last = Party::join(scene.config("c", &url)).unwrap();
    let both = |last: &mut Party, mortal: &mut Party| {
        std::thread::scope(|scope| {
            let own = scope.spawn(|| last.next_round().unwrap().unwrap());
            let mut round = mortal.next_round().unwrap().unwrap();
            round.submit(vec![1.0f32; 5], 1).unwrap();
            (own.join().unwrap(), round)
        })
    };
    for _ in 0..before {
        let (mut own, mut round) = both(&mut last, &mut mortal);
        own.submit(vec![4.0f32; 5], 1).unwrap();
        own.result().unwrap();
        round.result().unwrap();
    }
    let (mut own, _round) = both(&mut last, &mut mortal);
    let number = own.number();
    let input = last.job().input_stage();
    scene.wait_for("c", input);
    drop(mortal);
    scene
        .coordinator()
        .wait("test", |status| status.connected == ["b", "c"]);
    own.submit(vec![4.0f32; 5], 1).unwrap();
    let there = own.result().unwrap();
    println!(
        "round {number}: survivors {:?}, mean {:?}",
        there.survivors, there.mean
    );
    println!(
        "unconfirmed: {:?}",
        scene.coordinator().wait("test", |_| true).unconfirmed
    );
    let mut again = join_again(config);
    match again.wait_round(Duration::from_secs(6)) {
        Ok(NextRound::Round(mut round)) => {
            println!(
                "it is given round {} needs_update {}",
                round.number(),
                round.needs_update()
            );
            if round.number() != number {
                let mut own = last.next_round().unwrap().unwrap();
                round.submit(vec![1.0f32; 5], 1).unwrap();
                own.submit(vec![1.0f32; 5], 1).unwrap();
                println!(
                    "and then round {}: {:?}",
                    round.number(),
                    round.result().map(|r| r.survivors)
                );
            }
            assert_eq!(
                round.number(),
                number,
                "another round: it never heard of {number}"
            );
            println!(
                "result {:?}",
                round
                    .wait_result(Duration::from_secs(6))
                    .map(|r| r.map(|r| r.mean))
            );
        }
        Ok(NextRound::Refused(error)) => println!("told: {error}"),
        Ok(NextRound::JobDone) => panic!("it heard JobDone and nothing of round {number}"),
        Ok(NextRound::Waiting) => panic!(
            "it hears nothing; unconfirmed {:?}",
            scene.coordinator().wait("test", |_| true).unconfirmed
        ),
        Err(error) => panic!("error: {error}"),
    }
}

#[test]
fn b1_control_first_round() {
    survivor_is_killed(ProtocolName::Plain, 0, 1);
}

#[test]
fn b1_second_round_last() {
    survivor_is_killed(ProtocolName::Plain, 1, 2);
}

#[test]
fn b1_second_round_goes_on() {
    survivor_is_killed(ProtocolName::Plain, 1, 5);
}

/// 2. Three honest parties of which one renews its certificate in time.
fn renewed(renews: bool) {
    let pki = Pki::new(61);
    let spec = JobSpec {
        rounds: 0,
        min_parties: 3,
        input_deadline: 20.0,
        ..plain(0)
    };
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let asked = request("a", Algorithm::Ed25519, &mut rng).unwrap();
    let until = now() + 6;
    let short = Validity {
        not_before: now() - 60,
        not_after: until,
    };
    std::fs::write(
        path("a.pem"),
        pki.sign(&asked.request, "a", short).certificate,
    )
    .unwrap();
    std::fs::write(path("a.key"), &**asked.key).unwrap();
    std::fs::write(path("ca.pem"), pki.ca_pem()).unwrap();
    let files = CredentialFiles {
        certificate: path("a.pem"),
        key: path("a.key"),
        ca: path("ca.pem"),
        revoked: None,
    };
    let config = PartyConfig {
        give_up_after: 600.0,
        ..party_config(&url, files.read().unwrap())
    };
    let play = |config: PartyConfig| {
        std::thread::spawn(move || {
            let mut party = Party::join(config).unwrap();
            loop {
                match party.next_round() {
                    Ok(Some(mut round)) => {
                        std::thread::sleep(Duration::from_millis(300));
                        let _ = round.submit(vec![1.0f32; 5], 1);
                        let _ = round.result();
                    }
                    Ok(None) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        })
    };
    let a = play(config);
    let _others = ["b", "c"].map(|name| play(party_config(&url, pki.party(name))));
    coordinator.wait("test", |status| status.rounds_done > 0);
    if renews {
        let long = Validity::days(now() - 60, 5);
        std::fs::write(
            path("new.pem"),
            pki.sign(&asked.request, "a", long).certificate,
        )
        .unwrap();
        std::fs::rename(path("new.pem"), path("a.pem")).unwrap();
    }
    let begun = Instant::now();
    let status = coordinator.wait("test", |status| {
        status.state == JobState::Failed || begun.elapsed() > Duration::from_secs(18)
    });
    println!(
        "{:?} after {:?}: {} rounds; {}",
        status.state,
        begun.elapsed(),
        status.rounds_done,
        status.reason
    );
    println!(
        "expired {} s ago, connected {:?}, a ended: {}",
        now() as i64 - until as i64,
        status.connected,
        a.is_finished()
    );
    assert_ne!(status.state, JobState::Failed);
}

#[test]
fn b2_a_party_that_has_renewed_its_certificate() {
    renewed(true);
}

/// What a process of the campaign does.
#[test]
#[ignore]
fn child() {
    let Ok(folder) = std::env::var("BREAKER_DIR") else {
        return;
    };
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
        min_parties: if protocol == ProtocolName::Plain {
            2
        } else {
            3
        },
        corrupt: if protocol == ProtocolName::Plain {
            0.1
        } else {
            0.0
        },
        dropout: if protocol == ProtocolName::Plain {
            0.5
        } else {
            0.25
        },
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
        for (file, text) in [
            ("pem", own.certificate.as_str()),
            ("key", own.key.as_str()),
            ("ca", pki.ca_pem()),
            (
                "url",
                &if i < 2 {
                    proxy.url()
                } else {
                    coordinator.url()
                },
            ),
            ("index", &i.to_string()),
        ] {
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
            if children[i].try_wait().unwrap().is_some() {
                ends += 1;
                children[i] = spawn(names[i]);
            }
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
            2 => {
                proxy.cut();
                cuts += 1;
            }
            3 => {
                proxy.lose();
                cuts += 1;
            }
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
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    let status = coordinator.wait("test", |_| true);
    coordinator.stop().unwrap();
    let store = blindsum_net::store::SqliteStore::open(&folder.path().join("store.db"), 3).unwrap();
    use blindsum_net::store::Store;
    let lines = lines.lock().unwrap();
    let (mut done, mut untold, mut wrong, mut told_otherwise, mut missed) =
        (0, vec![], 0, vec![], 0);
    let rounds = store.rounds("test", 100_000).unwrap();
    let last = rounds.iter().map(|r| r.number).max().unwrap();
    for report in &rounds {
        if report.survivors.is_empty() || report.number + 3 > last {
            continue;
        }
        done += 1;
        for name in &report.survivors {
            let mine: Vec<_> = lines
                .iter()
                .filter(|(n, l)| {
                    n == name && l.split(' ').nth(1) == Some(&report.number.to_string())
                })
                .map(|(_, l)| l)
                .collect();
            if mine.is_empty() {
                untold.push((report.number, name.clone()));
            }
            for line in mine {
                if line.starts_with("@ERROR") {
                    told_otherwise.push(format!("{name}: {line}"));
                }
                if line.starts_with("@MISSED") {
                    missed += 1;
                }
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
                    if !same || got.iter().zip(&mean).any(|(a, b)| (a - b).abs() > 1e-3) {
                        wrong += 1;
                        println!("WRONG {name} {line} {:?}", report.survivors);
                    }
                }
            }
        }
    }
    println!(
        "{protocol:?}: {kills} kills, {cuts} cuts, {stops} stops, {ends} ended by themselves; {} rounds, {done} counted; wrong {wrong}, missed {missed}, untold {} {:?}",
        rounds.len(),
        untold.len(),
        &untold[..untold.len().min(6)]
    );
    println!(
        "told otherwise {}: {:#?}",
        told_otherwise.len(),
        &told_otherwise[..told_otherwise.len().min(5)]
    );
    let mut odd: Vec<_> = lines
        .iter()
        .filter(|(_, l)| l.starts_with("@END") || l.starts_with("@REFUSED"))
        .map(|(n, l)| format!("{n} {l}"))
        .collect();
    odd.sort();
    odd.dedup();
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
