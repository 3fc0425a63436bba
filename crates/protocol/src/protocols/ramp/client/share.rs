//! Stage 1: the vector is shared, a sealed column for every other party.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::seal::{SEAL_OVERHEAD, SealKey};
use blindsum_crypto::secret::Secret;
use blindsum_math::words::TileMut;
use blindsum_sharing::ramp::{RampSharing, TILE_BLOCKS};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::columns::AwaitColumns;
use crate::core::round::{ClientSetup, ClientStep};
use crate::kit::keys::{seal_header, seal_keys};
use crate::kit::wire::HEADER;
use crate::protocols::ramp::messages::{PURPOSE, sealed_len};
use crate::{Fault, FaultKind, Input, Job, PartyId};

/// Shares the vector among the parties that advertised keys and this party.
///
/// Columns are packed where they are sealed and sent from, a tile of blocks at a time: beside the message
/// itself only the tile is in memory.
pub(super) fn share_vector(
    setup: Arc<ClientSetup>,
    sharing: Arc<RampSharing>,
    pair: KeyPair,
    peers: BTreeMap<PartyId, PublicKey>,
    input: &dyn Input,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let job = setup.round.job();
    let sealed = sealed_len(sharing.column_len());
    let mut keys = BTreeMap::new();
    for (&party, key) in &peers {
        let pair = seal_keys(&setup, &pair, party, key, PURPOSE).map_err(Fault::server)?;
        keys.insert(party, pair);
    }
    let mut own = Zeroizing::new(vec![0; sharing.column_len()]);
    let length = peers.len() * sealed;
    let mut body = Zeroizing::new(Vec::with_capacity(HEADER + length));
    body.resize(length, 0);
    let mut columns: Vec<Option<&mut [u8]>> = Vec::new();
    columns.resize_with(setup.round.parties(), || None);
    for (party, place) in peers.keys().zip(body.chunks_exact_mut(sealed)) {
        let (column, _tag) = place.split_at_mut(sealed - SEAL_OVERHEAD);
        if let Some(at) = columns.get_mut(party.rank()) {
            *at = Some(column);
        }
    }
    if let Some(at) = columns.get_mut(setup.me.rank()) {
        *at = Some(&mut own);
    }
    let seed = MaskSeed::from(Secret::generate(rng));
    let mut words = WordReader::new(job, input).map_err(Fault::caller)?;
    let read = |first: usize, out: &mut [u64]| words.read(first, out);
    sharing
        .share(seed, read, &mut columns)
        .map_err(Fault::caller)?;
    let opening = seal_columns(&setup, keys, sealed, &mut body);
    let next = AwaitColumns {
        setup,
        sharing,
        pair,
        peers,
        opening,
        own,
    };
    Ok(ClientStep::Send {
        body: std::mem::take(&mut *body),
        next: Box::new(next),
    })
}

/// Seals every column in its place; keeps the keys of the columns that come back.
fn seal_columns(
    setup: &ClientSetup,
    keys: BTreeMap<PartyId, (SealKey, SealKey)>,
    sealed: usize,
    body: &mut [u8],
) -> BTreeMap<PartyId, SealKey> {
    let context = setup.round.context();
    let mut opening = BTreeMap::new();
    for ((party, (send, receive)), place) in keys.into_iter().zip(body.chunks_exact_mut(sealed)) {
        send.seal_in_place(&seal_header(context, setup.me, party), place);
        opening.insert(party, receive);
    }
    opening
}

/// Reads words of any width as `u64`.
struct WordReader<'a> {
    input: &'a dyn Input,
    narrow: Option<Zeroizing<Vec<u32>>>,
    /// The largest word that no sum of all parties takes out of the field.
    largest: u128,
}

impl<'a> WordReader<'a> {
    fn new(job: &Job, input: &'a dyn Input) -> Result<Self, FaultKind> {
        let lanes = job.lanes();
        if input.lanes() != lanes {
            let rule = format!(
                "words = {} must be {lanes}, by the job's dim",
                input.lanes()
            );
            return Err(FaultKind::Input(rule));
        }
        let fits = job.width().bits() <= 32;
        Ok(Self {
            input,
            narrow: fits.then(|| Zeroizing::new(vec![0; TILE_BLOCKS])),
            largest: job.encoding().largest_sum() / u128::from(job.spec().parties),
        })
    }

    fn read(&mut self, first: usize, out: &mut [u64]) -> Result<(), FaultKind> {
        match &mut self.narrow {
            None => self.input.read(first, TileMut::W64(out))?,
            Some(narrow) => {
                let narrow = narrow
                    .get_mut(..out.len())
                    .ok_or(FaultKind::Input("a tile is too long".into()))?;
                self.input.read(first, TileMut::W32(narrow))?;
                for (word, &lane) in out.iter_mut().zip(&*narrow) {
                    *word = lane.into();
                }
            }
        }
        // A larger word could wrap in the field, where it would spoil the sum without a trace.
        let most = out.iter().fold(0, |most, &word| most.max(word));
        // guard: ramp-words-that-fit
        if u128::from(most) > self.largest {
            let rule = format!(
                "a word must be at most {}, by the job's encoding",
                self.largest
            );
            return Err(FaultKind::Input(rule));
        }
        Ok(())
    }
}
