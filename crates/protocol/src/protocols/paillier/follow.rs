//! The key service's side of a round: it opens the round, and one sum of all, once.

use std::sync::Arc;

use blindsum_crypto::kex::KeyPair;
use blindsum_he::paillier::{PublicKey, SecretKey};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::broadcast::{NO_PAIR, hash};
use super::cipher::{Layout, Sum, to_words};
use super::circle::{Line, check_adverts, prove};
use super::hops::SUM;
use super::messages::{Adverts, Opened, Opening};
use super::options::Options;
use super::service::KeyService;
use super::way::{HASH, PAIR, Way};
use crate::core::round::stages::{FollowerStep, Letters};
use crate::core::round::{FollowerSetup, FollowerStage};
use crate::kit::keys::suite_of;
use crate::kit::proof::Proof;
use crate::kit::vector::bias;
use crate::kit::wire::{Bounded, encode};
use crate::{Fault, FaultKind, PartyId, PartySet, Round, ServerIdentity, ServerRole};

pub(super) fn start(setup: &FollowerSetup, way: Way) -> Result<Box<dyn FollowerStage>, Fault> {
    let options = Options::of(setup.round.job().spec());
    Ok(Box::new(AwaitAdverts {
        options: options.ok_or(Fault::caller(FaultKind::Ended))?,
        round: setup.round.clone(),
        service: setup.memory.kept(),
        identity: setup.identity.clone(),
        now: setup.now,
        way,
    }))
}

struct AwaitAdverts {
    round: Arc<Round>,
    options: Options,
    service: Arc<KeyService>,
    identity: Option<Arc<ServerIdentity>>,
    now: u64,
    way: Way,
}

impl FollowerStage for AwaitAdverts {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<FollowerStep, Fault> {
        let Self {
            round,
            options,
            service,
            identity,
            now,
            way,
        } = *self;
        let adverts = Adverts::read(round.parties(), body).map_err(Fault::server)?;
        let keys = check_adverts(&round, &adverts.adverts).map_err(Fault::server)?;
        let own = KeyPair::generate(suite_of(&round), rng);
        let own = own.map_err(|e| Fault::caller(FaultKind::Parameters(e.to_string())))?;
        let key = service
            .open(&round, &options, now, rng)
            .map_err(Fault::caller)?;
        let mut opened = Opened {
            adverts: adverts.adverts,
            opening: Opening {
                key: key.public().to_bytes().into(),
                seal_key: own.public().as_bytes().to_vec().into(),
                proof: Proof::default(),
            },
        };
        prove(&round, identity.as_deref(), &mut opened).map_err(Fault::caller)?;
        let me = ServerRole::Decryptor.into();
        let line = Line::new(&round, me, own, keys, &opened).map_err(Fault::caller)?;
        let layout = Layout::of(round.job(), &options, round.parties());
        let next = AwaitSums {
            layout: layout.map_err(|error| Fault::caller(error.into()))?,
            line,
            round,
            service,
            public: key.public().clone(),
            way,
        };
        let body = encode(Opening::NAME, &opened.opening).map_err(Fault::caller)?;
        Ok(step(Some(body), Some(Box::new(next))))
    }
}

fn step(body: Option<Vec<u8>>, next: Option<Box<dyn FollowerStage>>) -> FollowerStep {
    FollowerStep {
        body,
        letters: Letters::new(),
        learnt: None,
        next,
    }
}

/// What a party has sealed for the key service.
type Unsealed = (PartyId, Zeroizing<Vec<u8>>);

struct AwaitSums {
    round: Arc<Round>,
    service: Arc<KeyService>,
    public: PublicKey,
    layout: Layout,
    line: Line,
    way: Way,
}

impl AwaitSums {
    /// What each party has sealed for the key service, opened.
    fn unsealed(&self, body: &[u8]) -> Result<Vec<Unsealed>, Fault> {
        let (parties, lanes) = (self.round.parties(), self.round.job().lanes());
        let last = self.way.steps(parties).saturating_sub(1);
        let malformed = |rule| Fault::server(FaultKind::malformed("sealed sums", rule));
        let (mut rest, mut unsealed) = (body, Vec::new());
        for from in self.way.speakers(last, parties) {
            let length = self.way.sent_len(&self.layout, lanes, last, from);
            let (sealed, after) =
                (rest.split_at_checked(length)).ok_or_else(|| malformed("cut short"))?;
            unsealed.push((from, self.line.open(from, SUM, sealed)?));
            rest = after;
        }
        match rest.is_empty() {
            true => Ok(unsealed),
            false => Err(malformed("more than those of all")),
        }
    }

    /// The sums, each with its number of words, in the order of the words.
    fn sums(&self, body: &[u8]) -> Result<Vec<(Sum, usize)>, Fault> {
        let (parties, lanes) = (self.round.parties(), self.round.job().lanes());
        let last = self.way.steps(parties).saturating_sub(1);
        let unsealed = self.unsealed(body)?;
        let read = |from, bytes: &[u8]| {
            let range = self.way.words(lanes, last, from, parties);
            let sum = self.layout.read(&self.public, range.len(), bytes);
            let sum = sum.map_err(|kind| Fault::party(from, kind))?;
            Ok((range.start, range.len(), sum))
        };
        let mut sums = match self.way {
            Way::Ring | Way::AllReduce => {
                let each = unsealed.iter().map(|(from, bytes)| read(*from, bytes));
                each.collect::<Result<Vec<_>, Fault>>()?
            }
            Way::Broadcast => {
                let told = compared(&unsealed)?;
                vec![read(PartyId(0), told)?]
            }
        };
        sums.sort_by_key(|(start, ..)| *start);
        Ok(sums
            .into_iter()
            .map(|(_, words, sum)| (sum, words))
            .collect())
    }
}

