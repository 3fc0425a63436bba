//! What lies below the frames of a party: gRPC messages and HTTP/2, whole, cut and wrong.

use std::time::Duration;

use crate::common::http2::*;
use crate::common::raw::{channel, hello, runtime};
use crate::common::*;
use blindsum_net::CHUNK;
use blindsum_net::pb::coordinator_client::CoordinatorClient;
use blindsum_net::pb::coordinator_frame::Frame;
use blindsum_net::pb::{self, RefusalCode};
use blindsum_protocol::{JobSpec, ModelUpdate, ProtocolName};
use tonic::{Code, Request};

/// A coordinator of a job that goes on for long.
fn patient(pki: &Pki) -> Running {
    let mut spec = spec(ProtocolName::Plain, 3);
    spec.join_deadline = 20.0;
    Running::start(pki, vec![spec], None)
}

/// The stream of party `m`, which is welcome.
fn welcomed(pki: &Pki, coordinator: &Running) -> Http2 {
    let mut party = Http2::connect(coordinator.port, &pki.party("m"), &[]);
    assert!(party.open(1, &[]) && party.data(1, &grpc(hello("test", "m"))));
    assert!(matches!(party.heard(1), Some(Frame::Welcome(_))));
    party
}

/// A message may be cut at every byte, and padded, and two of them may be in one piece.
#[test]
fn messages_are_cut_anywhere() {
    let pki = Pki::new(71);
    let coordinator = patient(&pki);
    let mut party = Http2::connect(coordinator.port, &pki.party("m"), &[]);
    party.open(1, &[]);
    for byte in grpc(hello("test", "m")) {
        assert!(party.data(1, &[]) && party.frame(DATA, PADDED, 1, &[3, byte, 0, 0, 0]));
    }
    assert!(matches!(party.heard(1), Some(Frame::Welcome(_))));
    // Whose model it is nobody asks: it is of no version there is.
    let mut two = grpc(pb::ModelRequest { version: 9 });
    two.extend(grpc(hello("test", "m")));
    let (first, second) = two.split_at(two.len() - 1);
    assert!(party.data(1, first) && party.data(1, second));
    let heard = std::iter::from_fn(|| party.heard(1));
    let last = heard.last();
    assert!(matches!(last, Some(Frame::Refused(_))), "{last:?}");
}

/// Case 27: what is no gRPC message ends the stream that it came over. The party is told why where it said too much.
#[test]
fn case_27_wrong_messages_end_their_stream() {
    let pki = Pki::new(72);
    let coordinator = patient(&pki);
    let small = grpc(pb::ModelRequest { version: 9 });
    let limit = (CHUNK + 4096) as u32;
    let wrong: [(&str, Vec<u8>, bool); 7] = [
        ("compressed", message(1, 3, &[0; 3]), false),
        ("another flag", message(7, 3, &[0; 3]), false),
        ("longer than any", message(0, limit + 1, &[]), true),
        ("4 GiB", message(0, u32::MAX, &[]), true),
        ("shorter than it is", message(0, 1, &small[5..]), false),
        ("a length and no end", message(0, 2, &[0x0a, 0xff]), false),
        ("no message", message(0, 0, &[]), true),
    ];
    for (what, bytes, told) in wrong {
        let mut party = welcomed(&pki, &coordinator);
        party.data(1, &bytes);
        let heard: Vec<Frame> = std::iter::from_fn(|| party.heard(1)).collect();
        let refused = heard.iter().find_map(|frame| match frame {
            Frame::Refused(refused) => Some(refused.code()),
            _ => None,
        });
        let expected = told.then_some(RefusalCode::RefusalBadFrame);
        assert_eq!(refused, expected, "{what}: {heard:?}");
        coordinator.wait("test", |status| status.connected.is_empty());
    }
}

