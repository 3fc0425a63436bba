//! The key set-up: every party that lacks the key of the job gets it, from a party and not from the server.
//!
//! 1. Everybody advertises a fresh public key, signed if the adversary is active, and the name of the key it
//!    holds, if any.
//! 2. The *leader*, the party of lowest rank among those that hold the key most parties hold, seals it to the
//!    others. If nobody holds one, the party of lowest rank makes it.
//! 3. Everybody confirms by a tag that only holders of the key can make; who made another tag holds another key.
//!
//! The server picks nobody: each party finds the leader by itself from the signed list. A server that hides
//! who holds a key only gets another key made.

pub(super) mod client;
mod messages;
pub(super) mod server;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use messages::{Advert, Keys};

use crate::core::plan::{Stage, small};
use crate::{Job, Opens, PartyId, Plan, Who};

/// What may happen in a key set-up.
pub(super) fn plan(job: &Job) -> Plan {
    let small = small(job.spec());
    let stage = |name| Stage::new(name, small, small);
    let stages = [
        stage("advertise-keys"),
        // The leader alone, whom the advertised keys name.
        stage("deliver-key").answered_by(Who::Few),
        stage("confirm-key"),
    ];
    Plan::new(job.spec(), Opens::Parties, stages)
}

/// The leader, and the name of the key it delivers; none if it makes a new one.
fn leader(adverts: &[(PartyId, Vec<u8>)]) -> Option<(PartyId, Option<Vec<u8>>)> {
    let holders = adverts.iter().filter(|(_, key_id)| !key_id.is_empty());
    match most_common(holders.map(|(party, key_id)| (*party, key_id))) {
        Some((key_id, first)) => Some((first, Some(key_id.clone()))),
        None => adverts.first().map(|(party, _)| (*party, None)),
    }
}

/// What most parties say, and who of them has the lowest rank; of what as many say, what that party says.
fn most_common<T: Ord>(said: impl Iterator<Item = (PartyId, T)>) -> Option<(T, PartyId)> {
    let mut counts: BTreeMap<T, (usize, PartyId)> = BTreeMap::new();
    for (party, what) in said {
        let (count, first) = counts.entry(what).or_insert((0, party));
        (*count, *first) = (*count + 1, party.min(*first));
    }
    let most = counts
        .into_iter()
        .max_by_key(|(_, (count, first))| (*count, Reverse(*first)));
    most.map(|(what, (_, first))| (what, first))
}

/// Who advertised, with the name of the key each holds.
fn key_ids(keys: &Keys) -> Vec<(PartyId, Vec<u8>)> {
    let entry = |entry: &messages::Entry| {
        let Advert { key_id, .. } = &entry.advert;
        (PartyId(entry.party), key_id.as_slice().to_vec())
    };
    keys.entries.iter().map(entry).collect()
}

/// Party, name of the key it holds, fresh key, signature.
#[cfg(test)]
pub(super) type ListedAdvert = (u32, Vec<u8>, Vec<u8>, Vec<u8>);

/// The list of fresh keys, after a change to its entries.
#[cfg(test)]
pub(super) fn adverts_of(body: &[u8], change: fn(&mut Vec<ListedAdvert>)) -> Vec<u8> {
    let keys: Keys = crate::kit::wire::decode("keys", body).unwrap();
    let entry = |entry: messages::Entry| {
        let Advert {
            key_id,
            key,
            signature,
        } = entry.advert;
        (
            entry.party,
            key_id.into_vec(),
            key.into_vec(),
            signature.into_vec(),
        )
    };
    let mut entries = keys.entries.into_iter().map(entry).collect();
    change(&mut entries);
    let entry = |(party, key_id, key, signature): ListedAdvert| {
        let (key_id, key, signature) = (key_id.into(), key.into(), signature.into());
        messages::Entry {
            party,
            advert: Advert {
                key_id,
                key,
                signature,
            },
        }
    };
    let entries = entries.into_iter().map(entry).collect();
    crate::kit::wire::encode("keys", &Keys { entries }).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_holds_what_most_hold() {
        let adverts = |ids: &[&[u8]]| -> Vec<(PartyId, Vec<u8>)> {
            (0..)
                .map(PartyId)
                .zip(ids.iter().map(|id| id.to_vec()))
                .collect()
        };
        let of = |ids: &[&[u8]]| leader(&adverts(ids));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[b"", b"", b""]), Some((PartyId(0), None)));
        assert_eq!(
            of(&[b"", b"k", b""]),
            Some((PartyId(1), Some(b"k".to_vec())))
        );
        assert_eq!(
            of(&[b"a", b"k", b"", b"k"]),
            Some((PartyId(1), Some(b"k".to_vec())))
        );
        // As many hold either: the one that the lowest rank holds.
        assert_eq!(
            of(&[b"", b"z", b"a"]),
            Some((PartyId(1), Some(b"z".to_vec())))
        );
    }
}
