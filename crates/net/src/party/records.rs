//! The records of a party, or of a server that is no coordinator, as files of its state folder. Once a record is written
//! it survives a crash.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use blindsum_job::JobError;
use blindsum_job::records::Records;

use crate::private;

/// How long a party that has just left the job may take to let its records go: it says goodbye, and ends what it writes.
const LETTING_GO: Duration = Duration::from_secs(5);

/// The records of one job name. While they are open no other process can use them.
pub(crate) struct FileRecords {
    folder: PathBuf,
    _lock: File,
}

impl FileRecords {
    /// Opens or makes `folder/job`.
    ///
    /// # Errors
    /// A folder that cannot be written, or that another process uses.
    pub fn open(folder: &Path, job: &str) -> Result<Self, JobError> {
        let folder = folder.join(job);
        let failed = |path: &Path, reason: String| JobError::State {
            path: path.to_owned(),
            reason,
        };
        private::create_folder(&folder).map_err(|e| failed(&folder, crate::io_words(&e)))?;
        let path = folder.join("lock");
        let lock = private::create(&path).map_err(|e| failed(&path, crate::io_words(&e)))?;
        locked(&lock).map_err(|error| {
            let reason = match error {
                TryLockError::WouldBlock => "another process uses it for this job".to_owned(),
                TryLockError::Error(error) => crate::io_words(&error),
            };
            failed(&folder, reason)
        })?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }
}

impl Records for FileRecords {
    fn place(&self) -> &Path {
        &self.folder
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.folder.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn replace(&self, name: &str, pieces: &[&[u8]]) -> io::Result<()> {
        let path = self.folder.join(name);
        let folder = path.parent().unwrap_or(&self.folder);
        if !folder.exists() {
            private::create_folder(folder)?;
            sync(&self.folder)?;
        }
        let new = path.with_extension("new");
        let mut file = private::create(&new)?;
        for piece in pieces {
            file.write_all(piece)?;
        }
        file.sync_all()?;
        fs::rename(&new, &path)?;
        sync(folder)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.folder.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Takes the lock, as soon as whoever is about to leave has let it go.
fn locked(lock: &File) -> Result<(), TryLockError> {
    let until = Instant::now() + LETTING_GO;
    loop {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            taken => return taken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let open = || FileRecords::open(folder.path(), "j").unwrap();
        let records = open();
        assert_eq!(records.read("0a/state").unwrap(), None);
        for contents in [[&b"first"[..], b" "], [b"second ", b"and last"]] {
            records.replace("0a/state", &contents).unwrap();
        }
        records.replace("last", &[b"0a"]).unwrap();
        drop(records);
        let records = open();
        assert_eq!(
            records.read("0a/state").unwrap().unwrap(),
            b"second and last"
        );
        records.remove("0a/state").unwrap();
        records.remove("0a/state").unwrap();
        assert_eq!(records.read("0a/state").unwrap(), None);
        assert_eq!(records.read("last").unwrap().unwrap(), b"0a");
        assert_eq!(records.place(), folder.path().join("j"));
    }

    #[test]
    fn two_processes_cannot_use_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        let opened = FileRecords::open(folder.path(), "j").unwrap();
        let refused = || FileRecords::open(folder.path(), "j").err();
        let error = refused().unwrap().to_string();
        assert!(error.contains("another process"), "{error}");
        drop(opened);
        assert!(refused().is_none());
    }
}
