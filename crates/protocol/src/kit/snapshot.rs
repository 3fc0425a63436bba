//! How clients are written down and read back. Only ever sealed, see [`crate::Client::seal`].

use blindsum_crypto::secret::Secret;
use blindsum_sharing::{SHARE_LEN, Share};
use zeroize::Zeroizing;

use crate::{FaultKind, PartyId};

/// Writes fixed-size pieces one after the other; wiped on drop.
#[derive(Default)]
pub(crate) struct Writer(Zeroizing<Vec<u8>>);

impl Writer {
    pub fn number(self, number: u32) -> Self {
        self.bytes(&number.to_be_bytes())
    }

    /// How long the next bytes are, where the reader does not know it.
    pub fn length(self, length: usize) -> Self {
        self.bytes(&(length as u64).to_be_bytes())
    }

    /// Bytes of a length that the reader knows.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let length = self.0.len() + bytes.len();
        // guard: snapshots-are-wiped
        if length > self.0.capacity() {
            // Grown by hand: a vector that grows itself leaves secrets behind in freed memory.
            let mut larger = Zeroizing::new(Vec::with_capacity(length.next_power_of_two()));
            larger.extend_from_slice(&self.0);
            self.0 = larger;
        }
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn finish(self) -> Zeroizing<Vec<u8>> {
        self.0
    }
}

/// Reads what [`Writer`] wrote.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], FaultKind> {
        let (bytes, rest) = self
            .0
            .split_at_checked(length)
            .ok_or_else(|| FaultKind::Snapshot("cut short".into()))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FaultKind> {
        self.array_ref().copied()
    }

    fn array_ref<const N: usize>(&mut self) -> Result<&'a [u8; N], FaultKind> {
        let bytes = self.bytes(N)?;
        bytes
            .try_into()
            .map_err(|_| FaultKind::Snapshot("cut short".into()))
    }

    pub fn byte(&mut self) -> Result<u8, FaultKind> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub fn number(&mut self) -> Result<u32, FaultKind> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub fn length(&mut self) -> Result<usize, FaultKind> {
        usize::try_from(u64::from_be_bytes(self.array()?))
            .map_err(|_| FaultKind::Snapshot("longer than the memory".into()))
    }

    pub fn party(&mut self) -> Result<PartyId, FaultKind> {
        Ok(PartyId(self.number()?))
    }

    pub fn secret(&mut self) -> Result<Secret<32>, FaultKind> {
        Ok(Secret::from(self.array_ref()?))
    }

    pub fn share(&mut self) -> Result<Share, FaultKind> {
        Share::parse(self.bytes(SHARE_LEN)?).map_err(|e| FaultKind::Snapshot(e.to_string()))
    }

    /// All that was not read yet.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub fn end(self) -> Result<(), FaultKind> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(FaultKind::Snapshot("trailing bytes".into()))
        }
    }
}
