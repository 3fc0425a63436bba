//! What Rust tests need to read the vectors. They include it by its path.

use std::convert::Infallible;

use rand_core::{TryCryptoRng, TryRng};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Bytes that stand in a file as hexadecimal digits.
#[derive(Deserialize, Clone, Debug, PartialEq)]
#[serde(try_from = "String")]
pub struct Hex(pub Vec<u8>);

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
        match digits {
            Some(digits) if digits.len().is_multiple_of(2) => {
                let bytes = digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8);
                Ok(Hex(bytes.collect()))
            }
            _ => Err(format!("no bytes: {text}")),
        }
    }
}

impl Hex {
    /// Exactly 32 bytes.
    pub fn array(&self) -> [u8; 32] {
        self.0.as_slice().try_into().unwrap()
    }
}

/// One list of a file; it is not empty.
pub fn load<T: DeserializeOwned>(file: &str, list: &str) -> Vec<T> {
    let mut file: Value = serde_json::from_str(file).unwrap();
    let vectors: Vec<T> = serde_json::from_value(file[list].take()).unwrap();
    assert!(!vectors.is_empty());
    vectors
}

/// A generator that gives the bytes of a vector, once.
pub struct Tape {
    bytes: Vec<u8>,
    read: usize,
}

impl Tape {
    pub fn new(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            read: 0,
        }
    }

    /// Panics where bytes are left over.
    pub fn end(&self) {
        assert_eq!(self.read, self.bytes.len(), "the model took more bytes");
    }
}

impl TryRng for Tape {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        panic!("the library takes bytes only");
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        panic!("the library takes bytes only");
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        let rest = &self.bytes[self.read..];
        assert!(dst.len() <= rest.len(), "the model took fewer bytes");
        dst.copy_from_slice(&rest[..dst.len()]);
        self.read += dst.len();
        Ok(())
    }
}

impl TryCryptoRng for Tape {}
