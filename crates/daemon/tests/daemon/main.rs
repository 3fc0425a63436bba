//! The daemon as its users meet it: started with right and wrong configurations, stopped, asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
use blindsum_crypto::sign::Algorithm;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use tempfile::TempDir;

mod deployed;
mod documented;
mod logs;
mod operated;
mod watched;

/// A folder with everything that a coordinator needs.
fn folder() -> TempDir {
    let hosts = vec!["localhost".into()];
    folder_of(
        &Kind::Coordinator { hosts },
        "store = 'blindsum.db'\n[[jobs]]\njob = 'a'\nprotocol = 'plain'\nparties = 3\ndim = 4\n",
    )
}

/// The same for the second of three servers.
fn folder_of_server() -> TempDir {
    let hosts = vec!["127.0.0.2".into()];
    folder_of(
        &Kind::Server { hosts },
        "server = 1\nstate_dir = 'state'\n\
         servers = ['https://localhost:1', 'https://127.0.0.2:2', 'https://127.0.0.3:3']\n\
         [[jobs]]\njob = 'a'\nprotocol = 'mpc3'\nparties = 4\ndim = 4\nresults = 'results'\n",
    )
}

fn folder_of(kind: &Kind, config: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let validity = Validity::days(now - 60, 2);
    let ca = CertificateAuthority::create("CA", Algorithm::Ed25519, validity, &mut rng).unwrap();
    let algorithm = Algorithm::Ed25519;
    let own = ca
        .issue("own", kind, algorithm, validity, &mut rng)
        .unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("ca.pem", ca.certificate());
    write("own.pem", &own.certificate);
    write("own.key", &own.key);
    let common =
        "listen = '127.0.0.1:0'\ncertificate = 'own.pem'\nkey = 'own.key'\nca = 'ca.pem'\n";
    write("blindsumd.toml", &format!("{common}{config}"));
    folder
}

fn command(folder: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blindsumd"));
    command
        .arg("--config")
        .arg(folder.join("blindsumd.toml"))
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn fails(folder: &Path, flags: &[&str], code: i32, says: &[&str]) {
    let Output { status, stderr, .. } = command(folder, flags).output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(code), "{stderr}");
    for text in says {
        assert!(stderr.contains(text), "{text:?} is missing: {stderr}");
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
}

/// A daemon, and the rest of its log from the line on that says it listens.
fn started(folder: &Path, flags: &[&str]) -> (Child, impl BufRead + use<>) {
    let mut child = command(folder, flags).spawn().unwrap();
    let log = listening(&mut child);
    (child, log)
}

/// Its log from the line on that says it listens.
fn listening(child: &mut Child) -> impl BufRead + use<> {
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("coordinator listening") && !line.contains("server listening") {
        line.clear();
        assert!(
            log.read_line(&mut line).unwrap() > 0,
            "it ended before it listened"
        );
    }
    log
}

fn send(signal: &str, child: &Child) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
    assert!(sent.success());
}

fn terminate(child: Child) {
    end_by("-TERM", child);
}

/// Sends a signal and expects a clean end.
fn end_by(signal: &str, mut child: Child) {
    send(signal, &child);
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return assert_eq!(status.code(), Some(0)),
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            None => {
                child.kill().unwrap();
                panic!("{signal} does not stop it");
            }
        }
    }
}

#[test]
fn a_right_configuration_is_said_to_be_fine() {
    let folder = folder();
    let output = command(folder.path(), &["--check"]).output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 job"));
}

/// What would keep it from serving is said by the check already.
#[test]
fn the_check_reads_certificates_and_the_format_of_logs() {
    let folder = folder();
    let other = ["--check", "--set", "program.log_format='xml'"];
    fails(folder.path(), &other, 2, &["program.log_format", "xml"]);
    std::fs::copy(folder.path().join("ca.pem"), folder.path().join("own.pem")).unwrap();
    fails(folder.path(), &["--check"], 2, &["own.pem"]);
}

