//! Which lines the daemon logs, and how that changes while it runs.

use std::io::BufRead;

use super::{folder, send, started, terminate};

#[test]
fn a_hangup_changes_which_lines_are_logged() {
    let folder = folder();
    let config = folder.path().join("blindsumd.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let write = |level: &str| {
        std::fs::write(&config, format!("{text}[program]\nlog_level = '{level}'\n")).unwrap();
    };
    write("info");
    let (child, mut log) = started(folder.path(), &[]);
    let mut next_with = |part: &str| {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert!(
                log.read_line(&mut line).unwrap() > 0,
                "no line has {part:?}"
            );
        }
        line
    };
    write("loud");
    send("-HUP", &child);
    assert!(next_with("stays as it is").contains("off, error, warn"));
    write("warn,blindsum_net=debug");
    send("-HUP", &child);
    let changed = next_with("has changed");
    assert!(
        changed.contains("info → ") && changed.contains("blindsum_net=debug"),
        "{changed}"
    );
    terminate(child);
}
