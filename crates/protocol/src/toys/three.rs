//! A sum of three servers: each has an additive share of every vector, and only all of them together the sum.
//!
//! A party sends the coordinator a masked vector, and for each of the other two servers the seed of a mask, sealed. The
//! three agree on the parties whose shares all of them have, and open the sum of these together. Their code is
//! sequential (`sequential.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use blindsum_crypto::mask::{Sign, apply_masks};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::seals::{self, SEAL_OVERHEAD};
use super::sequential::{Answers, Desk, Ear, Follow, Lead, Opened, Wanted};
use crate::core::plan::{Stage, small};
use crate::core::protocol::ProtocolInfo;
use crate::core::round::OtherServer;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef, Piece, Relayed};
use crate::kit::restore::Stateless;
use crate::kit::result::{read_result, result_body, split_survivors};
use crate::kit::vector::pack_input;
use crate::{Fault, FaultKind, Job, Opens, PartyId, PartySet, Plan, Round, ServerRole, Who};

/// The servers beside the coordinator.
const OTHERS: [ServerRole; 2] = [ServerRole::Second, ServerRole::Third];
/// Bytes of a sealed seed.
const SEED: usize = 32 + SEAL_OVERHEAD;

pub(super) static INFO: ProtocolInfo = ProtocolInfo {
    min_parties: |_| 2,
    servers: &[
        OtherServer {
            role: ServerRole::Second,
            follow: |setup| {
                let round = setup.round.clone();
                Ok(Follow::start(|ear| follow(round, ServerRole::Second, ear)))
            },
        },
        OtherServer {
            role: ServerRole::Third,
            follow: |setup| {
                let round = setup.round.clone();
                Ok(Follow::start(|ear| follow(round, ServerRole::Third, ear)))
            },
        },
    ],
    ..ProtocolInfo::of(plan, |_| {
        Ok(Arc::new(Stateless {
            start,
            restore: |setup, _, _| Ok(Some(Box::new(AwaitSum(setup.round.clone())))),
            serve: |round| {
                let round = round.clone();
                Lead::start(|desk| lead(round, desk))
            },
        }))
    })
};

fn plan(job: &Job, _parties: usize) -> Plan {
    let small = small(job.spec());
    let vector = small + job.packed_len() as u64;
    let (servers, seeds) = (Who::Servers, u64::from(job.spec().parties) * SEED as u64);
    let stages = [
        Stage::new("share", vector, small + seeds)
            .input()
            .relayed()
            .heard_by(servers),
        Stage::new("agree", small, small)
            .answered_by(servers)
            .heard_by(servers)
            .enough(2),
        Stage::new("open", vector, vector)
            .answered_by(servers)
            .enough(2),
    ];
    Plan::new(job.spec(), Opens::Servers, stages)
}

fn start(
    setup: &Arc<ClientSetup>,
    input: InputRef<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
    let round = &setup.round;
    let (mut masks, mut sealed) = (Vec::new(), Vec::new());
    for role in OTHERS {
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        masks.push(seals::mask(seed, Sign::Add));
        sealed.extend(seals::seal(round, setup.me, role, &seed).map_err(Fault::caller)?);
    }
    let masked = pack_input(round.job(), input, |lane, tile| {
        apply_masks(&masks, lane, tile)
    });
    let mut body = masked.map_err(Fault::caller)?;
    body.extend(sealed);
    let next = Box::new(AwaitSum(round.clone()));
    Ok(ClientStep::Send { body, next })
}

/// The shares are out; the sum comes next.
struct AwaitSum(Arc<Round>);

impl ClientStage for AwaitSum {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let sum = read_result(&self.0, body).map_err(Fault::server)?;
        Ok(ClientStep::Done(sum))
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        Ok(Some(Zeroizing::default()))
    }
}

/// Answers of both other servers.
fn of_others(required: usize, length: usize) -> Wanted {
    Wanted {
        servers: OTHERS.to_vec(),
        required,
        length,
        parties: BTreeSet::new(),
    }
}

/// The set of parties that each of these answers begins with.
fn sets(round: &Round, answers: &Answers) -> Result<Vec<PartySet>, Fault> {
    let set = |(from, body): (&_, &Vec<u8>)| {
        let set = split_survivors(round, body).map(|(set, _)| set);
        set.map_err(|kind| Fault::of(*from, kind))
    };
    answers.iter().map(set).collect()
}

