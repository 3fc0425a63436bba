//! Parties that lie on purpose, and a coordinator that does, in rounds of protocols that withstand them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use blindsum_protocol::{Adversary, Fault, Job, JobMemory, Message, PartyId, ProtocolName, Round};

use crate::deviation::Deviation;
use crate::seeds::{below, choose, stream};
use crate::{Action, Cohort, Hooks, SimError};

/// So many parties of a run that lie in every round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liars {
    /// How many, chosen by the seed.
    pub count: u32,
    /// How they lie.
    pub kind: LieKind,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)+) => {
        /// How liars lie.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum LieKind {
            $($(#[$doc])* $kind,)+
        }

        impl LieKind {
            /// All kinds.
            pub const ALL: &[LieKind] = &[$(LieKind::$kind),+];

            /// The name.
            pub fn name(self) -> &'static str {
                match self {
                    $(LieKind::$kind => $name,)+
                }
            }
        }
    };
}

kinds! {
    /// A row of the proof has too high a degree.
    BadDegree = "bad-degree",
    /// A bit is 2.
    NonBit = "non-bit",
    /// A square is that of another word; where the norm has a bound.
    WrongSquare = "wrong-square",
    /// A word is one above its bound.
    OutOfBound = "out-of-bound",
    /// Two words err in opposite directions.
    CancellingPair = "cancelling-pair",
    /// The bits of the norm say another one; where the norm has a bound.
    WrongNorm = "wrong-norm",
    /// Shares for some others do not fit those for the rest.
    WrongShare = "wrong-share",
    /// Answers about all others are wrong.
    LyingVerifier = "lying-verifier",
    /// The columns of all others are said to be unusable.
    MassAccuser = "mass-accuser",
    /// Wrong shares, which are not shown when they are disputed.
    SilentDiscloser = "silent-discloser",
    /// The sum of columns is wrong.
    LyingAggregator = "lying-aggregator",
    /// The coordinator, which tells half of the parties of another challenge.
    Equivocator = "equivocator",
    /// Each liar lies in another way.
    Mixed = "mixed",
}

impl fmt::Display for LieKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LieKind {
    type Err = SimError;

    fn from_str(text: &str) -> Result<Self, SimError> {
        let found = Self::ALL.iter().find(|kind| kind.name() == text);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
            SimError::scenario(
                "misbehaviour",
                format!("{text:?} must be one of {}", names.join(", ")),
            )
        })
    }
}

/// The kinds that `mixed` goes through.
const MIXED: [LieKind; 11] = [
    LieKind::WrongShare,
    LieKind::LyingVerifier,
    LieKind::OutOfBound,
    LieKind::LyingAggregator,
    LieKind::NonBit,
    LieKind::MassAccuser,
    LieKind::CancellingPair,
    LieKind::SilentDiscloser,
    LieKind::BadDegree,
    LieKind::WrongSquare,
    LieKind::WrongNorm,
];

/// Lies about what is there only where the norm has a bound.
const OF_NORM: [LieKind; 2] = [LieKind::WrongSquare, LieKind::WrongNorm];

impl Liars {
    /// Checks the rules: the protocol withstands liars, there are so many parties, and there is such a lie.
    pub(crate) fn check(&self, job: &Job, parties: usize) -> Result<(), SimError> {
        let spec = job.spec();
        if spec.protocol.name() != ProtocolName::PssMalicious {
            let rule = format!(
                "{} does not find corrupt parties: take pss-malicious, or leave them out",
                spec.protocol.name()
            );
            return Err(SimError::scenario("malicious", rule));
        }
        if self.count as usize > parties {
            let rule = format!(
                "malicious is {} and must be at most parties = {parties}",
                self.count
            );
            return Err(SimError::scenario("malicious", rule));
        }
        if OF_NORM.contains(&self.kind) && job.encoding().squared_norm().is_none() {
            let rule = format!(
                "{} needs a job with max_norm: nothing is said of norms without",
                self.kind
            );
            return Err(SimError::scenario("misbehaviour", rule));
        }
        if self.kind == LieKind::Equivocator && spec.adversary != Adversary::Active {
            let rule = "equivocator needs adversary = active: a semi-honest coordinator tells all the same";
            return Err(SimError::scenario("misbehaviour", rule));
        }
        Ok(())
    }

