//! Stage `share-vector`: takes note of who committed to what, and says whose column goes to whom.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_crypto::merkle::Hash;
use rand_core::CryptoRng;

use super::respond::CollectResponses;
use super::{Common, Shared};
use crate::core::round::{Bodies, Piece, Relayed, ServerStage, ServerStep};
use crate::kit::confirm::CollectSignatures;
use crate::kit::keys::is_active;
use crate::protocols::pss_malicious::messages::{COMMITMENT, Commitment, PieceLayout, challenge};
use crate::protocols::pss_malicious::share_len;
use crate::{Fault, FaultKind, PartyId, PartySet};

pub(super) struct CollectCommitments {
    common: Common,
    /// U0: who advertised keys.
    advertised: BTreeSet<PartyId>,
    nonce: Hash,
    /// Of U1, those who shared.
    commitments: BTreeMap<PartyId, Commitment>,
}

impl CollectCommitments {
    pub fn new(common: Common, advertised: BTreeSet<PartyId>, nonce: Hash) -> Self {
        Self {
            common,
            advertised,
            nonce,
            commitments: BTreeMap::new(),
        }
    }

    /// Where the piece for the `place`-th of U0 lies in the message of another party of U0, whose own is left out.
    fn piece(&self, from: (usize, PartyId), place: usize) -> Piece {
        let len = PieceLayout::of(self.common.sharing.shape()).len();
        let index = if from.0 < place { place - 1 } else { place };
        let start = COMMITMENT + index * len;
        Piece {
            from: from.1,
            range: start..start + len,
        }
    }
}

impl CollectCommitments {
    /// Every piece must be in the tree: whoever gets one that is not takes it for the coordinator's lie, and ends its round.
    fn check_paths(
        &self,
        from: PartyId,
        commitment: &Commitment,
        body: &[u8],
    ) -> Result<(), FaultKind> {
        let (round, shape) = (&self.common.round, self.common.sharing.shape());
        let layout = PieceLayout::of(shape);
        let others = self.advertised.iter().filter(|party| **party != from);
        let pieces = body.get(COMMITMENT..).unwrap_or_default();
        for (&to, piece) in others.zip(pieces.chunks_exact(layout.len())) {
            let read = layout.read(piece);
            let root = read.map(|piece| piece.leaf.root(round, shape, (from, to), &piece.paths));
            if root.map(|root| root.hash) != Some(commitment.root) {
                let rule = format!("the piece for {to} is not in the tree of its sender");
                return Err(FaultKind::malformed("columns", rule));
            }
        }
        Ok(())
    }
}

impl ServerStage for CollectCommitments {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.advertised
    }

    fn required(&self) -> usize {
        self.common.required()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let need = share_len(
            PieceLayout::of(self.common.sharing.shape()),
            self.advertised.len(),
        );
        let wrong = |rule| FaultKind::malformed("columns", rule);
        if body.len() != need {
            return Err(wrong(format!("{} bytes, but {need} are due", body.len())));
        }
        let commitment = body.get(..COMMITMENT).and_then(Commitment::read);
        let commitment = commitment.ok_or_else(|| wrong("cut short".into()))?;
        if !commitment.is_of(&self.common.round, from) {
            return Err(FaultKind::BadSignature { signer: from });
        }
        self.check_paths(from, &commitment, body)?;
        self.commitments.insert(from, commitment);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let round = &self.common.round;
        let shared: BTreeSet<PartyId> = self.commitments.keys().copied().collect();
        let parties = PartySet::of(round.parties(), shared.iter().copied());
        let commitments: Vec<Commitment> = self.commitments.values().cloned().collect();
        let ranked = self.advertised.iter().copied().enumerate();
        let members: Vec<(usize, PartyId)> =
            ranked.filter(|(_, party)| shared.contains(party)).collect();
        let mut head = [parties.as_bitmap(), &self.nonce].concat();
        commitments.iter().for_each(|of| head.extend(of.write()));
        let relayed = members.iter().map(|&(place, to)| Relayed {
            to: to.into(),
            head: head.clone(),
            pieces: members
                .iter()
                .filter(|(_, from)| *from != to)
                .map(|&from| self.piece(from, place))
                .collect(),
        });
        let bodies = Bodies::Relayed(relayed.collect());
        let challenge = challenge(round, &self.nonce, &parties, &commitments);
        let told = Shared {
            common: self.common,
            parties,
            commitments,
            challenge,
        };
        let next: Box<dyn ServerStage> = match is_active(&told.common.round) {
            true => CollectSignatures::of(told, shared),
            false => Box::new(CollectResponses::new(told, shared)),
        };
        Ok(ServerStep::Next {
            next,
            bodies,
            faults: Vec::new(),
        })
    }
}
