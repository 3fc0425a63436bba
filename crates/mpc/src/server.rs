//! The number of one of the three servers.

use std::fmt;

/// One of the three servers: 0, 1 or 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerIndex(u8);

impl ServerIndex {
    /// All three, in order.
    pub const ALL: [Self; 3] = [Self(0), Self(1), Self(2)];

    /// The server with the next number; behind 2 comes 0.
    pub fn next(self) -> Self {
        Self((self.0 + 1) % 3)
    }

    /// The server with the number before; before 0 comes 2.
    pub fn previous(self) -> Self {
        Self((self.0 + 2) % 3)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl TryFrom<u8> for ServerIndex {
    type Error = u8;

    fn try_from(number: u8) -> Result<Self, u8> {
        match number < 3 {
            true => Ok(Self(number)),
            false => Err(number),
        }
    }
}

impl fmt::Display for ServerIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {}", self.0)
    }
}
