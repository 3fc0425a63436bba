//! Answers that a stage passes on in pieces. A party's message is put together only when it is delivered: all of them
//! at once would be as large as what everybody sends to everybody.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use blindsum_protocol::{Message, Outgoing, PartyId, Piece};

use crate::hooks::Action;

/// Bytes of answers that are kept in memory; a file takes the rest. All of them together are what everybody sends to
/// everybody.
const IN_MEMORY: usize = 16 << 20;

/// The answers to a stage that passes them on.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    places: BTreeMap<PartyId, Place>,
    /// Bytes in memory.
    in_memory: usize,
    /// Without a name, so that it vanishes with the process.
    file: Option<Mutex<File>>,
    /// Bytes in the file.
    written: u64,
}

#[derive(Debug)]
enum Place {
    Memory(Message),
    File(Range<u64>),
}

impl Kept {
    /// Keeps a party's answer.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep(&mut self, party: PartyId, answer: &Message) -> io::Result<()> {
        let place = match self.in_memory + answer.len() <= IN_MEMORY {
            true => {
                self.in_memory += answer.len();
                Place::Memory(answer.clone())
            }
            false => Place::File(self.append(answer)?),
        };
        self.places.insert(party, place);
        Ok(())
    }

    fn append(&mut self, answer: &[u8]) -> io::Result<Range<u64>> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(Mutex::new(tempfile::tempfile()?)),
        };
        let start = self.written;
        let file = file.get_mut().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(start))?;
        file.write_all(answer)?;
        self.written += answer.len() as u64;
        Ok(start..self.written)
    }

    /// Appends a piece of an answer; false where there is no such answer, or it is shorter.
    fn read(&self, piece: &Piece, out: &mut Vec<u8>) -> io::Result<bool> {
        let Range { start, end } = piece.range;
        match self.places.get(&piece.from) {
            Some(Place::Memory(answer)) => Ok(answer
                .get(start..end)
                .map(|bytes| out.extend_from_slice(bytes))
                .is_some()),
            Some(Place::File(place)) if place.start + end as u64 <= place.end => {
                let Some(file) = &self.file else {
                    return Ok(false);
                };
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(place.start + start as u64))?;
                let before = out.len();
                out.resize(before + piece.range.len(), 0);
                file.read_exact(&mut out[before..])?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// A message of the server on its way.
#[derive(Clone, Debug)]
pub(crate) enum Parcel {
    Whole(Message),
    /// Put together when it is opened. The answers are freed with the last parcel.
    Pieces(Arc<Outgoing>, Arc<Kept>),
}

impl Parcel {
    pub(crate) fn new(outgoing: Outgoing, kept: &Arc<Kept>) -> Self {
        match outgoing.is_whole() {
            true => Parcel::Whole(outgoing.head),
            false => Parcel::Pieces(outgoing.into(), kept.clone()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Parcel::Whole(message) => message.len(),
            Parcel::Pieces(outgoing, _) => outgoing.len(),
        }
    }

    /// The message; `None` where it passes on what was not answered.
    ///
    /// # Errors
    /// The file of answers cannot be read.
    pub(crate) fn open(&self) -> io::Result<Option<Message>> {
        let (outgoing, kept) = match self {
            Parcel::Whole(message) => return Ok(Some(message.clone())),
            Parcel::Pieces(outgoing, kept) => (outgoing, kept),
        };
        let mut message = Vec::with_capacity(outgoing.len());
        message.extend_from_slice(&outgoing.head);
        for piece in &outgoing.pieces {
            if !kept.read(piece, &mut message)? {
                return Ok(None);
            }
        }
        Ok(Some(message.into()))
    }

    /// What arrives in its place; `message` is what is in it.
    pub(crate) fn apply(self, action: Action, message: Message) -> Vec<Self> {
        match action {
            Action::Deliver => vec![self],
            Action::Duplicate => vec![self.clone(), self],
            other => other
                .apply(message)
                .into_iter()
                .map(Parcel::Whole)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(answers: &[(u32, &'static [u8])]) -> Kept {
        let mut kept = Kept::default();
        for &(party, answer) in answers {
            kept.keep(PartyId(party), &Message::from_static(answer))
                .unwrap();
        }
        kept
    }

    fn parcel(kept: &Arc<Kept>, from: u32) -> Parcel {
        let from = PartyId(from);
        let outgoing = Outgoing {
            head: Message::from_static(b"to you: "),
            pieces: vec![Piece { from, range: 1..3 }],
        };
        Parcel::new(outgoing, kept)
    }

    #[test]
    fn answers_are_freed_with_the_last_parcel() {
        let kept = Arc::new(kept(&[(4, b"abcd")]));
        let watch = Arc::downgrade(&kept);
        let (parcel, other) = (parcel(&kept, 4), parcel(&kept, 5));
        drop(kept);
        let message = parcel.open().unwrap().unwrap();
        assert_eq!(
            (&*message, message.len()),
            (&b"to you: bc"[..], parcel.len())
        );
        assert!(other.open().unwrap().is_none());
        let both = parcel.apply(Action::Duplicate, message.clone());
        assert_eq!(both.len(), 2);
        drop((both, other));
        assert!(watch.upgrade().is_none());
    }

    #[test]
    fn a_changed_parcel_is_whole() {
        let kept = Arc::new(kept(&[(4, b"abcd")]));
        let parcel = parcel(&kept, 4);
        let message = parcel.open().unwrap().unwrap();
        let changed = parcel.apply(Action::Replace(b"other".to_vec()), message);
        let [Parcel::Whole(changed)] = changed.as_slice() else {
            panic!("one whole message");
        };
        assert_eq!(&**changed, b"other");
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[test]
    fn what_does_not_fit_in_memory_is_read_from_the_file() {
        let mut kept = kept(&[(1, b"in memory")]);
        kept.in_memory = IN_MEMORY;
        kept.keep(PartyId(2), &Message::from_static(b"in the file"))
            .unwrap();
        kept.keep(PartyId(3), &Message::from_static(b"behind it"))
            .unwrap();
        assert_eq!(kept.written, 20);
        let read = |from: u32, range: Range<usize>| {
            let (from, mut out) = (PartyId(from), b": ".to_vec());
            let found = kept.read(&Piece { from, range }, &mut out).unwrap();
            found.then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(read(1, 3..9).as_deref(), Some(": memory"));
        assert_eq!(read(3, 0..6).as_deref(), Some(": behind"));
        assert_eq!(read(2, 7..11).as_deref(), Some(": file"));
        assert_eq!(read(2, 7..12), None, "that is another party's");
        assert_eq!(read(4, 0..0), None);
    }
}
