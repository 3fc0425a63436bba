//! Frames as gRPC sends them: one byte that says that they are not compressed, four bytes with the length, and the
//! message.
//!
//! Large data goes into HTTP/2 without being copied: a chunk is not copied before it is encrypted, and a frame that
//! goes to many parties is in memory once.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use tokio_stream::Stream;

use crate::chunks::CHUNK;
use crate::pb;

/// Where the service takes the streams of parties.
pub(crate) const CONNECT: &str = "/blindsum.v1.Coordinator/Connect";

/// Bytes of the largest piece in which HTTP/2 carries frames: a chunk of a message is one piece.
pub(crate) const LARGEST_PIECE: u32 = CHUNK as u32 + 1024;

/// A frame as it is sent: its beginning, and what follows as it lies in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sent {
    head: Bytes,
    data: Bytes,
}

impl Sent {
    /// A frame that is encoded as a whole.
    pub fn whole(frame: &impl Message) -> Self {
        let length = frame.encoded_len();
        let mut head = prefix(length, length);
        // There is room for it: a vector grows.
        frame.encode_raw(&mut head);
        Self {
            head: head.into(),
            data: Bytes::new(),
        }
    }

    /// A frame whose bytes are here already.
    pub fn encoded(data: Bytes) -> Self {
        let head = prefix(data.len(), 0).into();
        Self { head, data }
    }

    /// A frame with one message in the field `place`, whose last field, of this number, is `data`; `rest` is the message
    /// without it.
    fn with_data(place: u32, rest: &impl Message, number: u32, data: Bytes) -> Self {
        let length = data.len() as u64;
        let inner = rest.encoded_len() + key_len(number) + encoded_len_varint(length) + data.len();
        let outer = key_len(place) + encoded_len_varint(inner as u64) + inner;
        let mut head = prefix(outer, outer - data.len());
        encode_key(place, WireType::LengthDelimited, &mut head);
        encode_varint(inner as u64, &mut head);
        rest.encode_raw(&mut head);
        encode_key(number, WireType::LengthDelimited, &mut head);
        encode_varint(length, &mut head);
        Self {
            head: head.into(),
            data,
        }
    }
}

impl Sent {
    /// The frame, for who is in the same process.
    ///
    /// # Errors
    /// It is of another type.
    pub fn decode<F: Message + Default>(&self) -> Result<F, prost::DecodeError> {
        let head = self.head.get(5..).unwrap_or_default();
        F::decode(head.chain(self.data.clone()))
    }
}

#[cfg(test)]
impl Sent {
    /// What was sent.
    pub fn frame<F: Message + Default>(&self) -> F {
        self.decode().unwrap()
    }
}

/// The beginning of a message of so many bytes, with room for as many as `follow` it.
fn prefix(length: usize, follow: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(5 + follow);
    head.put_u8(0);
    // The longest message of a round is far shorter than 4 GiB, and so is a chunk.
    head.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    head
}

/// A frame type that chunks of messages travel in.
pub(crate) trait Frames: Message + From<pb::Chunk> + From<pb::ModelChunk> + 'static {
    /// The fields of a chunk of a protocol message, and of one of a model.
    const PLACES: (u32, u32);

    /// A chunk of a protocol message.
    fn chunk(mut chunk: pb::Chunk) -> Sent {
        let data = std::mem::take(&mut chunk.data);
        Sent::with_data(Self::PLACES.0, &chunk, 5, data)
    }

    /// A chunk of a model.
    fn model_chunk(mut chunk: pb::ModelChunk) -> Sent {
        let data = std::mem::take(&mut chunk.data);
        Sent::with_data(Self::PLACES.1, &chunk, 4, data)
    }
}

impl Frames for pb::PartyFrame {
    const PLACES: (u32, u32) = (4, 7);
}

impl Frames for pb::CoordinatorFrame {
    const PLACES: (u32, u32) = (6, 3);
}

/// The body of a request or a response: frames, and then the status of the call where it is a response.
pub(crate) struct Sending<S> {
    frames: S,
    data: Bytes,
    /// What comes after the last frame.
    trailers: Option<HeaderMap>,
}

impl<S> Sending<S> {
    /// What a party sends.
    pub fn request(frames: S) -> Self {
        Self {
            frames,
            data: Bytes::new(),
            trailers: None,
        }
    }

    /// What a coordinator sends.
    pub fn response(frames: S) -> Self {
        let ok = ("grpc-status".parse(), HeaderValue::from_static("0"));
        let trailers =
            ok.0.map(|name: http::HeaderName| HeaderMap::from_iter([(name, ok.1)]));
        Self {
            trailers: trailers.ok(),
            ..Self::request(frames)
        }
    }
}

