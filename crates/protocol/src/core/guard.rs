//! A party's last word on whose vectors are summed.

use crate::PartySet;

/// What a party says of a set of survivors that the protocol allows. It is asked once it knows the set, and before
/// it signs, reveals or adds up anything for it. Protocols in which a party has nothing to hold back by then
/// ([`asks_parties`](crate::ProtocolName::asks_parties) is false) do not ask.
pub trait SurvivorGuard: Send + Sync {
    /// Lets the party go on for these survivors.
    ///
    /// # Errors
    /// Why not. The party's round ends by [`FaultKind::Refused`](crate::FaultKind::Refused), and it says nothing more in it.
    fn allow(&self, survivors: &PartySet) -> Result<(), String>;
}

/// Goes on for every set that the protocol allows.
pub struct AnySurvivors;

impl SurvivorGuard for AnySurvivors {
    fn allow(&self, _survivors: &PartySet) -> Result<(), String> {
        Ok(())
    }
}
