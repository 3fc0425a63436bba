//! A party where everybody's ciphertexts go to all, and everybody adds them up.

use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_crypto::seal::{STORAGE_OVERHEAD, StorageKey};
use blindsum_crypto::secret::Secret;
use rand_core::CryptoRng;

use super::cipher::Sum;
use super::circle::Circle;
use super::hops::SUM;
use super::way::{HASH, WRAPPED};
use crate::core::round::{ClientStage, ClientStep, InputRef};
use crate::kit::result::AwaitResult;
use crate::kit::vector::biased_words;
use crate::{Fault, FaultKind, PartyId, PartySet, ServerRole};

/// What the key of a vector is sealed as.
const WRAP: &str = "vector key";
/// What a vector that goes to all is bound to.
const VECTOR: &[u8] = b"blindsum paillier broadcast";
/// In the place of the ranks of two parties that sent the same, where no two have.
pub(super) const NO_PAIR: [u32; 2] = [u32::MAX; 2];

/// A party sends its ciphertexts to all, under a fresh key that it wraps for each.
pub(super) fn begin(
    circle: Arc<Circle>,
    input: InputRef<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
    let (body, own) = sealed_to_all(&circle, input, rng).map_err(Fault::caller)?;
    Ok(ClientStep::Send {
        body,
        next: Box::new(AwaitOthers { circle, own }),
    })
}

pub(super) fn sealed_to_all(
    circle: &Circle,
    input: &dyn crate::Input,
    rng: &mut dyn CryptoRng,
) -> Result<(Vec<u8>, Sum), FaultKind> {
    let (setup, cipher) = (&circle.setup, &circle.cipher);
    let words = biased_words(setup.round.job(), input)?;
    let own = cipher.encrypt(setup.me, &words, rng)?;
    let key = Secret::<32>::generate(rng);
    let mut wraps = Vec::new();
    for other in setup.round.everyone().filter(|other| *other != setup.me) {
        wraps.extend(circle.line.seal(other, WRAP, key.expose())?);
    }
    let mut body = StorageKey::from(key).seal(VECTOR, &cipher.layout.write(&own), rng);
    body.extend(wraps);
    Ok((body, own))
}

/// A party that waits for the ciphertexts of all others.
struct AwaitOthers {
    circle: Arc<Circle>,
    own: Sum,
}

impl AwaitOthers {
    /// One other party's ciphertexts.
    fn read(&self, from: PartyId, vector: &[u8], wrap: &[u8]) -> Result<Sum, Fault> {
        let Circle {
            setup,
            line,
            cipher,
        } = &*self.circle;
        let key = line.open(from, WRAP, wrap)?;
        let blame = |kind| Fault::party(from, kind);
        let key = Secret::try_from(key.as_slice())
            .map_err(|_| blame(FaultKind::malformed("vector key", "it has 32 bytes")))?;
        let opened = StorageKey::from(key).open(VECTOR, vector);
        let opened = opened.map_err(|_| {
            let rule = "does not open as a message that the party has sealed for all";
            Fault::server_or(from, FaultKind::malformed("seal", rule))
        })?;
        let lanes = setup.round.job().lanes();
        let sum = cipher.layout.read(cipher.key(), lanes, &opened);
        let sum = sum.map_err(blame)?;
        let itself = PartySet::of(setup.round.parties(), [from]);
        match sum.of == itself {
            true => Ok(sum),
            false => {
                let rule = format!("{:?}, but it must be of {itself:?}", sum.of);
                Err(blame(FaultKind::malformed("contributors", rule)))
            }
        }
    }
}

impl ClientStage for AwaitOthers {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let circle = self.circle.clone();
        let (setup, cipher) = (&circle.setup, &circle.cipher);
        let vector = cipher.layout.len(setup.round.job().lanes()) + STORAGE_OVERHEAD;
        let mut others = body.chunks_exact(vector + WRAPPED);
        let mut sums = Vec::with_capacity(setup.round.parties());
        for from in setup.round.everyone() {
            if from == setup.me {
                continue;
            }
            let cut = || Fault::server(FaultKind::malformed("vectors", "cut short"));
            let (vector, wrap) = (others.next())
                .and_then(|piece| piece.split_at_checked(vector))
                .ok_or_else(cut)?;
            sums.push(self.read(from, vector, wrap)?);
        }
        if others.next().is_some() || !others.remainder().is_empty() {
            let rule = "more than those of all others";
            return Err(Fault::server(FaultKind::malformed("vectors", rule)));
        }
        sums.insert(setup.me.rank().min(sums.len()), self.own);
        let told = compare(&circle, sums).map_err(Fault::caller)?;
        let everyone = PartySet::of(setup.round.parties(), setup.round.everyone());
        let sealed = circle.line.seal(ServerRole::Decryptor, SUM, &told);
        Ok(ClientStep::Send {
            body: sealed.map_err(Fault::caller)?,
            next: Box::new(AwaitResult::new(setup.clone(), everyone)),
        })
    }
}

/// What a party tells the key service: `hash ‖ ranks of two that sent the same`, and party 0 the sum.
fn compare(circle: &Circle, sums: Vec<Sum>) -> Result<Vec<u8>, FaultKind> {
    let Circle { setup, cipher, .. } = circle;
    // guard: nobody-sends-the-ciphertexts-of-another
    let pair = first_pair(&sums).unwrap_or(NO_PAIR);
    let sum = cipher.layout.add(cipher.key(), &sums)?;
    drop(sums);
    let sum = cipher.layout.write(&sum);
    let mut told = hash(&sum).to_vec();
    told.extend(pair.iter().flat_map(|rank| rank.to_be_bytes()));
    if setup.me == PartyId(0) {
        told.extend(sum);
    }
    Ok(told)
}

/// The hash of a sum, by which others know whether it is theirs.
pub(super) fn hash(sum: &[u8]) -> [u8; HASH] {
    kdf::hash("blindsum paillier sum", &[sum])
}

/// The first two parties, in rank order, that sent the same ciphertexts: one has them from the other.
fn first_pair(sums: &[Sum]) -> Option<[u32; 2]> {
    (0..sums.len()).find_map(|later| {
        let one = sums.get(later)?;
        let earlier = sums
            .iter()
            .take(later)
            .position(|other| other.has_some_of(one))?;
        Some([earlier as u32, later as u32])
    })
}
