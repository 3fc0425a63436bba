//! The coordinator, which is the first of the three servers: it collects its parts of the uploads, and then the sum.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand_core::CryptoRng;

use super::blame::blame;
use super::holding::Holding;
use super::open::{Opened, key_of_round, open, word_len};
use super::talk::Talk;
use super::{COORDINATOR, OTHERS, TAG};
use crate::core::round::stages::Letters;
use crate::core::round::{Bodies, Relayed, ServerStage, ServerStep};
use crate::{Fault, FaultKind, PartyId, Round, ServerIndex, ServerRole};

/// The stage of the uploads.
pub(super) fn serve(round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault> {
    Ok(Box::new(CollectUploads {
        expected: round.everyone().collect(),
        holding: Holding::new(round.clone(), COORDINATOR)?,
        talk: Talk::new(COORDINATOR),
        round: round.clone(),
    }))
}

struct CollectUploads {
    round: Arc<Round>,
    expected: BTreeSet<PartyId>,
    holding: Holding,
    talk: Talk<Opened>,
}

impl ServerStage for CollectUploads {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.round.job().min_parties()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        self.holding.take(from, body)
    }

    fn notices(&mut self) -> Letters {
        self.holding.notices()
    }

    fn note(&mut self, from: ServerIndex, body: &[u8]) -> Result<(), Fault> {
        self.holding.note(from, body)
    }

    fn may_show(&self) -> bool {
        // guard: refused-uploads-are-not-shown
        false
    }

    fn close(mut self: Box<Self>, rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let (round, holding) = (self.round.clone(), self.holding);
        let key = key_of_round(&round, rng)?;
        self.talk
            .begin(|line| open(COORDINATOR, round, holding, key, line))?;
        let begin = |role: ServerRole| Relayed {
            to: role.into(),
            head: Vec::new(),
            pieces: Vec::new(),
        };
        Ok(ServerStep::Next {
            next: Box::new(OpenSum {
                round: self.round,
                nobody: BTreeSet::new(),
                talk: self.talk,
                words: Vec::new(),
            }),
            bodies: Bodies::Relayed(OTHERS.map(begin).into()),
            faults: Vec::new(),
        })
    }
}

/// The servers open the sum, and the other two give their word on it.
struct OpenSum {
    round: Arc<Round>,
    nobody: BTreeSet<PartyId>,
    talk: Talk<Opened>,
    words: Vec<(ServerRole, Vec<u8>)>,
}

impl ServerStage for OpenSum {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.nobody
    }

    fn servers(&self) -> &[ServerRole] {
        &OTHERS
    }

    fn required(&self) -> usize {
        OTHERS.len()
    }

    fn receive(&mut self, _from: PartyId, _body: &[u8]) -> Result<(), FaultKind> {
        Err(FaultKind::NotAMember)
    }

    fn receive_of(&mut self, from: ServerRole, body: &[u8]) -> Result<(), FaultKind> {
        self.words.push((from, body.to_vec()));
        Ok(())
    }

    fn receive_letter(&mut self, from: ServerIndex, body: &[u8]) -> Result<(), Fault> {
        self.talk.receive_letter(from, body)
    }

    /// It comes too late to be of use.
    fn note(&mut self, _from: ServerIndex, _body: &[u8]) -> Result<(), Fault> {
        Ok(())
    }

    fn letters(&mut self) -> Letters {
        self.talk.letters()
    }

    fn is_computing(&self) -> bool {
        !self.talk.is_over()
    }

    fn close(mut self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let unfinished =
            || FaultKind::malformed("computation", "the servers have not come to a sum");
        let opened = self.talk.result();
        let Opened {
            survivors,
            sum,
            told: mut body,
            word: own,
            faults,
        } = opened.ok_or_else(|| Fault::nobody(unfinished()))?;
        let hash = own.first_chunk::<TAG>();
        let hash = hash.ok_or_else(|| Fault::nobody(unfinished()))?;
        self.words.sort_by_key(|(role, _)| *role);
        for (role, word) in &self.words {
            let refused = |rule| {
                role.place().map_or_else(
                    || Fault::nobody(FaultKind::NotAMember),
                    |place| blame(place, "word", rule),
                )
            };
            // guard: words-of-servers-are-on-one-result
            let of_word = word.strip_prefix(hash);
            let of_word = of_word.ok_or_else(|| refused("it has another result"))?;
            // guard: words-of-servers-have-their-length
            if of_word.len() != word_len(self.round.job(), *role, survivors.len()) {
                return Err(refused("it is not as long as it must be"));
            }
            body.extend_from_slice(of_word);
        }
        Ok(ServerStep::Done {
            bodies: Bodies::Same(survivors.iter().collect(), body),
            survivors,
            sum,
            faults,
        })
    }
}
