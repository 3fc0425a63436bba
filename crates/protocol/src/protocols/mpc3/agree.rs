//! Whose uploads are computed with: the three servers agree on that before anything else.
//!
//! Two rounds, in each of which every server says something to both others:
//!
//! 1. whose uploads it holds, with a hash of each, and a key of this round alone, where more is computed than a sum.
//!    Survivors are those of whom all three hold the same.
//! 2. a hash of the survivors, of what they uploaded, and of the keys. Servers that were told different things stop here,
//!    before anything is opened; two honest servers open no two sets.

use std::collections::BTreeMap;

use blindsum_crypto::kdf;
use blindsum_crypto::kex::{KeyPair, PublicKey, SharedSecret, Suite};
use blindsum_mpc::line::{Line, Say};

use super::blame::{blame, broken};
use crate::{Culprit, Fault, FaultKind, PartyId, PartySet, Round, ServerIndex};

/// Bytes of a public key.
const KEY: usize = 32;

/// What is compared of each upload.
pub(super) type Headers = BTreeMap<PartyId, [u8; 32]>;

/// What a server knows once the three agree.
pub(super) struct Begun {
    pub survivors: PartySet,
    /// Parties of whom the servers hold different uploads.
    pub faults: Vec<Fault>,
    /// A hash of the survivors, of their uploads and of the servers' keys.
    pub hash: [u8; 32],
    /// What this server shares with the one before, and with the next one; none where only a sum is computed.
    pub secrets: Option<[SharedSecret; 2]>,
}

/// Agrees with the others. `own` is what this server compares of each upload, `noted` what the next server and the one
/// before have told of theirs already: they stand by that.
pub(super) async fn agree(
    me: ServerIndex,
    round: &Round,
    own: &Headers,
    noted: &[Headers; 2],
    key: Option<KeyPair>,
    line: &Line,
) -> Result<Begun, Fault> {
    let mut said = write_list(round, own);
    said.extend(key.iter().flat_map(|key| key.public().as_bytes()));
    let theirs = to_both(line, said.clone()).await?;
    let read = |from, said: &[u8]| read_said(round, from, said, key.as_ref());
    let [next, previous] =
        [(me.next(), &theirs[0]), (me.previous(), &theirs[1])].map(|(from, said)| read(from, said));
    let ((of_next, with_next), (of_previous, with_previous)) = (next?, previous?);
    let [by_next, by_previous] = noted;
    stands_by(me.next(), &of_next, by_next)?;
    stands_by(me.previous(), &of_previous, by_previous)?;
    let (survivors, faults) = common(round, own, [&of_next, &of_previous]);
    let (have, need) = (survivors.len(), round.job().min_parties());
    // guard: mpc3-sums-of-too-few
    if have < need {
        let few = Fault::nobody(FaultKind::TooFewSurvivors { have, need });
        return Err(faults.into_iter().next().unwrap_or(few));
    }
    // A server that must not open their result does not agree on them, so that no other one opens it either.
    // guard: servers-agree-on-what-may-be-opened
    round.check_release(&survivors)?;
    let keys = in_order(me, [&said, &theirs[0], &theirs[1]], key.is_some());
    let hash = survivors_hash(round, &survivors, own, &keys);
    let theirs = to_both(line, hash.to_vec()).await?;
    for (from, heard) in [me.next(), me.previous()].into_iter().zip(&theirs) {
        // guard: servers-open-one-set
        if *heard != hash {
            let rule = "it received, or announces, other uploads or keys than this server: one of the three is \
                malicious";
            return Err(blame(from, "survivors", rule));
        }
    }
    Ok(Begun {
        survivors,
        faults,
        hash,
        secrets: with_previous
            .zip(with_next)
            .map(|(previous, next)| [previous, next]),
    })
}

/// The keys of server 0, 1 and 2, from what this server, the next one and the one before said; nothing where there are none.
fn in_order(me: ServerIndex, said: [&Vec<u8>; 3], are_there: bool) -> Vec<u8> {
    let [own, next, previous] = said;
    let mut all = [(me, own), (me.next(), next), (me.previous(), previous)];
    all.sort_by_key(|(server, _)| *server);
    let keys = all.iter().filter_map(|(_, said)| said.last_chunk::<KEY>());
    keys.filter(|_| are_there).flatten().copied().collect()
}

