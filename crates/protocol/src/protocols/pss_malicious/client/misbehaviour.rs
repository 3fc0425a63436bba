//! The points of a round at which a simulated party may misbehave. This file and all others of the party are the same in
//! every build: what misbehaves is in the simulator alone, which hands it in.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use blindsum_sharing::validity::{ValiditySharing, Witness};

use crate::core::round::ClientSetup;
use crate::{FaultKind, JobMemory, PartyId};

/// What a party does at the points where a corrupt one can deviate. Each method's default is what an honest party does.
/// The simulator implements it, and nothing else should: a party of a job has the defaults.
///
/// Columns are given by rank, without their salts; those that are not dealt in this call are none.
#[doc(hidden)]
pub trait Misbehaviour: Send + Sync {
    /// Changes the rows of a proof before they are shared.
    fn edit_witness(&self, _witness: &mut Witness) {}

    /// Changes the shares of words before they are committed to.
    fn edit_words(
        &self,
        _me: PartyId,
        _sharing: &ValiditySharing,
        _columns: &mut [Option<&mut [u8]>],
    ) {
    }

    /// Changes the bits of projections before they are shared, and what came of writing them.
    ///
    /// # Errors
    /// `written`, for an honest party.
    fn edit_projections(
        &self,
        _witness: &mut Witness,
        written: Result<(), FaultKind>,
    ) -> Result<(), FaultKind> {
        written
    }

    /// Changes whole columns before they are committed to.
    fn edit_columns(&self, _columns: &mut [Option<&mut [u8]>]) {}

    /// Whether the column that is sealed for a verifier is the one that was committed to.
    fn seals_what_it_committed_to(&self, _verifier: PartyId) -> bool {
        true
    }

    /// Changes the encoded answer of a verifier about a prover; none says that the prover's column is unusable.
    fn edit_answer(
        &self,
        _me: PartyId,
        _prover: PartyId,
        answer: Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        answer
    }

    /// Whether an accused prover refuses to show the column of a verifier whose answer was right.
    fn protects_honest_verifiers(&self) -> bool {
        true
    }

    /// Whether an accused prover shows columns.
    fn shows_columns(&self) -> bool {
        true
    }

    /// Changes the sum of columns before it is sent.
    fn edit_sum(&self, _sum: &mut [u8]) {}
}

/// What every party of a job is.
struct Honest;

impl Misbehaviour for Honest {}

/// The behaviour of one party in all rounds of its job: honest, unless the simulator made its memory.
#[derive(Default)]
pub(super) struct Behaviour(OnceLock<Box<dyn Misbehaviour>>);

impl Deref for Behaviour {
    type Target = dyn Misbehaviour;

    fn deref(&self) -> &Self::Target {
        self.0.get().map_or(&Honest, |misbehaviour| &**misbehaviour)
    }
}

/// The behaviour of the party of this set-up.
pub(super) fn behaviour(setup: &ClientSetup) -> Arc<Behaviour> {
    setup.memory.kept()
}

impl JobMemory {
    /// The memory of a simulated party that misbehaves in all rounds of a job of `pss-malicious`.
    #[doc(hidden)]
    pub fn misbehaving(misbehaviour: Box<dyn Misbehaviour>) -> Self {
        let memory = Self::default();
        memory.kept::<Behaviour>().0.get_or_init(|| misbehaviour);
        memory
    }
}
