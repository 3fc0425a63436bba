//! A ring: the sum goes from party to party, and a decryptor opens it.
//!
//! Each party adds its vector and a pad to what it gets, and seals the result for the next one; the coordinator passes
//! hops on and can open none. The last hop goes to the decryptor, a server of its own, which takes the pads out and tells
//! the coordinator the sum. Where a party is lost before its hop the round ends without a sum.
//!
//! It shows stages of one party each, as many as there are parties; parties that say nothing until they are spoken to and
//! do not hear of most stages; a server that is not the coordinator.

use std::collections::BTreeSet;
use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_crypto::mask::{Sign, apply_masks};
use blindsum_math::words::Words;
use rand_core::CryptoRng;

use super::seals::{self, SEAL_OVERHEAD};
use crate::core::plan::{Stage, small};
use crate::core::protocol::ProtocolInfo;
use crate::core::round::OtherServer;
use crate::core::round::stages::{FollowerStep, Letters};
use crate::core::round::{
    Bodies, ClientSetup, ClientStage, ClientStep, FollowerStage, InputRef, Piece, Relayed,
    ServerStage, ServerStep,
};
use crate::kit::restore::Stateless;
use crate::kit::result::{AwaitResult, result_body};
use crate::kit::vector::pack_input;
use crate::{
    Fault, FaultKind, Input, Job, Opens, PartyId, PartySet, Plan, Round, Seat, ServerRole,
    SpecError, Who,
};

pub(super) static INFO: ProtocolInfo = ProtocolInfo {
    min_parties: |_| 2,
    check,
    servers: &[OtherServer {
        role: ServerRole::Decryptor,
        follow: |setup| Ok(Box::new(Decryptor(setup.round.clone()))),
    }],
    ..ProtocolInfo::of(plan, |_| {
        Ok(Arc::new(Stateless {
            start,
            restore: |setup, _, reader| {
                Ok(Some(Box::new(AwaitResult::load(setup.clone(), reader)?)))
            },
            serve: |round| Ok(Box::new(AwaitHop::of(round.clone(), PartyId(0)))),
        }))
    })
};

fn check(job: &Job) -> Result<(), SpecError> {
    let parties = job.spec().parties;
    if parties > 250 {
        let rule = format!("parties = {parties} <= 250: each has a stage of its own");
        return Err(SpecError::new("parties", rule));
    }
    Ok(())
}

fn plan(job: &Job, parties: usize) -> Plan {
    let vector = small(job.spec()) + job.packed_len() as u64;
    let hop = |rank: u32| {
        let next = match next(PartyId(rank), parties) {
            Seat::Party(party) => Who::Party(party),
            Seat::Server(role) => Who::Server(role),
        };
        let hop = Stage::new("hop", vector, vector).answered_by(Who::Party(PartyId(rank)));
        hop.heard_by(next).input().relayed()
    };
    let decryptor = Who::Server(ServerRole::Decryptor);
    let open = Stage::new("open", vector, vector).answered_by(decryptor);
    let stages = (0..parties as u32).map(hop).chain([open]);
    Plan::new(job.spec(), Opens::Server(ServerRole::Decryptor), stages)
}

/// To whom a party's hop goes.
fn next(party: PartyId, parties: usize) -> Seat {
    match party.rank() + 1 < parties {
        true => PartyId(party.0 + 1).into(),
        false => ServerRole::Decryptor.into(),
    }
}

/// What only the decryptor takes out again.
fn pad(round: &Round, party: PartyId) -> [u8; 32] {
    kdf::hash(
        "blindsum toy pad",
        &[&round.context().0, &party.0.to_be_bytes()],
    )
}

fn unpack(round: &Round, packed: &[u8]) -> Result<Words, FaultKind> {
    let job = round.job();
    Words::unpack(job.width(), job.lanes(), packed)
        .map_err(|error| FaultKind::malformed("hop", error.to_string()))
}

fn start(
    setup: &Arc<ClientSetup>,
    input: InputRef<'_>,
    _rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    if setup.me != PartyId(0) {
        let next = Box::new(AwaitTurn(setup.clone()));
        return Ok(ClientStep::Wait { next });
    }
    let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
    hop(setup, input, None).map_err(Fault::caller)
}

