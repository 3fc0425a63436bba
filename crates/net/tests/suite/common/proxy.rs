//! A TCP relay between parties and a coordinator: its connections can be cut, and what stands between
//! may misbehave for a while.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::PATIENCE;

/// What becomes of a connection that is made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It reaches this port.
    To(u16),
    /// It is closed at once.
    Closed,
    /// It is taken, and nothing goes through it until there is another way.
    Held,
    /// It gets an answer in clear text, as from a balancer whose backend is away.
    ClearText,
    /// It gets a TLS alert.
    Alert,
    /// It reaches this port, and a byte of the other side's first words is flipped.
    Flipped(u16),
}

pub struct Proxy {
    pub port: u16,
    target: u16,
    state: Arc<(Mutex<State>, Condvar)>,
}

struct State {
    way: Way,
    open: Vec<TcpStream>,
    /// Connections that were taken since the way was chosen.
    taken: usize,
    /// Whether the far side of a connection stays open where the near one ends.
    half_open: bool,
}

impl Proxy {
    /// Relays connections to `target`, a port on this machine.
    pub fn to(target: u16) -> Self {
        Self::at("127.0.0.1", target)
    }

    /// The same at another address of this machine.
    pub fn at(address: &str, target: u16) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State {
            way: Way::To(target),
            open: Vec::new(),
            taken: 0,
            half_open: false,
        };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let shared = state.clone();
        thread::spawn(move || {
            for from in listener.incoming() {
                let Ok(from) = from else { return };
                let shared = shared.clone();
                thread::spawn(move || lead(from, &shared));
            }
        });
        Self {
            port,
            target,
            state,
        }
    }

    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// Cuts every connection there is.
    pub fn cut(&self) {
        for stream in self.state.0.lock().unwrap().open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Cuts every connection there is so that the parties notice and the coordinator does not.
    pub fn lose(&self) {
        let mut state = self.state.0.lock().unwrap();
        state.half_open = true;
        for near in state.open.iter().step_by(2) {
            let _ = near.shutdown(Shutdown::Both);
        }
    }

    /// Where connections go from now on; those that are held go there too.
    pub fn lead(&self, way: Way) {
        let mut state = self.state.0.lock().unwrap();
        (state.way, state.taken) = (way, 0);
        self.state.1.notify_all();
    }

    /// Connections reach the coordinator again.
    pub fn mend(&self) {
        self.lead(Way::To(self.target));
    }

    /// Cuts everything, and lets nothing through until it is mended.
    pub fn interrupt(&self) {
        self.lead(Way::Closed);
        self.cut();
    }

    /// Until so many connections have been made since the way was chosen.
    pub fn wait_taken(&self, count: usize) {
        let (state, changed) = &*self.state;
        let state = state.lock().unwrap();
        let waited = changed.wait_timeout_while(state, PATIENCE, |state| state.taken < count);
        assert!(!waited.unwrap().1.timed_out(), "nobody connects");
    }
}

fn lead(mut from: TcpStream, shared: &Arc<(Mutex<State>, Condvar)>) {
    let (state, changed) = &**shared;
    let mut now = state.lock().unwrap();
    now.taken += 1;
    changed.notify_all();
    while now.way == Way::Held {
        now = changed.wait(now).unwrap();
    }
    let (port, flips) = match now.way {
        Way::To(port) => (port, false),
        Way::Flipped(port) => (port, true),
        Way::Held | Way::Closed => return,
        Way::ClearText => {
            drop(now);
            return answer(&mut from, b"HTTP/1.1 503 Service Unavailable\r\n\r\n");
        }
        Way::Alert => {
            drop(now);
            // Fatal: internal_error.
            return answer(&mut from, &[21, 3, 3, 0, 2, 2, 80]);
        }
    };
    let Ok(to) = TcpStream::connect(("127.0.0.1", port)) else {
        return;
    };
    now.open
        .extend([from.try_clone().unwrap(), to.try_clone().unwrap()]);
    drop(now);
    let (near, far) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    relay(near, far, false, shared.clone());
    relay(to, from, flips, shared.clone());
}

/// Says something in the middle of the handshake, and no more.
fn answer(from: &mut TcpStream, bytes: &[u8]) {
    let mut hello = [0; 4096];
    let _ = from.read(&mut hello);
    let _ = from.write_all(bytes);
    let _ = from.shutdown(Shutdown::Write);
    while matches!(from.read(&mut hello), Ok(1..)) {}
}

fn relay(
    mut from: TcpStream,
    mut to: TcpStream,
    flips: bool,
    shared: Arc<(Mutex<State>, Condvar)>,
) {
    thread::spawn(move || {
        let mut first = [0; 4096];
        if let Ok(length @ 1..) = from.read(&mut first) {
            // The last byte lies in what is encrypted already.
            first[length - 1] ^= u8::from(flips);
            let _ = to.write_all(&first[..length]);
            let _ = std::io::copy(&mut from, &mut to);
        }
        if !shared.0.lock().unwrap().half_open {
            let _ = to.shutdown(Shutdown::Both);
        }
    });
}