/// Case 27: a stream or a connection that ends in the middle of a message is lost, and so is its party.
#[test]
fn case_27_ends_in_the_middle_of_a_message() {
    let pki = Pki::new(73);
    let coordinator = patient(&pki);
    let half = message(0, CHUNK as u32, &[7; 5000]);
    for end in [DATA, HEADERS, RST_STREAM, GOAWAY] {
        let mut party = welcomed(&pki, &coordinator);
        coordinator.wait("test", |status| status.connected == ["m"]);
        party.data(1, &half);
        match end {
            DATA => party.frame(DATA, END_STREAM, 1, &[]),
            // Trailers, which no party sends: a name and a value of one letter.
            HEADERS => {
                let trailers = [0, 1, b'a', 1, b'b'];
                party.frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers)
            }
            RST_STREAM => party.frame(RST_STREAM, 0, 1, &8u32.to_be_bytes()),
            _ => party.frame(GOAWAY, 0, 0, &[0; 8]) && party.frame(DATA, END_STREAM, 1, &[]),
        };
        coordinator.wait("test", |status| status.connected.is_empty());
    }
}

/// Case 27: a party that compresses hears that nobody takes it, before it says anything.
#[test]
fn case_27_compression_is_refused_by_its_name() {
    let pki = Pki::new(74);
    let coordinator = coordinator(&pki);
    let runtime = runtime();
    let channel = channel(&runtime, &coordinator.url(), &pki.party("m")).unwrap();
    let mut client = CoordinatorClient::new(channel);
    for (encoding, code) in [("identity", None), ("gzip", Some(Code::Unimplemented))] {
        let mut request = Request::new(tokio_stream::iter([hello("test", "m").into()]));
        let metadata = request.metadata_mut();
        metadata.insert("grpc-encoding", encoding.parse().unwrap());
        let answer = runtime.block_on(client.connect(request));
        let refused = answer.err().map(|status| status.code());
        assert_eq!(refused, code, "{encoding}");
    }
}

/// Case 31: whoever lives and takes nothing, or a little, loses the connection while the others go on.
#[test]
fn case_31_who_gives_no_room_is_cut() {
    let pki = Pki::new(75);
    let job = JobSpec {
        dim: 500_000,
        rounds: 3,
        model_update: ModelUpdate::Add,
        ..spec(ProtocolName::Plain, 3)
    };
    let coordinator = Running::start(&pki, vec![job], None);
    let deaf = [("m", 0), ("n", 1), ("o", 70_000)].map(|(name, window)| {
        let settings = [(INITIAL_WINDOW, window)];
        let mut deaf = Http2::connect(coordinator.port, &pki.party(name), &settings);
        deaf.open(1, &[]);
        deaf.data(1, &grpc(hello("test", name)));
        deaf.data(1, &grpc(pb::ModelRequest { version: 0 }));
        coordinator.wait("test", |status| status.connected.contains(&name.into()));
        deaf
    });
    let honest = ["a", "b"].map(|name| {
        let config = party_config(&coordinator.url(), pki.party(name));
        run_party(config, |_| vec![1.0f32; 500_000])
    });
    for party in honest {
        assert!(party.join().unwrap().unwrap().iter().all(Result::is_ok));
    }
    for mut party in deaf {
        party.ends();
    }
}

/// Case 31: frames that cost their sender nothing, without end.
#[test]
fn case_31_floods_below_the_frames_keep_nobody_waiting() {
    let pki = Pki::new(76);
    let coordinator = coordinator(&pki);
    const MANY: u32 = 20_000;
    let floods: [fn(&mut Http2, u32) -> bool; 4] = [
        |party, _| party.frame(PING, 0, 0, &[7; 8]),
        |party, _| party.frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 1, 0]),
        |party, n| {
            party.open(2 * n + 1, &[]) && party.frame(RST_STREAM, 0, 2 * n + 1, &[0, 0, 0, 8])
        },
        |party, _| party.data(1, &[]),
    ];
    let flooding = floods.map(|flood| {
        let mut party = Http2::connect(coordinator.port, &pki.party("m"), &[]);
        std::thread::spawn(move || {
            party.open(1, &[]);
            party.patience(Duration::from_secs(1));
            (1..=MANY).all(|n| flood(&mut party, n))
        })
    });
    honest_round_works(&pki, &coordinator);
    let taken = flooding.map(|flood| flood.join().unwrap());
    // Streams that are opened and reset, and data for one that has ended, lose the connection.
    assert_eq!(taken[2..], [false, false]);
}