#[test]
fn wrong_configurations_say_what_and_where() {
    let folder = folder();
    fails(
        folder.path(),
        &["--set", "limits.connections=-1"],
        2,
        &["connections"],
    );
    fails(
        folder.path(),
        &["--set", "limits.connections=0"],
        2,
        &["limits.connections: is 0 and must be from 1"],
    );
    fails(
        folder.path(),
        &["--set", "jobs.0.protocol='magic'"],
        2,
        &["jobs.0", "magic"],
    );
    fails(
        folder.path(),
        &["--set", "jobs.0.dim=0"],
        2,
        &["dim is 0 and must be from 1"],
    );
    fails(
        folder.path(),
        &["--ca", "none.pem"],
        2,
        &["ca: ", "none.pem"],
    );
    fails(
        folder.path(),
        &["--ca", "/dev/null"],
        2,
        &["CA certificate"],
    );
    fails(
        folder.path(),
        &["--log-format", "xml"],
        2,
        &["log_format", "xml"],
    );
    std::fs::write(folder.path().join("blindsumd.toml"), "listen = 5").unwrap();
    fails(folder.path(), &[], 2, &["blindsumd.toml", "listen"]);
}

/// Whether a process has a handler of its own for SIGTERM (15).
fn catches_sigterm(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    caught >> 14 & 1 == 1
}

