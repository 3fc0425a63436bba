//! A TCP relay between parties and a coordinator whose connections can be cut.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub struct Proxy {
    pub port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// Relays connections to `target`, a port on this machine.
    pub fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let streams = open.clone();
        thread::spawn(move || {
            for from in listener.incoming() {
                let Ok(from) = from else { return };
                let Ok(to) = TcpStream::connect(("127.0.0.1", target)) else {
                    continue;
                };
                let mut open = streams.lock().unwrap();
                open.extend([from.try_clone().unwrap(), to.try_clone().unwrap()]);
                relay(from.try_clone().unwrap(), to.try_clone().unwrap());
                relay(to, from);
            }
        });
        Self { port, open }
    }

    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// Cuts every connection there is.
    pub fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}
