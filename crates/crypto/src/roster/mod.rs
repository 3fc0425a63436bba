//! The parties of one round, in order, and the proof that all of them are certified.
//!
//! The rank of a party is its place in the roster, from 0. The bytes of a roster, which enter the round
//! context through [`Roster::hash`], are (TLS notation, RFC 8446 section 3, big-endian lengths)
//!
//! ```text
//! struct {
//!     opaque name<1..64>;              // 1-byte length
//!     opaque certificate<1..2^16-1>;   // X.509, DER, 2-byte length
//!     opaque nonce[32];
//! } Member;
//! struct {
//!     uint32 count;
//!     Member members[count];
//! } Roster;
//! ```

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::{
    certificate::{TrustAnchor, UnixSeconds, check_name},
    kdf,
    sign::VerifyingKey,
};

pub use crate::error::RosterError;

/// One party as it joins a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The party's name, as in its certificate.
    pub name: String,
    /// The party's X.509 certificate in DER.
    pub certificate: Vec<u8>,
    /// 32 bytes that the party drew for this round, so that no context comes twice.
    pub nonce: [u8; 32],
}

/// The parties of one round as somebody claims them, unchecked; [`Roster::certify`] checks them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster(pub Vec<Member>);

impl Roster {
    /// The bytes that the module describes.
    ///
    /// # Errors
    ///
    /// [`RosterError::Encoding`] if a name or certificate is too long for them, or empty.
    pub fn to_bytes(&self) -> Result<Vec<u8>, RosterError> {
        let count = u32::try_from(self.0.len())
            .map_err(|_| RosterError::Encoding("must have fewer than 2^32 members"))?;
        let mut bytes = count.to_be_bytes().to_vec();
        for member in &self.0 {
            let name = u8::try_from(member.name.len())
                .ok()
                .filter(|n| (1..=64).contains(n));
            let certificate = u16::try_from(member.certificate.len())
                .ok()
                .filter(|n| *n > 0);
            bytes.push(name.ok_or(NAME_LENGTH)?);
            bytes.extend_from_slice(member.name.as_bytes());
            bytes.extend_from_slice(&certificate.ok_or(CERTIFICATE_LENGTH)?.to_be_bytes());
            bytes.extend_from_slice(&member.certificate);
            bytes.extend_from_slice(&member.nonce);
        }
        Ok(bytes)
    }

    /// Reads what [`Roster::to_bytes`] wrote, with at most `most` members.
    ///
    /// # Errors
    ///
    /// [`RosterError::Encoding`] if the bytes are anything else.
    pub fn from_bytes(bytes: &[u8], most: u32) -> Result<Self, RosterError> {
        let mut reader = Reader(bytes);
        let count = u32::from_be_bytes(reader.array()?);
        if count > most {
            return Err(RosterError::Encoding(
                "has more members than the job allows",
            ));
        }
        let mut members = Vec::new();
        for _ in 0..count {
            let [length] = reader.array()?;
            let name = reader.take(usize::from(length))?;
            let length = u16::from_be_bytes(reader.array()?);
            let certificate = reader.take(usize::from(length))?.to_vec();
            if !(1..=64).contains(&name.len()) {
                return Err(NAME_LENGTH);
            }
            if certificate.is_empty() {
                return Err(CERTIFICATE_LENGTH);
            }
            let name = std::str::from_utf8(name)
                .map_err(|_| RosterError::Encoding("a name must be UTF-8"))?;
            let (name, nonce) = (name.to_owned(), reader.array()?);
            members.push(Member {
                name,
                certificate,
                nonce,
            });
        }
        match reader.0 {
            [] => Ok(Roster(members)),
            _ => Err(RosterError::Encoding("has trailing bytes")),
        }
    }

    /// The hash of the roster: [`kdf::hash`] with the label "roster" over its bytes.
    ///
    /// # Errors
    ///
    /// Those of [`Roster::to_bytes`].
    pub fn hash(&self) -> Result<[u8; 32], RosterError> {
        Ok(kdf::hash("roster", &[&self.to_bytes()?]))
    }

