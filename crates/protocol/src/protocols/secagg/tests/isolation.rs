//! A malicious server that tries to learn the sum of a few parties by cutting the graph around them.
//!
//! It knows the graph before it says who dropped, so it may choose the lost ones at will: a run of ⌊κ/2⌋
//! neighbours on the circle separates what lies on either side. If the pair masks across both ends of an arc
//! can be removed, the sum of the arc is in the open, however many parties survive elsewhere.

use std::collections::BTreeMap;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_crypto::mask::{Sign, apply_masks};
use blindsum_crypto::secret::Secret;
use blindsum_math::words::Words;
use blindsum_sharing::{Share, reconstruct};

use super::*;
use crate::kit::consistency::{SignatureEntry, Signatures, Signed};
use crate::kit::keys::suite_of;
use crate::kit::snapshot::Reader;
use crate::kit::wire::{decode, encode};
use crate::protocols::secagg::keys::{pair_mask, pair_sign, self_mask};
use crate::protocols::secagg::messages::{Advertise, Revealed, SharesIn};
use crate::protocols::secagg::{AggregationGraph, graph_of, point_of};
use crate::{PartySet, SecAggPlus};

/// The parties of the circle's places `range`, modulo the cohort.
fn places(graph: &AggregationGraph, range: std::ops::Range<i64>) -> Vec<PartyId> {
    range.map(|place| graph.at_place(place)).collect()
}

/// A job in which nobody drops out by itself: with the smallest threshold that it is let.
fn lowest_threshold(parties: u32, neighbours: u32, corrupt: f64) -> JobSpec {
    let with = |threshold| JobSpec {
        protocol: SecAggPlus {
            neighbours,
            threshold,
        }
        .into(),
        corrupt,
        dropout: 0.0,
        dim: 16,
        ..spec(ProtocolName::SecAggPlus, Adversary::Active, parties)
    };
    let least = (1..parties).find(|&threshold| with(threshold).validate().is_ok());
    with(least.expect("some threshold is let"))
}

/// The state of a corrupt party's machine.
fn state_of(rig: &mut Rig, party: PartyId) -> Vec<u8> {
    let (context, rank) = (rig.cohort.round.context().0, party.0.to_be_bytes());
    let header = [b"blindsum snapshot" as &[u8], &context, &rank].concat();
    let key = storage_key();
    let sealed = rig.clients[&party].seal(&key, &mut rig.rng).unwrap();
    let bytes = key.open(&header, &sealed.unwrap()).unwrap();
    let mut reader = Reader::new(&bytes);
    for _ in 0..reader.number().unwrap() {
        // The stage and the fingerprint of a message.
        reader.array::<17>().unwrap();
    }
    reader.byte().unwrap();
    let latest = reader.length().unwrap();
    reader.bytes(latest).unwrap();
    assert_eq!(reader.number(), Ok(0), "parts for other servers");
    reader.rest().to_vec()
}

/// The server's attack: what it shows to whom, and what it has got.
struct Attack {
    rig: Rig,
    keys: BTreeMap<PartyId, PublicKey>,
    vectors: BTreeMap<PartyId, Message>,
    signed: BTreeMap<PartyId, Signed>,
    /// By owner of the secret, then by holder: of b or of s, by what the holder was told.
    seeds: BTreeMap<PartyId, BTreeMap<PartyId, Share>>,
    mask_keys: BTreeMap<PartyId, BTreeMap<PartyId, Share>>,
    /// s of corrupt parties.
    known: BTreeMap<PartyId, [u8; 32]>,
}

impl Attack {
    /// Everybody has uploaded; shares from `hidden(receiver)` were never passed on to the receiver. The corrupt
    /// parties have told the server all they know.
    fn uploads(
        spec: JobSpec,
        corrupt: impl Fn(&AggregationGraph) -> Vec<PartyId>,
        hidden: impl Fn(&AggregationGraph, PartyId) -> Vec<PartyId>,
    ) -> Self {
        let mut rig = Rig::at(spec, 0);
        let round = rig.cohort.round.clone();
        let graph = graph_of(&round);
        let keys = rig.up.iter().map(|(&party, message)| {
            let sent: Advertise = decode("keys", body(message)).unwrap();
            let key = PublicKey::parse(suite_of(&round), sent.mask_key.as_slice()).unwrap();
            (party, key)
        });
        let keys = keys.collect();
        rig.serve().unwrap();
        rig.answer_all().unwrap();
        let corrupt = corrupt(&graph);
        rig.serve().unwrap();
        for party in round.everyone() {
            let message = rig.down[&party].clone();
            let mut shares: SharesIn = decode("shares", body(&message)).unwrap();
            let hidden = hidden(&graph, party);
            shares
                .sealed
                .retain(|entry| !hidden.contains(&PartyId(entry.party)));
            rig.down.insert(
                party,
                with_body(&message, &encode("shares", &shares).unwrap()),
            );
        }
        rig.answer_all().unwrap();
        let mut attack = Self {
            vectors: std::mem::take(&mut rig.up),
            rig,
            keys,
            signed: BTreeMap::new(),
            seeds: BTreeMap::new(),
            mask_keys: BTreeMap::new(),
            known: BTreeMap::new(),
        };
        corrupt.into_iter().for_each(|party| attack.corrupt(party));
        attack
    }

