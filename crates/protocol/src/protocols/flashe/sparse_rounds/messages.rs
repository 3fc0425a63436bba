//! What the server says of everybody's coordinates.

use blindsum_he::flashe::FlasheError;
use blindsum_he::flashe::Scheme;
use blindsum_he::flashe::sparse::{Participation, SparseMask};

use crate::kit::result::split_survivors;
use crate::protocols::flashe::{Flashe, Masking, ranks};
use crate::{FaultKind, Job, PartySet, Round};

/// Bytes before each set of places: its length, big-endian.
const LENGTH: usize = 4;

/// The places that each party has words for, and how words are masked.
///
/// `scheme: u8 (1 single, 2 double) ‖ bitmap of the parties ‖ for each of them, by rank: length: u32 ‖ places`.
pub(super) struct Masks {
    pub scheme: Scheme,
    pub parties: PartySet,
    /// By rank.
    pub masks: Vec<SparseMask>,
}

impl Masks {
    /// The places of some parties, with the scheme that the round has then.
    pub fn new(
        round: &Round,
        parties: PartySet,
        masks: Vec<SparseMask>,
    ) -> Result<Self, FlasheError> {
        Ok(Self {
            scheme: scheme(round, &parties, &masks)?,
            parties,
            masks,
        })
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.scheme.masks_to_encrypt() as u8];
        bytes.extend_from_slice(self.parties.as_bitmap());
        for mask in &self.masks {
            let places = mask.to_bytes();
            bytes.extend_from_slice(&(places.len() as u32).to_be_bytes());
            bytes.extend_from_slice(&places);
        }
        bytes
    }

    /// Reads a whole message, in which there are at least `min_parties` parties, and checks the scheme.
    pub fn read(round: &Round, body: &[u8]) -> Result<Self, FaultKind> {
        let refused = |rule: &str| FaultKind::malformed("masks", rule);
        let (scheme, rest) = body
            .split_first()
            .ok_or(refused("there must be a scheme"))?;
        let (parties, mut rest) = split_survivors(round, rest)?;
        let mut masks = Vec::with_capacity(parties.len());
        for _ in parties.iter() {
            let cut = || refused("the places of a party are cut short");
            let (length, behind) = rest.split_first_chunk::<LENGTH>().ok_or_else(cut)?;
            let length = u32::from_be_bytes(*length) as usize;
            let (places, behind) = behind.split_at_checked(length).ok_or_else(cut)?;
            masks.push(read_places(round.job(), places)?);
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(refused("nothing must follow"));
        }
        let masks = Self::new(round, parties, masks)?;
        if u64::from(*scheme) != masks.scheme.masks_to_encrypt() {
            let (name, number) = (masks.scheme.name(), masks.scheme.masks_to_encrypt());
            let rule = format!("scheme = {scheme} must be {number}, {name} masking");
            return Err(FaultKind::malformed("masks", rule));
        }
        Ok(masks)
    }
}

/// A party's places, not more than a party of the job has.
pub(super) fn read_places(job: &Job, bytes: &[u8]) -> Result<SparseMask, FaultKind> {
    let mask = SparseMask::from_bytes(job.lanes(), bytes)?;
    check_count(job, mask.count()).map_err(|rule| FaultKind::malformed("mask", rule))?;
    Ok(mask)
}

/// Says the rule that a number of coordinates breaks.
pub(super) fn check_count(job: &Job, count: usize) -> Result<(), String> {
    let most = job.most_words();
    match (1..=most).contains(&count) {
        true => Ok(()),
        false => Err(format!(
            "1 <= coordinates = {count} <= {most} must hold, by the job's density"
        )),
    }
}

/// The job's scheme, or the one that takes fewer masks (FLASHE §4.1).
fn scheme(round: &Round, parties: &PartySet, masks: &[SparseMask]) -> Result<Scheme, FlasheError> {
    Ok(match Flashe::of(round.job().spec()).masking {
        Masking::Double => Scheme::Double,
        Masking::Single => Scheme::Single,
        Masking::Cheaper => {
            let set = ranks(parties, round.parties())?;
            Participation::new(&set, masks)?.mask_counts().cheaper()
        }
    })
}
