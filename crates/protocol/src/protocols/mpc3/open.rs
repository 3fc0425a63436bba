//! What the three servers do once the uploads are over, each the same: they [agree](super::agree) on the survivors, and
//! open their sum, or what a rule makes of their vectors.
//!
//! A sum takes one round more: each server says its own component to the next server, which lacks it, and a hash of the
//! other one to the server before, which gets that one from somebody else. Where the two do not fit, somebody lies and
//! the server stops.

use std::sync::Arc;

use blindsum_crypto::CryptoError;
use blindsum_crypto::kdf;
use blindsum_crypto::kex::{KeyPair, Suite};
use blindsum_crypto::secret::Secret;
use blindsum_math::words::Words;
use blindsum_mpc::line::{Line, Say};
use rand_core::CryptoRng;

use super::agree::agree;
use super::blame::{blame, broken};
use super::compute::{Made, compute};
use super::holding::Holding;
use super::parts::{PartKey, give, third_len};
use super::shapes::result_shape;
use super::weighing::Weighing;
use super::{TAG, is_active, is_for_parties, is_for_servers};
use crate::kit::result::result_body;
use crate::{Fault, FaultKind, Job, PartySet, Round, ServerIndex, ServerRole};

/// What a server comes to.
pub(super) struct Opened {
    pub survivors: PartySet,
    /// None where parties alone learn it.
    pub sum: Option<Words>,
    /// What the coordinator tells parties: the set, and the sum or parts of it unless servers alone learn it; nothing of
    /// the other servers.
    pub told: Vec<u8>,
    /// What another server says to the coordinator: a hash of what it vouches for, and what parties are told behind the
    /// rest: by what it does so, one tag for each survivor, and what parties alone can read. The tags of the coordinator
    /// are none.
    pub word: Vec<u8>,
    /// Parties of whom the servers hold different uploads, and those whose vectors are too long.
    pub faults: Vec<Fault>,
}

/// The hash of the survivors and their sum, as parties are told them.
pub(super) fn result_hash(round: &Round, result: &[u8]) -> [u8; 32] {
    kdf::hash("blindsum mpc3 result", &[&round.context().0, result])
}

/// By what a server vouches for a result towards one party, with whom alone it shares the key.
pub(super) fn tag(round: &Round, key: &Secret<TAG>, result: &[u8; 32]) -> [u8; TAG] {
    *kdf::derive32(key, round.context(), "mpc3/tag", &[result]).expose()
}

/// Bytes of a server's word behind its hash.
pub(super) fn word_len(job: &Job, role: ServerRole, survivors: usize) -> usize {
    let tags = if is_active(job) { TAG * survivors } else { 0 };
    match is_for_parties(job.spec()) && role == ServerRole::Second {
        true => tags + third_len(result_shape(job), survivors),
        false => tags,
    }
}

/// A key of this round alone, where more is computed than a sum.
pub(super) fn key_of_round(
    round: &Round,
    rng: &mut dyn CryptoRng,
) -> Result<Option<KeyPair>, Fault> {
    let needed = (Weighing::of(round.job()).is_some() || is_for_parties(round.job().spec()))
        .then(|| KeyPair::generate(Suite::X25519, rng));
    let wrong = |e: CryptoError| Fault::nobody(FaultKind::malformed("key", e.to_string()));
    needed.transpose().map_err(wrong)
}

/// What one server does. It has a key of this round alone, where more is done than opening a sum.
pub(super) async fn open(
    me: ServerIndex,
    round: Arc<Round>,
    mut holding: Holding,
    key: Option<KeyPair>,
    line: Line,
) -> Result<Opened, Fault> {
    let begun = agree(me, &round, &holding.headers(), &holding.noted(), key, &line).await?;
    let mut keys = holding.take_tag_keys(&begun.survivors)?;
    let (mut faults, mut survivors) = (begun.faults, begun.survivors);
    let for_parties = is_for_parties(round.job().spec());
    let part_keys = begun.secrets.as_ref().filter(|_| for_parties);
    let part_keys = part_keys.map(|secrets| PartKey::both(me, &round, &begun.hash, secrets));
    let made = match begun
        .secrets
        .filter(|_| Weighing::of(round.job()).is_some())
    {
        None => {
            let sums = holding.sums(&survivors)?;
            // guard: sums-are-recorded-before-they-are-opened
            round.record_release(&survivors)?;
            match for_parties {
                true => Made::Shared(sums),
                false => Made::Shown(reveal(me, &round, sums, &line).await?),
            }
        }
        Some(secrets) => {
            let gathered = holding.vectors(&survivors)?;
            let secrets = (secrets, begun.hash);
            let computed = compute(me, &round, gathered, secrets, line.clone()).await?;
            faults.extend(computed.faults);
            survivors = computed.survivors;
            computed.result
        }
    };
    keys.retain(|(party, _)| survivors.contains(*party));
    let (hash, sum, told, third) = match (made, &part_keys) {
        (Made::Shown(sum), _) => {
            let told = match is_for_servers(round.job().spec()) {
                // guard: mpc3-servers-alone-hash
                true => survivors.as_bitmap().to_vec(),
                false => result_body(&survivors, &sum),
            };
            (result_hash(&round, &told), Some(sum), told, Vec::new())
        }
        (Made::Shared(parts), Some(part_keys)) => {
            let given = give(me, &round, &survivors, parts, part_keys, &keys, &line).await?;
            (given.hash, None, given.told, given.third)
        }
        (Made::Shared(_), None) => return Err(Fault::nobody(FaultKind::NoKey)),
    };
    let mut word = hash.to_vec();
    if is_active(round.job()) {
        word.extend(keys.iter().flat_map(|(_, key)| tag(&round, key, &hash)));
    }
    word.extend(third);
    Ok(Opened {
        survivors,
        sum,
        told,
        word,
        faults,
    })
}

/// Opens a sum to all three servers, out of each one's own component and the next one.
async fn reveal(
    me: ServerIndex,
    round: &Round,
    [mut own, next]: [Words; 2],
    line: &Line,
) -> Result<Words, Fault> {
    let digest = |packed: &[u8]| {
        let parts: [&[u8]; 2] = [&round.context().0, packed];
        kdf::hash("blindsum mpc3 component", &parts)
    };
    let (to_next, of_next) = (own.pack(), next.pack());
    let say = Say {
        from_previous: to_next.len(),
        to_next,
        to_previous: digest(&of_next).to_vec(),
        from_next: 32,
    };
    let heard = line.exchange(say).await.map_err(broken)?;
    // guard: a-component-has-two-holders
    if heard.from_next != digest(&heard.from_previous) {
        let rule = "its component does not match the hash from the other holder: one of the two is malicious";
        return Err(blame(me.previous(), "sum", rule));
    }
    let wrong = |e: blindsum_math::MathError| blame(me.previous(), "sum", &e.to_string());
    for packed in [&of_next, &heard.from_previous] {
        own.add_packed(packed).map_err(wrong)?;
    }
    Ok(own)
}
