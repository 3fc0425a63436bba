//! The checked job.

mod rules;

use std::sync::Arc;

use blindsum_crypto::seal::StorageKey;
use blindsum_encode::{DensitySchedule, Encoding, ServerStep, UpdateHistory};
use blindsum_math::words::{Width, Words};

use crate::core::plan::{Opens, Plan};
use crate::core::privacy::Privacy;
use crate::core::vault::{KeyName, Vault};
use crate::{Fault, FaultKind, JobSpec, RoundKind, ServerRole, SpecError};

/// A checked job specification.
#[derive(Clone, Debug)]
pub struct Job {
    spec: JobSpec,
    encoding: Arc<Encoding>,
    privacy: Option<Privacy>,
    hash: [u8; 32],
    plan: Plan,
    key_setup_plan: Option<Plan>,
}

impl Job {
    /// The specification.
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// The checked encoding. A round may have other clipping bounds: see [`Round::encoding`](crate::Round::encoding).
    pub fn encoding(&self) -> &Arc<Encoding> {
        &self.encoding
    }

    /// The differential privacy of its sums, where they have noise.
    pub fn privacy(&self) -> Option<&Privacy> {
        self.privacy.as_ref()
    }

    /// The empty history of updates before the first round, for jobs whose clipping bounds are found from earlier
    /// rounds (`clipping` = `aciq`); `None` for others.
    pub fn new_history(&self) -> Option<UpdateHistory> {
        UpdateHistory::new(&self.encoding).ok()
    }

    /// How the mean of a round changes the model, where `model_update` is `add`.
    pub fn server_step(&self) -> ServerStep {
        self.spec.step.rule()
    }

    /// Which part of its coordinates a party sends in each round, if rounds are sparse (`density` below 1).
    pub fn density(&self) -> Option<DensitySchedule> {
        self.spec.sparsity().map(|sparsity| sparsity.schedule)
    }

    /// The most words that a party sends in a round: coordinates, and all that the encoding adds to them.
    pub(crate) fn most_words(&self) -> usize {
        let Some(schedule) = self.density() else {
            return self.lanes();
        };
        let tensors = self.encoding.tensors();
        let coordinates: usize = tensors.map(|(run, _)| schedule.kept(0, run.len())).sum();
        coordinates + self.lanes() - self.encoding.dim()
    }

    /// The hash of the specification's canonical text. It is part of every key and signature.
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// Words of a vector: its coordinates and what the encoding adds to them.
    pub fn lanes(&self) -> usize {
        self.encoding.lanes()
    }

    /// Bits of a word, so wide that no sum can wrap.
    pub fn width(&self) -> Width {
        self.encoding.width()
    }

    /// A vector of zeros.
    pub fn zeros(&self) -> Words {
        Words::zeros(self.width(), self.lanes())
    }

    /// Bytes of one packed vector.
    pub fn packed_len(&self) -> usize {
        self.width().packed_len(self.lanes())
    }

    /// Smallest number of survivors whose sum may be opened: `min_parties`, or the protocol's own
    /// smallest number where that is 0.
    pub fn min_parties(&self) -> usize {
        self.spec.least_survivors()
    }

    /// Smallest number of parties of a round: [`min_parties`](Self::min_parties), or more where the protocol needs more to
    /// do without those who lie or are lost.
    pub fn least_roster(&self) -> usize {
        self.spec.least_roster()
    }

    /// The plan of a round with as many parties as the job allows. The plan of one particular round is
    /// [`Round::plan`](crate::Round::plan).
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The plan of a round of this kind with this many parties.
    pub fn plan_of(&self, kind: RoundKind, parties: usize) -> Plan {
        match ((self.spec.info().key_setup)(&self.spec), kind) {
            (Some(setup), RoundKind::KeySetup) => (setup.plan)(self, parties),
            _ => (self.spec.info().plan)(self, parties),
        }
    }

    /// The servers that the job needs in addition to its coordinator.
    pub fn servers(&self) -> impl Iterator<Item = ServerRole> + use<> {
        self.spec.info().servers.iter().map(|server| server.role)
    }

    /// The servers that compute with the coordinator.
    pub fn computing_servers(&self) -> impl Iterator<Item = ServerRole> + use<> {
        self.servers().filter(|role| role.place().is_some())
    }

    /// The plan of a key set-up with as many parties as the job allows. `None` unless parties need a key that the
    /// coordinator does not have; see [`Round::key_setup`](crate::Round::key_setup).
    pub fn key_setup_plan(&self) -> Option<&Plan> {
        self.key_setup_plan.as_ref()
    }

