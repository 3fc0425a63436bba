//! The bytes that show a fault.

use std::fmt;

use bytes::Bytes;

/// The bytes that show a fault, as they were received: a message that was refused, or the part of it that does not
/// open. Of a long message only the beginning is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Evidence {
    bytes: Bytes,
    length: u64,
}

impl Evidence {
    /// The most bytes that are kept.
    pub const MOST: usize = 64 * 1024;

    /// Keeps these bytes, or their beginning.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: Bytes::copy_from_slice(bytes.get(..Self::MOST).unwrap_or(bytes)),
            length: bytes.len() as u64,
        }
    }

    /// Evidence of which only `bytes` were kept, out of `length` bytes.
    pub fn kept(bytes: Bytes, length: u64) -> Self {
        Self { bytes, length }
    }

    /// The same evidence, truncated to at most `most` bytes.
    pub fn cut(&self, most: usize) -> Self {
        let bytes = self.bytes.get(..most).unwrap_or(&self.bytes);
        Self::kept(Bytes::copy_from_slice(bytes), self.length)
    }

    /// The bytes, or the first [`MOST`](Self::MOST) of them.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// How many bytes were received.
    pub fn length(&self) -> u64 {
        self.length
    }
}

/// Length only: a message of `plain` is the party's vector, which belongs in no log.
impl fmt::Debug for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_evidence_is_cut_and_none_is_shown_in_logs() {
        let evidence = Evidence::of(&vec![7; Evidence::MOST + 1]);
        assert_eq!(evidence.bytes().len(), Evidence::MOST);
        assert_eq!(evidence.length(), Evidence::MOST as u64 + 1);
        assert_eq!(format!("{evidence:?}"), "65537 bytes");
        assert_eq!(Evidence::of(b"abc").bytes(), &b"abc"[..]);
    }
}
