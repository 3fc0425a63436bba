//! The coordinator's side: it passes on what it cannot open, and hears the sum from the key service.

use std::collections::BTreeSet;
use std::sync::Arc;

use blindsum_crypto::kex::PublicKey as SealPublicKey;
use blindsum_math::words::Words;
use rand_core::CryptoRng;

use super::cipher::Layout;
use super::circle::KEY_SIGNATURES;
use super::messages::{Adverts, Opened, Opening};
use super::options::Options;
use super::way::Way;
use crate::core::round::{Bodies, Relayed, ServerStage, ServerStep};
use crate::kit::advertise::{self as kit, Advert, CollectKeys, TakesKeys};
use crate::kit::result::result_body;
use crate::kit::wire::{Bounded, encode};
use crate::{Fault, FaultKind, PartyId, PartySet, Round, ServerRole};

/// What all stages of the coordinator have.
struct Course {
    round: Arc<Round>,
    way: Way,
    layout: Layout,
    everyone: BTreeSet<PartyId>,
    nobody: BTreeSet<PartyId>,
}

pub(super) fn serve(round: &Arc<Round>, way: Way) -> Result<Box<dyn ServerStage>, Fault> {
    let options = Options::of(round.job().spec());
    let options = options.ok_or(Fault::caller(FaultKind::Ended))?;
    let layout = Layout::of(round.job(), &options, round.parties());
    Ok(CollectKeys::of(Course {
        way,
        layout: layout.map_err(|error| Fault::caller(error.into()))?,
        everyone: round.everyone().collect(),
        nobody: BTreeSet::new(),
        round: round.clone(),
    }))
}

/// Stage 0: the keys of all.
impl TakesKeys<1> for Course {
    type Advert = Advert;

    fn round(&self) -> &Round {
        &self.round
    }

    /// Whoever is lost is in no ring: another one forms without it.
    fn required(&self) -> usize {
        self.everyone.len()
    }

    fn check(&self, from: PartyId, sent: &Advert) -> Result<[SealPublicKey; 1], FaultKind> {
        Ok([sent.check(&self.round, from, KEY_SIGNATURES)?])
    }

    fn close(
        self,
        adverts: kit::Adverts<Advert, 1>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ServerStep, Fault> {
        let adverts = adverts.into_values().map(|(advert, _)| advert).collect();
        let keys = Adverts { adverts };
        let head = encode(Adverts::NAME, &keys).map_err(Fault::caller)?;
        Ok(ServerStep::Next {
            next: Box::new(AwaitOpening {
                course: self,
                adverts: keys.adverts,
                opening: None,
            }),
            bodies: Bodies::Relayed(vec![Relayed {
                to: ServerRole::Decryptor.into(),
                head,
                pieces: Vec::new(),
            }]),
            faults: Vec::new(),
        })
    }
}

/// Stage 1: the key service says which key all encrypt for.
struct AwaitOpening {
    course: Course,
    adverts: Vec<Advert>,
    opening: Option<Opening>,
}

impl ServerStage for AwaitOpening {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.course.nobody
    }

    fn servers(&self) -> &[ServerRole] {
        &[ServerRole::Decryptor]
    }

    fn required(&self) -> usize {
        1
    }

    fn receive(&mut self, _from: PartyId, _body: &[u8]) -> Result<(), FaultKind> {
        Err(FaultKind::NotAMember)
    }

    fn receive_of(&mut self, _from: ServerRole, body: &[u8]) -> Result<(), FaultKind> {
        let opening = Opening::read(self.course.round.parties(), body)?;
        opening.seal_key(&self.course.round)?;
        // guard: coordinators-pass-on-no-unusable-key
        opening.public_key(&self.course.round)?;
        self.opening = Some(opening);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let opening = self.opening.ok_or(lacks_service())?;
        let opened = Opened {
            adverts: self.adverts,
            opening,
        };
        let body = encode(Opened::NAME, &opened).map_err(Fault::caller)?;
        let everyone = self.course.everyone.iter().copied().collect();
        Ok(ServerStep::Next {
            next: Box::new(Pass::of(self.course, 0)),
            bodies: Bodies::Same(everyone, body),
            faults: Vec::new(),
        })
    }
}

fn lacks_service() -> Fault {
    Fault::nobody(FaultKind::TooFewSurvivors { have: 0, need: 1 })
}

/// A step, in which what parties have sealed is passed on.
struct Pass {
    course: Course,
    step: usize,
    speakers: BTreeSet<PartyId>,
}

impl Pass {
    fn of(course: Course, step: usize) -> Self {
        let speakers = course.way.speakers(step, course.round.parties());
        Self {
            course,
            step,
            speakers,
        }
    }
}

impl ServerStage for Pass {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.speakers
    }

    fn required(&self) -> usize {
        // guard: a-ring-needs-everybody
        self.speakers.len()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let Course {
            round, way, layout, ..
        } = &self.course;
        let expected = way.sent_len(layout, round.job().lanes(), self.step, from);
        match body.len() == expected {
            true => Ok(()),
            false => {
                let rule = format!("{} bytes, but it takes {expected}", body.len());
                Err(FaultKind::malformed("sealed sum", rule))
            }
        }
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let Self { course, step, .. } = *self;
        let lanes = course.round.job().lanes();
        let bodies = Bodies::Relayed(course.way.passed_on(&course.layout, lanes, step));
        let next: Box<dyn ServerStage> = match step + 1 < course.way.steps(course.round.parties()) {
            true => Box::new(Pass::of(course, step + 1)),
            false => Box::new(AwaitSum { course, sum: None }),
        };
        Ok(ServerStep::Next {
            next,
            bodies,
            faults: Vec::new(),
        })
    }
}

/// The last stage: the key service tells the sum.
struct AwaitSum {
    course: Course,
    sum: Option<Words>,
}

impl ServerStage for AwaitSum {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.course.nobody
    }

    fn servers(&self) -> &[ServerRole] {
        &[ServerRole::Decryptor]
    }

    fn required(&self) -> usize {
        1
    }

    fn receive(&mut self, _from: PartyId, _body: &[u8]) -> Result<(), FaultKind> {
        Err(FaultKind::NotAMember)
    }

    fn receive_of(&mut self, _from: ServerRole, body: &[u8]) -> Result<(), FaultKind> {
        let job = self.course.round.job();
        let sum = Words::unpack(job.width(), job.lanes(), body);
        self.sum = Some(sum.map_err(|error| FaultKind::malformed("sum", error.to_string()))?);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let sum = self.sum.ok_or(lacks_service())?;
        let everyone: Vec<PartyId> = self.course.everyone.into_iter().collect();
        let survivors = PartySet::of(self.course.round.parties(), everyone.iter().copied());
        let body = result_body(&survivors, &sum);
        Ok(ServerStep::Done {
            sum: Some(sum),
            survivors,
            bodies: Bodies::Same(everyone, body),
            faults: Vec::new(),
        })
    }
}