/// The configuration is read from a pipe, so the daemon still waits for it when the signal comes.
#[test]
fn a_signal_that_comes_before_anything_else_stops_it() {
    let folder = folder();
    let path = folder.path().join("blindsumd.toml");
    let text = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let child = command(folder.path(), &[]).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !catches_sigterm(&child) {
        assert!(
            Instant::now() < until,
            "it takes no signals before it is configured"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    send("-TERM", &child);
    std::fs::write(&path, text).unwrap();
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("stopping before the start"), "{stderr}");
    assert!(!stderr.contains("listening"), "{stderr}");
}

#[test]
fn names_of_nothing_are_refused_before_it_listens() {
    let folder = folder();
    for field in ["certificate", "key", "ca", "revoked", "store"] {
        let says = [field, "must name a file or folder, not be empty"];
        fails(folder.path(), &["--set", &format!("{field}=''")], 2, &says);
        // Of its flags the command line says so by itself.
        fails(folder.path(), &[&format!("--{field}"), ""], 2, &[field]);
    }
    for store in [":memory:", "file:x?mode=memory"] {
        fails(folder.path(), &["--store", store], 2, &["store: ", store]);
    }
    let levels = "off, error, warn, info, debug, trace";
    for level in ["x", "", "net"] {
        fails(
            folder.path(),
            &["--log-level", level],
            2,
            &["program.log_level", levels],
        );
    }
    for listen in ["::1:0", "bad host:1", "9443"] {
        fails(
            folder.path(),
            &["--listen", listen],
            2,
            &["listen: ", listen],
        );
    }
    let server = folder_of_server();
    fails(
        server.path(),
        &["--set", "state_dir=''"],
        2,
        &["state_dir", "not be empty"],
    );
    fails(
        server.path(),
        &["--set", "jobs.0.results=''"],
        2,
        &["results", "not be empty"],
    );
}

#[test]
fn its_file_is_utf_8_with_or_without_a_mark() {
    let folder = folder();
    let path = folder.path().join("blindsumd.toml");
    let text = format!(
        "# gr\u{f6}\u{df}e\n{}",
        std::fs::read_to_string(&path).unwrap()
    );
    std::fs::write(&path, format!("\u{feff}{text}")).unwrap();
    let output = command(folder.path(), &["--check"]).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(&path, wide).unwrap();
    fails(folder.path(), &["--check"], 2, &["UTF-16"]);
}

#[test]
fn a_port_in_use_is_named() {
    let folder = folder();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    fails(
        folder.path(),
        &["--listen", &address],
        3,
        &[&address, "the port is in use"],
    );
}

#[test]
fn case_30_a_second_daemon_on_one_store_is_refused_and_a_damaged_store_too() {
    let folder = folder();
    let (first, _log) = started(folder.path(), &[]);
    fails(folder.path(), &[], 4, &["another coordinator uses it"]);
    terminate(first);
    let store = folder.path().join("blindsum.db");
    let mut bytes = std::fs::read(&store).unwrap();
    bytes
        .iter_mut()
        .skip(100)
        .step_by(7)
        .for_each(|byte| *byte ^= 0x5a);
    std::fs::write(&store, &bytes).unwrap();
    fails(folder.path(), &[], 4, &["damaged"]);
    assert_eq!(std::fs::read(&store).unwrap(), bytes, "nothing was changed");
}

/// Case 58: far more connections that say nothing than files that may be open. It says at the start what is too little,
/// and whoever comes last is served all the same.
#[test]
fn case_58_few_open_files_are_told_and_newcomers_get_in() {
    let folder = folder();
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 90; exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_blindsumd"));
    let listen = format!("listen='127.0.0.1:{port}'");
    let config = folder.path().join("blindsumd.toml");
    command.arg("--config").arg(config);
    command.args(["--set", &listen, "--set", "limits.handshake_timeout=0.3"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("coordinator listening") {
        assert!(log.read_line(&mut said).unwrap() > 0, "{said}");
    }
    assert!(said.contains("may open 90 files"), "{said}");
    let silent = (0..200).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap());
    let silent: Vec<_> = silent.collect();
    let mut last = silent.last().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    // It was taken, and its time for the handshake is over.
    assert_eq!(last.read(&mut [0]).unwrap(), 0);
    terminate(child);
}

#[test]
fn it_is_the_second_server_of_a_job() {
    let folder = folder_of_server();
    let output = command(folder.path(), &["--check"]).output().unwrap();
    assert!(output.status.success());
    assert!(!folder.path().join("state").exists());
    let (child, mut log) = started(folder.path(), &[]);
    assert!(folder.path().join("state/a").exists());
    assert!(folder.path().join("results").exists());
    terminate(child);
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("SIGTERM"), "{rest}");
}

#[test]
fn a_server_that_has_what_only_coordinators_have_is_refused() {
    let folder = folder_of_server();
    let refused = |setting: &str, says: &[&str]| {
        fails(folder.path(), &["--check", "--set", setting], 2, says);
    };
    refused("store='x.db'", &["store", "only a coordinator"]);
    refused("server=0", &["state_dir", "only server = 1 and 2"]);
    refused("server=3", &["place = 3 must be from 1 to 2"]);
    refused("jobs.0.protocol='plain'", &["needs no second server"]);
    refused("jobs=[]", &["jobs", "the one job"]);
    let config = folder.path().join("blindsumd.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("state_dir = 'state'\n", "")).unwrap();
    fails(folder.path(), &["--check"], 2, &["state_dir", "is missing"]);
}

#[test]
fn it_stops_on_sigint_that_was_ignored_when_it_was_started() {
    let folder = folder();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "trap '' INT; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_blindsumd"),
        ])
        .arg("--config")
        .arg(folder.path().join("blindsumd.toml"))
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _log = listening(&mut child);
    end_by("-INT", child);
}

#[test]
fn a_hangup_reads_the_certificates_again_and_ends_nothing() {
    let folder = folder();
    let (child, mut log) = started(folder.path(), &[]);
    let mut logged = |text: &str| {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(
                log.read_line(&mut line).unwrap() > 0,
                "no line with {text:?}"
            );
        }
        line
    };
    send("-HUP", &child);
    logged("read again");
    // A broken file is told by its name, and what was read before stays in use.
    std::fs::write(folder.path().join("own.pem"), "broken").unwrap();
    assert!(logged("cannot be used").contains("own.pem"));
    terminate(child);
}

#[test]
fn credentials_that_parties_would_refuse_are_refused_first() {
    let folder = folder();
    // The CA's own certificate is no coordinator's.
    std::fs::copy(folder.path().join("ca.pem"), folder.path().join("own.pem")).unwrap();
    fails(
        folder.path(),
        &[],
        2,
        &["own.pem", "server authentication", "blindsum pki issue"],
    );
}
