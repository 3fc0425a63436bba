//! What begins a round, as its members are sent it. It names all of them and brings certificates, so it is as long as the
//! round has members. Most of them are sent the very same frame, which is made once: what is made for n members takes
//! memory and time like n, not like n².

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use blindsum_crypto::roster::Member;
use blindsum_protocol::{Round, Tag};
use bytes::Bytes;

use super::shared::Shared;
use crate::orders::Terms;
use crate::pb::{self, CoordinatorFrame};

/// Frames that are kept for the next members. More kinds of members than these are rare: those that are new, those that
/// were here before, and those that come back in one stage or another.
const MAX_KEPT: usize = 8;

/// Certificates that went over a connection, by their fingerprints. Connections over which the same went share the set.
#[derive(Clone, Default)]
pub(super) struct Shown(Arc<HashSet<[u8; 32]>>);

/// The frames that begin one round, as they were made for its members so far.
#[derive(Default)]
pub(super) struct Beginnings(VecDeque<Made>);

/// A frame, for whom it was made, and what their connections were shown with it.
struct Made {
    before: Shown,
    answers_taken: u32,
    after: Shown,
    frame: Arc<Shared>,
}

/// The beginning of a round with everything that anybody may need of it.
pub(super) fn complete_start(round: &Round, model: pb::ModelName, terms: Terms) -> pb::RoundStart {
    let members = round.roster().members();
    let participant = |member: &Member| pb::Participant {
        fingerprint: crate::fingerprint(&member.certificate).to_vec().into(),
        nonce: member.nonce.to_vec().into(),
    };
    pb::RoundStart {
        round: round.number(),
        model: Some(model),
        roster: members.iter().map(participant).collect(),
        certificates: members
            .iter()
            .map(|m| m.certificate.clone().into())
            .collect(),
        answers_taken: 0,
        numbers: Some(round.parameters().into()),
        terms: terms.told(round.job().spec()),
        kind: pb::RoundKind::from(round.kind()).into(),
        tag: round.tag().map(|tag| tag.number),
        about: Tag::about_bytes(round.tag()),
    }
}

impl Beginnings {
    /// The beginning of the round for a connection, with the certificates that did not go over it yet. `complete` is that
    /// of this round, with all certificates.
    pub fn start(
        &mut self,
        complete: &pb::RoundStart,
        answers_taken: u32,
        shown: &mut Shown,
    ) -> Arc<Shared> {
        let fingerprints = complete.roster.iter().map(|member| &member.fingerprint);
        let named = fingerprints.zip(&complete.certificates);
        self.frame(answers_taken, shown, named, |certificates| {
            pb::RoundStart {
                round: complete.round,
                model: complete.model.clone(),
                roster: complete.roster.clone(),
                certificates,
                answers_taken,
                kind: complete.kind,
                numbers: complete.numbers,
                terms: complete.terms,
                tag: complete.tag,
                about: complete.about.clone(),
            }
            .into()
        })
    }

    /// The roster that is fixed before the round begins, for a connection, with the certificates that did not go over it yet.
    pub fn fixed(&mut self, complete: &pb::RosterFixed, shown: &mut Shown) -> Arc<Shared> {
        let fingerprints = complete.roster.iter().map(|member| &member.fingerprint);
        let named = fingerprints.zip(&complete.certificates);
        self.frame(0, shown, named, |certificates| {
            pb::RosterFixed {
                round: complete.round,
                model: complete.model.clone(),
                roster: complete.roster.clone(),
                certificates,
                numbers: complete.numbers,
            }
            .into()
        })
    }

    /// The frame that was made for others in the same place, or a new one.
    fn frame<'a>(
        &mut self,
        answers_taken: u32,
        shown: &mut Shown,
        named: impl Iterator<Item = (&'a Bytes, &'a Bytes)>,
        make: impl FnOnce(Vec<Bytes>) -> CoordinatorFrame,
    ) -> Arc<Shared> {
        let fits = |made: &&Made| made.answers_taken == answers_taken && made.before.is(shown);
        if let Some(made) = self.0.iter().find(fits) {
            *shown = made.after.clone();
            return made.frame.clone();
        }
        let before = shown.clone();
        let certificates = shown.add(named);
        // Connections that were shown the same by different ways are in the same place from now on.
        if let Some(made) = self.0.iter().find(|made| made.after.0 == shown.0) {
            *shown = made.after.clone();
        }
        let frame = Arc::new(Shared::new(make(certificates)));
        if self.0.len() == MAX_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Made {
            before,
            answers_taken,
            after: shown.clone(),
            frame: frame.clone(),
        });
        frame
    }
}