/// What one party tells of a broadcast.
struct Told<'a> {
    from: PartyId,
    hash: &'a [u8],
    /// Two that sent the same, as it says.
    pair: Option<[PartyId; 2]>,
    /// The sum; of party 0 alone.
    sum: &'a [u8],
}

impl<'a> Told<'a> {
    fn read((from, told): &'a Unsealed, parties: usize) -> Result<Self, Fault> {
        let from = *from;
        let wrong = |rule: String| Fault::party(from, FaultKind::malformed("comparison", rule));
        let cut = || wrong("cut short".into());
        let (hash, rest) = told.split_at_checked(HASH).ok_or_else(cut)?;
        let (pair, sum) = rest.split_at_checked(PAIR).ok_or_else(cut)?;
        let (one, other) = pair.split_at_checked(PAIR / 2).ok_or_else(cut)?;
        let rank = |bytes: &[u8]| bytes.try_into().map(u32::from_be_bytes).map_err(|_| cut());
        let ranks = [rank(one)?, rank(other)?];
        let [one, other] = ranks.map(PartyId);
        let pair = match ranks == NO_PAIR {
            true => None,
            // guard: a-claim-is-of-two-parties
            false if one >= other || other.rank() >= parties => {
                let rule = format!("{one} and {other} are no two parties, the lower one first");
                return Err(wrong(rule));
            }
            false => Some([one, other]),
        };
        Ok(Self {
            from,
            hash,
            pair,
            sum,
        })
    }
}

/// The sum that party 0 tells, once all are found to have added up the same, and no two to have sent the same.
fn compared(unsealed: &[Unsealed]) -> Result<&[u8], Fault> {
    let told = (unsealed.iter()).map(|of| Told::read(of, unsealed.len()));
    let told = told.collect::<Result<Vec<Told<'_>>, Fault>>()?;
    check_pairs(&told).map_err(Fault::nobody)?;
    let sum = told.first().map_or(&[][..], |party_0| party_0.sum);
    let expected = hash(sum);
    let differs = told.iter().filter(|told| told.hash != expected);
    let differs: Vec<PartyId> = differs.map(|told| told.from).collect();
    // guard: all-sums-agree
    match differs.is_empty() {
        true => Ok(sum),
        false => Err(Fault::nobody(FaultKind::SumsDiffer { differs })),
    }
}

/// No party may have sent what another one did. All see the same ciphertexts, so honest ones say the same of them: what
/// only some say accuses nobody.
fn check_pairs(told: &[Told<'_>]) -> Result<(), FaultKind> {
    let Some([one, other]) = told.iter().find_map(|told| told.pair) else {
        return Ok(());
    };
    let says_so = told.iter().filter(|told| told.pair == Some([one, other]));
    let by: Vec<PartyId> = says_so.map(|told| told.from).collect();
    // guard: one-claim-accuses-nobody
    match by.len() == told.len() {
        true => Err(FaultKind::Identical { one, other }),
        false => Err(FaultKind::Contested { by, one, other }),
    }
}

impl FollowerStage for AwaitSums {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _rng: &mut dyn CryptoRng,
    ) -> Result<FollowerStep, Fault> {
        let sums = self.sums(body)?;
        let job = self.round.job();
        let decrypt = |key: &SecretKey| open(&self.layout, key, &sums);
        let declared: Vec<&PartySet> = sums.iter().map(|(sum, _)| &sum.of).collect();
        let words = self.service.decrypt(&self.round, &declared, decrypt);
        let mut words = words.map_err(Fault::nobody)?;
        let of_all = bias(job).wrapping_mul(self.round.parties() as u64);
        words
            .iter_mut()
            .for_each(|word| *word = word.wrapping_sub(of_all));
        let sum = to_words(job, &words).map_err(Fault::nobody)?;
        Ok(step(Some(sum.pack()), None))
    }
}

/// The words of sums, one behind the other, each with its number of words. None is opened before all roll calls are right.
pub(super) fn open(
    layout: &Layout,
    key: &SecretKey,
    sums: &[(Sum, usize)],
) -> Result<Zeroizing<Vec<u64>>, FaultKind> {
    // guard: the-roll-is-called-first
    for (sum, _) in sums {
        check_roll(&layout.open_roll(key, sum)?)?;
    }
    let all = sums.iter().map(|(_, words)| words).sum();
    let mut opened = Zeroizing::new(Vec::with_capacity(all));
    for (sum, words) in sums {
        opened.extend_from_slice(&layout.open_words(key, sum, *words)?);
    }
    Ok(opened)
}

/// Every party must be in a sum once.
fn check_roll(roll: &[u64]) -> Result<(), FaultKind> {
    let of = |wrong: fn(u64) -> bool| {
        let ranks = (0..).zip(roll).filter(|(_, times)| wrong(**times));
        ranks.map(|(rank, _)| PartyId(rank)).collect::<Vec<_>>()
    };
    let (missing, repeated) = (of(|times| times == 0), of(|times| times > 1));
    // guard: the-roll-is-called
    match missing.is_empty() && repeated.is_empty() {
        true => Ok(()),
        false => Err(FaultKind::RollCall { missing, repeated }),
    }
}
