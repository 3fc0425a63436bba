//! A line between two servers while it is up: letters go in pieces, and are put together with every length checked.

use std::time::Duration;

use blindsum_protocol::ServerIndex;
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::queue::Queue;
use crate::chunks::{Assembly, CHUNK, Pushed, pieces};
use crate::pb::line_frame::Frame;
use crate::pb::{LetterChunk, LineFrame, LineHello, WIRE_VERSIONS};
use crate::plain::status_words;

/// What comes over lines.
pub(crate) enum Heard {
    /// A server says something.
    Letter {
        from: ServerIndex,
        round: u64,
        letter: Bytes,
    },
    /// A line that was up has broken.
    Lost { to: ServerIndex, reason: String },
}

/// How a line that was up has ended.
pub(super) enum End {
    /// The other server has ended it, as one does that stops, or whose job is over.
    Told,
    /// Why it is lost.
    Broken(String),
}

impl End {
    /// The same in words.
    pub fn reason(self) -> String {
        match self {
            Self::Told => "the other server has ended it".into(),
            Self::Broken(reason) => reason,
        }
    }
}

impl From<String> for End {
    fn from(reason: String) -> Self {
        Self::Broken(reason)
    }
}

/// Frames that wait for the connection.
pub(super) const FRAMES_AHEAD: usize = 4;

/// What a line may carry, and how fast it must.
#[derive(Clone)]
pub(super) struct Rules {
    /// The job that the servers compute for.
    pub job: String,
    /// Bytes of the largest letter.
    pub limit: u64,
    /// Time for one piece, either way.
    pub chunk_timeout: Duration,
}

/// A line that is up.
pub(super) struct Open {
    pub inbound: Streaming<LineFrame>,
    pub outbound: mpsc::Sender<LineFrame>,
    /// The key exchange of TLS.
    pub key_exchange: String,
    /// Keeps the connection alive.
    pub _alive: Box<dyn Send>,
}

/// The first frame of this server.
pub(super) fn hello(job: &str, me: ServerIndex) -> LineFrame {
    let (first_version, last_version) = WIRE_VERSIONS.into_inner();
    LineFrame {
        frame: Some(Frame::Hello(LineHello {
            first_version,
            last_version,
            job: job.into(),
            place: me.number().into(),
        })),
    }
}

/// Checks the first frame of another server, which TLS says is in this place.
///
/// # Errors
/// Why there can be no line to it, in words.
pub(super) fn check_hello(
    frame: Option<LineFrame>,
    place: ServerIndex,
) -> Result<LineHello, String> {
    let Some(Frame::Hello(hello)) = frame.and_then(|frame| frame.frame) else {
        return Err("the first frame of a line must be a hello".into());
    };
    let (first, last) = WIRE_VERSIONS.into_inner();
    if hello.first_version > last || hello.last_version < first {
        let (its_first, its_last) = (hello.first_version, hello.last_version);
        return Err(format!(
            "no wire version in common: {first} to {last} here, {its_first} to {its_last} there"
        ));
    }
    // guard: servers-are-told-by-their-place
    if hello.place != u32::from(place.number()) {
        let says = hello.place;
        return Err(format!(
            "it claims to be server {says}, and its certificate is that of {place}"
        ));
    }
    Ok(hello)
}

impl Open {
    /// Passes letters until the line ends.
    pub async fn keep(
        &mut self,
        rules: &Rules,
        from: ServerIndex,
        queue: &Queue,
        heard: &mpsc::Sender<Heard>,
    ) -> End {
        let Self {
            inbound, outbound, ..
        } = self;
        tokio::select! {
            end = read_all(inbound, rules, from, heard) => end,
            reason = send_all(outbound, rules, queue) => End::Broken(reason),
        }
    }

    /// Says that nothing more comes, and waits until the other server ends its side.
    pub async fn end(self) {
        let Self {
            mut inbound,
            outbound,
            ..
        } = self;
        drop(outbound);
        while let Ok(Some(_)) = inbound.message().await {}
    }
}

async fn send_all(outbound: &mpsc::Sender<LineFrame>, rules: &Rules, queue: &Queue) -> String {
    loop {
        let (round, letter) = queue.next().await;
        let total = letter.len() as u64;
        for (offset, data) in pieces(letter) {
            let chunk = LetterChunk {
                round,
                offset,
                total,
                data,
            };
            let frame = LineFrame {
                frame: Some(Frame::Letter(chunk)),
            };
            match timeout(rules.chunk_timeout, outbound.send(frame)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return "the connection has ended".into(),
                Err(_) => return "it is too slow: a piece was not read in time".into(),
            }
        }
    }
}

