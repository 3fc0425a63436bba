//! Answers that a stage passes on in pieces. Each party's message is put together when its turn comes: all
//! of them at once would be as large as what everybody sends to everybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_protocol::{Message, Outgoing, PartyId};

use crate::hooks::Action;

/// The answers to a stage that passes them on.
pub(crate) type Kept = BTreeMap<PartyId, Message>;

/// A message of the server on its way.
#[derive(Clone, Debug)]
pub(crate) enum Parcel {
    Whole(Message),
    /// Put together when it is opened. The answers are freed with the last parcel.
    Pieces(Arc<Outgoing>, Arc<Kept>),
}

impl Parcel {
    pub(super) fn new(outgoing: Outgoing, kept: &Arc<Kept>) -> Self {
        match outgoing.is_whole() {
            true => Parcel::Whole(outgoing.head),
            false => Parcel::Pieces(outgoing.into(), kept.clone()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Parcel::Whole(message) => message.len(),
            Parcel::Pieces(outgoing, _) => outgoing.len(),
        }
    }

    /// The message; `None` where it passes on what was not answered.
    pub(crate) fn open(&self) -> Option<Message> {
        match self {
            Parcel::Whole(message) => Some(message.clone()),
            Parcel::Pieces(outgoing, kept) => {
                outgoing.assemble(|party| kept.get(&party).map(|answer| &**answer))
            }
        }
    }

    /// What arrives in its place; `message` is what is in it.
    pub(super) fn apply(self, action: Action, message: Message) -> Vec<Self> {
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
    use blindsum_protocol::Piece;

    use super::*;

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
        let kept = Arc::new(Kept::from([(PartyId(4), Message::from_static(b"abcd"))]));
        let watch = Arc::downgrade(&kept);
        let (parcel, other) = (parcel(&kept, 4), parcel(&kept, 5));
        drop(kept);
        let message = parcel.open().unwrap();
        assert_eq!(
            (&*message, message.len()),
            (&b"to you: bc"[..], parcel.len())
        );
        assert!(other.open().is_none());
        let both = parcel.apply(Action::Duplicate, message.clone());
        assert_eq!(both.len(), 2);
        drop((both, other));
        assert!(watch.upgrade().is_none());
    }

    #[test]
    fn a_changed_parcel_is_whole() {
        let kept = Arc::new(Kept::from([(PartyId(4), Message::from_static(b"abcd"))]));
        let parcel = parcel(&kept, 4);
        let message = parcel.open().unwrap();
        let changed = parcel.apply(Action::Replace(b"other".to_vec()), message);
        let [Parcel::Whole(changed)] = changed.as_slice() else {
            panic!("one whole message");
        };
        assert_eq!(&**changed, b"other");
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