    /// A corrupt party says all it knows: the shares of both secrets that it holds, and its own s, which is read here
    /// from its neighbours: a machine that will still mask gives its state to nobody.
    fn corrupt(&mut self, party: PartyId) {
        let (own, held) = self.shares_of(party);
        self.seeds.entry(party).or_default().insert(party, own);
        for (owner, (of_mask_key, of_seed)) in held {
            let mask_keys = self.mask_keys.entry(owner).or_default();
            mask_keys.insert(party, of_mask_key);
            self.seeds.entry(owner).or_default().insert(party, of_seed);
        }
        let neighbours = self.graph().neighbours(party);
        let of_own = neighbours.into_iter().filter_map(|holder| {
            let (of_mask_key, _) = self.shares_of(holder).1.remove(&party)?;
            Some((holder, of_mask_key))
        });
        let of_own: BTreeMap<PartyId, Share> = of_own.collect();
        let secret = self.rebuild(Some(&of_own)).unwrap();
        self.known.insert(party, *secret.expose());
    }

    /// What a party holds after its upload: the share of its own b, and of each neighbour's s and b.
    fn shares_of(&mut self, holder: PartyId) -> (Share, BTreeMap<PartyId, (Share, Share)>) {
        let state = state_of(&mut self.rig, holder);
        let mut reader = Reader::new(&state);
        let of_own_seed = reader.share().unwrap();
        let held = (0..reader.number().unwrap()).map(|_| {
            let owner = reader.party().unwrap();
            (owner, (reader.share().unwrap(), reader.share().unwrap()))
        });
        (of_own_seed, held.collect())
    }

    fn graph(&self) -> AggregationGraph {
        graph_of(&self.rig.cohort.round)
    }

    /// Tells every party its story about who survived and keeps the signatures of those who believe it.
    fn tell(&mut self, story: &BTreeMap<PartyId, PartySet>) {
        let context = *self.rig.cohort.round.context();
        for (&party, set) in story {
            let message = crate::kit::wire::frame(&context, MASKED_INPUT, set.as_bitmap());
            if self.rig.answer_to(party, &message).is_ok() {
                let signed = decode("signed", body(&self.rig.up[&party])).unwrap();
                self.signed.insert(party, signed);
            }
        }
    }

    /// The signatures over a story: those of witnesses, and where these are too few, of whoever else signed it.
    fn signatures(&self, story: &BTreeMap<PartyId, PartySet>, set: &PartySet) -> Signatures {
        let graph = self.graph();
        let witnesses = graph.witnesses();
        let signers = self
            .signed
            .keys()
            .copied()
            .filter(|signer| story[signer] == *set);
        let (mut signers, others): (Vec<PartyId>, Vec<PartyId>) =
            signers.partition(|signer| witnesses.contains(signer));
        let missing = graph.parameters().threshold().saturating_sub(signers.len());
        signers.extend(others.into_iter().take(missing));
        signers.sort_unstable();
        let entries = signers.into_iter().map(|signer| SignatureEntry {
            party: signer.0,
            signature: self.signed[&signer].signature.clone(),
        });
        Signatures {
            entries: entries.collect(),
        }
    }

    /// Gives every party the signatures over its own story and keeps the shares of those who reveal any.
    fn unmask(&mut self, story: &BTreeMap<PartyId, PartySet>) {
        let context = *self.rig.cohort.round.context();
        for (&party, set) in story {
            let bytes = encode("signatures", &self.signatures(story, set)).unwrap();
            let message = crate::kit::wire::frame(&context, CONSISTENCY, &bytes);
            if self.rig.answer_to(party, &message).is_err() {
                continue;
            }
            let revealed: Revealed = decode("revealed", body(&self.rig.up[&party])).unwrap();
            for entry in revealed.shares {
                let owner = PartyId(entry.party);
                let kind = if set.contains(owner) {
                    &mut self.seeds
                } else {
                    &mut self.mask_keys
                };
                let share = Share::parse(&entry.share).unwrap();
                kind.entry(owner).or_default().insert(party, share);
            }
        }
    }

