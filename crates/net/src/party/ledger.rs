//! The ledger of a party's data as a file of its state folder, which all jobs and processes of that folder share.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use blindsum_job::ledger::{LedgerFile, OpenLedger, Witness};

use crate::private;

/// How long others may have a ledger open: a record is written in milliseconds.
const OTHERS: Duration = Duration::from_secs(30);

/// The file of a ledger, and perhaps that of its witness.
#[derive(Debug)]
pub struct FileLedger {
    path: PathBuf,
    witness: Option<PathBuf>,
}

impl FileLedger {
    /// The ledger of a unit in a folder, `privacy-UNIT.ledger`; no job has a name with a dot. The witness is a file elsewhere.
    pub fn of(folder: &Path, unit: &str, witness: Option<PathBuf>) -> Self {
        Self {
            path: folder.join(format!("privacy-{unit}.ledger")),
            witness,
        }
    }
}

impl LedgerFile for FileLedger {
    fn place(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> io::Result<Box<dyn OpenLedger + '_>> {
        if let Some(folder) = self.path.parent().filter(|folder| !folder.exists()) {
            private::create_folder(folder)?;
            sync_folder_of(folder)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(0o600).open(&self.path)?;
        lock(&file)?;
        if file.metadata()?.len() == 0 {
            sync_folder_of(&self.path)?;
        }
        let witness = self.witness.as_deref();
        Ok(Box::new(OpenFile { file, witness }))
    }
}

/// Locks the file once nobody else has: at most for a short time, also where the machine is busy.
fn lock(file: &File) -> io::Result<()> {
    let until = Instant::now() + OTHERS;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                let reason = format!(
                    "another process has had it open for {} s; end that process",
                    OTHERS.as_secs()
                );
                return Err(io::Error::new(ErrorKind::WouldBlock, reason));
            }
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => return Ok(()),
        }
    }
}

/// The file while nobody else has it open.
struct OpenFile<'a> {
    file: File,
    witness: Option<&'a Path>,
}

impl Drop for OpenFile<'_> {
    fn drop(&mut self) {
        // A process that was forked meanwhile has the file open, too: closing it here is not enough. A kill lets it go.
        let _ = self.file.unlock();
    }
}

impl OpenLedger for OpenFile<'_> {
    fn read_from(&mut self, start: u64) -> io::Result<Option<Vec<u8>>> {
        if self.file.metadata()?.len() < start {
            return Ok(None);
        }
        self.file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn append(&mut self, behind: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.set_len(behind)?;
        self.file.seek(SeekFrom::Start(behind))?;
        self.file.write_all(bytes)?;
        self.file.sync_all()
    }

    fn witness(&mut self) -> io::Result<Witness> {
        let Some(path) = self.witness else {
            return Ok(Witness::None);
        };
        match fs::read(path) {
            Ok(bytes) => Ok(Witness::Has(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Witness::Missing),
            Err(error) => Err(of_witness(path, &error)),
        }
    }

    fn prepare_witness(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(path) = self.witness else {
            return Ok(());
        };
        let write = || {
            let mut file = private::create(&new_beside(path))?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(|error| of_witness(path, &error))
    }

    fn tell_witness(&mut self) -> io::Result<()> {
        let Some(path) = self.witness else {
            return Ok(());
        };
        let tell = || {
            fs::rename(new_beside(path), path)?;
            sync_folder_of(path)
        };
        tell().map_err(|error| of_witness(path, &error))
    }
}

/// Where the next contents of a witness are written.
fn new_beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

fn of_witness(path: &Path, error: &io::Error) -> io::Error {
    let reason = format!("witness {}: {}", path.display(), crate::io_words(error));
    io::Error::new(error.kind(), reason)
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use blindsum_job::ledger::{Budget, Ledger, Release};
    use blindsum_protocol::{Spent, SquaredMu};

    use super::*;

    fn release(number: u8) -> Release {
        let squared = SquaredMu::of_units(1 << 62);
        Release {
            job: [1; 32],
            round: number.into(),
            key: [number; 32],
            cost: Spent::of_parts(squared, &[]).unwrap(),
            honest: 3,
            time: 0,
        }
    }

    #[test]
    fn two_processes_share_a_budget() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = || {
            let file = FileLedger::of(folder.path(), "data", None);
            Ledger::open("data", std::sync::Arc::new(file)).unwrap()
        };
        let budget = Some(Budget {
            epsilon: 4.4,
            delta: 1e-5,
        });
        // μ² = 1/4 each: four releases have epsilon 4.377 at 1e-5.
        let both = [ledger(), ledger()];
        let charged: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = both
                .iter()
                .zip([0, 100])
                .map(|(ledger, first)| {
                    scope.spawn(move || {
                        let charge = |i: u8| ledger.charge(release(first + i), budget);
                        (0..20).filter(|i| charge(*i).is_ok()).count()
                    })
                })
                .collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(charged.iter().sum::<usize>(), 4);
        assert_eq!(ledger().balance().unwrap().releases, 4);
    }

    #[test]
    fn case_39_a_restored_folder_is_found_out_by_the_witness() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let witness = other.path().join("witness");
        let open = || {
            let file = FileLedger::of(folder.path(), "data", Some(witness.clone()));
            Ledger::open("data", std::sync::Arc::new(file))
        };
        let path = folder.path().join("privacy-data.ledger");
        open().unwrap().charge(release(1), None).unwrap();
        let old = fs::read(&path).unwrap();
        open().unwrap().charge(release(2), None).unwrap();
        fs::write(&path, old).unwrap();
        let error = open().unwrap_err().to_string();
        assert!(
            error.contains(
                "privacy-data.ledger: the ledger is older than its witness: it has 1 releases of 2"
            ),
            "{error}"
        );
        fs::remove_file(&witness).unwrap();
        let error = open().unwrap_err().to_string();
        assert!(
            error.contains("its witness is missing, and the ledger has 1 releases"),
            "{error}"
        );
        fs::write(&witness, b"").unwrap();
        open().unwrap().charge(release(3), None).unwrap();
        fs::write(&witness, b"nonsense").unwrap();
        let error = open().unwrap_err().to_string();
        assert!(error.contains("its witness is damaged"), "{error}");
    }

    #[test]
    fn case_39_a_witness_that_cannot_be_written_lets_nothing_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = FileLedger::of(
            folder.path(),
            "data",
            Some(folder.path().join("no/witness")),
        );
        let ledger = Ledger::open("data", std::sync::Arc::new(file)).unwrap();
        for error in [
            ledger.check_writable().unwrap_err(),
            ledger.charge(release(1), None).unwrap_err(),
        ] {
            assert!(error.to_string().contains("witness"), "{error}");
            assert_eq!(error.for_others(), "its state folder cannot be used");
        }
        // Nothing was charged either.
        assert_eq!(ledger.balance().unwrap().releases, 0);
    }
}