/// A party's hop, on top of the one that it got.
fn hop(
    setup: &Arc<ClientSetup>,
    input: &dyn Input,
    before: Option<Words>,
) -> Result<ClientStep, FaultKind> {
    let (round, me) = (&setup.round, setup.me);
    let pad = [seals::mask(pad(round, me), Sign::Add)];
    let mut packed = pack_input(round.job(), input, |lane, tile| {
        apply_masks(&pad, lane, tile)
    })?;
    if let Some(mut sum) = before {
        let refused =
            |error: blindsum_math::MathError| FaultKind::malformed("hop", error.to_string());
        sum.add_packed(&packed).map_err(refused)?;
        packed = sum.pack();
    }
    let everyone = PartySet::of(round.parties(), round.everyone());
    Ok(ClientStep::Send {
        body: seals::seal(round, me, next(me, round.parties()), &packed)?,
        next: Box::new(AwaitResult::new(setup.clone(), everyone)),
    })
}

/// A party before its hop. It has nothing to say and, since it will still pad its vector, nothing to keep.
struct AwaitTurn(Arc<ClientSetup>);

impl ClientStage for AwaitTurn {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let ClientSetup { round, me, .. } = &*self.0;
        let before = PartyId(me.0.saturating_sub(1));
        let sum = seals::open(round, before, *me, body).and_then(|packed| unpack(round, &packed));
        let sum = sum.map_err(|kind| Fault::server_or(before, kind))?;
        let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
        hop(&self.0, input, Some(sum)).map_err(Fault::caller)
    }
}

/// The coordinator while it waits for the hop of one party.
struct AwaitHop {
    round: Arc<Round>,
    party: BTreeSet<PartyId>,
    rank: PartyId,
}

impl AwaitHop {
    fn of(round: Arc<Round>, rank: PartyId) -> Self {
        let party = BTreeSet::from([rank]);
        Self { round, party, rank }
    }

    fn sealed_len(&self) -> usize {
        self.round.job().packed_len() + SEAL_OVERHEAD
    }
}

impl ServerStage for AwaitHop {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.party
    }

    fn required(&self) -> usize {
        1
    }

    fn receive(&mut self, _from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        match body.len() == self.sealed_len() {
            true => Ok(()),
            false => Err(FaultKind::malformed(
                "hop",
                "of another length than a sealed vector",
            )),
        }
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let to = next(self.rank, self.round.parties());
        let hop = Relayed {
            to,
            head: Vec::new(),
            pieces: vec![Piece {
                from: self.rank,
                range: 0..self.sealed_len(),
            }],
        };
        let next: Box<dyn ServerStage> = match to {
            Seat::Party(party) => Box::new(Self::of(self.round, party)),
            Seat::Server(_) => Box::new(AwaitSum {
                round: self.round,
                nobody: BTreeSet::new(),
                sum: None,
            }),
        };
        Ok(ServerStep::Next {
            next,
            bodies: Bodies::Relayed(vec![hop]),
            faults: Vec::new(),
        })
    }
}

/// The coordinator while it waits for the decryptor.
struct AwaitSum {
    round: Arc<Round>,
    nobody: BTreeSet<PartyId>,
    sum: Option<Words>,
}

impl ServerStage for AwaitSum {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.nobody
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
        self.sum = Some(unpack(&self.round, body)?);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let missing = FaultKind::TooFewSurvivors { have: 0, need: 1 };
        let sum = self.sum.ok_or(Fault::nobody(missing))?;
        let survivors = PartySet::of(self.round.parties(), self.round.everyone());
        let body = result_body(&survivors, &sum);
        Ok(ServerStep::Done {
            sum: Some(sum),
            bodies: Bodies::Same(survivors.iter().collect(), body),
            survivors,
            faults: Vec::new(),
        })
    }
}

/// The decryptor, which sees the last hop and nothing else.
struct Decryptor(Arc<Round>);

impl FollowerStage for Decryptor {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _rng: &mut dyn CryptoRng,
    ) -> Result<FollowerStep, Fault> {
        let round = &self.0;
        let last = PartyId((round.parties() as u32).saturating_sub(1));
        let opened = seals::open(round, last, ServerRole::Decryptor, body);
        let sum = opened.and_then(|packed| unpack(round, &packed));
        let mut sum = sum.map_err(|kind| Fault::server_or(last, kind))?;
        let pads = round
            .everyone()
            .map(|party| seals::mask(pad(round, party), Sign::Sub));
        let pads: Vec<_> = pads.collect();
        let lanes = sum.len();
        apply_masks(&pads, 0, sum.tile_mut(0..lanes));
        Ok(FollowerStep {
            letters: Letters::new(),
            body: Some(sum.pack()),
            learnt: None,
            next: None,
        })
    }
}
