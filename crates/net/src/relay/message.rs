//! A message that is put together while it is sent, chunk by chunk.

use std::sync::{Arc, Weak};

use blindsum_job::coordinator::{Shelf, ShelfError};
use blindsum_protocol::Outgoing;
use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;

use crate::chunks::CHUNK;

/// A message to one party of which most is on a shelf. Sending it again reads it again.
#[derive(Clone)]
pub(crate) struct Relayed {
    outgoing: Arc<Outgoing>,
    /// The round keeps the shelf, and it alone: once the stage is over, nobody needs the rest.
    shelf: Weak<dyn Shelf>,
    round: u64,
    /// Where it is told that the shelf of a round cannot be read.
    failed: UnboundedSender<Unreadable>,
}

/// What a round passes on cannot be read, so nobody can go on.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub round: u64,
    pub reason: String,
}

/// What reading gives.
pub(crate) enum Chunk {
    /// The next bytes: [`CHUNK`] of them, or what is left.
    Bytes(Bytes),
    /// Nothing more: the stage is over, or the round has been told that the shelf cannot be read.
    Over,
}

impl Relayed {
    pub fn new(
        outgoing: Arc<Outgoing>,
        shelf: Weak<dyn Shelf>,
        round: u64,
        failed: UnboundedSender<Unreadable>,
    ) -> Self {
        Self {
            outgoing,
            shelf,
            round,
            failed,
        }
    }

    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.outgoing.len()
    }

    /// The message from its beginning.
    pub fn read(&self) -> Reading {
        Reading {
            message: self.clone(),
            part: 0,
            at: 0,
        }
    }
}

/// How far a message is read.
pub(crate) struct Reading {
    message: Relayed,
    /// The part that comes next: the head, then the pieces.
    part: usize,
    /// Bytes of it that were read.
    at: usize,
}

impl Reading {
    /// The next chunk. What may wait for a disk does so on a thread of its own.
    pub async fn next(mut self) -> (Self, Chunk) {
        let Some(shelf) = self.message.shelf.upgrade() else {
            return (self, Chunk::Over);
        };
        if !shelf.waits() {
            let chunk = self.chunk(&*shelf);
            return (self, chunk);
        }
        let again = Self {
            message: self.message.clone(),
            ..self
        };
        let read = tokio::task::spawn_blocking(move || {
            let chunk = self.chunk(&*shelf);
            (self, chunk)
        });
        // It can only fail where the program is ending.
        read.await.unwrap_or((again, Chunk::Over))
    }

    fn chunk(&mut self, shelf: &dyn Shelf) -> Chunk {
        match self.try_chunk(shelf) {
            Ok(bytes) => Chunk::Bytes(bytes),
            Err(error) => {
                let (round, reason) = (self.message.round, error.to_string());
                let _ = self.message.failed.send(Unreadable { round, reason });
                Chunk::Over
            }
        }
    }

