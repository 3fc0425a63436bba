//! The configuration in deploy/ is one that the program takes.

use super::*;

#[test]
fn the_configuration_of_the_containers_is_fine() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/compose/blindsumd.toml"
    );
    let folder = folder();
    for (from, to) in [("own.pem", "agg.pem"), ("own.key", "agg.key")] {
        std::fs::copy(folder.path().join(from), folder.path().join(to)).unwrap();
    }
    // The folders of the containers are this one.
    let here = folder.path().display().to_string();
    let config = std::fs::read_to_string(file).unwrap();
    let config = config.replace("/pki", &here);
    let config = config.replace("/var/lib/blindsum", &here);
    std::fs::write(folder.path().join("blindsumd.toml"), config).unwrap();
    let output = command(folder.path(), &["--check"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}
