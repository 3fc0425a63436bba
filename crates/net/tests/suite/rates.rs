//! Parties that come or speak without end: the others do not wait for them, and the log stays readable.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::logs::lines;
use crate::common::raw::{Raw, channel, hello, runtime};
use crate::common::*;
use blindsum_net::Credentials;
use blindsum_net::pb::coordinator_client::CoordinatorClient;
use blindsum_net::pb::coordinator_frame::Frame;
use blindsum_net::pb::{self, PartyFrame};
use blindsum_protocol::{JobSpec, ProtocolName};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

/// One certificate over one connection, with a new call as soon as the one before was answered, six at a time.
struct Storm {
    _runtime: Runtime,
    answers: Arc<AtomicUsize>,
}

impl Storm {
    fn begin<C>(
        url: &str,
        credentials: &Credentials,
        call: impl Fn(Channel) -> C + Clone + Send + 'static,
    ) -> Self
    where
        C: Future<Output = bool> + Send,
    {
        let runtime = runtime();
        let channel = channel(&runtime, url, credentials).unwrap();
        let answers = Arc::new(AtomicUsize::new(0));
        for _ in 0..6 {
            let (channel, answers, call) = (channel.clone(), answers.clone(), call.clone());
            runtime.spawn(async move {
                while call(channel.clone()).await {
                    answers.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Self {
            _runtime: runtime,
            answers,
        }
    }

    fn answers(&self) -> usize {
        self.answers.load(Ordering::SeqCst)
    }
}

/// A stream that ends with the answer to its Hello; false where there is none.
async fn come(channel: Channel, hello: pb::Hello) -> bool {
    let (frames, stream) = mpsc::channel::<PartyFrame>(4);
    let said = frames.send(hello.into()).await;
    let mut client = CoordinatorClient::new(channel);
    match client.connect(ReceiverStream::new(stream)).await {
        Ok(answer) => said.is_ok() && answer.into_inner().message().await.is_ok(),
        Err(_) => false,
    }
}

/// Case 31: one certificate that connects without end is let in now and then only, whatever round it asks about. The
/// others do their round meanwhile; and it is not refused: the next stream is let in when its time has come.
#[test]
fn case_31_one_name_comes_only_so_often() {
    for (name, round) in [("storm-of-hellos", 0), ("storm-of-the-past", 7)] {
        let pki = Pki::new(32);
        let coordinator = coordinator(&pki);
        let (url, credentials) = (coordinator.url(), pki.party(name));
        let hello = pb::Hello {
            round,
            ..hello("test", name)
        };
        let storm = Storm::begin(&url, &credentials, move |channel| {
            come(channel, hello.clone())
        });
        coordinator.wait("test", |status| !status.connected.is_empty());
        honest_round_works(&pki, &coordinator);
        let (answers, joined) = (storm.answers(), lines(name, "party joined"));
        assert!(answers < 200, "{answers} streams were let in");
        assert!(joined < 200, "{joined} lines");
        drop(storm);
        Raw::join(&url, credentials, name);
    }
}

/// Case 31: one certificate that asks how a job stands, without end, is answered now and then only.
#[test]
fn case_31_one_name_asks_only_so_often() {
    let pki = Pki::new(32);
    let coordinator = coordinator(&pki);
    let storm = Storm::begin(&coordinator.url(), &pki.party("asks"), |channel| async {
        let mut client = CoordinatorClient::new(channel);
        let job = || "test".into();
        let status = client.status(pb::StatusRequest { job: job() }).await;
        let watch = client.watch(pb::StatusRequest { job: job() }).await;
        status.is_ok() && watch.is_ok()
    });
    honest_round_works(&pki, &coordinator);
    let answers = storm.answers();
    assert!((10..300).contains(&answers), "{answers} answers");
}

/// Case 31: a party that refuses a round again and again, ready for it in between, is one line in the log.
#[test]
fn case_31_a_round_that_is_refused_again_and_again() {
    let pki = Pki::new(32);
    let job = JobSpec {
        join_deadline: 20.0,
        ..spec(ProtocolName::Plain, 3)
    };
    let coordinator = Running::start(&pki, vec![job], None);
    let url = coordinator.url();
    let name = "refuses-and-refuses";
    let mut raw = Raw::join(&url, pki.party(name), name);
    let _other = Raw::join(&url, pki.party("b"), "b");
    let round = raw.until(|frame| match frame {
        Frame::RoundOffer(offer) => Some(offer.round),
        _ => None,
    });
    for _ in 0..100 {
        raw.send(pb::Ready {
            round,
            nonce: vec![1; 32],
            ..pb::Ready::default()
        });
        raw.send(pb::RoundRefused {
            round,
            ..pb::RoundRefused::default()
        });
    }
    // Its answer comes after all of them.
    raw.send(pb::ModelChunk::default());
    raw.refusal();
    assert_eq!(lines(name, "round refused"), 1);
}
