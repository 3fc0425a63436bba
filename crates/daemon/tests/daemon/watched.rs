//! What others see of the daemon: scrapes, health checks, and what it says to the service manager.

use std::os::unix::net::UnixDatagram;

use super::*;

#[test]
fn it_answers_scrapes_and_health_checks_and_stops_on_sigterm() {
    let folder = folder();
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let metrics = format!("127.0.0.1:{port}");
    let (child, mut log) = started(
        folder.path(),
        &["--metrics", &metrics, "--log-format", "json"],
    );
    let ask = |method: &str, path: &str| {
        let mut stream = TcpStream::connect(&metrics).unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    };
    assert_eq!(ask("GET", "/livez"), (200, "alive\n".into()));
    let job = "job a: running, 0 parties connected, 1 needed, 0 rounds done\n";
    assert_eq!(ask("GET", "/readyz"), (200, format!("ready\n{job}")));
    let few = format!("not ready: too few parties are connected\n{job}");
    assert_eq!(ask("GET", "/readyz/a"), (503, few));
    for path in ["/", "/readyz/b", "/metrics/", "/livez/a"] {
        assert_eq!(ask("GET", path).0, 404, "{path}");
    }
    assert_eq!(ask("POST", "/metrics").0, 405);
    assert_eq!(ask("HEAD", "/metrics"), (200, String::new()));
    let (status, page) = ask("GET", "/metrics");
    assert_eq!(status, 200);
    assert!(page.ends_with("# EOF\n"), "{page}");
    for line in [
        "blindsum_rounds_total{job=\"a\",outcome=\"sum\",reason=\"none\"} 0.0",
        "blindsum_parties_needed{job=\"a\"} 1.0",
        "blindsum_parties_refused_total{reason=\"handshake\"} 0.0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
    terminate(child);
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("\"signal\":\"SIGTERM\""), "{rest}");
}

/// What a service manager hears, word by word.
struct Manager {
    socket: UnixDatagram,
    words: Vec<String>,
}

impl Manager {
    /// Waits for a message with this word.
    fn hears(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        loop {
            if let Some(word) = self.words.iter().find(|word| wanted(word)) {
                return word.clone();
            }
            let mut message = [0; 4096];
            let length = self.socket.recv(&mut message).unwrap();
            let message = String::from_utf8_lossy(&message[..length]).into_owned();
            self.words.extend(message.lines().map(str::to_owned));
        }
    }
}

#[test]
fn systemd_hears_that_it_is_ready_that_it_lives_and_that_it_stops() {
    let folder = folder();
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    let patience = Some(Duration::from_secs(60));
    manager.set_read_timeout(patience).unwrap();
    let mut manager = Manager {
        socket: manager,
        words: Vec::new(),
    };
    let mut command = command(folder.path(), &[]);
    command.env("NOTIFY_SOCKET", &socket);
    command
        .env("WATCHDOG_USEC", "200000")
        .env_remove("WATCHDOG_PID");
    let mut child = command.spawn().unwrap();
    let _log = listening(&mut child);
    manager.hears(|word| word == "READY=1");
    let status = manager.hears(|word| word.starts_with("STATUS="));
    assert_eq!(status, "STATUS=a: running, 0 parties connected");
    manager.hears(|word| word == "WATCHDOG=1");
    manager.words.clear();
    // It goes on saying that it lives.
    manager.hears(|word| word == "WATCHDOG=1");
    terminate(child);
    manager.hears(|word| word == "STOPPING=1");
}
