//! What a protocol tells the rest of this crate about itself.

use blindsum_crypto::seal::StorageKey;
use blindsum_math::words::Words;

use crate::core::noise_rule::NoiseRule;
use crate::core::plan::Plan;
use crate::core::round::{InTheClear, MakeMachines, OtherServer, Signed};
use crate::core::round_parameters::ParameterRules;
use crate::core::sparsity::Sparsity;
use crate::core::vault::{KeyName, Vault};
use crate::{FaultKind, Job, JobSpec, PartyId, Round, SpecError};

/// What the rest of this crate needs to know about a protocol. A protocol names what it has; all else is as in
/// [`ProtocolInfo::of`].
pub(crate) struct ProtocolInfo {
    /// Whether anything is hidden from the server.
    pub protects: bool,
    /// Whether parties may work with the server and together learn no more than the sum. The job says how many parties
    /// may (`corrupt`).
    pub tolerates_corrupt: bool,
    /// Whether each party is asked whose vectors may be summed, before the sum is opened
    /// ([`SurvivorGuard`](crate::SurvivorGuard)).
    pub asks_parties: bool,
    /// The plan of a round of a job, for a number of parties.
    pub plan: fn(&Job, usize) -> Plan,
    /// Smallest number of survivors, if the job names none.
    pub min_parties: fn(&JobSpec) -> usize,
    /// Smallest number of parties of a round; 0 where so many as must survive are enough.
    pub least_roster: fn(&JobSpec) -> usize,
    /// The parameters of sparse rounds; `None` if parties send all coordinates.
    pub sparsity: fn(&JobSpec) -> Option<Sparsity>,
    /// The numbers that the protocol chooses for a number of parties where the job leaves them open, by name.
    pub parameters: fn(&Job, usize) -> Result<Parameters, SpecError>,
    /// The rules for the parameters of a round, if the protocol has any.
    pub round_parameters: Option<ParameterRules>,
    /// Whether something is derived from the context of a round that no participant may choose. If so, parties commit
    /// to their nonces before the roster is fixed.
    pub commits: fn(&JobSpec) -> bool,
    /// The protocol's own rules for a job.
    pub check: fn(&Job) -> Result<(), SpecError>,
    /// The machines of a round.
    pub machines: MakeMachines,
    /// How parties get the key that they share, if the protocol needs one.
    pub key_setup: fn(&JobSpec) -> Option<&'static KeySetup>,
    /// What results are, if they can be more than sums of words as the encoding makes them.
    pub results: Option<&'static Results>,
    /// Properties of a protocol in which each round needs all of its parties: a round that loses one ends, and
    /// another begins without it.
    pub ring: Option<&'static Ring>,
    /// Whether words are added modulo a power of 2, so that sums may wrap.
    pub wraps: bool,
    /// Whose noise hides a party of a job.
    pub noise: fn(&JobSpec) -> NoiseRule,
    /// The servers that the protocol needs in addition to the coordinator.
    pub servers: &'static [OtherServer],
}

impl ProtocolInfo {
    /// A protocol of one server that hides nothing and sums the vectors of at least
    /// [so many](JobSpec::floor_of_survivors) parties. It has no parameters and no rules of its own.
    pub const fn of(plan: fn(&Job, usize) -> Plan, machines: MakeMachines) -> Self {
        Self {
            protects: false,
            tolerates_corrupt: false,
            asks_parties: false,
            plan,
            min_parties: |spec| spec.floor_of_survivors().min(spec.parties as usize).max(2),
            least_roster: |_| 0,
            sparsity: |_| None,
            parameters: |_, _| Ok(Vec::new()),
            round_parameters: None,
            commits: |_| false,
            check: |_| Ok(()),
            machines,
            key_setup: |_| None,
            results: None,
            ring: None,
            wraps: true,
            noise: |_| {
                let rule = "must be none with a protocol that hides no update: its coordinator sees every vector, and noise of \
                            all parties hides nobody; choose another protocol";
                // guard: nobody-sees-less-than-the-noise-of-all
                NoiseRule::Refused(rule.into())
            },
            servers: &[],
        }
    }
}

/// What the results of a job are, if they are more than sums of words as the encoding makes them.
pub(crate) struct Results {
    /// Whether results are such sums all the same.
    pub is_sum: fn(&Job) -> bool,
    /// What the words of a result mean; none where they are sums.
    pub signed: fn(&Job, &Words) -> Option<Signed>,
    /// The result of a round for these parties, from what they encoded; none where it is the sum.
    pub in_the_clear: Clear,
}

/// Rounds that need all of their parties, and a service that makes their keys.
pub(crate) struct Ring {
    /// The place of a party, from its name and where it says that it is; those with the same stand by their names.
    pub place: fn(&Job, &str, &str) -> Vec<u8>,
    /// Whether places rest on what parties say of where they are.
    pub is_said: fn(&JobSpec) -> bool,
}

/// A protocol's table of options, which gives the protocol's [`ProtocolInfo`].
pub(crate) trait ProtocolTable {
    /// What the protocol is.
    fn info(&self) -> &'static ProtocolInfo;
}

/// The rounds in which a key of the job is made and delivered, between parties that know only each other's
/// certificates. Their messages are small.
pub(crate) struct KeySetup {
    /// The plan of such a round, for a number of parties.
    pub plan: fn(&Job, usize) -> Plan,
    /// The machines of such a round.
    pub machines: MakeMachines,
    /// The name of the key in a vault that can be used in a round, if there is one.
    pub held: HeldKeyName,
    /// The key that seals data of the job for everybody who holds the key in a vault.
    pub storage_key: fn(&dyn Vault) -> Result<Option<StorageKey>, FaultKind>,
}

pub(crate) type Clear = fn(&Round, &[(PartyId, Words)]) -> Option<InTheClear>;
pub(crate) type Parameters = Vec<(&'static str, usize)>;
pub(crate) type HeldKeyName = fn(&Job, &dyn Vault, u64) -> Result<Option<KeyName>, FaultKind>;
