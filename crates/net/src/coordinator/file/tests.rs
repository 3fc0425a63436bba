//! Tests of configuration files.

use blindsum_protocol::SecAggPlus;

use super::*;

fn read(text: &str, settings: &[&str]) -> Result<ConfigFile, NetError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blindsumd.toml");
    std::fs::write(&path, text).unwrap();
    let settings: Vec<String> = settings.iter().map(|s| s.to_string()).collect();
    ConfigFile::read(Some(&path), &settings)
}

#[test]
fn settings_go_before_the_file() {
    let text = "listen = '1.2.3.4:5'\n[limits]\nconnections = 3\n\
                [[jobs]]\njob = 'a'\nprotocol = 'secagg+'\nparties = 3\ndim = 4\n";
    let settings = [
        "listen=127.0.0.1:0",
        "limits.handshakes=7",
        "jobs.0.rounds=9",
        "jobs.0.protocol.threshold=2",
    ];
    let file = read(text, &settings).unwrap();
    assert_eq!(file.listen, "127.0.0.1:0");
    assert_eq!((file.limits.connections, file.limits.handshakes), (3, 7));
    let job = job(file.jobs[0].clone(), Path::new("")).unwrap();
    assert_eq!((job.spec.job.as_str(), job.spec.rounds), ("a", 9));
    let protocol = SecAggPlus {
        threshold: 2,
        ..Default::default()
    };
    assert_eq!(job.spec.protocol, protocol.into());
}

#[test]
fn an_error_names_the_setting_or_the_file_that_it_comes_from() {
    let text = "listen = '1.2.3.4:5'\n";
    let settings = ["listen=127.0.0.1:0", "limits.connections=-1"];
    let error = read(text, &settings).unwrap_err().to_string();
    assert!(error.contains("setting limits.connections: "), "{error}");
    assert!(!error.contains("blindsumd.toml"), "{error}");
    let error = read("listen = 5\n", &settings[..1]).map(drop);
    assert!(error.is_ok(), "a setting goes before the file");
    let error = read("[limits]\nconnections = -1\n", &settings[..1]);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("blindsumd.toml"), "{error}");
}

/// A job of the daemon is the job that every other reader makes of the file.
#[test]
fn jobs_mean_what_they_mean_to_everybody() {
    let vectors = include_str!("../../../../../vectors/options.json");
    let vectors: serde_json::Value = serde_json::from_str(vectors).unwrap();
    for file in vectors["files"].as_array().unwrap() {
        let table: Table = file["toml"].as_str().unwrap().parse().unwrap();
        let checked = job(table, Path::new("")).unwrap().spec.validate().unwrap();
        assert_eq!(crate::hex(checked.hash()), file["hash"], "{file}");
    }
}

/// The model's file is not there: whoever opens it has begun too early.
#[test]
fn memory_is_checked_before_a_model_is_read() {
    let text = "[[jobs]]\njob = 'a'\nprotocol = 'plain'\nparties = 3\ndim = 100000\ninitial_model = 'none.npy'\n";
    let file = read(text, &[]).unwrap();
    let refused = |bytes| {
        let bound = crate::Bound::Data;
        file.read_jobs(Room { bytes, bound }).err().unwrap()
    };
    assert!(matches!(refused(1000), NetError::Memory { .. }));
    let unread = refused(1 << 40).to_string();
    assert!(
        unread.contains("jobs.0: initial_model") && unread.contains("none.npy"),
        "{unread}"
    );
}

#[test]
fn errors_name_the_field() {
    let message = |error: NetError| error.to_string();
    let error = message(read("listne = 'x'", &[]).unwrap_err());
    assert!(error.contains("listne"), "{error}");
    let error = message(read("", &["jobs.3.rounds"]).unwrap_err());
    assert!(error.contains("KEY=VALUE"), "{error}");
    let file = read("certificate = 'none.pem'", &[]).unwrap();
    let Err(error) = file.load().map_err(message) else {
        panic!("a missing file was loaded");
    };
    assert!(
        error.contains("certificate") && error.contains("none.pem"),
        "{error}"
    );
    let mut table = Table::new();
    table.insert("protocl".into(), "plain".into());
    let Err(error) = job(table, Path::new("")).map_err(message) else {
        panic!("an unknown field was taken");
    };
    assert!(error.contains("protocl"), "{error}");
}

#[test]
fn the_passphrase_of_the_key_comes_from_its_file() {
    use blindsum_crypto::encrypted::encrypt;
    use blindsum_crypto::sign::{Algorithm, IdentityKey};
    let mut rng = <rand_chacha::ChaCha20Rng as rand_core::SeedableRng>::seed_from_u64(1);
    let key = IdentityKey::generate(Algorithm::Ed25519, &mut rng).unwrap();
    let plain = key.to_pem().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("own.pem", "");
    write(
        "own.key",
        &encrypt(&plain, "correct horse", &mut rng).unwrap(),
    );
    write(
        "blindsumd.toml",
        "certificate = 'own.pem'\nkey = 'own.key'\nca = 'own.pem'\n",
    );
    let path = folder.path().join("blindsumd.toml");
    let with = |setting: &str| {
        let file = ConfigFile::read(Some(&path), &[setting.to_owned()]).unwrap();
        file.credentials().map_err(|error| error.to_string())
    };
    write("words", "correct horse\n");
    assert_eq!(**with("key_passphrase_file='words'").unwrap().key, *plain);
    write("words", "wrong horse\n");
    let error = with("key_passphrase_file='words'").err().unwrap();
    assert!(
        error.contains("own.key") && error.contains("passphrase is wrong"),
        "{error}"
    );
    let error = with("key_passphrase_file='none'").err().unwrap();
    assert!(
        error.contains("key_passphrase_file") && error.contains("none"),
        "{error}"
    );
}

#[test]
fn names_of_files_are_not_empty() {
    let fields = [
        "certificate",
        "key",
        "key_passphrase_file",
        "ca",
        "revoked",
        "membership_certificate",
        "membership_key",
        "membership_ca",
    ];
    let refused = |settings: &[String]| {
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let file = read("", &settings).unwrap();
        let error = match file.server {
            0 => file.load().map(drop).unwrap_err(),
            _ => file.load_server().map(drop).unwrap_err(),
        };
        match error {
            NetError::Config { field, rule } => (field, rule),
            other => panic!("{other}"),
        }
    };
    for field in fields {
        let (named, rule) = refused(&[format!("{field}=''")]);
        assert!(
            named == field && rule.contains("not be empty"),
            "{named}: {rule}"
        );
    }
    let (named, rule) = refused(&["server=1".into(), "state_dir=''".into()]);
    assert!(
        named == "state_dir" && rule.contains("not be empty"),
        "{named}: {rule}"
    );
    for store in ["", ":memory:", "file:x?mode=memory"] {
        let (named, rule) = refused(&[format!("store='{store}'")]);
        assert!(
            named == "store" && rule.contains(&format!("{store:?}")),
            "{named}: {rule}"
        );
    }
    for field in ["initial_model", "results"] {
        let mut table = Table::new();
        table.insert(field.into(), "".into());
        let error = job(table, Path::new("/tmp"))
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(field) && error.contains("not be empty"),
            "{error}"
        );
    }
}
