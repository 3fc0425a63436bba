//! What the server has once vectors come in: their sum under masks, and what it takes to remove these.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_crypto::kex::PublicKey;
use blindsum_math::words::Words;

use crate::{PartyId, PartySet};

/// The masked sum and what is needed to unmask it.
pub(super) struct MaskedSum {
    pub sum: Words,
    /// U2: who shared its secrets.
    pub shared: BTreeSet<PartyId>,
    /// U3: whose vectors are in the sum.
    pub survivors: PartySet,
    pub commitments: Commitments,
}

/// Public facts about the parties' secrets, against which rebuilt ones are checked.
pub(super) struct Commitments {
    /// s^PK.
    pub mask_keys: BTreeMap<PartyId, PublicKey>,
    /// H(b).
    pub seeds: BTreeMap<PartyId, [u8; 32]>,
}
