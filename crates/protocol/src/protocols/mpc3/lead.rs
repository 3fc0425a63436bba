//! The coordinator, which is the first of the three servers: it collects its parts of the uploads, and then the sum.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand_core::CryptoRng;

use super::holding::Holding;
use super::open::{Opened, blame, open, result_hash};
use super::talk::Talk;
use super::{COORDINATOR, OTHERS, TAG, is_active};
use crate::core::round::stages::Letters;
use crate::core::round::{Bodies, Relayed, ServerStage, ServerStep};
use crate::{Fault, FaultKind, PartyId, Round, ServerIndex, ServerRole};

/// The stage of the uploads.
pub(super) fn serve(round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault> {
    Ok(Box::new(CollectUploads {
        expected: round.everyone().collect(),
        holding: Holding::new(round.clone(), COORDINATOR),
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

    fn may_show(&self) -> bool {
        false
    }

    fn close(mut self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let (round, holding) = (self.round.clone(), self.holding);
        self.talk
            .begin(|line| open(COORDINATOR, round, holding, line))?;
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

    fn hear(&mut self, from: ServerIndex, body: &[u8]) -> Result<(), Fault> {
        self.talk.hear(from, body)
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
            result: mut body,
            faults,
            ..
        } = opened.ok_or_else(|| Fault::nobody(unfinished()))?;
        let hash = result_hash(&self.round, &body);
        let tags = match is_active(self.round.job()) {
            true => TAG * survivors.len(),
            false => 0,
        };
        self.words.sort_by_key(|(role, _)| *role);
        for (role, word) in &self.words {
            let refused = |rule| {
                role.place().map_or_else(
                    || Fault::nobody(FaultKind::NotAMember),
                    |place| blame(place, "word", rule),
                )
            };
            let of_word = word.strip_prefix(&hash);
            let of_word = of_word.ok_or_else(|| refused("it has another sum"))?;
            if of_word.len() != tags {
                return Err(refused("one tag must be there for each survivor"));
            }
            body.extend_from_slice(of_word);
        }
        Ok(ServerStep::Done {
            bodies: Bodies::Same(survivors.iter().collect(), body),
            survivors,
            sum: Some(sum),
            faults,
        })
    }
}
