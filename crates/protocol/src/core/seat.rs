//! Places in a round: its parties, and the servers that are not its coordinator.

use std::fmt;

use crate::PartyId;

/// What a server of a job is for that is not its coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerRole {
    /// It opens sums, and sees nothing else of a round.
    Decryptor,
    /// It computes with the coordinator and a third server.
    Second,
    /// It computes with the coordinator and a second server.
    Third,
}

impl ServerRole {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decryptor => "decryptor",
            Self::Second => "second server",
            Self::Third => "third server",
        }
    }
}

impl fmt::Display for ServerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place in one round, other than the coordinator's. Connections exist before rosters and last for a whole job; a
/// seat lasts for one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seat {
    /// A party, by its rank.
    Party(PartyId),
    /// A server, by its role.
    Server(ServerRole),
}

impl Seat {
    /// The party, if it is one.
    pub fn party(self) -> Option<PartyId> {
        match self {
            Self::Party(party) => Some(party),
            Self::Server(_) => None,
        }
    }
}

impl From<PartyId> for Seat {
    fn from(party: PartyId) -> Self {
        Self::Party(party)
    }
}

impl From<ServerRole> for Seat {
    fn from(role: ServerRole) -> Self {
        Self::Server(role)
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Party(party) => party.fmt(f),
            Self::Server(role) => role.fmt(f),
        }
    }
}
