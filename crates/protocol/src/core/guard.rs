//! Rules of one's own about whose vectors are summed: a party's, and those of a server that opens results together with
//! others.

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

/// The memory of a server that computes together with others: of which survivors results were opened before. Two results
/// from one model whose survivors differ by few parties tell the vectors of these. A server that ends rounds after it has
/// learned the result must not get both, so the others ask their memory before they open a result.
///
/// Calls may wait for a disk.
pub trait ReleaseGuard: Send + Sync {
    /// Whether a result of these survivors may be opened. It is asked before the servers agree on the survivors, and again
    /// if a rule leaves some of them out. Nothing is recorded.
    ///
    /// # Errors
    /// The reason why not. The round ends with [`FaultKind::NotOpened`](crate::FaultKind::NotOpened).
    fn check(&self, survivors: &PartySet) -> Result<(), NotOpened>;

    /// Checks the same once more, and records that the result is opened. It is called before the first byte of the result
    /// is sent; when it returns, the record survives a crash.
    ///
    /// # Errors
    /// The reason why not, also if the record cannot be written. Nothing of the result is sent then.
    fn record(&self, survivors: &PartySet) -> Result<(), NotOpened>;
}

/// Why a result is not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOpened {
    /// The round of the earlier result that is in the way; 0 if there is none.
    pub round: u64,
    /// The reason, for people.
    pub reason: String,
}

/// A guard that remembers nothing and allows every set: for rounds that stand alone.
pub struct AnyRelease;

impl ReleaseGuard for AnyRelease {
    fn check(&self, _survivors: &PartySet) -> Result<(), NotOpened> {
        Ok(())
    }

    fn record(&self, _survivors: &PartySet) -> Result<(), NotOpened> {
        Ok(())
    }
}
