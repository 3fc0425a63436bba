//! How lines follow each other: numbers from 1 on, and in each line the SHA-256 of the one before, without its line feed.

use std::collections::BTreeMap;
use std::io::{BufRead, Error, ErrorKind};

use blindsum_crypto::kdf::sha256;
use serde::Deserialize;

use crate::hex;

/// What the next line must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// Its number.
    pub next: u64,
    /// The hash of the line before; zeros before the first one.
    pub head: [u8; 32],
}

impl Default for Chain {
    fn default() -> Self {
        Self {
            next: 1,
            head: [0; 32],
        }
    }
}

impl Chain {
    /// The chain after a line, which has no line feed.
    pub fn after(&self, line: &[u8]) -> Self {
        Self {
            next: self.next + 1,
            head: sha256(line),
        }
    }
}

/// What is read of a line again.
#[derive(Deserialize)]
struct Written {
    seq: u64,
    prev: String,
    event: String,
    job: Option<String>,
    round: Option<u64>,
}

/// What a file has.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub chain: Chain,
    /// Bytes of whole lines.
    pub whole: u64,
    /// Bytes of half a line at the end.
    pub torn: u64,
    /// The latest round of each job whose end is there.
    pub rounds: BTreeMap<String, u64>,
}

impl Found {
    /// Reads and verifies all lines.
    ///
    /// # Errors
    /// `InvalidData` names the first line that does not follow the one before; anything else is of the reader.
    pub fn read(mut reader: impl BufRead) -> Result<Self, Error> {
        let (mut found, mut line) = (Self::default(), Vec::new());
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line)? as u64;
            match line.pop() {
                None => return Ok(found),
                Some(b'\n') => found.take(&line)?,
                Some(_) => {
                    found.torn = read;
                    return Ok(found);
                }
            }
            found.whole += read;
        }
    }

    fn take(&mut self, line: &[u8]) -> Result<(), Error> {
        let number = self.chain.next;
        let wrong =
            |why: String| Error::new(ErrorKind::InvalidData, format!("line {number}: {why}"));
        let written: Written = serde_json::from_slice(line)
            .map_err(|error| wrong(format!("is no entry ({error})")))?;
        if written.seq != number {
            return Err(wrong(format!("has number {}", written.seq)));
        }
        // guard: lines-of-the-trail-follow-each-other
        if written.prev != hex(&self.chain.head) {
            return Err(wrong("does not have the hash of the line before".into()));
        }
        if let ("round-ended", Some(job), Some(round)) =
            (&*written.event, written.job, written.round)
        {
            let latest = self.rounds.entry(job).or_default();
            *latest = round.max(*latest);
        }
        self.chain = self.chain.after(line);
        Ok(())
    }
}
