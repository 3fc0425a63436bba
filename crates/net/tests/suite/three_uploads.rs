//! Uploads to a server that computes with the coordinator, frame by frame, honest and not.

use std::time::Duration;

use blindsum_net::CHUNK;
use blindsum_net::follower::FollowerConfig;
use blindsum_net::pb::computing_client::ComputingClient;
use blindsum_net::pb::{UploadAnswer, UploadChunk, UploadReply};
use blindsum_protocol::{Adversary, JobSpec, PaillierRing, ProtocolName, Quantised, ServerRole};
use bytes::Bytes;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::common::dial::{channel_to, runtime};
use crate::common::raw::Raw;
use crate::common::three::*;
use crate::common::*;

/// A party at the second server.
struct Uploader {
    runtime: Runtime,
    channel: Channel,
}

impl Uploader {
    fn new(three: &Three, name: &str) -> Self {
        let (runtime, url) = (runtime(), &three.urls_of(0)[1]);
        let channel = channel_to(&runtime, url, HOSTS[0], &three.pki.party(name));
        let channel = channel.unwrap();
        Self { runtime, channel }
    }

    /// What becomes of these pieces; the stream stays open behind them.
    fn upload(&self, pieces: Vec<UploadChunk>) -> UploadReply {
        let pieces =
            tokio_stream::StreamExt::chain(tokio_stream::iter(pieces), tokio_stream::pending());
        let mut client = ComputingClient::new(self.channel.clone());
        let upload = async { tokio::time::timeout(PATIENCE, client.upload(pieces)).await };
        let reply = self.runtime.block_on(upload);
        reply.expect("no reply").unwrap().into_inner()
    }

    fn refused(&self, piece: UploadChunk) -> String {
        let reply = self.upload(vec![piece]);
        assert_eq!(reply.answer(), UploadAnswer::Refused, "{}", reply.reason);
        reply.reason
    }
}

fn piece(round: u64, total: u64, length: usize) -> UploadChunk {
    UploadChunk {
        job: "test".into(),
        round,
        offset: 0,
        total,
        data: vec![0; length].into(),
    }
}

#[test]
fn case_27_an_upload_that_is_too_large_or_for_another_job_is_refused_at_once() {
    let three = Three::new(mpc3(1));
    let party = Uploader::new(&three, "a");
    let reason = party.refused(piece(1, 1 << 30, CHUNK));
    assert!(reason.contains("must be at most"), "{reason}");
    let other = UploadChunk {
        job: "other".into(),
        ..piece(1, 5, 5)
    };
    let reason = party.refused(other);
    assert!(
        reason.contains("no job") && reason.contains("other"),
        "{reason}"
    );
    let reason = party.refused(UploadChunk {
        offset: 1,
        ..piece(1, 5, 4)
    });
    assert!(reason.contains("offset = 1"), "{reason}");
    let reason = party.refused(piece(1, 5, 4));
    assert!(reason.contains("must have 5"), "{reason}");
    let reason = party.refused(piece(0, 5, 5));
    assert!(reason.contains("round 0 is over"), "{reason}");
}

#[test]
fn case_31_an_upload_that_is_too_slow_or_comes_for_nothing_holds_up_nobody() {
    let three = Three::new(JobSpec {
        dim: 200_000,
        input_deadline: 2.0,
        ..mpc3(1)
    });
    let party = Uploader::new(&three, "a");
    let reply = party.upload(vec![piece(1, CHUNK as u64 + 1, CHUNK)]);
    assert_eq!(reply.answer(), UploadAnswer::Again);
    assert!(reply.reason.contains("too slow"), "{}", reply.reason);
    // A round that never comes.
    let reply = party.upload(vec![piece(1000, 5, 5)]);
    assert_eq!(reply.answer(), UploadAnswer::Again);
    assert!(reply.reason.contains("has not begun"), "{}", reply.reason);
}

