//! The parties' side of a sparse round.

use std::sync::Arc;

use blindsum_he::flashe::sparse::{Participation, Permutation, SparseMask};
use blindsum_he::flashe::{EncryptionTicket, JobKey, RoundKey, Scheme, Shape};
use blindsum_math::words::{TileMut, Width};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::messages::{Masks, check_count};
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef, RoundSum};
use crate::kit::restore::Restored;
use crate::kit::result::split_survivors;
use crate::kit::snapshot::{Reader, Writer};
use crate::kit::vector::TILE;
use crate::protocols::flashe::held::HeldKey;
use crate::protocols::flashe::ranks;
use crate::{Fault, FaultKind, Input, PartyId};

/// Sends the places of the coordinates. Nothing is encrypted yet: that takes the scheme.
pub(crate) fn start(
    setup: &Arc<ClientSetup>,
    input: InputRef<'_>,
    _rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
    let (next, places) = begin(setup, input).map_err(Fault::caller)?;
    Ok(ClientStep::Send {
        body: places,
        next: Box::new(next),
    })
}

fn begin(setup: &Arc<ClientSetup>, input: &dyn Input) -> Result<(AwaitMasks, Vec<u8>), FaultKind> {
    let job = setup.round.job();
    let coordinates = input.coordinates().ok_or_else(|| {
        FaultKind::Input("coordinates must be given, as the job's density is below 1".into())
    })?;
    if input.lanes() != coordinates.len() {
        let (words, count) = (input.lanes(), coordinates.len());
        let rule = format!("words = {words} must be {count}, one for each coordinate");
        return Err(FaultKind::Input(rule));
    }
    let refused = |rule: String| FaultKind::Input(rule);
    let mask = SparseMask::new(job.lanes(), coordinates).map_err(|e| refused(e.to_string()))?;
    check_count(job, mask.count()).map_err(refused)?;
    let held = HeldKey::of_round(&setup.round, &*setup.vault)?;
    let keys = Keys::new(setup, held.key)?;
    let in_order = read(input, job.width(), mask.count())?;
    let (places, numbers) = keys.order.permute(&mask)?;
    let words = numbers
        .iter()
        .filter_map(|&number| in_order.get(number as usize));
    let words = Zeroizing::new(words.copied().collect());
    let body = places.to_bytes();
    let next = AwaitMasks {
        setup: setup.clone(),
        keys,
        places,
        words,
    };
    Ok((next, body))
}

/// All words of an input.
fn read(input: &dyn Input, width: Width, count: usize) -> Result<Zeroizing<Vec<u64>>, FaultKind> {
    let mut words = Zeroizing::new(vec![0; count]);
    let mut narrow = Zeroizing::new(vec![0_u32; TILE]);
    for (tile, words) in words.chunks_mut(TILE).enumerate() {
        let first = tile * TILE;
        match narrow.get_mut(..words.len()) {
            Some(narrow) if width.fits_u32() => {
                input.read(first, TileMut::W32(narrow))?;
                let pairs = words.iter_mut().zip(narrow);
                pairs.for_each(|(word, lane)| *word = u64::from(*lane));
            }
            _ => input.read(first, TileMut::W64(words))?,
        }
    }
    Ok(words)
}

pub(crate) fn restore(setup: &Arc<ClientSetup>, stage: &str, reader: &mut Reader<'_>) -> Restored {
    if stage != "upload" {
        return Ok(None);
    }
    let keys = Keys::new(setup, JobKey::from(reader.secret()?))?;
    let damaged = |_| FaultKind::Snapshot("the places are damaged".into());
    Ok(Some(Box::new(AwaitSum {
        masks: Masks::read(&setup.round, reader.rest()).map_err(damaged)?,
        setup: setup.clone(),
        keys,
    })))
}

/// The key of the job, and what is derived from it for the round.
struct Keys {
    job: JobKey,
    round: RoundKey,
    order: Permutation,
}

impl Keys {
    fn new(setup: &ClientSetup, job: JobKey) -> Result<Self, FaultKind> {
        let round = job.round(setup.round.number(), setup.round.key_context());
        let order = round.permutation(setup.round.job().lanes())?;
        Ok(Self { job, round, order })
    }
}

