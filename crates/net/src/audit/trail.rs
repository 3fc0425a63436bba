//! The file of the trail: it is only ever appended to, and each line has the hash of the line before.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use blindsum_crypto::calendar::utc;
use serde::Serialize;
use tracing::{error, info, warn};

use super::chain::{Chain, Found};
use super::crowd::{Crowd, Turn};
use super::entry::Entry;
use crate::system::WallClock;
use crate::{NetError, hex};

/// A line as it is written: its place, its time, what happened, and the hash of the line before.
#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    time: String,
    #[serde(flatten)]
    entry: &'a Entry,
    prev: String,
}

/// An audit trail that this process writes.
pub(crate) struct Trail {
    path: PathBuf,
    clock: WallClock,
    inner: Mutex<Inner>,
}

struct Inner {
    file: File,
    chain: Chain,
    crowd: Crowd,
    /// Why nothing can be written any more. It stays so until the next start.
    failed: Option<String>,
}

impl Trail {
    /// Takes up a trail, which is made where there is none, and verifies every line of it. Half a line at its end is cut off.
    /// Gives also the latest round of each job whose end the trail has.
    ///
    /// # Errors
    /// [`NetError::Config`] in the field `audit`: the file cannot be used, another coordinator writes it, or a line does not follow the
    /// one before.
    pub fn open(path: &Path, clock: WallClock) -> Result<(Self, BTreeMap<String, u64>), NetError> {
        check_regular(path)?;
        let wrong = |why: String| NetError::config("audit", format!("{}: {why}", path.display()));
        let unusable = |error: std::io::Error| {
            wrong(format!(
                "{}: choose a file that can be read and written",
                crate::io_words(&error)
            ))
        };
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(unusable)?;
        file.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => {
                wrong("another coordinator writes it: each needs a file of its own".into())
            }
            std::fs::TryLockError::Error(error) => unusable(error),
        })?;
        let found = Found::read(BufReader::new(&file)).map_err(|error| changed(path, &error))?;
        if found.torn > 0 {
            file.set_len(found.whole).map_err(unusable)?;
        }
        file.seek(SeekFrom::End(0)).map_err(unusable)?;
        let trail = Self {
            path: path.to_owned(),
            clock,
            inner: Mutex::new(Inner {
                file,
                chain: found.chain,
                crowd: Crowd::default(),
                failed: None,
            }),
        };
        if found.torn > 0 {
            warn!(path = %path.display(), bytes = found.torn, "the audit trail ended in half a line, which was cut off");
            trail.note(Entry::Repaired { bytes: found.torn });
        }
        trail.check().map_err(wrong)?;
        Ok((trail, found.rounds))
    }

    /// Verifies the lines of a trail that is there.
    ///
    /// # Errors
    /// [`NetError::Config`] in the field `audit`: it cannot be read, or a line does not follow the one before.
    pub fn check_file(path: &Path) -> Result<(), NetError> {
        check_regular(path)?;
        let verified = match File::open(path) {
            Ok(file) => Found::read(BufReader::new(file)).map(drop),
            // A start makes it.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        verified.map_err(|error| changed(path, &error))
    }

    /// A new trail that is written to a device, which is neither read nor locked.
    #[cfg(test)]
    pub fn writing(path: &Path, clock: WallClock) -> Self {
        let file = OpenOptions::new()
            .append(true)
            .open(path)
            .expect("a device");
        Self {
            path: path.to_owned(),
            clock,
            inner: Mutex::new(Inner {
                file,
                chain: Chain::default(),
                crowd: Crowd::default(),
                failed: None,
            }),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// That it could be written until now.
    ///
    /// # Errors
    /// Why it could not.
    pub fn check(&self) -> Result<(), String> {
        self.lock().failed.clone().map_or(Ok(()), Err)
    }

    /// Writes an entry. If that fails the log reports it, and so does [`check`](Self::check) from then on.
    pub fn note(&self, entry: Entry) {
        let now = self.clock.unix_millis();
        let mut inner = self.lock();
        match inner.crowd.turn(now, &entry) {
            Turn::Now(count) => inner.write(&self.path, now, &entry.standing_for(count)),
            Turn::Later => {}
        }
        let others = inner.crowd.overdue(now);
        for entry in others {
            inner.write(&self.path, now, &entry);
        }
    }

    /// Writes what was only counted until now, and the end.
    pub fn end(&self) {
        let now = self.clock.unix_millis();
        let mut inner = self.lock();
        let counted = inner.crowd.rest();
        for entry in counted.iter().chain([&Entry::Stopped]) {
            inner.write(&self.path, now, entry);
        }
        let (lines, head) = (inner.chain.next - 1, hex(&inner.chain.head));
        info!(path = %self.path.display(), lines, %head, "the audit trail ends here for now");
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a device or a pipe, which would be read without end.
fn check_regular(path: &Path) -> Result<(), NetError> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            let rule = format!("{} must be a file: give another one", path.display());
            Err(NetError::config("audit", rule))
        }
        // What is not there is made, and what cannot be looked at cannot be opened.
        _ => Ok(()),
    }
}

/// The error of a trail that cannot be read, or in which a line does not follow the one before.
fn changed(path: &Path, error: &std::io::Error) -> NetError {
    let advice = match error.kind() {
        ErrorKind::InvalidData => "the file was changed; keep it as evidence, and name a new file",
        _ => "choose a file that can be read and written",
    };
    let error = crate::io_words(error);
    NetError::config("audit", format!("{}: {error}: {advice}", path.display()))
}

impl Inner {
    fn write(&mut self, path: &Path, now: u64, entry: &Entry) {
        if self.failed.is_some() {
            return;
        }
        if let Err(failure) = self.try_write(now, entry) {
            let reason = format!("{failure}: make room, or name another file, and start again");
            error!(path = %path.display(), %reason, "the audit trail cannot be written: no round begins any more");
            self.failed = Some(reason);
        }
    }

    fn try_write(&mut self, now: u64, entry: &Entry) -> std::io::Result<()> {
        let line = Line {
            seq: self.chain.next,
            time: utc(now / 1000),
            entry,
            prev: hex(&self.chain.head),
        };
        let mut bytes = serde_json::to_vec(&line)?;
        let chain = self.chain.after(&bytes);
        bytes.push(b'\n');
        self.file.write_all(&bytes)?;
        self.chain = chain;
        match entry.is_kept_at_once() {
            true => self.file.sync_data(),
            false => Ok(()),
        }
    }
}