    /// What the liars among so many parties keep that makes them lie, by rank.
    pub(crate) fn memories(
        &self,
        job: &Job,
        parties: usize,
        seed: u64,
    ) -> BTreeMap<PartyId, Arc<JobMemory>> {
        let mut rng = stream("liars", &[seed]);
        let everybody: Vec<PartyId> = (0..parties as u32).map(PartyId).collect();
        if self.kind == LieKind::Equivocator {
            return BTreeMap::new();
        }
        let liars = choose(&mut rng, everybody.clone(), self.count as usize);
        let most = job.spec().corrupt_parties().max(1) as u64;
        let kinds = liars.iter().zip(MIXED.iter().cycle());
        let lies = kinds.map(|(&liar, &mixed)| {
            let others = everybody
                .iter()
                .copied()
                .filter(|party| *party != liar)
                .collect();
            let count = 1 + below(&mut rng, most) as usize;
            let victims = choose(&mut rng, others, count);
            let kind = match self.kind {
                LieKind::Mixed => mixed,
                kind => kind,
            };
            (
                liar,
                Arc::new(JobMemory::misbehaving(Box::new(deviation(kind, victims)))),
            )
        });
        lies.collect()
    }

    /// What the coordinator does to messages, where it is the one that lies.
    pub(crate) fn coordinator(&self) -> Option<Equivocator> {
        (self.kind == LieKind::Equivocator).then(Equivocator::default)
    }
}

/// One of the lies that a party of this job can tell, if its protocol finds liars.
pub(crate) fn deviation_of_seed(job: &Job, seed: u64) -> Option<Deviation> {
    if job.spec().protocol.name() != ProtocolName::PssMalicious {
        return None;
    }
    let parties = job.spec().parties;
    let victim = PartyId((seed % u64::from(parties)) as u32);
    let kinds = MIXED
        .iter()
        .filter(|kind| !OF_NORM.contains(kind) || job.encoding().squared_norm().is_some());
    let kinds: Vec<&LieKind> = kinds.collect();
    let kind = kinds.get(seed as usize % kinds.len())?;
    Some(deviation(**kind, vec![victim]))
}

fn deviation(kind: LieKind, victims: Vec<PartyId>) -> Deviation {
    match kind {
        LieKind::BadDegree => Deviation::BadDegree,
        LieKind::NonBit => Deviation::NonBit,
        LieKind::WrongSquare => Deviation::WrongSquare,
        LieKind::OutOfBound => Deviation::OutOfBound,
        LieKind::CancellingPair => Deviation::CancellingPair,
        LieKind::WrongNorm => Deviation::WrongNorm,
        LieKind::WrongShare | LieKind::Equivocator | LieKind::Mixed => {
            Deviation::WrongShare(victims)
        }
        LieKind::LyingVerifier => Deviation::LyingVerifier,
        LieKind::MassAccuser => Deviation::MassAccuser,
        LieKind::SilentDiscloser => Deviation::SilentDiscloser(victims),
        LieKind::LyingAggregator => Deviation::LyingAggregator,
    }
}

/// Stage in which parties hear who has shared, and with it the challenge.
const SHARED: u8 = 1;

/// A coordinator that does not tell half of the parties of the last one that has shared: they come to another challenge.
#[derive(Default)]
pub(crate) struct Equivocator {
    parties: usize,
}

impl Equivocator {
    /// The message without the last party that has shared: its bit, its commitment and its piece.
    fn without_last(&self, message: &[u8]) -> Option<Vec<u8>> {
        const FRAME: usize = 34;
        const NONCE: usize = 32;
        const COMMITMENT: usize = 96;
        let (frame, body) = message.split_at_checked(FRAME)?;
        let (bitmap, rest) = body.split_at_checked(self.parties.div_ceil(8))?;
        let last = (0..self.parties).rfind(|rank| bitmap[rank / 8] >> (rank % 8) & 1 == 1)?;
        let shared: usize = bitmap.iter().map(|byte| byte.count_ones() as usize).sum();
        let mut bitmap = bitmap.to_vec();
        bitmap[last / 8] &= !(1 << (last % 8));
        let (told, pieces) = rest.split_at_checked(NONCE + shared * COMMITMENT)?;
        let piece = pieces.len() / (shared - 1);
        let told = &told[..told.len() - COMMITMENT];
        let pieces = &pieces[..pieces.len() - piece];
        Some([frame, &bitmap, told, pieces].concat())
    }
}

impl Hooks for Equivocator {
    fn begin(&mut self, round: &Arc<Round>, _cohort: &Arc<Cohort>) {
        self.parties = round.parties();
    }

    fn server_says(&mut self, stage: u8, to: PartyId, message: &Message) -> Action {
        match stage == SHARED && to.rank() < self.parties / 2 {
            true => self
                .without_last(message)
                .map_or(Action::Deliver, Action::Replace),
            false => Action::Deliver,
        }
    }
}

/// Who was found to lie in a round.
pub(crate) fn liar_of(fault: &Fault) -> Option<(PartyId, &'static str)> {
    match fault.culprit {
        blindsum_protocol::Culprit::Party(party) => Some((party, fault.kind.lie()?)),
        _ => None,
    }
}