    /// Checks every member: its name is allowed, its certificate is of the job's CA, valid at `now`, not revoked and
    /// for this very name, and no name or key comes twice.
    ///
    /// # Errors
    ///
    /// The first fault found, with the party that it concerns.
    pub fn certify(
        self,
        anchor: &TrustAnchor,
        now: UnixSeconds,
    ) -> Result<CertifiedRoster, RosterError> {
        if self.0.is_empty() {
            return Err(RosterError::Empty);
        }
        let hash = self.hash()?;
        let mut keys = Vec::with_capacity(self.0.len());
        let mut ranks = HashMap::with_capacity(self.0.len());
        let mut holders: HashMap<Vec<u8>, &str> = HashMap::with_capacity(self.0.len());
        for (rank, member) in (0u32..).zip(&self.0) {
            let party = || member.name.clone();
            check_name(&member.name).map_err(|error| RosterError::Name {
                rank,
                error: Box::new(error),
            })?;
            // guard: members-listed-once
            if ranks.insert(member.name.clone(), rank).is_some() {
                return Err(RosterError::DuplicateName { party: party() });
            }
            let certified = anchor
                .verify_party(&member.certificate, now)
                .map_err(|error| RosterError::Certificate {
                    party: party(),
                    error,
                })?;
            if certified.name != member.name {
                return Err(RosterError::WrongName {
                    party: party(),
                    certified: certified.name,
                });
            }
            // guard: members-have-their-own-keys
            if let Some(other) = holders.insert(certified.key.as_bytes().to_vec(), &member.name) {
                return Err(RosterError::DuplicateKey {
                    party: party(),
                    other: other.to_owned(),
                });
            }
            keys.push(certified.key);
        }
        Ok(CertifiedRoster {
            roster: self,
            keys,
            ranks,
            hash,
        })
    }
}

const NAME_LENGTH: RosterError = RosterError::Encoding("a name must have 1 to 64 bytes");
const CERTIFICATE_LENGTH: RosterError =
    RosterError::Encoding("a certificate must have 1 to 65,535 bytes");

/// The rest of some bytes, read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], RosterError> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(RosterError::Encoding("is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RosterError> {
        let (taken, rest) = self
            .0
            .split_first_chunk()
            .ok_or(RosterError::Encoding("is cut short"))?;
        self.0 = rest;
        Ok(*taken)
    }
}

/// A roster whose every member was found to be certified: only [`Roster::certify`] makes one.
#[derive(Clone, Debug)]
pub struct CertifiedRoster {
    roster: Roster,
    keys: Vec<VerifyingKey>,
    ranks: HashMap<String, u32>,
    hash: [u8; 32],
}

impl CertifiedRoster {
    /// How many parties there are; at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The same roster with its members' nonces, once these are known.
    ///
    /// # Errors
    ///
    /// [`RosterError::Encoding`] unless there is a nonce for each member.
    pub fn with_nonces(mut self, nonces: &[[u8; 32]]) -> Result<Self, RosterError> {
        if nonces.len() != self.len() {
            return Err(RosterError::Encoding("must have a nonce for each member"));
        }
        for (member, nonce) in self.roster.0.iter_mut().zip(nonces) {
            member.nonce = *nonce;
        }
        self.hash = self.roster.hash()?;
        Ok(self)
    }

    /// [`Roster::hash`].
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// The members in order of rank.
    pub fn members(&self) -> &[Member] {
        &self.roster.0
    }

    /// The place of the party with this name.
    pub fn rank_of(&self, name: &str) -> Option<u32> {
        self.ranks.get(name).copied()
    }

    /// The party at this place.
    pub fn member(&self, rank: u32) -> Option<&Member> {
        self.roster.0.get(rank as usize)
    }

    /// The certified signing key of the party at this place.
    pub fn verifying_key(&self, rank: u32) -> Option<&VerifyingKey> {
        self.keys.get(rank as usize)
    }
}
