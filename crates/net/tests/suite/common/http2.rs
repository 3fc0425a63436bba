//! HTTP/2 and gRPC by hand over mutual TLS: frames as a test wants them, which no library would send.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use blindsum_net::Credentials;
use blindsum_net::pb::CoordinatorFrame;
use blindsum_net::pb::coordinator_frame::Frame;
use prost::Message;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::PATIENCE;

/// Types of frames.
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;

/// Flags: the last frame of a stream, an answer to the same type, all headers are in this frame, padding.
pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;

/// The setting that says how much of a stream may come before it is given more room.
pub const INITIAL_WINDOW: u16 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame that came.
#[derive(Debug)]
pub struct Came {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// A connection of a party. It answers pings and settings, as one that lives, and gives room only where it is told to.
pub struct Http2 {
    tls: StreamOwned<ClientConnection, TcpStream>,
    /// What has come of a gRPC message.
    message: Vec<u8>,
}

/// A gRPC message with this flag, which says that it has so many bytes.
pub fn message(flag: u8, length: u32, bytes: &[u8]) -> Vec<u8> {
    [&[flag][..], &length.to_be_bytes(), bytes].concat()
}

/// A gRPC message as it is to be.
pub fn grpc(frame: impl Into<blindsum_net::pb::PartyFrame>) -> Vec<u8> {
    let bytes = frame.into().encode_to_vec();
    message(0, bytes.len() as u32, &bytes)
}

impl Http2 {
    /// Connects, with these settings.
    pub fn connect(port: u16, credentials: &Credentials, settings: &[(u16, u32)]) -> Self {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(credentials.ca.as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let own = CertificateDer::from_pem_slice(credentials.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes()).unwrap();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let mut config = ClientConfig::builder_with_provider(provider.into())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![own], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = "localhost".try_into().unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut tls = StreamOwned::new(tls, stream);
        tls.write_all(PREFACE).unwrap();
        let mut connection = Self {
            tls,
            message: Vec::new(),
        };
        let mut payload = Vec::new();
        for (setting, value) in settings {
            payload.extend(setting.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        assert!(connection.frame(SETTINGS, 0, 0, &payload));
        connection
    }

    /// How long reading waits from now on.
    pub fn patience(&mut self, time: Duration) {
        self.tls.sock.set_read_timeout(Some(time)).unwrap();
    }

    /// Sends a frame; whether the connection takes it.
    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let length = (payload.len() as u32).to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        // One write: a peer that ends the connection is noticed either way.
        self.tls.write_all(&[&head, payload].concat()).is_ok() && self.tls.flush().is_ok()
    }

    /// Opens the stream of a party, with these headers besides.
    pub fn open(&mut self, stream: u32, besides: &[(&str, &str)]) -> bool {
        let needed = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", "/blindsum.v1.Coordinator/Connect"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ];
        let mut block = Vec::new();
        for (name, value) in needed.iter().chain(besides) {
            // A literal that is not indexed, with a name of its own.
            block.extend([0, name.len() as u8]);
            block.extend(name.bytes());
            block.push(value.len() as u8);
            block.extend(value.bytes());
        }
        self.frame(HEADERS, END_HEADERS, stream, &block)
    }

    pub fn data(&mut self, stream: u32, bytes: &[u8]) -> bool {
        self.frame(DATA, 0, stream, bytes)
    }

    /// Gives room on a stream, or on the connection.
    pub fn room(&mut self, stream: u32, bytes: u32) -> bool {
        self.frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
    }

    /// The next frame; none where the connection has ended.
    pub fn next(&mut self) -> Option<Came> {
        let mut head = [0; 9];
        self.exact(&mut head)?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, b| sum << 8 | u32::from(*b));
        let mut payload = vec![0; number(&head[..3]) as usize];
        self.exact(&mut payload)?;
        let came = Came {
            kind: head[3],
            flags: head[4],
            stream: number(&head[5..]),
            payload,
        };
        match (came.kind, came.flags & ACK) {
            (SETTINGS, 0) => self.frame(SETTINGS, ACK, 0, &[]),
            (PING, 0) => self.frame(PING, ACK, 0, &came.payload),
            _ => true,
        };
        Some(came)
    }

    fn exact(&mut self, bytes: &mut [u8]) -> Option<()> {
        match self.tls.read_exact(bytes) {
            Ok(()) => Some(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("nothing comes"),
            Err(_) => None,
        }
    }

    /// The next message of the coordinator, for which it is given room; none where the stream or the connection has
    /// ended.
    pub fn heard(&mut self, stream: u32) -> Option<Frame> {
        loop {
            if let Some((head, rest)) = self.message.split_at_checked(5) {
                let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
                if let Some((whole, rest)) = rest.split_at_checked(length) {
                    let frame = CoordinatorFrame::decode(whole).unwrap();
                    self.message = rest.to_vec();
                    return frame.frame;
                }
            }
            let came = self.next()?;
            if came.stream != stream {
                continue;
            }
            match came.kind {
                DATA if !came.payload.is_empty() => {
                    let length = came.payload.len() as u32;
                    self.message.extend(came.payload);
                    self.room(stream, length);
                    self.room(0, length);
                }
                RST_STREAM => return None,
                _ => {}
            }
            if came.flags & END_STREAM != 0 && matches!(came.kind, DATA | HEADERS) {
                return None;
            }
        }
    }

    /// Reads until the connection has ended, without giving room.
    pub fn ends(&mut self) {
        let begun = Instant::now();
        while self.next().is_some() {
            assert!(begun.elapsed() < PATIENCE, "the connection stays");
        }
    }
}