impl<S: Stream<Item = Sent> + Unpin> Body for Sending<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.data.is_empty() {
            let data = std::mem::take(&mut self.data);
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        Pin::new(&mut self.frames)
            .poll_next(cx)
            .map(|next| match next {
                Some(Sent { head, data }) => {
                    self.data = data;
                    Some(Ok(Frame::data(head)))
                }
                None => self
                    .trailers
                    .take()
                    .map(|trailers| Ok(Frame::trailers(trailers))),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::{CoordinatorFrame, PartyFrame};

    /// Where a length takes one byte more, or a frame of TLS or HTTP/2 begins.
    const LENGTHS: [usize; 11] = [
        1, 127, 128, 4095, 4096, 4097, 16_384, 262_143, 262_144, 262_145, 1_048_576,
    ];

    /// What goes over the wire is what the schema says, however it lies in memory.
    fn agrees(sent: Sent, frame: &impl Message) {
        let mut expected = vec![0];
        expected.put_u32(frame.encoded_len() as u32);
        frame.encode(&mut expected).unwrap();
        assert_eq!([sent.head, sent.data].concat(), expected);
    }

    #[test]
    fn a_frame_that_goes_to_many_lies_in_memory_once() {
        let certificates = vec![vec![7; 500].into(); 3];
        let start = CoordinatorFrame::from(pb::RoundStart {
            certificates,
            ..Default::default()
        });
        let encoded = Bytes::from(start.encode_to_vec());
        let [first, second] = [(); 2].map(|()| Sent::encoded(encoded.clone()));
        assert_eq!(first.data.as_ptr(), second.data.as_ptr());
        assert_eq!(first.frame::<CoordinatorFrame>(), start);
        agrees(second, &start);
    }

    #[test]
    fn frames_are_encoded_as_the_schema_says() {
        for length in LENGTHS {
            let chunk = pb::Chunk {
                round: 7,
                stage: 3,
                offset: 1 << 40,
                total: 1 << 50,
                data: vec![9; length].into(),
            };
            agrees(
                PartyFrame::chunk(chunk.clone()),
                &PartyFrame::from(chunk.clone()),
            );
            agrees(
                CoordinatorFrame::chunk(chunk.clone()),
                &CoordinatorFrame::from(chunk),
            );
            let chunk = pb::ModelChunk {
                version: 7,
                offset: 0,
                total: length as u64,
                data: vec![9; length].into(),
            };
            agrees(
                PartyFrame::model_chunk(chunk.clone()),
                &PartyFrame::from(chunk.clone()),
            );
            agrees(
                CoordinatorFrame::model_chunk(chunk.clone()),
                &CoordinatorFrame::from(chunk),
            );
        }
        let done = CoordinatorFrame::from(pb::JobDone::default());
        agrees(Sent::whole(&done), &done);
    }

    /// What is sent is read by gRPC as it was, in pieces of whatever length it comes.
    #[tokio::test]
    async fn frames_are_read_as_they_were_sent() {
        let chunk = |length: usize| pb::Chunk {
            total: length as u64,
            data: (0..length).map(|i| i as u8).collect::<Vec<u8>>().into(),
            ..Default::default()
        };
        let frames: Vec<Sent> = LENGTHS
            .map(|length| CoordinatorFrame::chunk(chunk(length)))
            .into();
        let body = Sending::response(tokio_stream::iter(frames));
        let whole = data_of(body).await;
        for piece in [5, 4096, 65_537, whole.len()] {
            let pieces = whole.chunks(piece).map(|part| Sent {
                head: whole.slice_ref(part),
                data: Bytes::new(),
            });
            let pieces: Vec<Sent> = pieces.collect();
            let mut read = tonic::Streaming::<CoordinatorFrame>::new_response(
                tonic_prost::ProstDecoder::default(),
                Sending::response(tokio_stream::iter(pieces)),
                http::StatusCode::OK,
                None,
                Some(2 << 20),
            );
            for length in LENGTHS {
                let frame = read.message().await.unwrap().unwrap();
                assert_eq!(frame, CoordinatorFrame::from(chunk(length)));
            }
            assert_eq!(read.message().await.unwrap(), None);
        }
    }

    /// All data of a body, before its trailers.
    async fn data_of(mut body: impl Body<Data = Bytes, Error = Infallible> + Unpin) -> Bytes {
        let mut whole = Vec::new();
        loop {
            let next = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            match next.unwrap().unwrap().into_data() {
                Ok(data) => whole.extend(data),
                Err(trailers) => {
                    let trailers = trailers.into_trailers().unwrap();
                    assert_eq!(trailers["grpc-status"], "0");
                    return whole.into();
                }
            }
        }
    }
}