/// A key service on a machine of its own opens sums, and parties upload nothing to it: the first piece is not waited for.
#[test]
fn case_31_a_decryptor_refuses_uploads_before_it_holds_any() {
    let (pki, folder) = (Pki::new(1), tempfile::tempdir().unwrap());
    let job = JobSpec {
        protocol: PaillierRing {
            decryptor: HOSTS[0].into(),
            ..Default::default()
        }
        .into(),
        adversary: Adversary::SemiHonest,
        ..spec(ProtocolName::PaillierRing, 3)
    };
    let server = Serving::with(FollowerConfig {
        job: JobSpec {
            encoding: Quantised::default().into(),
            ..job
        },
        servers: vec![
            "https://localhost:1".into(),
            format!("https://{}:2", HOSTS[0]),
        ],
        place: 1,
        listen: format!("{}:0", HOSTS[0]),
        credentials: pki.server(HOSTS[0]),
        state_dir: folder.path().to_owned(),
        results: None,
        limits: limits(),
    })
    .unwrap();
    let (runtime, url) = (runtime(), format!("https://{}:{}", HOSTS[0], server.port));
    let channel = channel_to(&runtime, &url, HOSTS[0], &pki.party("a")).unwrap();
    let mut client = ComputingClient::new(channel);
    let upload = async {
        let nothing = client.upload(tokio_stream::pending::<UploadChunk>());
        tokio::time::timeout(PATIENCE, nothing).await
    };
    let refused = runtime.block_on(upload).expect("no answer").unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unimplemented, "{refused}");
    assert!(
        refused.message().contains("accepts no uploads"),
        "{refused}"
    );
}

#[test]
fn a_newer_upload_takes_the_place_of_the_one_before() {
    let three = Three::new(mpc3(1));
    let [first, second] = [Uploader::new(&three, "a"), Uploader::new(&three, "a")];
    let waits = std::thread::spawn(move || first.upload(vec![piece(1000, 5, 5)]));
    std::thread::sleep(Duration::from_millis(200));
    let reason = second.refused(piece(0, 5, 5));
    assert!(reason.contains("round 0 is over"), "{reason}");
    let reply = waits.join().unwrap();
    assert_eq!(reply.answer(), UploadAnswer::Again);
    assert!(reply.reason.contains("uploads again"), "{}", reply.reason);
}

#[test]
fn case_28_an_upload_counts_once_and_another_one_in_its_place_is_refused() {
    let three = Three::new(mpc3(1));
    let (staying, stranger) = (three.parties(4), Uploader::new(&three, "f"));
    let url = format!("https://localhost:{}", three.coordinator.port);
    let mut raw = Raw::join(&url, three.pki.party("e"), "e");
    let start = raw.begin();
    let own = raw.play(&start, VALUES[4], 0).unwrap();
    let parts = raw.client.as_ref().unwrap().parts().to_vec();
    let part = |role| {
        let found = parts.iter().find(|(of, _)| *of == role);
        found.unwrap().1.clone()
    };
    let pieces = |message: Bytes| {
        vec![UploadChunk {
            data: message.clone(),
            ..piece(start.round, message.len() as u64, 0)
        }]
    };
    let party = Uploader::new(&three, "e");
    let second = part(ServerRole::Second);
    for _ in 0..2 {
        let reply = party.upload(pieces(second.clone()));
        assert_eq!(reply.answer(), UploadAnswer::Taken, "{}", reply.reason);
    }
    let mut other = second.to_vec();
    *other.last_mut().unwrap() ^= 1;
    let reply = party.upload(pieces(other.into()));
    assert_eq!(reply.answer(), UploadAnswer::Refused);
    let reply = stranger.upload(pieces(second));
    assert_eq!(reply.answer(), UploadAnswer::Refused);
    assert!(
        reply.reason.contains("not in the round"),
        "{}",
        reply.reason
    );
    // The third server never gets its part: the others go on without this party, whatever it says to the coordinator.
    raw.send_message(0, &own);
    for party in staying {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds.last().unwrap().as_ref().unwrap().mean, mean(4));
    }
}
