//! What the three servers do once the uploads are over, each the same: they agree on the survivors, and open their sum.
//!
//! Three rounds, in each of which every server says something to both others:
//!
//! 1. whose uploads it holds, with a hash of each. Survivors are those of whom all three hold the same.
//! 2. a hash of the survivors and of what they uploaded. Servers that were told different lists stop here, before
//!    anything is opened; two honest servers open no two sums.
//! 3. its own component of the sum to the next server, which lacks it, and a hash of the other one to the server before,
//!    which gets that one from somebody else. Where the two do not fit, somebody lies and the server stops.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_crypto::secret::Secret;
use blindsum_math::words::Words;
use blindsum_mpc::MpcError;
use blindsum_mpc::line::{Line, Say};

use super::TAG;
use super::holding::Holding;
use crate::kit::result::result_body;
use crate::{Culprit, Fault, FaultKind, PartyId, PartySet, Round, ServerIndex, ServerRole};

/// What a server comes to.
pub(super) struct Opened {
    pub survivors: PartySet,
    pub sum: Words,
    /// The set and the sum as parties are told them.
    pub result: Vec<u8>,
    /// By which this server vouches for them, one for each survivor; none if semi-honest, and none of the coordinator's.
    pub tags: Vec<[u8; TAG]>,
    /// Parties of whom the servers hold different uploads.
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

/// Says who does not follow the protocol: a server that said something wrong.
pub(super) fn blame(from: ServerIndex, field: &'static str, rule: &str) -> Fault {
    let kind = FaultKind::malformed(field, rule);
    match ServerRole::at(from) {
        Some(role) => Fault::of(role.into(), kind),
        None => Fault::server(kind),
    }
}

/// The computation cannot go on.
pub(super) fn broken(error: MpcError) -> Fault {
    let text = error.to_string();
    match error {
        MpcError::Length { from, .. }
        | MpcError::Round { from, .. }
        | MpcError::Differs { from, .. } => blame(from, "letter", &text),
        _ => Fault::nobody(FaultKind::malformed("computation", text)),
    }
}

/// What one server does.
pub(super) async fn open(
    me: ServerIndex,
    round: Arc<Round>,
    holding: Holding,
    line: Line,
) -> Result<Opened, Fault> {
    let own = holding.headers();
    let theirs = to_both(&line, write_list(&round, &own)).await?;
    let [next, previous] = [(me.next(), &theirs[0]), (me.previous(), &theirs[1])]
        .map(|(from, list)| read_list(&round, from, list));
    let (survivors, faults) = common(&round, &own, [&next?, &previous?]);
    let (have, need) = (survivors.len(), round.job().min_parties());
    if have < need {
        return Err(Fault::nobody(FaultKind::TooFewSurvivors { have, need }));
    }
    let agreed = survivors_hash(&round, &survivors, &own);
    let theirs = to_both(&line, agreed.to_vec()).await?;
    for (from, heard) in [me.next(), me.previous()].into_iter().zip(&theirs) {
        if *heard != agreed {
            let rule = "it was told of, or tells of, other uploads than this server: one of the three lies";
            return Err(blame(from, "survivors", rule));
        }
    }
    let sum = reveal(me, &round, holding.sums(&survivors)?, &line).await?;
    let result = result_body(&survivors, &sum);
    let hash = result_hash(&round, &result);
    let keys = holding.tag_keys(&survivors)?;
    let tags = keys
        .into_iter()
        .map(|key| tag(&round, key, &hash))
        .collect();
    Ok(Opened {
        survivors,
        sum,
        result,
        tags,
        faults,
    })
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
fn write_list(round: &Round, headers: &BTreeMap<PartyId, [u8; 32]>) -> Vec<u8> {
    let listed = PartySet::of(round.parties(), headers.keys().copied());
    let mut list = listed.as_bitmap().to_vec();
    let header = |party| headers.get(&party).copied().unwrap_or_default();
    list.extend(round.everyone().flat_map(header));
    list
}

fn read_list(
    round: &Round,
    from: ServerIndex,
    list: &[u8],
) -> Result<BTreeMap<PartyId, [u8; 32]>, Fault> {
    let refused = |rule| blame(from, "uploads", rule);
    let (bitmap, headers) = list
        .split_at_checked(round.parties().div_ceil(8))
        .ok_or_else(|| refused("the list is cut short"))?;
    let listed = PartySet::from_bitmap(round.parties(), bitmap)
        .ok_or_else(|| refused("not a bitmap of this roster"))?;
    let (headers, _) = headers.as_chunks::<32>();
    let all = round.everyone().zip(headers.iter().copied());
    let (here, absent): (Vec<_>, Vec<_>) = all.partition(|(party, _)| listed.contains(*party));
    match absent.iter().all(|(_, header)| *header == [0; 32]) {
        true => Ok(here.into_iter().collect()),
        false => Err(refused("a hash of a party that is not in the list")),
    }
}

/// The parties of whom all three servers hold the same, and a fault of each of whom they hold different things.
fn common(
    round: &Round,
    own: &BTreeMap<PartyId, [u8; 32]>,
    theirs: [&BTreeMap<PartyId, [u8; 32]>; 2],
) -> (PartySet, Vec<Fault>) {
    let everywhere = own
        .iter()
        .filter(|(party, _)| theirs.iter().all(|list| list.contains_key(party)));
    let (same, different): (Vec<_>, Vec<_>) = everywhere.partition(|(party, header)| {
        let equal = |list: &&BTreeMap<PartyId, _>| list.get(*party) == Some(*header);
        theirs.iter().all(equal)
    });
    let fault = |(party, _): (&PartyId, &[u8; 32])| {
        let rule = "the servers hold different uploads of this party: it lies, or one of them does";
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

fn survivors_hash(
    round: &Round,
    survivors: &PartySet,
    headers: &BTreeMap<PartyId, [u8; 32]>,
) -> [u8; 32] {
    let header = |party| headers.get(&party).copied().unwrap_or_default();
    let headers: Vec<u8> = survivors.iter().flat_map(header).collect();
    let parts: [&[u8]; 3] = [&round.context().0, survivors.as_bitmap(), &headers];
    kdf::hash("blindsum mpc3 survivors", &parts)
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
    if heard.from_next != digest(&heard.from_previous) {
        let rule = "the component that it sends is not the one of the hash that the other holder sends: one of the two lies";
        return Err(blame(me.previous(), "sum", rule));
    }
    let wrong = |e: blindsum_math::MathError| blame(me.previous(), "sum", &e.to_string());
    for packed in [&of_next, &heard.from_previous] {
        own.add_packed(packed).map_err(wrong)?;
    }
    Ok(own)
}
