//! Stage `share-vector`: the vector is shared with its proof, a sealed column for every other party.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_crypto::merkle::Hash;
use blindsum_crypto::seal::SEAL_OVERHEAD;
use blindsum_crypto::sign::SIGNATURE_LEN;
use blindsum_sharing::validity::ValiditySharing;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::columns::AwaitColumns;
use super::dealt::Dealt;
use super::misbehaviour::behaviour;
use crate::core::round::{ClientSetup, ClientStep};
use crate::kit::keys::{seal_header, seal_keys};
use crate::kit::vector::biased_words;
use crate::kit::wire::HEADER;
use crate::protocols::pss_malicious::commitments::sealed_hash;
use crate::protocols::pss_malicious::messages::{
    COMMITMENT, Commitment, PURPOSE, PieceLayout, SALT, SIGN_ROOT, root_bytes,
};
use crate::{Fault, FaultKind, Input, PartyId};

/// Shares the vector among the parties that advertised keys and this party.
pub(super) fn share_vector(
    setup: Arc<ClientSetup>,
    sharing: Arc<ValiditySharing>,
    (pair, peers, nonce): (KeyPair, BTreeMap<PartyId, PublicKey>, Hash),
    input: &dyn Input,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let words = biased_words(setup.round.job(), input).map_err(Fault::caller)?;
    let mut dealt = Dealt::new(&setup.round, words, rng);
    let layout = PieceLayout::of(sharing.shape());
    let length = COMMITMENT + peers.len() * layout.len();
    let mut body = Zeroizing::new(Vec::with_capacity(HEADER + length));
    body.resize(length, 0);
    let mut own = Zeroizing::new(vec![0; SALT + sharing.column_len()]);
    let mut places: Vec<Option<&mut [u8]>> = Vec::new();
    places.resize_with(setup.round.parties(), || None);
    let pieces = body.get_mut(COMMITMENT..).unwrap_or_default();
    for (party, piece) in peers.keys().zip(pieces.chunks_exact_mut(layout.len())) {
        let column = piece.get_mut(..layout.sealed - SEAL_OVERHEAD);
        if let Some(place) = places.get_mut(party.rank()) {
            *place = column;
        }
    }
    if let Some(place) = places.get_mut(setup.me.rank()) {
        *place = Some(&mut own);
    }
    dealt
        .deal(&setup, &sharing, &mut places)
        .map_err(Fault::caller)?;
    set_sealed(&mut dealt, setup.me, &[]);
    let (context, behaviour) = (setup.round.context(), behaviour(&setup));
    let pieces = body.get_mut(COMMITMENT..).unwrap_or_default();
    for ((&party, key), piece) in peers.iter().zip(pieces.chunks_exact_mut(layout.len())) {
        let (send, _) = seal_keys(&setup, &pair, party, key, PURPOSE).map_err(Fault::server)?;
        let sealed = piece.get_mut(..layout.sealed).unwrap_or_default();
        if !behaviour.seals_what_it_committed_to(party) {
            sealed.fill(0);
        }
        send.seal_in_place(&seal_header(context, setup.me, party), sealed);
        set_sealed(&mut dealt, party, sealed);
    }
    commit(&setup, &sharing, &dealt, &peers, &mut body)?;
    let next = AwaitColumns {
        setup,
        sharing,
        pair,
        peers,
        nonce,
        dealt,
        own,
    };
    Ok(ClientStep::Send {
        body: std::mem::take(&mut *body),
        next: Box::new(next),
    })
}

fn set_sealed(dealt: &mut Dealt, party: PartyId, sealed: &[u8]) {
    if let Some(leaf) = dealt.leaves.get_mut(party.rank()) {
        leaf.sealed = sealed_hash(sealed);
    }
}

/// Puts the commitment before the pieces, and into each piece what shows that it is part of it.
fn commit(
    setup: &ClientSetup,
    sharing: &ValiditySharing,
    dealt: &Dealt,
    peers: &BTreeMap<PartyId, PublicKey>,
    body: &mut [u8],
) -> Result<(), Fault> {
    let none = || Fault::caller(FaultKind::NotAMember);
    let layout = PieceLayout::of(sharing.shape());
    let trees = dealt.trees(setup, sharing);
    let root = trees.root.hash;
    let signed = root_bytes(&setup.round, setup.me, &root);
    let signature: [u8; SIGNATURE_LEN] = setup
        .identity
        .sign(SIGN_ROOT, &signed)
        .try_into()
        .map_err(|_| none())?;
    let (head, pieces) = body.split_at_mut_checked(COMMITMENT).ok_or_else(none)?;
    head.copy_from_slice(&Commitment { root, signature }.write());
    for (party, piece) in peers.keys().zip(pieces.chunks_exact_mut(layout.len())) {
        let leaf = dealt.leaves.get(party.rank()).ok_or_else(none)?;
        let paths = trees.paths(*party).ok_or_else(none)?;
        let shown = piece.get_mut(layout.sealed..).ok_or_else(none)?;
        shown.copy_from_slice(&layout.write(leaf, &paths));
    }
    Ok(())
}
