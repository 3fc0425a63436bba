//! The daemon while it runs: signals that change it, and what it says of them.

use std::fs::OpenOptions;
use std::io::{BufRead, Write};

use super::{command, fails, folder, folder_of, send, started, terminate};

/// The next line of a log with this text.
fn logged(log: &mut impl BufRead, text: &str) -> String {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        let read = log.read_line(&mut line).unwrap();
        assert!(read > 0, "no line with {text:?}");
    }
    line
}

fn append(folder: &std::path::Path, text: &str) {
    let file = folder.join("blindsumd.toml");
    let mut file = OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn sigterm_drains_and_says_so() {
    let folder = folder();
    let (child, mut log) = started(folder.path(), &[]);
    send("-TERM", &child);
    logged(&mut log, "draining: rounds under way end, and none begins");
    logged(&mut log, "ordered");
    logged(&mut log, "drained: no round is under way");
    terminated(child);
}

#[test]
fn sigint_stops_at_once_and_says_so() {
    let folder = folder();
    let (child, mut log) = started(folder.path(), &[]);
    send("-INT", &child);
    logged(&mut log, "stopping immediately");
    terminated(child);
}

fn terminated(mut child: std::process::Child) {
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_hangup_takes_over_new_jobs_and_limits_and_names_what_it_leaves() {
    let folder = folder();
    let (child, mut log) = started(folder.path(), &[]);
    let old = std::fs::read_to_string(folder.path().join("blindsumd.toml")).unwrap();
    let changed = old
        .replace("dim = 4\n", "dim = 4\nrounds = 9\n")
        .replace("listen = '127.0.0.1:0'", "listen = 'localhost:0'");
    std::fs::write(folder.path().join("blindsumd.toml"), changed).unwrap();
    append(
        folder.path(),
        "[[jobs]]\njob = 'b'\nprotocol = 'plain'\nparties = 3\ndim = 4\n\
         [[jobs]]\njob = 'c'\nprotocol = 'plain'\nparties = 0\ndim = 4\n\
         [limits]\npatience = 9.0\nconnections = 7\n",
    );
    send("-HUP", &child);
    for text in [
        "SIGHUP: reading certificates, limits and jobs again",
        "job added",
        "reloaded: certificate, key, CA and revocation list were read again",
        "reloaded: limits.patience: 3600.0 → 9.0",
        "reloaded: job b was added",
        "not reloaded: limits.connections has changed: start the coordinator again",
        "not reloaded: job a: rounds: 1 → 9: left as it is; `blindsum admin extend a` changes it",
        "not reloaded: listen has changed: start the coordinator again",
        "not reloaded: job c: job specification: parties: parties is 0 and must be from 1",
    ] {
        logged(&mut log, text);
    }
    // What it was last read as counts: now only the job that is gone is told.
    std::fs::write(folder.path().join("blindsumd.toml"), old).unwrap();
    send("-HUP", &child);
    logged(&mut log, "reloaded: limits.patience: 9.0 → 3600.0");
    logged(
        &mut log,
        "job b is not in the configuration any more and goes on: `blindsum admin end b` ends it",
    );
    // A file that is no configuration changes nothing.
    append(folder.path(), "[[[");
    send("-HUP", &child);
    logged(&mut log, "not reloaded: limits and jobs stay as they are");
    terminate(child);
}

#[test]
fn the_check_looks_into_the_store_and_names_what_differs() {
    let folder = folder();
    let (child, _log) = started(folder.path(), &[]);
    let check = |flags: &[&str]| command(folder.path(), flags).output().unwrap();
    assert!(check(&["--check"]).status.success(), "also while it runs");
    terminate(child);
    assert!(check(&["--check"]).status.success());
    for flags in [
        &["--check", "--set", "jobs.0.rounds=8"][..],
        &["--set", "jobs.0.rounds=8"],
    ] {
        fails(
            folder.path(),
            flags,
            4,
            &["rounds: 1 → 8", "blindsum admin extend"],
        );
    }
    let other = &["--check", "--set", "jobs.0.dim=5"];
    fails(
        folder.path(),
        other,
        4,
        &["dim: 4 → 5", "dim cannot change in a job"],
    );
}

#[test]
fn it_lets_operators_in_where_it_is_told_to() {
    let folder = folder();
    let (child, _log) = started(folder.path(), &["--set", "admin=127.0.0.1:0"]);
    terminate(child);
    let wrong = &["--set", "admin=nowhere"];
    fails(folder.path(), wrong, 2, &["admin: "]);
    let hosts = vec!["127.0.0.2".into()];
    let server = folder_of(
        &blindsum_crypto::pki::Kind::Server { hosts },
        "server = 1\nstate_dir = 'state'\nadmin = '127.0.0.1:0'\n\
         servers = ['https://localhost:1', 'https://127.0.0.2:2', 'https://127.0.0.3:3']\n\
         [[jobs]]\njob = 'a'\nprotocol = 'mpc3'\nparties = 4\ndim = 4\nresults = 'results'\n",
    );
    fails(
        server.path(),
        &[],
        2,
        &["admin: only a coordinator has one"],
    );
}

#[test]
fn settings_without_an_effect_are_refused() {
    let folder = folder();
    let fails = |flags: &[&str], says: &[&str]| {
        let flags: Vec<&str> = flags.iter().copied().chain(["--check"]).collect();
        super::fails(folder.path(), &flags, 2, says);
    };
    fails(&["--set", "change=2"], &["change: 2 parties", "set one"]);
    let turns = ["--set", "choice=turns", "--set"];
    let with = |last| [&turns[..], &[last]].concat();
    fails(&with("change=4"), &["1 <= change = 4 <= parties = 3"]);
    fails(&with("change=0"), &["1 <= change = 0"]);
    let server = super::folder_of_server();
    for setting in [
        "dashboard='127.0.0.1:0'",
        "choice='turns'",
        "change=2",
        "admin='127.0.0.1:0'",
        "audit='audit.jsonl'",
    ] {
        let (field, _) = setting.split_once('=').unwrap();
        let flags = ["--check", "--set", setting];
        super::fails(server.path(), &flags, 2, &[field, "only a coordinator"]);
    }
}

#[test]
fn the_check_verifies_the_audit_trail_and_changes_nothing() {
    let folder = folder();
    let trail = folder.path().join("audit.jsonl");
    let flags = ["--set", "audit=audit.jsonl", "--check"];
    assert!(
        command(folder.path(), &flags)
            .output()
            .unwrap()
            .status
            .success()
    );
    assert!(!trail.exists());
    std::fs::write(&trail, "{}\n").unwrap();
    fails(
        folder.path(),
        &flags,
        2,
        &["audit: ", "line 1: is no entry", "name a new file"],
    );
    assert_eq!(std::fs::read_to_string(&trail).unwrap(), "{}\n");
}