/// The vectors of the round, with this scheme.
fn shape(setup: &ClientSetup, scheme: Scheme) -> Result<Shape, FaultKind> {
    let job = setup.round.job();
    Ok(Shape::new(scheme, job.width(), job.lanes())?)
}

/// The places are out; everybody's come next.
struct AwaitMasks {
    setup: Arc<ClientSetup>,
    keys: Keys,
    places: SparseMask,
    /// In the order of the places.
    words: Zeroizing<Vec<u64>>,
}

impl AwaitMasks {
    /// Everybody's places, the own ones as they were sent.
    fn check(&self, body: &[u8]) -> Result<Masks, FaultKind> {
        let masks = Masks::read(&self.setup.round, body)?;
        let own = |(party, places): (PartyId, &SparseMask)| {
            party == self.setup.me && *places == self.places
        };
        // guard: own-places-as-they-were-sent
        if masks.parties.iter().zip(&masks.masks).any(own) {
            return Ok(masks);
        }
        let rule = "the places that this party sent must be listed";
        Err(FaultKind::malformed("masks", rule))
    }

    /// Encrypts, which may be done once: that this round is used is written down before.
    fn encrypt(&self, scheme: Scheme) -> Result<Vec<u8>, FaultKind> {
        let ticket = self.reserve()?;
        let mut words = self.words.iter();
        let read = |_: &[u32], tile: TileMut<'_>| {
            match tile {
                TileMut::W32(lanes) => {
                    let pairs = lanes.iter_mut().zip(words.by_ref());
                    pairs.for_each(|(lane, word)| *lane = *word as u32);
                }
                TileMut::W64(lanes) => {
                    let pairs = lanes.iter_mut().zip(words.by_ref());
                    pairs.for_each(|(lane, word)| *lane = *word);
                }
            }
            Ok::<_, FaultKind>(())
        };
        let shape = shape(&self.setup, scheme)?;
        let key = &self.keys.round;
        Ok(key
            .encrypt_sparse(ticket, shape, &self.places, read)?
            .into_bytes())
    }

    fn reserve(&self) -> Result<EncryptionTicket, FaultKind> {
        let ClientSetup {
            round, vault, me, ..
        } = &*self.setup;
        let mut held = HeldKey::of_round(round, &**vault)?;
        held.reserve(&**vault, round.number(), me.0)
    }
}

impl ClientStage for AwaitMasks {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let masks = self.check(body).map_err(Fault::server)?;
        let body = self.encrypt(masks.scheme).map_err(Fault::caller)?;
        let Self { setup, keys, .. } = *self;
        let next = Box::new(AwaitSum { setup, keys, masks });
        Ok(ClientStep::Send { body, next })
    }
}

/// The ciphertext is out; the encrypted sum comes next.
struct AwaitSum {
    setup: Arc<ClientSetup>,
    keys: Keys,
    masks: Masks,
}

impl AwaitSum {
    fn open(self, body: &[u8]) -> Result<RoundSum, FaultKind> {
        let Self { setup, keys, masks } = self;
        let (round, job) = (&setup.round, setup.round.job());
        let shape = shape(&setup, masks.scheme)?;
        let (survivors, encrypted) = split_survivors(round, body)?;
        if let Some(party) = survivors
            .iter()
            // guard: survivors-have-places
            .find(|party| !masks.parties.contains(*party))
        {
            let rule = format!("{party} is not one whose places were listed");
            return Err(FaultKind::malformed("survivors", rule));
        }
        let listed = masks.parties.iter().zip(masks.masks);
        let of_survivors = listed.filter(|(party, _)| survivors.contains(*party));
        let places: Vec<SparseMask> = of_survivors.map(|(_, places)| places).collect();
        let set = ranks(&survivors, round.parties())?;
        let participation = Participation::new(&set, &places)?;
        let least = job.spec().least_contributors();
        let opened = keys
            .round
            .decrypt_sparse(shape, participation, least, encrypted)?;
        let (sum, contributors) = keys.order.restore(&opened)?;
        Ok(RoundSum {
            sum,
            survivors,
            contributors: Some(contributors),
        })
    }
}

impl ClientStage for AwaitSum {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let sum = self.open(body).map_err(Fault::server)?;
        Ok(ClientStep::Done(sum))
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        let writer = Writer::default().bytes(self.keys.job.expose());
        Ok(Some(writer.bytes(&self.masks.to_bytes()).finish()))
    }
}