impl Shown {
    /// Whether it is known at once that both are the same.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.is_empty() && other.0.is_empty())
    }

    /// Adds certificates to it, each with its fingerprint; gives those that were not in it.
    fn add<'a>(&mut self, named: impl Iterator<Item = (&'a Bytes, &'a Bytes)>) -> Vec<Bytes> {
        let (mut added, mut new) = (HashSet::new(), Vec::new());
        for (fingerprint, certificate) in named {
            let fingerprint = <[u8; 32]>::try_from(&fingerprint[..]);
            let is_new = |fingerprint| !self.0.contains(&fingerprint) && added.insert(fingerprint);
            if fingerprint.map_or(true, is_new) {
                new.push(certificate.clone());
            }
        }
        if !added.is_empty() {
            added.extend(self.0.iter());
            self.0 = Arc::new(added);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::pb::coordinator_frame::Frame;

    const MEMBERS: u8 = 50;

    fn fingerprint(member: u8) -> Bytes {
        vec![member; 32].into()
    }

    fn certificate(member: u8) -> Bytes {
        vec![member; 500].into()
    }

    /// The beginning of a round of these members.
    fn round(members: impl Iterator<Item = u8> + Clone) -> pb::RoundStart {
        let participant = |member| pb::Participant {
            fingerprint: fingerprint(member),
            nonce: Bytes::new(),
        };
        pb::RoundStart {
            round: 7,
            roster: members.clone().map(participant).collect(),
            certificates: members.map(certificate).collect(),
            ..pb::RoundStart::default()
        }
    }

    /// What a frame says that begins a round.
    fn said(frame: &Shared) -> (u32, usize, Vec<Bytes>) {
        match &frame.frame().frame {
            Some(Frame::RoundStart(start)) => {
                let certificates = start.certificates.clone();
                (start.answers_taken, start.roster.len(), certificates)
            }
            other => panic!("{other:?}"),
        }
    }

    /// How many different frames these are.
    fn distinct(frames: &[Arc<Shared>]) -> usize {
        let places: HashSet<_> = frames.iter().map(Arc::as_ptr).collect();
        places.len()
    }

    #[test]
    fn members_in_the_same_place_are_sent_the_very_same_frame() {
        let mut shown: Vec<Shown> = (0..MEMBERS).map(|_| Shown::default()).collect();
        let mut begin = |members: u8| {
            let (complete, mut beginnings) = (round(0..members), Beginnings::default());
            let start = |shown: &mut Shown| beginnings.start(&complete, 0, shown);
            shown.iter_mut().map(start).collect::<Vec<_>>()
        };
        let first = begin(MEMBERS);
        assert_eq!(distinct(&first), 1);
        assert_eq!(said(&first[0]).2.len(), usize::from(MEMBERS));
        // In the next round all know all of them, and one is new to all.
        let second = begin(MEMBERS + 1);
        assert_eq!(distinct(&second), 1);
        assert_eq!(said(&second[0]).2, [certificate(MEMBERS)]);
        let third = begin(MEMBERS + 1);
        assert_eq!(distinct(&third), 1);
        assert_eq!(said(&third[0]), (0, usize::from(MEMBERS) + 1, vec![]));
        let places: HashSet<_> = shown.iter().map(|shown| Arc::as_ptr(&shown.0)).collect();
        assert_eq!(places.len(), 1);
    }

    #[test]
    fn who_comes_back_is_sent_what_it_lacks_and_is_one_of_all_again() {
        let (mut stayed, mut back) = (Shown::default(), Shown::default());
        Beginnings::default().start(&round(0..MEMBERS - 1), 0, &mut stayed);
        let (complete, mut beginnings) = (round(0..MEMBERS), Beginnings::default());
        let to_stayed = beginnings.start(&complete, 0, &mut stayed);
        let to_back = beginnings.start(&complete, 2, &mut back);
        assert_eq!(said(&to_stayed).2, [certificate(MEMBERS - 1)]);
        let all: Vec<_> = (0..MEMBERS).map(certificate).collect();
        assert_eq!(said(&to_back), (2, usize::from(MEMBERS), all));
        assert!(stayed.is(&back));
        // The next time both are sent the same.
        let mut next = Beginnings::default();
        let frames = [&mut stayed, &mut back].map(|shown| next.start(&complete, 0, shown));
        assert_eq!(distinct(&frames), 1);
        assert_eq!(said(&frames[0]).2, [] as [Bytes; 0]);
    }

    #[test]
    fn frames_for_rare_places_are_forgotten_and_made_again() {
        let (complete, mut beginnings) = (round(0..3), Beginnings::default());
        for answers_taken in 0..3 * MAX_KEPT as u32 {
            let frame = beginnings.start(&complete, answers_taken, &mut Shown::default());
            assert_eq!(said(&frame).0, answers_taken);
            assert!(beginnings.0.len() <= MAX_KEPT);
        }
        let again = beginnings.start(&complete, 0, &mut Shown::default());
        assert_eq!(said(&again), (0, 3, (0..3).map(certificate).collect()));
    }

    #[test]
    fn a_roster_that_is_fixed_brings_the_certificates_that_its_round_needs() {
        let committed = |member| pb::Committed {
            fingerprint: fingerprint(member),
            commitment: Bytes::new(),
        };
        let fixed = pb::RosterFixed {
            round: 7,
            roster: (0..3).map(committed).collect(),
            certificates: (0..3).map(certificate).collect(),
            ..pb::RosterFixed::default()
        };
        let mut shown = Shown::default();
        let frame = Beginnings::default().fixed(&fixed, &mut shown);
        assert_eq!(frame.frame(), &CoordinatorFrame::from(fixed));
        assert_eq!(
            CoordinatorFrame::decode(&frame.encoded()[..]).as_ref(),
            Ok(frame.frame())
        );
        let start = Beginnings::default().start(&round(0..3), 0, &mut shown);
        assert_eq!(said(&start).2, [] as [Bytes; 0]);
    }
}