    /// The numbers that the protocol chose for a round of `parties` parties where the job leaves them open, by name:
    /// thresholds, neighbours, packing. Empty if there is nothing to choose.
    pub fn parameters(&self) -> Vec<(&'static str, usize)> {
        self.parameters_for(self.spec.parties as usize)
            .unwrap_or_default()
    }

    /// The numbers that the protocol chooses for a round of `n` parties, as in [`parameters`](Self::parameters). A
    /// checked job has them for every n from [`least_roster`](Self::least_roster) to `parties`.
    ///
    /// # Errors
    /// A number of parties outside of this range.
    pub fn parameters_for(&self, n: usize) -> Result<Vec<(&'static str, usize)>, SpecError> {
        let (least, most) = (self.least_roster(), self.spec.parties as usize);
        if !(least..=most).contains(&n) {
            let least = self.least_roster_in_words();
            let rule = format!("{least} <= roster = {n} <= parties = {most}");
            return Err(SpecError::new("roster", rule));
        }
        (self.spec.info().parameters)(self, n)
    }

    /// Whether only the parties learn the sum, and not the coordinator.
    pub fn hides_sum(&self) -> bool {
        self.plan.opens() == Opens::Parties
    }

    /// Whether the parties learn the sum, and not the servers alone.
    pub fn tells_parties(&self) -> bool {
        self.plan.opens() != Opens::ServersAlone
    }

    /// Whether each round needs all of its parties: where one is lost another round begins without it.
    pub fn needs_everybody(&self) -> bool {
        self.spec.info().ring.is_some()
    }

    /// What parties stand in order by in a roster, by their names and where they say that they are. Those with the same
    /// stand by their names.
    pub fn place_of(&self, name: &str, location: &str) -> Vec<u8> {
        let ring = self.spec.info().ring;
        ring.map_or_else(Vec::new, |ring| (ring.place)(self, name, location))
    }

    /// Whether a roster may have these names in this order. Where parties stand by where they say that they are, no other
    /// party can tell.
    pub fn is_in_order(&self, names: &[&str]) -> bool {
        let ring = self.spec.info().ring;
        let place = |name: &str| (self.place_of(name, ""), name.to_owned());
        ring.is_some_and(|ring| (ring.is_said)(&self.spec))
            || names.is_sorted_by(|one, other| place(one) < place(other))
    }

    /// A round has as many parties as the job allows.
    ///
    /// # Errors
    /// More or fewer.
    pub(crate) fn check_roster_size(&self, have: usize) -> Result<(), Fault> {
        // guard: campaign-rosters-of-enough
        let (least, most) = (self.least_roster(), self.spec.parties as usize);
        if have < least {
            let least = self.least_roster_in_words();
            let rule = format!("{least} <= parties in the roster = {have} must hold");
            return Err(Fault::server(FaultKind::Parameters(rule)));
        }
        if have > most {
            let rule = format!("parties in the roster = {have} <= parties = {most}");
            return Err(Fault::server(FaultKind::Parameters(rule)));
        }
        Ok(())
    }

    /// The smallest roster with its reason.
    fn least_roster_in_words(&self) -> String {
        match self.least_roster() {
            least if least == self.min_parties() => format!("min_parties = {least}"),
            least => format!(
                "{least} (fewer cannot hold a round of {})",
                self.spec.protocol
            ),
        }
    }

    /// Whether parties commit to their nonces before the roster of a round is fixed.
    pub fn commits_nonces(&self) -> bool {
        (self.spec.info().commits)(&self.spec)
    }

    /// The name of the key that a party can use in round `number`, if it holds one. The name is no secret. A party
    /// without a key takes part in a key set-up first.
    ///
    /// # Errors
    /// A vault that cannot be read.
    pub fn held_key(&self, vault: &dyn Vault, number: u64) -> Result<Option<KeyName>, FaultKind> {
        match (self.spec.info().key_setup)(&self.spec) {
            Some(setup) => (setup.held)(self, vault, number),
            None => Ok(None),
        }
    }

    /// The key that seals data of the job for the other parties, if parties share a key and this one holds it.
    ///
    /// # Errors
    /// A vault that cannot be read.
    pub fn storage_key(&self, vault: &dyn Vault) -> Result<Option<StorageKey>, FaultKind> {
        match (self.spec.info().key_setup)(&self.spec) {
            Some(setup) => (setup.storage_key)(vault),
            None => Ok(None),
        }
    }
}