/// The coordinator: it has a share of each vector as the others do, and passes theirs on.
async fn lead(round: Arc<Round>, desk: Desk) -> Result<Opened, Fault> {
    let (vector, bitmap) = (round.job().packed_len(), round.parties().div_ceil(8));
    let shares = desk.gather(Wanted {
        parties: round.everyone().collect(),
        required: round.job().min_parties(),
        length: vector + OTHERS.len() * SEED,
        servers: Vec::new(),
    });
    let shares = shares.await;
    let has = |party: &PartyId| shares.contains_key(&(*party).into());
    let mine = PartySet::of(round.parties(), round.everyone().filter(has));
    for (place, role) in OTHERS.into_iter().enumerate() {
        let from = vector + place * SEED;
        let seed = |from_party| Piece {
            from: from_party,
            range: from..from + SEED,
        };
        desk.say(Relayed {
            to: role.into(),
            head: mine.as_bitmap().to_vec(),
            pieces: mine.iter().map(seed).collect(),
        });
    }
    let lists = sets(&round, &desk.gather(of_others(2, bitmap)).await)?;
    let all_have = |party: &PartyId| lists.iter().all(|list| list.contains(*party));
    let survivors = PartySet::of(round.parties(), mine.iter().filter(all_have));
    let (have, need) = (survivors.len(), round.job().min_parties());
    if have < need {
        return Err(Fault::nobody(FaultKind::TooFewSurvivors { have, need }));
    }
    for role in OTHERS {
        desk.say(Relayed {
            to: role.into(),
            head: survivors.as_bitmap().to_vec(),
            pieces: Vec::new(),
        });
    }
    let parts = desk.gather(of_others(2, bitmap + vector)).await;
    if sets(&round, &parts)?.iter().any(|set| *set != survivors) {
        let rule = "the servers open the sums of different parties";
        return Err(Fault::nobody(FaultKind::malformed("survivors", rule)));
    }
    let mut sum = round.job().zeros();
    let own = shares
        .iter()
        .filter(|(seat, _)| survivors.iter().any(|party| **seat == party.into()));
    let own = own.filter_map(|(_, share)| share.get(..vector));
    let others = parts.values().filter_map(|part| part.get(bitmap..));
    for part in own.chain(others) {
        let refused = |e: blindsum_math::MathError| FaultKind::malformed("share", e.to_string());
        sum.add_packed(part)
            .map_err(refused)
            .map_err(Fault::nobody)?;
    }
    let body = result_body(&survivors, &sum);
    Ok(Opened {
        sum,
        survivors,
        body,
    })
}

/// Another server: it says whose seeds open, and adds up what they make for the parties that all have.
async fn follow(round: Arc<Round>, role: ServerRole, ear: Ear) -> Result<(), Fault> {
    let shares = ear.receive().await;
    let (listed, sealed) = split_survivors(&round, &shares).map_err(Fault::server)?;
    let mut seeds = Vec::new();
    for (party, sealed) in listed.iter().zip(sealed.chunks(SEED)) {
        let opened = seals::open(&round, party, role, sealed);
        let seed = opened.ok().and_then(|seed| <[u8; 32]>::try_from(seed).ok());
        seeds.extend(seed.map(|seed| (party, seed)));
    }
    let mine = PartySet::of(round.parties(), seeds.iter().map(|(party, _)| *party));
    ear.say(mine.as_bitmap().to_vec());
    let agreed = ear.receive().await;
    let (survivors, _) = split_survivors(&round, &agreed).map_err(Fault::server)?;
    if survivors.iter().any(|party| !mine.contains(party)) {
        let rule = "a party whose share does not open here";
        return Err(Fault::server(FaultKind::malformed("survivors", rule)));
    }
    let counted = seeds
        .into_iter()
        .filter(|(party, _)| survivors.contains(*party));
    let masks: Vec<_> = counted
        .map(|(_, seed)| seals::mask(seed, Sign::Sub))
        .collect();
    let mut sum = round.job().zeros();
    let lanes = sum.len();
    apply_masks(&masks, 0, sum.tile_mut(0..lanes));
    ear.say(result_body(&survivors, &sum));
    Ok(())
}