    fn rebuild(&self, shares: Option<&BTreeMap<PartyId, Share>>) -> Option<Secret<32>> {
        let points: Vec<_> = shares?
            .iter()
            .map(|(&holder, share)| (point_of(holder).unwrap(), share))
            .collect();
        let secret = reconstruct(self.graph().parameters().threshold(), &points).ok()?;
        Some(Secret::from(*secret))
    }

    /// The sum of these parties' vectors, if the secrets that were revealed give it: b of each, and s of each
    /// neighbour outside whose mask is in.
    fn sum_of(&self, arc: &[PartyId], cut_off: &[PartyId]) -> Option<Words> {
        let round = &self.rig.cohort.round;
        let context = round.context();
        let mut masks = Vec::new();
        for &party in arc {
            masks.push(self_mask(
                context,
                party,
                &self.rebuild(self.seeds.get(&party))?,
                Sign::Sub,
            ));
        }
        for &outside in cut_off {
            let secret = match self.known.get(&outside) {
                Some(known) => Secret::from(*known),
                None => self.rebuild(self.mask_keys.get(&outside))?,
            };
            let pair = KeyPair::from_secret(suite_of(round), secret).unwrap();
            for other in self
                .graph()
                .neighbours(outside)
                .into_iter()
                .filter(|party| arc.contains(party))
            {
                let sign = pair_sign(outside, other);
                masks.push(
                    pair_mask(context, outside, &pair, other, &self.keys[&other], sign).unwrap(),
                );
            }
        }
        let mut sum = round.job().zeros();
        arc.iter()
            .for_each(|party| sum.add_packed(body(&self.vectors[party])).unwrap());
        apply_masks(&masks, 0, sum.tile_mut(0..round.job().lanes()));
        Some(sum)
    }
}

/// Case 1: one story for all, but the lost ones are chosen to lie on both sides of an arc. The one next to either end
/// is corrupt and survives, so that everybody on the arc has a holder more; its pair masks the server knows.
#[test]
fn case_01_an_arc_cannot_be_cut_out() {
    let half = 8;
    let corrupt = |graph: &AggregationGraph| vec![graph.at_place(-1), graph.at_place(10)];
    let spec = lowest_threshold(60, 2 * half as u32, 0.03);
    let mut attack = Attack::uploads(spec, corrupt, |_, _| Vec::new());
    let graph = attack.graph();
    let arc = places(&graph, 0..10);
    let cut_off = [places(&graph, -half..0), places(&graph, 10..10 + half)].concat();
    let lost = |party: &PartyId| cut_off.contains(party) && !attack.known.contains_key(party);
    let round = attack.rig.cohort.round.clone();
    assert_eq!(round.job().spec().corrupt_parties(), 2);
    let survivors = PartySet::of(60, round.everyone().filter(|party| !lost(party)));
    assert!(survivors.len() >= round.job().min_parties());
    let story = survivors
        .iter()
        .map(|party| (party, survivors.clone()))
        .collect();
    attack.tell(&story);
    attack.unmask(&story);
    assert!(
        attack.sum_of(&arc, &cut_off).is_none(),
        "the sum of 10 of 60 parties is in the open"
    );
}

/// Case 1: parties on an arc are told that the next ones beyond its ends never shared or dropped, those beyond
/// that all is well. Neither story alone would free the arc; both together would.
#[test]
fn case_01_two_arcs_cannot_be_told_two_stories() {
    let (parties, half, length) = (120, 16, 40);
    let beyond = |graph: &AggregationGraph, range: std::ops::Range<i64>| {
        let right = length - range.end..length - range.start;
        [places(graph, range), places(graph, right)].concat()
    };
    let near = |graph: &AggregationGraph| beyond(graph, -2..0);
    let far = |graph: &AggregationGraph| beyond(graph, -half..-2);
    let mut attack = Attack::uploads(
        lowest_threshold(parties, 2 * half as u32, 0.0),
        |_| Vec::new(),
        |graph, party| match places(graph, 0..length).contains(&party) {
            true => far(graph),
            false => Vec::new(),
        },
    );
    let graph = attack.graph();
    let (arc, near, far) = (places(&graph, 0..length), near(&graph), far(&graph));
    let round = attack.rig.cohort.round.clone();
    let all_but = |out: &[PartyId]| {
        PartySet::of(
            round.parties(),
            round.everyone().filter(|party| !out.contains(party)),
        )
    };
    let (inside, outside) = (all_but(&[&near[..], &far].concat()), all_but(&near));
    let story = outside.iter().map(|party| {
        let told = if arc.contains(&party) {
            &inside
        } else {
            &outside
        };
        (party, told.clone())
    });
    let story = story.collect();
    attack.tell(&story);
    attack.unmask(&story);
    assert!(
        attack.sum_of(&arc, &near).is_none(),
        "the sum of 40 of 120 parties is in the open"
    );
}
