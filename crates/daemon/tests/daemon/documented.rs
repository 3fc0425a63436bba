//! The configurations in the documentation are those that the program takes.

use super::*;

/// The blocks of a kind in the documentation.
fn documented(kind: &str) -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split(kind).skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap().into());
    let blocks: Vec<String> = blocks.collect();
    assert!(!blocks.is_empty());
    blocks
}

#[test]
fn the_file_of_a_server_in_the_documentation_is_fine() {
    for block in documented("```toml blindsumd server\n") {
        let hosts = vec!["second.example".into()];
        let folder = folder_of(&Kind::Server { hosts }, "");
        for (from, to) in [("own.pem", "second.pem"), ("own.key", "second.key")] {
            std::fs::copy(folder.path().join(from), folder.path().join(to)).unwrap();
        }
        std::fs::write(folder.path().join("blindsumd.toml"), block).unwrap();
        let output = command(folder.path(), &["--check"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
    }
}

#[test]
fn the_configuration_in_the_documentation_is_fine() {
    for block in documented("```toml blindsumd\n") {
        let folder = folder();
        let in_ca = folder.path().join("ca");
        std::fs::create_dir(&in_ca).unwrap();
        for (from, to) in [
            ("ca.pem", "ca.pem"),
            ("own.pem", "agg.pem"),
            ("own.key", "agg.key"),
        ] {
            std::fs::copy(folder.path().join(from), in_ca.join(to)).unwrap();
        }
        std::fs::write(in_ca.join("crl.pem"), "").unwrap();
        std::fs::write(folder.path().join("blindsumd.toml"), block).unwrap();
        let output = command(folder.path(), &["--check"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
    }
}
