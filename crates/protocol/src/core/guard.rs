//! A party's own rules about whose vectors are summed.

use crate::PartySet;

/// What a party says of a set of survivors that the protocol allows. It is asked when the party knows the set, before
/// it signs, reveals or adds up anything for it. Protocols in which a party has nothing left to hold back by then
/// ([`asks_parties`](crate::ProtocolName::asks_parties) is false) do not ask.
pub trait SurvivorGuard: Send + Sync {
    /// Allows the party to go on with these survivors.
    ///
    /// # Errors
    /// The reason why not. The party's round ends with [`FaultKind::Refused`](crate::FaultKind::Refused), and the party
    /// sends nothing more in it.
    fn allow(&self, survivors: &PartySet) -> Result<(), String>;
}

/// A guard that allows every set that the protocol allows.
pub struct AnySurvivors;

impl SurvivorGuard for AnySurvivors {
    fn allow(&self, _survivors: &PartySet) -> Result<(), String> {
        Ok(())
    }
}
