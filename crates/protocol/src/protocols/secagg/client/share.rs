//! Stage 1: shares of the mask key and of the self-mask seed go to the neighbours, theirs come back.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kex::KeyPair;
use blindsum_crypto::mask::{MaskStream, Sign};
use blindsum_crypto::seal::SealKey;
use blindsum_crypto::secret::Secret;
use blindsum_sharing::{Point, SHARE_LEN, Share, share};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::held::{Held, HeldShares};
use super::masked_input::{AwaitSurvivors, masked_input};
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::keys::{seal_header, seal_keys};
use crate::kit::wire::{Bounded, check_ascending, encode};
use crate::protocols::secagg::keys::{PeerKeys, commit_seed, pair_mask, pair_sign, self_mask};
use crate::protocols::secagg::messages::{SealedShares, SharesIn, SharesOut};
use crate::protocols::secagg::{AggregationGraph, point_of};
use crate::{Fault, FaultKind, PartyId};

/// What the keys that seal shares are for.
const PURPOSE: &str = "shares";

/// Shares both secrets among the neighbours that advertised keys and this party.
pub(super) fn share_keys(
    setup: Arc<ClientSetup>,
    graph: Arc<AggregationGraph>,
    seal: KeyPair,
    mask: KeyPair,
    peers: BTreeMap<PartyId, PeerKeys>,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let seed = Secret::<32>::generate(rng);
    let mut holders: Vec<PartyId> = peers.keys().copied().collect();
    holders.insert(
        holders.partition_point(|holder| *holder < setup.me),
        setup.me,
    );
    let points = holders.iter().map(|&holder| point_of(holder));
    let points: Vec<Point> = points.collect::<Result<_, _>>().map_err(Fault::caller)?;
    let threshold = graph.parameters().threshold();
    let refused =
        |e: blindsum_sharing::SharingError| Fault::caller(FaultKind::Parameters(e.to_string()));
    let mask_shares = share(mask.secret().expose(), threshold, &points, rng).map_err(refused)?;
    let seed_shares = share(seed.expose(), threshold, &points, rng).map_err(refused)?;

    let context = setup.round.context();
    let mut own_seed_share = None;
    let mut opening = BTreeMap::new();
    let mut sealed = Vec::with_capacity(peers.len());
    for ((holder, mask_share), seed_share) in holders.iter().zip(mask_shares).zip(seed_shares) {
        let Some(keys) = peers.get(holder) else {
            own_seed_share = Some(seed_share);
            continue;
        };
        let (send, receive) =
            seal_keys(&setup, &seal, *holder, &keys.seal, PURPOSE).map_err(Fault::server)?;
        let mut plain = Zeroizing::new(Vec::with_capacity(2 * SHARE_LEN));
        plain.extend_from_slice(&*mask_share.to_bytes());
        plain.extend_from_slice(&*seed_share.to_bytes());
        let bytes = send.seal(&seal_header(context, setup.me, *holder), &plain);
        sealed.push(SealedShares {
            party: holder.0,
            sealed: bytes.into(),
        });
        opening.insert(*holder, receive);
    }
    let own_seed_share = own_seed_share.ok_or(Fault::caller(FaultKind::NotAMember))?;
    let message = SharesOut {
        commitment: commit_seed(context, setup.me, seed.expose()),
        sealed,
    };
    let body = encode("shares", &message).map_err(Fault::caller)?;
    let next = AwaitShares {
        setup,
        graph,
        mask,
        seed,
        own_seed_share,
        peers,
        opening,
    };
    Ok(ClientStep::Send {
        body,
        next: Box::new(next),
    })
}

/// Shares are out; those of the neighbours come next, and the vector goes out masked.
pub(super) struct AwaitShares {
    setup: Arc<ClientSetup>,
    graph: Arc<AggregationGraph>,
    mask: KeyPair,
    /// b.
    seed: Secret<32>,
    own_seed_share: Share,
    peers: BTreeMap<PartyId, PeerKeys>,
    /// The key of the one message from each neighbour.
    opening: BTreeMap<PartyId, SealKey>,
}

impl AwaitShares {
    /// Opens what the neighbours sealed. A share that does not open ends this party's round: it cannot
    /// know whether the neighbour masks with it.
    fn open(&mut self, message: &SharesIn) -> Result<BTreeMap<PartyId, Held>, Fault> {
        let ascending = check_ascending("shares", message.sealed.iter().map(|entry| entry.party));
        ascending.map_err(Fault::server)?;
        let context = self.setup.round.context();
        let mut held = BTreeMap::new();
        for entry in &message.sealed {
            let from = PartyId(entry.party);
            let key = self.opening.remove(&from).ok_or_else(|| {
                Fault::server(FaultKind::malformed(
                    "shares",
                    format!("{from} has no keys here"),
                ))
            })?;
            let sealed = entry.sealed.as_slice();
            let damaged = || Fault::server_or(from, FaultKind::Sealed { from }).shown_by(sealed);
            // guard: shares-that-do-not-open
            let plain = key
                .open(&seal_header(context, from, self.setup.me), sealed)
                .map_err(|_| damaged())?;
            let (mask_share, seed_share) = plain.split_at_checked(SHARE_LEN).ok_or_else(damaged)?;
            let parse = |bytes| Share::parse(bytes).map_err(|_| damaged());
            held.insert(
                from,
                Held {
                    mask_share: parse(mask_share)?,
                    seed_share: parse(seed_share)?,
                },
            );
        }
        let (have, need) = (held.len() + 1, self.graph.parameters().threshold());
        if have < need {
            return Err(Fault::server(FaultKind::TooFewSurvivors { have, need }));
        }
        Ok(held)
    }

    /// PRG(b) and the pair masks with the neighbours that shared.
    fn masks(&self, held: &BTreeMap<PartyId, Held>) -> Result<Vec<MaskStream>, FaultKind> {
        let (me, context) = (self.setup.me, self.setup.round.context());
        let own = Ok(self_mask(context, me, &self.seed, Sign::Add));
        let pairs = self
            .peers
            .iter()
            .filter(|(other, _)| held.contains_key(other));
        let pairs = pairs.map(|(&other, keys)| {
            pair_mask(
                context,
                me,
                &self.mask,
                other,
                &keys.mask,
                pair_sign(me, other),
            )
        });
        std::iter::once(own).chain(pairs).collect()
    }
}

impl ClientStage for AwaitShares {
    fn answer(
        mut self: Box<Self>,
        body: &[u8],
        input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let holders = self.graph.parameters().holders();
        let message = SharesIn::read(holders, body).map_err(Fault::server)?;
        let held = self.open(&message)?;
        let masks = self.masks(&held).map_err(Fault::server)?;
        let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
        let body = masked_input(&self.setup.round, input, &masks).map_err(Fault::caller)?;
        let Self {
            setup,
            graph,
            own_seed_share,
            ..
        } = *self;
        let shares = HeldShares {
            setup,
            graph,
            own_seed_share,
            held,
        };
        Ok(ClientStep::Send {
            body,
            next: Box::new(AwaitSurvivors(shares)),
        })
    }
}