/// Says the same to both others; gives what the next one and the one before say, of the same length.
async fn to_both(line: &Line, bytes: Vec<u8>) -> Result<[Vec<u8>; 2], Fault> {
    let length = bytes.len();
    let say = Say {
        to_next: bytes.clone(),
        to_previous: bytes,
        from_next: length,
        from_previous: length,
    };
    let heard = line.exchange(say).await.map_err(broken)?;
    Ok([heard.from_next, heard.from_previous])
}

/// `bitmap of the parties ‖ 32 bytes for each party of the round`: zeros for those who are not in the list.
fn write_list(round: &Round, headers: &Headers) -> Vec<u8> {
    let listed = PartySet::of(round.parties(), headers.keys().copied());
    let mut list = listed.as_bitmap().to_vec();
    let header = |party| headers.get(&party).copied().unwrap_or_default();
    list.extend(round.everyone().flat_map(header));
    list
}

/// What another server said: whose uploads it holds, with a hash of each; and the secret that it shares with the owner of
/// this key, if there is one.
fn read_said(
    round: &Round,
    from: ServerIndex,
    said: &[u8],
    key: Option<&KeyPair>,
) -> Result<(Headers, Option<SharedSecret>), Fault> {
    let Some(key) = key else {
        return Ok((read_list(round, from, said)?, None));
    };
    let (list, theirs) = said.split_at(said.len().saturating_sub(KEY));
    let shared = PublicKey::parse(Suite::X25519, theirs).and_then(|theirs| key.agree(&theirs));
    let shared = shared.map_err(|e| blame(from, "key", &e.to_string()))?;
    Ok((read_list(round, from, list)?, Some(shared)))
}

fn read_list(round: &Round, from: ServerIndex, list: &[u8]) -> Result<Headers, Fault> {
    let refused = |rule| blame(from, "uploads", rule);
    let (bitmap, headers) = list
        .split_at_checked(round.parties().div_ceil(8))
        .ok_or_else(|| refused("the list is cut short"))?;
    let listed = PartySet::from_bitmap(round.parties(), bitmap)
        .ok_or_else(|| refused("not a bitmap of this roster"))?;
    let (headers, _) = headers.as_chunks::<32>();
    let all = round.everyone().zip(headers.iter().copied());
    let (here, absent): (Vec<_>, Vec<_>) = all.partition(|(party, _)| listed.contains(*party));
    // guard: lists-say-nothing-of-others
    match absent.iter().all(|(_, header)| *header == [0; 32]) {
        true => Ok(here.into_iter().collect()),
        false => Err(refused("a hash of a party that is not in the list")),
    }
}

/// A server lists all uploads that it has told of before: they may be in the sum already.
fn stands_by(from: ServerIndex, listed: &Headers, noted: &Headers) -> Result<(), Fault> {
    let mut noted = noted.iter();
    // guard: a-server-stands-by-its-notices
    match noted.all(|(party, header)| listed.get(party) == Some(header)) {
        true => Ok(()),
        false => {
            let rule = "an upload of which it has sent a notice is not in its list";
            Err(blame(from, "uploads", rule))
        }
    }
}

/// The parties of whom all three servers hold the same, and a fault of each of whom they hold different things.
fn common(round: &Round, own: &Headers, theirs: [&Headers; 2]) -> (PartySet, Vec<Fault>) {
    let everywhere = own
        .iter()
        .filter(|(party, _)| theirs.iter().all(|list| list.contains_key(party)));
    let (same, different): (Vec<_>, Vec<_>) = everywhere.partition(|(party, header)| {
        let equal = |list: &&BTreeMap<PartyId, _>| list.get(*party) == Some(*header);
        // guard: servers-compare-uploads
        theirs.iter().all(equal)
    });
    let fault = |(party, _): (&PartyId, &[u8; 32])| {
        let rule =
            "the servers hold different uploads of this party: it, or one of them, is malicious";
        Fault::new(
            Culprit::ServerOr(*party),
            FaultKind::malformed("upload", rule),
        )
    };
    let survivors = same.into_iter().map(|(party, _)| *party);
    (
        PartySet::of(round.parties(), survivors),
        different.into_iter().map(fault).collect(),
    )
}

fn survivors_hash(round: &Round, survivors: &PartySet, headers: &Headers, keys: &[u8]) -> [u8; 32] {
    let header = |party| headers.get(&party).copied().unwrap_or_default();
    let headers: Vec<u8> = survivors.iter().flat_map(header).collect();
    let mut parts: Vec<&[u8]> = vec![&round.context().0, survivors.as_bitmap(), &headers];
    if !keys.is_empty() {
        // guard: keys-of-servers-are-agreed-on
        parts.push(keys);
    }
    kdf::hash("blindsum mpc3 survivors", &parts)
}
