//! Large messages in pieces: a message is cut when it is sent, and put together again on receipt, where every length is
//! checked before a byte is kept.

use bytes::Bytes;

/// Bytes of every piece but the last.
pub const CHUNK: usize = 256 * 1024;

/// Why a piece was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// The message is larger than is allowed now.
    #[error("total = {total} bytes must be at most {limit}")]
    TooLarge {
        /// Bytes of the whole message, as the sender says.
        total: u64,
        /// Bytes that it may have at most.
        limit: u64,
    },
    /// A message without bytes.
    #[error("total must be at least 1 byte")]
    Empty,
    /// The piece is not the next one of its message.
    #[error("offset = {offset} must be {expected}, where the piece before ended")]
    Offset {
        /// The offset of the piece.
        offset: u64,
        /// Bytes that came before.
        expected: u64,
    },
    /// The pieces disagree about the whole.
    #[error("total = {total} bytes must stay {expected}")]
    Total {
        /// What this piece says.
        total: u64,
        /// What the first one said.
        expected: u64,
    },
    /// The piece does not have the length of a piece at this place.
    #[error(
        "data has {length} bytes, must have {expected}: {CHUNK}, or what is left of the message"
    )]
    Length {
        /// Bytes it has.
        length: usize,
        /// Bytes it must have.
        expected: usize,
    },
}

/// The pieces of a message with their offsets; they share its memory.
pub fn pieces(message: Bytes) -> impl Iterator<Item = (u64, Bytes)> + Send {
    (0..message.len()).step_by(CHUNK).map(move |start| {
        let end = message.len().min(start + CHUNK);
        (start as u64, message.slice(start..end))
    })
}

/// A message that is being put together. It can be written down, and read again.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Assembly {
    #[prost(uint64, tag = "1")]
    total: u64,
    #[prost(bytes = "vec", tag = "2")]
    buffer: Vec<u8>,
}

impl Assembly {
    /// Begins a message of `total` bytes, at most `limit`. Memory is taken only as bytes come.
    ///
    /// # Errors
    /// [`ChunkError::TooLarge`], [`ChunkError::Empty`].
    pub fn begin(total: u64, limit: u64) -> Result<Self, ChunkError> {
        // guard: chunks-within-the-limit
        if total > limit || usize::try_from(total).is_err() {
            return Err(ChunkError::TooLarge { total, limit });
        }
        if total == 0 {
            return Err(ChunkError::Empty);
        }
        let buffer = Vec::new();
        Ok(Self { total, buffer })
    }

    /// Adds the next piece to what has come of a message, or begins one of at most `limit` bytes with it.
    ///
    /// # Errors
    /// As [`begin`](Self::begin) and [`push`](Self::push) have them.
    pub fn next(
        came: Option<Self>,
        limit: u64,
        (offset, total, data): (u64, u64, Bytes),
    ) -> Result<Pushed, ChunkError> {
        let assembly = match came {
            Some(assembly) => assembly,
            None => Self::begin(total, limit)?,
        };
        assembly.push(offset, total, data)
    }

    /// Adds the next piece. Gives the message once it is whole.
    ///
    /// # Errors
    /// A piece that is out of place. The message is lost then.
    pub fn push(mut self, offset: u64, total: u64, data: Bytes) -> Result<Pushed, ChunkError> {
        let expected = self.buffer.len() as u64;
        // guard: chunks-in-their-place
        if offset != expected {
            return Err(ChunkError::Offset { offset, expected });
        }
        if total != self.total {
            let expected = self.total;
            return Err(ChunkError::Total { total, expected });
        }
        let left = self.total.saturating_sub(expected).min(CHUNK as u64) as usize;
        // guard: chunks-of-their-length
        if data.len() != left {
            let (length, expected) = (data.len(), left);
            return Err(ChunkError::Length { length, expected });
        }
        if data.len() as u64 == self.total {
            return Ok(Pushed::Whole(data));
        }
        if self.buffer.is_empty() {
            self.buffer.reserve_exact(self.total as usize);
        }
        self.buffer.extend_from_slice(&data);
        match self.buffer.len() as u64 == self.total {
            true => Ok(Pushed::Whole(self.buffer.into())),
            false => Ok(Pushed::Part(self)),
        }
    }
}

/// The message after a piece was added.
#[derive(Debug)]
pub enum Pushed {
    /// More pieces must come.
    Part(Assembly),
    /// The message is whole.
    Whole(Bytes),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assemble(message: &Bytes) -> Bytes {
        let total = message.len() as u64;
        let mut assembly = Assembly::begin(total, total).unwrap();
        for (offset, data) in pieces(message.clone()) {
            assembly = match assembly.push(offset, total, data).unwrap() {
                Pushed::Part(assembly) => assembly,
                Pushed::Whole(message) => return message,
            };
        }
        panic!("the pieces do not make the whole");
    }

    #[test]
    fn pieces_make_the_whole_at_every_border() {
        for length in [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 7] {
            let message: Bytes = (0..length).map(|i| (i % 251) as u8).collect();
            assert_eq!(assemble(&message), message);
        }
    }

    #[test]
    fn case_27_a_length_beyond_the_limit_is_refused_before_anything_is_kept() {
        let error = Assembly::begin(1 << 30, 1000).unwrap_err();
        let (total, limit) = (1 << 30, 1000);
        assert_eq!(error, ChunkError::TooLarge { total, limit });
        assert_eq!(Assembly::begin(0, 1000).unwrap_err(), ChunkError::Empty);
    }

    #[test]
    fn case_27_pieces_out_of_place_are_refused() {
        let total = CHUNK as u64 + 5;
        let begin = || Assembly::begin(total, total).unwrap();
        let piece = |length| Bytes::from(vec![0; length]);
        let refused = |result: Result<Pushed, ChunkError>| result.unwrap_err();
        assert!(matches!(
            refused(begin().push(1, total, piece(CHUNK))),
            ChunkError::Offset { .. }
        ));
        assert!(matches!(
            refused(begin().push(0, total + 1, piece(CHUNK))),
            ChunkError::Total { .. }
        ));
        for length in [0, 1, CHUNK - 1, CHUNK + 1] {
            assert!(matches!(
                refused(begin().push(0, total, piece(length))),
                ChunkError::Length { .. }
            ));
        }
        let Ok(Pushed::Part(part)) = begin().push(0, total, piece(CHUNK)) else {
            panic!("the first piece is fine");
        };
        assert!(matches!(
            refused(part.push(CHUNK as u64, total, piece(6))),
            ChunkError::Length { .. }
        ));
    }
}
