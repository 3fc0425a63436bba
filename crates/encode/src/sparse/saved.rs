//! The bytes of what a party keeps between and in sparse rounds.

use blindsum_crypto::Zeroizing;

use crate::EncodeError;

/// First byte of everything that is saved.
const VERSION: u8 = 2;

/// Bytes that are written.
pub(super) struct Saved(Zeroizing<Vec<u8>>);

impl Saved {
    /// Begins with the version; `room` bytes will follow it and the counts.
    pub fn begin(room: usize) -> Self {
        let mut bytes = Zeroizing::new(Vec::with_capacity(1 + 2 * 8 + room));
        bytes.push(VERSION);
        Self(bytes)
    }

    pub fn count(&mut self, count: usize) {
        self.0.extend((count as u64).to_be_bytes());
    }

    pub fn words<const N: usize>(&mut self, words: impl ExactSizeIterator<Item = [u8; N]>) {
        let start = self.0.len();
        self.0.resize(start + N * words.len(), 0);
        let (places, _) = self.0[start..].as_chunks_mut();
        places
            .iter_mut()
            .zip(words)
            .for_each(|(place, word)| *place = word);
    }

    /// A number of values, and each of them.
    pub fn values(&mut self, values: &[f64]) {
        self.count(values.len());
        self.words(values.iter().map(|value| value.to_le_bytes()));
    }

    pub fn bytes(self) -> Zeroizing<Vec<u8>> {
        self.0
    }
}

/// Bytes that are read; `what` they should be.
pub(super) struct Reader<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn begin(what: &'static str, bytes: &'a [u8]) -> Result<Self, EncodeError> {
        match bytes.split_first() {
            Some((&VERSION, rest)) => Ok(Self { what, rest }),
            _ => Err(refused(what, "it is of another version".into())),
        }
    }

    pub fn count(&mut self) -> Result<usize, EncodeError> {
        let short = || refused(self.what, "it ends too soon".into());
        let (count, rest) = self.rest.split_first_chunk().ok_or_else(short)?;
        let count = usize::try_from(u64::from_be_bytes(*count)).map_err(|_| short())?;
        self.rest = rest;
        Ok(count)
    }

    pub fn words<const N: usize>(
        &mut self,
        count: usize,
    ) -> Result<impl Iterator<Item = [u8; N]>, EncodeError> {
        let length = count.checked_mul(N);
        let split = length.and_then(|length| self.rest.split_at_checked(length));
        let (words, rest) = split.ok_or_else(|| refused(self.what, "it ends too soon".into()))?;
        self.rest = rest;
        Ok(words.as_chunks().0.iter().copied())
    }

    /// So many values, which must be finite.
    pub fn finite(&mut self, count: usize) -> Result<Zeroizing<Vec<f64>>, EncodeError> {
        let values = self.words(count)?.map(f64::from_le_bytes);
        let values: Zeroizing<Vec<f64>> = Zeroizing::new(values.collect());
        match values.iter().all(|value| value.is_finite()) {
            true => Ok(values),
            false => Err(refused(self.what, "every coordinate must be finite".into())),
        }
    }

    /// What [`Saved::values`] has written, of this length.
    pub fn values(&mut self, dim: usize) -> Result<Zeroizing<Vec<f64>>, EncodeError> {
        let count = self.count()?;
        if count != dim {
            let rule = format!("{count} coordinates must be {dim}");
            return Err(refused(self.what, rule));
        }
        self.finite(dim)
    }

    /// Nothing must follow.
    pub fn end(self) -> Result<(), EncodeError> {
        match self.rest.len() {
            0 => Ok(()),
            more => Err(refused(self.what, format!("{more} bytes too many"))),
        }
    }
}

pub(super) fn refused(of: &'static str, rule: String) -> EncodeError {
    EncodeError::State { of, rule }
}