    fn try_chunk(&mut self, shelf: &dyn Shelf) -> Result<Bytes, ShelfError> {
        let Outgoing { head, pieces } = &*self.message.outgoing;
        let mut chunk = Vec::with_capacity(CHUNK.min(self.message.len()));
        while chunk.len() < CHUNK {
            let room = CHUNK - chunk.len();
            let (length, piece) = match self.part.checked_sub(1) {
                None => (head.len(), None),
                Some(before) => match pieces.get(before) {
                    Some(piece) => (piece.range.len(), Some(piece)),
                    None => break,
                },
            };
            let next = length.min(self.at + room);
            match piece {
                None => chunk.extend_from_slice(head.get(self.at..next).unwrap_or_default()),
                Some(piece) => {
                    let start = piece.range.start;
                    shelf.read(piece.from, start + self.at..start + next, &mut chunk)?;
                }
            }
            (self.part, self.at) = match next == length {
                true => (self.part + 1, 0),
                false => (self.part, next),
            };
        }
        Ok(chunk.into())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use blindsum_protocol::{PartyId, Piece};
    use tokio::sync::mpsc;

    use super::super::spool::{Spool, Spools};
    use super::*;

    fn answer(party: u32) -> Bytes {
        let length = 1000 + party as usize * CHUNK / 2;
        let bytes = (0..length).map(|i| (i / 3 + party as usize * 11) as u8);
        bytes.collect::<Vec<u8>>().into()
    }

    fn spool(limit: u64) -> Arc<dyn Shelf> {
        let mut spool = Spool::new(&Spools::new(limit, None));
        for party in 0..4 {
            spool.keep(PartyId(party), answer(party)).unwrap();
        }
        Arc::new(spool)
    }

    fn outgoing(head: usize, pieces: &[(u32, Range<usize>)]) -> Outgoing {
        let piece = |(from, range): &(u32, Range<usize>)| Piece {
            from: PartyId(*from),
            range: range.clone(),
        };
        Outgoing {
            head: (0..head).map(|i| i as u8).collect(),
            pieces: pieces.iter().map(piece).collect(),
        }
    }

    fn relayed(
        outgoing: Outgoing,
        shelf: &Arc<dyn Shelf>,
        round: u64,
        failed: &UnboundedSender<Unreadable>,
    ) -> Relayed {
        Relayed::new(
            outgoing.into(),
            Arc::downgrade(shelf),
            round,
            failed.clone(),
        )
    }

    /// All chunks, and whether the message came to its end.
    async fn read(message: &Relayed) -> (Vec<Bytes>, bool) {
        let (mut reading, mut chunks, mut left) = (message.read(), Vec::new(), message.len());
        while left > 0 {
            let (again, chunk) = reading.next().await;
            let Chunk::Bytes(bytes) = chunk else {
                return (chunks, false);
            };
            assert_eq!(bytes.len(), left.min(CHUNK));
            left -= bytes.len();
            chunks.push(bytes);
            reading = again;
        }
        (chunks, true)
    }

    #[tokio::test]
    async fn chunks_are_those_of_the_assembled_message() {
        let cases = [
            outgoing(10, &[]),
            outgoing(10, &[(0, 0..1000), (1, 5..5), (3, 7..CHUNK + 500)]),
            outgoing(CHUNK, &[(2, 0..CHUNK), (3, 1..CHUNK + 1)]),
            outgoing(CHUNK + 1, &[(0, 999..1000), (0, 0..1)]),
            outgoing(0, &[(3, 0..CHUNK + 900), (2, 0..CHUNK), (1, 0..700)]),
        ];
        for limit in [0, 2000, u64::MAX] {
            let spool = spool(limit);
            let (failed, mut failures) = mpsc::unbounded_channel();
            for outgoing in &cases {
                let answers = [0, 1, 2, 3].map(answer);
                let whole = outgoing.assemble(|party| answers.get(party.rank()).map(|a| &**a));
                let message = relayed(outgoing.clone(), &spool, 1, &failed);
                // Twice, as for a party that has come back.
                for _ in 0..2 {
                    let (chunks, ended) = read(&message).await;
                    assert!(ended && chunks.concat() == *whole.as_ref().unwrap());
                }
            }
            assert!(failures.try_recv().is_err());
        }
    }

    #[tokio::test]
    async fn what_is_not_needed_any_more_is_not_sent_and_not_kept() {
        let kept = spool(0);
        let (failed, mut failures) = mpsc::unbounded_channel();
        let message = relayed(outgoing(1, &[(3, 0..CHUNK + 500)]), &kept, 1, &failed);
        let (reading, chunk) = message.read().next().await;
        assert!(matches!(chunk, Chunk::Bytes(_)));
        drop(kept);
        assert!(matches!(reading.next().await.1, Chunk::Over));
        assert!(failures.try_recv().is_err());
    }

    #[tokio::test]
    async fn the_round_is_told_what_cannot_be_read() {
        let (failed, mut failures) = mpsc::unbounded_channel();
        let message = relayed(outgoing(1, &[(0, 0..1001)]), &spool(0), 7, &failed);
        // The spool is gone: nobody is told.
        assert!(matches!(message.read().next().await.1, Chunk::Over));
        assert!(failures.try_recv().is_err());
        let kept = spool(0);
        let message = Relayed {
            shelf: Arc::downgrade(&kept),
            ..message
        };
        assert!(!read(&message).await.1);
        let Unreadable { round, reason } = failures.try_recv().unwrap();
        assert!(round == 7 && reason.contains("did not come"), "{reason}");
    }
}
