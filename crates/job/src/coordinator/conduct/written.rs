//! The conduct of a job's parties as the store has it: whoever sits out rounds does so after a restart, too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::claims::{Alone, Claim, Claims, Pair};
use super::sentences::{Liar, Missed};
use super::turns::Name;
use super::{Begun, Conduct};

/// The form of this version.
const VERSION: u32 = 1;

/// All of it, with names in the place of keys.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    begun: u64,
    claims: Vec<(String, String, Claim)>,
    apart: Vec<(String, String, Pair)>,
    alone: Vec<(String, Alone)>,
    waits: Vec<(String, u32)>,
    liars: Vec<(String, Liar)>,
    missed: Vec<(String, Missed)>,
}

impl Conduct {
    /// As bytes, with the number of rounds that were begun.
    pub fn to_bytes(&self, begun: Begun) -> Vec<u8> {
        let written = Written {
            version: VERSION,
            begun,
            claims: of_two(&self.claims.claims),
            apart: of_two(&self.claims.apart),
            alone: of_one(&self.claims.alone),
            waits: of_one(&self.claims.waits),
            liars: of_one(&self.liars),
            missed: of_one(&self.missed),
        };
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// The record of a job in which `corrupt` parties may lie, from bytes.
    ///
    /// # Errors
    /// Bytes of another form, or damaged.
    pub fn from_bytes(corrupt: usize, bytes: &[u8]) -> Result<Self, String> {
        let written: Written = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        if written.version != VERSION {
            let (other, known) = (written.version, VERSION);
            return Err(format!("form {other}, this program reads {known}"));
        }
        let claims = Claims {
            claims: by_two(written.claims),
            apart: by_two(written.apart),
            alone: by_one(written.alone),
            waits: by_one(written.waits),
            ..Claims::default()
        };
        Ok(Self {
            begun: written.begun,
            claims,
            liars: by_one(written.liars),
            missed: by_one(written.missed),
            ..Self::of(corrupt)
        })
    }
}

fn of_one<T: Copy>(map: &BTreeMap<Name, T>) -> Vec<(String, T)> {
    let entries = map.iter();
    entries
        .map(|(name, value)| (name.to_string(), *value))
        .collect()
}

fn of_two<T: Copy>(map: &BTreeMap<(Name, Name), T>) -> Vec<(String, String, T)> {
    let entries = map.iter();
    entries
        .map(|((one, other), value)| (one.to_string(), other.to_string(), *value))
        .collect()
}

fn by_one<T>(entries: Vec<(String, T)>) -> BTreeMap<Name, T> {
    let entries = entries.into_iter();
    entries.map(|(name, value)| (name.into(), value)).collect()
}

fn by_two<T>(entries: Vec<(String, String, T)>) -> BTreeMap<(Name, Name), T> {
    let entries = entries.into_iter();
    entries
        .map(|(one, other, value)| ((one.into(), other.into()), value))
        .collect()
}