async fn read_all(
    inbound: &mut Streaming<LineFrame>,
    rules: &Rules,
    from: ServerIndex,
    heard: &mpsc::Sender<Heard>,
) -> End {
    let mut begun: Option<(u64, Assembly)> = None;
    loop {
        let chunk = match next(inbound, rules, begun.is_some()).await {
            Ok(chunk) => chunk,
            Err(end) => return end,
        };
        let round = chunk.round;
        let letter = match push(begun.take(), chunk, rules.limit) {
            Ok(Pushed::Part(part)) => {
                begun = Some((round, part));
                continue;
            }
            Ok(Pushed::Whole(letter)) => letter,
            Err(reason) => return End::Broken(reason),
        };
        let said = Heard::Letter {
            from,
            round,
            letter,
        };
        if heard.send(said).await.is_err() {
            return End::Broken("this server is stopping".into());
        }
    }
}

/// The next piece. It must come in time where others of its letter have come.
async fn next(
    inbound: &mut Streaming<LineFrame>,
    rules: &Rules,
    has_begun: bool,
) -> Result<LetterChunk, End> {
    let frame = match has_begun {
        true => timeout(rules.chunk_timeout, inbound.message()).await,
        false => Ok(inbound.message().await),
    };
    let seconds = rules.chunk_timeout.as_secs_f64();
    let frame: Result<Option<LineFrame>, Status> = frame
        .map_err(|_| format!("it is too slow: no piece of {CHUNK} bytes within {seconds} s"))?;
    match frame.map_err(|status| status_words(&status))? {
        None => Err(End::Told),
        Some(LineFrame {
            frame: Some(Frame::Letter(chunk)),
        }) => Ok(chunk),
        Some(_) => Err(End::Broken("a frame that no server sends".into())),
    }
}

/// Adds a piece to its letter, or begins one.
fn push(begun: Option<(u64, Assembly)>, chunk: LetterChunk, limit: u64) -> Result<Pushed, String> {
    let LetterChunk {
        round,
        offset,
        total,
        data,
    } = chunk;
    let assembly = match begun {
        Some((of, assembly)) if of == round => assembly,
        Some(_) => return Err("pieces of two letters come among each other".into()),
        // guard: letters-are-limited
        None => Assembly::begin(total, limit).map_err(|e| format!("letter: {e}"))?,
    };
    assembly
        .push(offset, total, data)
        .map_err(|e| format!("letter: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(round: u64, offset: u64, total: u64, length: usize) -> LetterChunk {
        LetterChunk {
            round,
            offset,
            total,
            data: Bytes::from(vec![0; length]),
        }
    }

    #[test]
    fn case_27_letters_beyond_the_limit_and_pieces_out_of_place_are_refused() {
        let total = CHUNK as u64 + 1;
        let error = push(None, chunk(1, 0, total, CHUNK), total - 1).unwrap_err();
        assert!(error.contains("at most 262144"), "{error}");
        let begun = || match push(None, chunk(1, 0, total, CHUNK), total) {
            Ok(Pushed::Part(part)) => Some((1, part)),
            other => panic!("{other:?}"),
        };
        let whole = push(begun(), chunk(1, CHUNK as u64, total, 1), total);
        assert!(matches!(whole, Ok(Pushed::Whole(_))));
        let error = push(begun(), chunk(2, 0, 1, 1), total).unwrap_err();
        assert!(error.contains("two letters"), "{error}");
        assert!(push(begun(), chunk(1, 0, total, CHUNK), total).is_err());
    }

    #[test]
    fn a_hello_is_of_the_server_in_its_certificate() {
        let [first, second, third] = ServerIndex::ALL;
        let check = |frame, place| check_hello(Some(frame), place);
        assert_eq!(check(hello("j", second), second).unwrap().job, "j");
        let error = check(hello("j", third), second).unwrap_err();
        assert!(error.contains("claims to be server 2"), "{error}");
        let mut other = hello("j", first);
        if let Some(Frame::Hello(hello)) = &mut other.frame {
            (hello.first_version, hello.last_version) = (1000, 1001);
        }
        assert!(
            check(other, first)
                .unwrap_err()
                .contains("1000 to 1001 there")
        );
        assert!(
            check(LineFrame::default(), first)
                .unwrap_err()
                .contains("must be a hello")
        );
    }
}
