//! A party: it splits its vector, gives each server its part, and checks the sum that comes back.

use std::sync::Arc;

use blindsum_crypto::mask::apply_masks;
use blindsum_crypto::secret::Secret;
use blindsum_math::words::{TileMut, Words};
use blindsum_mpc::DIRECTION_BITS;
use blindsum_sharing::replicated::Dealer;
use rand_core::CryptoRng;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::open::{result_hash, tag, word_len};
use super::parts::{put_together, told_len};
use super::shapes::result_shape;
use super::upload::Uploads;
use super::weighing::{SHORTEST_ROOT, Weighing, check_result};
use super::{COORDINATOR, Mpc3, OTHERS, ResultName, TAG, has_keys, is_active};
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef, RoundSum};
use crate::kit::restore::Restored;
use crate::kit::result::split_survivors;
use crate::kit::snapshot::{Reader, Writer};
use crate::kit::vector::{add_up, pack_input, pack_mapped};
use crate::{Fault, FaultKind, Input, PartyId, PartySet, Round, SurvivorListError};

/// Splits the vector.
pub(super) fn start(
    setup: &Arc<ClientSetup>,
    input: InputRef<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
    let dealer = Dealer::new(setup.me.0, rng);
    let (packed, norm) = share(&setup.round, setup.me, input, &dealer)?;
    let uploads = Uploads::new(setup, dealer, packed, norm);
    let tag_keys = has_keys(setup.round.job())
        .then(|| [Secret::<TAG>::generate(rng), Secret::<TAG>::generate(rng)]);
    let key_of = |place: usize| tag_keys.as_ref().and_then(|keys| keys.get(place));
    let parts = OTHERS.iter().enumerate().filter_map(|(place, role)| {
        let server = role.place()?;
        Some((*role, uploads.to(server, key_of(place))))
    });
    let parts = parts.collect();
    Ok(ClientStep::Upload {
        parts,
        body: uploads.to(COORDINATOR, None),
        next: Box::new(AwaitSum {
            setup: setup.clone(),
            tag_keys,
        }),
    })
}

/// The explicit component of the vector; and its norm, if it is the one that others are compared with: then what is shared
/// is its direction.
fn share(
    round: &Round,
    me: PartyId,
    input: &dyn Input,
    dealer: &Dealer,
) -> Result<(Vec<u8>, Option<f64>), Fault> {
    let (job, masks) = (round.job(), dealer.masks());
    let mask = |lane: u64, tile: TileMut<'_>| apply_masks(&masks, lane, tile);
    let Some(weighing) = Weighing::of(job) else {
        let packed = pack_input(job, input, mask).map_err(Fault::caller)?;
        return Ok((packed, None));
    };
    let number = |level| weighing.lengths.shared(level).cast_signed();
    let is_metric = |lane| lane >= job.encoding().dim();
    if weighing.root(round)? != Some(me) {
        let packed = pack_mapped(
            job,
            input,
            |lane, level| weighing.shared_at(lane, level),
            mask,
        );
        return Ok((packed.map_err(Fault::caller)?, None));
    }
    let squares = add_up(job, input, |lane, level| match is_metric(lane) {
        true => 0,
        false => u128::from(number(level).unsigned_abs()).pow(2),
    });
    let (zeros, norm) = match squares.map_err(Fault::caller)? {
        // The direction of zeros: every coordinate is that of a vector of ones.
        0 => (weighing.zero_root(), SHORTEST_ROOT),
        squares => (0.0, (squares as f64).sqrt()),
    };
    let scale = f64::from(1u32 << DIRECTION_BITS) / norm;
    let unit = |lane, level| match is_metric(lane) {
        true => level,
        false => ((number(level) as f64 + zeros) * scale).round() as i64 as u64,
    };
    let packed = pack_mapped(job, input, unit, mask).map_err(Fault::caller)?;
    Ok((packed, Some(norm)))
}

/// A party from its snapshot after its upload.
pub(super) fn restore(setup: &Arc<ClientSetup>, stage: &str, reader: &mut Reader<'_>) -> Restored {
    if stage != "upload" {
        return Ok(None);
    }
    let tag_keys = match has_keys(setup.round.job()) {
        true => Some([reader.secret()?, reader.secret()?]),
        false => None,
    };
    Ok(Some(Box::new(AwaitSum {
        setup: setup.clone(),
        tag_keys,
    })))
}

