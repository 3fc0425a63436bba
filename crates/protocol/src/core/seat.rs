//! Places in a round: its parties, and the servers that are not its coordinator.

use std::fmt;

use blindsum_mpc::ServerIndex;

use crate::PartyId;

/// The role of a server that is not the coordinator.
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

impl ServerRole {
    /// The number that stands for it in what is written down: that of its place among servers which compute together,
    /// the coordinator's being 0, and 255 of a decryptor.
    pub(crate) fn number(self) -> u8 {
        self.place().map_or(u8::MAX, ServerIndex::number)
    }

    /// The role with this number.
    pub(crate) fn numbered(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Second),
            2 => Some(Self::Third),
            u8::MAX => Some(Self::Decryptor),
            _ => None,
        }
    }

    /// Its place among three servers that compute together, of which the coordinator is the first; none for one that
    /// computes alone.
    pub fn place(self) -> Option<ServerIndex> {
        match self {
            Self::Decryptor => None,
            Self::Second => Some(ServerIndex::ALL[1]),
            Self::Third => Some(ServerIndex::ALL[2]),
        }
    }

    /// The server in this place; none for the first one, which is the coordinator.
    pub fn at(place: ServerIndex) -> Option<Self> {
        Self::numbered(place.number())
    }
}

impl fmt::Display for ServerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place in one round, other than the coordinator's. A seat lasts for one round, whereas connections exist before
/// there is a roster and last for a whole job.
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
