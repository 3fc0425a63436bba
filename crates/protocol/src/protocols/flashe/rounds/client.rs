//! The parties' side of a round.

use std::sync::Arc;

use blindsum_he::flashe::{JobKey, RoundKey, Shape, Survivors};
use blindsum_math::words::TileMut;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::core::round::{Ahead, Starter};
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef, RoundSum};
use crate::kit::restore::Restored;
use crate::kit::result::split_survivors;
use crate::kit::snapshot::{Reader, Writer};
use crate::kit::vector::bias;
use crate::protocols::flashe::held::HeldKey;
use crate::protocols::flashe::{ranks, shape};
use crate::{Fault, FaultKind, Round};

/// Encrypts the vector, with the key of the round where that was prepared. That this round is used is written down
/// before.
pub(super) fn start(
    setup: &Arc<ClientSetup>,
    input: InputRef<'_>,
    prepared: Option<RoundKey>,
) -> Result<ClientStep, Fault> {
    let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
    let ClientSetup { round, vault, .. } = &**setup;
    let shape = shape_of(round).map_err(Fault::caller)?;
    // guard: flashe-inputs-of-their-length
    if input.lanes() != shape.lanes() {
        return Err(Fault::caller(FaultKind::lanes(
            input.lanes(),
            shape.lanes(),
        )));
    }
    let mut held = HeldKey::of_round(round, &**vault).map_err(Fault::caller)?;
    let ticket = held
        .reserve(&**vault, round.number(), setup.me.0)
        .map_err(Fault::caller)?;
    // guard: pads-of-the-whole-context
    let key = prepared.unwrap_or_else(|| held.key.round(round.number(), round.key_context()));
    let bias = bias(round.job());
    let read = |first: usize, mut tile: TileMut<'_>| {
        input.read(first, tile.reborrow())?;
        add(tile, bias);
        Ok(())
    };
    let ciphertext = key.encrypt(ticket, shape, read).map_err(Fault::caller)?;
    let next = AwaitSum {
        setup: setup.clone(),
        job_key: held.key,
        key,
        shape,
    };
    Ok(ClientStep::Send {
        body: ciphertext.into_bytes(),
        next: Box::new(next),
    })
}

/// The key of the round with masks of the party's vector.
struct WithMasks(RoundKey);

impl Starter for WithMasks {
    fn start(
        self: Box<Self>,
        setup: &Arc<ClientSetup>,
        input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        start(setup, input, Some(self.0))
    }
}

/// Computes masks of the party's vector, in so many bytes at most.
pub(super) fn prepare(
    setup: &ClientSetup,
    memory_bytes: usize,
) -> Result<Option<Ahead>, FaultKind> {
    let ClientSetup { round, vault, .. } = setup;
    let held = HeldKey::load(&**vault)?;
    let Some(held) = held.filter(|held| held.serves(round.job(), round.number())) else {
        return Ok(None);
    };
    let key = held.key.round(round.number(), round.key_context());
    let bytes = key.prepare_encryption(setup.me.0, shape_of(round)?, memory_bytes)?;
    let starter = Box::new(WithMasks(key));
    Ok(Some(Ahead { starter, bytes }))
}

/// The one stage is answered.
pub(super) fn restore(setup: &Arc<ClientSetup>, reader: &mut Reader<'_>) -> Restored {
    let job_key = JobKey::from(reader.secret()?);
    Ok(Some(Box::new(AwaitSum {
        key: job_key.round(setup.round.number(), setup.round.key_context()),
        shape: shape_of(&setup.round)?,
        setup: setup.clone(),
        job_key,
    })))
}

/// Adds a number to every word of 64 bits.
fn add(words: TileMut<'_>, number: u64) {
    if let (TileMut::W64(lanes), true) = (words, number != 0) {
        lanes
            .iter_mut()
            .for_each(|lane| *lane = lane.wrapping_add(number));
    }
}

fn shape_of(round: &Round) -> Result<Shape, FaultKind> {
    Ok(shape(round.job(), round.parties())?)
}

/// The ciphertext is out; the encrypted sum comes next.
struct AwaitSum {
    setup: Arc<ClientSetup>,
    job_key: JobKey,
    key: RoundKey,
    shape: Shape,
}

impl AwaitSum {
    fn open(&self, body: &[u8]) -> Result<RoundSum, FaultKind> {
        let round = &self.setup.round;
        let (survivors, encrypted) = split_survivors(round, body)?;
        let set = ranks(&survivors, round.parties())?;
        let mut sum = self.key.decrypt(self.shape, &set, encrypted)?;
        let of_all = bias(round.job()).wrapping_mul(survivors.len() as u64);
        add(sum.tile_mut(0..self.shape.lanes()), of_all.wrapping_neg());
        Ok(RoundSum::dense(sum, survivors))
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

    /// The masks of the sum of everybody's vectors; where others survive, most of them serve all the same.
    fn prepare(&mut self, memory_bytes: usize, _rng: &mut dyn CryptoRng) -> usize {
        let parties = self.setup.round.parties() as u32;
        let everybody = Survivors::new(parties, &Vec::from_iter(0..parties));
        everybody.map_or(0, |everybody| {
            self.key
                .prepare_decryption(&everybody, self.shape, memory_bytes)
        })
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        Ok(Some(
            Writer::default().bytes(self.job_key.expose()).finish(),
        ))
    }
}