/// All servers have their parts; the sum comes next.
struct AwaitSum {
    setup: Arc<ClientSetup>,
    /// By which the other two servers vouch for the sum; none if semi-honest.
    tag_keys: Option<[Secret<TAG>; 2]>,
}

impl AwaitSum {
    /// Reads what the coordinator tells: the result of these survivors, and a hash of what the others vouch for, with what
    /// they do so by; none if this party is not among them.
    fn read<'a>(&self, body: &'a [u8]) -> Result<Told<'a>, FaultKind> {
        let (round, job) = (&self.setup.round, self.setup.round.job());
        let (survivors, rest) = split_survivors(round, body)?;
        let (shape, learns) = (result_shape(job), Mpc3::of(job.spec()).result);
        let own = match learns {
            ResultName::Parties => told_len(shape),
            ResultName::Both => shape.packed_len(),
            ResultName::Servers => 0,
        };
        let lengths = OTHERS.map(|role| word_len(job, role, survivors.len()));
        let expected = own + lengths.iter().sum::<usize>();
        let short = || FaultKind::malformed("sum", "is cut short");
        let (own, words) = rest.split_at_checked(own).ok_or_else(short)?;
        if rest.len() != expected {
            let rule = format!("{expected} bytes, not {}", rest.len());
            return Err(FaultKind::malformed("sum", rule));
        }
        let (second, third) = words.split_at_checked(lengths[0]).ok_or_else(short)?;
        let of_tags = if is_active(job) {
            TAG * survivors.len()
        } else {
            0
        };
        let (tags, sealed) = second.split_at_checked(of_tags).ok_or_else(short)?;
        let me = self.setup.me;
        let place = survivors.iter().position(|party| party == me);
        let (result, _) = body.split_at(body.len() - words.len());
        let (hash, sum) = match (learns, place, &self.tag_keys) {
            (ResultName::Parties, None, _) => {
                let rule = SurvivorListError::SelfDropped;
                return Err(FaultKind::BadSurvivorList(rule));
            }
            (ResultName::Parties, Some(place), Some([key, _])) => {
                put_together(round, &survivors, shape, (own, sealed), (place, key))?
            }
            (ResultName::Parties, _, None) => return Err(FaultKind::NoKey),
            (ResultName::Servers, ..) => (result_hash(round, result), Words::zeros(shape.width, 0)),
            (ResultName::Both, ..) => {
                let sum = Words::unpack(shape.width, shape.lanes, own)
                    .map_err(|e| FaultKind::malformed("sum", e.to_string()))?;
                (result_hash(round, result), sum)
            }
        };
        Ok(Told {
            survivors,
            place,
            sum,
            hash,
            tags: [tags, third],
        })
    }

    /// Both other servers vouch for this result: the coordinator may have changed it.
    fn check_tags(&self, told: &Told<'_>) -> Result<(), FaultKind> {
        // A sum without this party is refused by whoever drives this stage.
        let (Some(keys), Some(place)) = (&self.tag_keys, told.place) else {
            return Ok(());
        };
        let round = &self.setup.round;
        for ((key, role), tags) in keys.iter().zip(OTHERS).zip(told.tags) {
            let expected = tag(round, key, &told.hash);
            let (tags, _) = tags.as_chunks::<TAG>();
            let got = tags.get(place);
            // guard: servers-vouch-for-the-sum
            if !got.is_some_and(|got| got.ct_eq(&expected).into()) {
                let rule = format!(
                    "the tag of the {role} does not authenticate this sum: it, or the coordinator, is malicious"
                );
                return Err(FaultKind::malformed("tag", rule));
            }
        }
        Ok(())
    }
}

/// What a party is told.
struct Told<'a> {
    survivors: PartySet,
    /// The place of this party among them.
    place: Option<usize>,
    sum: Words,
    /// What the other two servers vouch for.
    hash: [u8; TAG],
    /// Their tags, one for each survivor.
    tags: [&'a [u8]; 2],
}

impl ClientStage for AwaitSum {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let job = self.setup.round.job();
        let told = self.read(body).map_err(Fault::server)?;
        if is_active(job) {
            self.check_tags(&told).map_err(Fault::server)?;
        }
        if job.tells_parties() {
            // guard: divisors-are-numbers-above-0
            check_result(job, &told.sum).map_err(Fault::server)?;
        }
        Ok(ClientStep::Done(RoundSum::dense(told.sum, told.survivors)))
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        let keys = self.tag_keys.iter().flatten();
        let writer = keys.fold(Writer::default(), |writer, key| writer.bytes(key.expose()));
        Ok(Some(writer.finish()))
    }
}
