//! A message of the server to one party. If the server only passes on what parties sealed for each other, it names the
//! bytes and does not hold them: the program that drives the server has the answers.

use crate::PartyId;
use crate::core::round::Piece;
use crate::kit::wire::Message;

/// A message of the server: bytes of its own, then pieces of answers to the stage that it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The beginning of the message, with its frame; the whole message if nothing is passed on.
    pub head: Message,
    /// What follows, in order.
    pub pieces: Vec<Piece>,
}

impl Outgoing {
    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.head.len() + self.pieces.iter().map(|p| p.range.len()).sum::<usize>()
    }

    /// Whether the message is empty. No message of a server is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the head is the whole message.
    pub fn is_whole(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The whole message, given the answers to the stage that it ends; `None` if an answer is missing or too short.
    pub fn assemble<'a>(&self, answer_of: impl Fn(PartyId) -> Option<&'a [u8]>) -> Option<Message> {
        if self.is_whole() {
            return Some(self.head.clone());
        }
        let mut message = Vec::with_capacity(self.len());
        message.extend_from_slice(&self.head);
        for piece in &self.pieces {
            message.extend_from_slice(answer_of(piece.from)?.get(piece.range.clone())?);
        }
        Some(message.into())
    }
}

impl From<Message> for Outgoing {
    fn from(head: Message) -> Self {
        let pieces = Vec::new();
        Self { head, pieces }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    fn piece(from: u32, range: Range<usize>) -> Piece {
        let from = PartyId(from);
        Piece { from, range }
    }

    #[test]
    fn pieces_follow_the_head_in_order() {
        let answers: [&[u8]; 2] = [b"abcdef", b"ghijkl"];
        let answer_of = |party: PartyId| answers.get(party.rank()).copied();
        let outgoing = Outgoing {
            head: Message::from_static(b"head "),
            pieces: vec![piece(1, 2..4), piece(0, 0..6), piece(1, 0..0)],
        };
        let message = outgoing.assemble(answer_of).unwrap();
        assert_eq!(&*message, b"head ijabcdef");
        assert_eq!(
            (outgoing.len(), outgoing.is_whole()),
            (message.len(), false)
        );
        for wrong in [piece(2, 0..1), piece(0, 5..7), piece(0, 7..7)] {
            let mut outgoing = outgoing.clone();
            outgoing.pieces.push(wrong);
            assert_eq!(outgoing.assemble(answer_of), None);
        }
    }

    #[test]
    fn a_whole_message_needs_no_answers_and_no_copy() {
        let head = Message::from_static(b"all of it");
        let outgoing = Outgoing::from(head.clone());
        assert!(outgoing.is_whole() && outgoing.len() == head.len());
        let message = outgoing.assemble(|_| None).unwrap();
        assert_eq!(message.as_ptr(), head.as_ptr());
    }
}
