//! The answers of one stage, kept until everybody has received its pieces of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use blindsum_job::coordinator::{Shelf, ShelfError, Shelves};
use blindsum_protocol::PartyId;
use bytes::Bytes;

use crate::chunks::CHUNK;

/// Where the spools of a coordinator come from.
pub(crate) struct Spools(Arc<Shared>);

/// What they share: memory, and where files are made.
struct Shared {
    /// Bytes of memory, all jobs together.
    limit: u64,
    used: AtomicU64,
    /// Bytes in files.
    spilled: AtomicU64,
    folder: PathBuf,
    /// Makes a file without a name, which vanishes with the process.
    make_file: fn(&Path) -> io::Result<File>,
}

impl Spools {
    /// Up to `limit` bytes in memory; files are made beside `store`, or in the system's folder for
    /// temporary files where there is none.
    pub fn new(limit: u64, store: Option<&Path>) -> Self {
        let beside = store.and_then(Path::parent).map(Path::to_owned);
        let folder = match beside {
            Some(folder) if folder.as_os_str().is_empty() => ".".into(),
            Some(folder) => folder,
            None => std::env::temp_dir(),
        };
        Self::with(limit, folder, |folder| tempfile::tempfile_in(folder))
    }

    pub(super) fn with(
        limit: u64,
        folder: PathBuf,
        make_file: fn(&Path) -> io::Result<File>,
    ) -> Self {
        Self(Arc::new(Shared {
            limit,
            used: AtomicU64::new(0),
            spilled: AtomicU64::new(0),
            folder,
            make_file,
        }))
    }

    /// Bytes of answers in memory.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Bytes of answers in temporary files.
    pub fn spilled(&self) -> u64 {
        self.0.spilled.load(Ordering::Relaxed)
    }
}

impl Shelves for Spools {
    fn shelf(&self) -> Box<dyn Shelf> {
        Box::new(Spool::new(self))
    }
}

impl Shared {
    fn reserve(&self, bytes: u64) -> bool {
        let grown = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit);
        let update = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        update.is_ok()
    }
}

/// The answers of one stage. Written while they come, then only read.
pub(crate) struct Spool {
    shared: Arc<Shared>,
    places: BTreeMap<PartyId, Place>,
    /// Bytes of memory that are reserved.
    reserved: u64,
    file: Option<File>,
    /// Bytes in the file.
    written: u64,
}

/// Where an answer is.
enum Place {
    Memory(Bytes),
    File(Range<u64>),
}

impl Spool {
    /// An empty one, which takes nothing until something is kept.
    pub fn new(spools: &Spools) -> Self {
        Self {
            shared: spools.0.clone(),
            places: BTreeMap::new(),
            reserved: 0,
            file: None,
            written: 0,
        }
    }

    fn append(&mut self, answer: &[u8]) -> io::Result<Range<u64>> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert((self.shared.make_file)(&self.shared.folder)?),
        };
        file.write_all(answer)?;
        let start = self.written;
        self.written += answer.len() as u64;
        let bytes = answer.len() as u64;
        self.shared.spilled.fetch_add(bytes, Ordering::Relaxed);
        Ok(start..self.written)
    }

    fn read_file(
        &self,
        party: PartyId,
        place: &Range<u64>,
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), ShelfError> {
        let start = place.start.saturating_add(range.start as u64);
        let end = place.start.saturating_add(range.end as u64);
        let file = self.file.as_ref().filter(|_| end <= place.end);
        let file = file.ok_or_else(|| ShelfError::missing(party))?;
        let before = out.len();
        out.resize(before + range.len(), 0);
        let buffer = out.get_mut(before..).unwrap_or_default();
        read_exact_at(file, buffer, start).map_err(|e| self.error(e))
    }

    fn error(&self, error: io::Error) -> ShelfError {
        let folder = self.shared.folder.display();
        let error = crate::io_words(&error);
        ShelfError(format!(
            "answers to pass on, in a temporary file in {folder}: {error}"
        ))
    }
}

impl Shelf for Spool {
    fn keep(&mut self, party: PartyId, answer: Bytes) -> Result<(), ShelfError> {
        let length = answer.len() as u64;
        let place = match self.shared.reserve(length) {
            true => {
                self.reserved += length;
                // What came in one chunk lies in a buffer of the connection, which is larger.
                let own = answer.len() <= CHUNK;
                Place::Memory(if own {
                    Bytes::copy_from_slice(&answer)
                } else {
                    answer
                })
            }
            false => Place::File(self.append(&answer).map_err(|e| self.error(e))?),
        };
        self.places.insert(party, place);
        Ok(())
    }

    fn read(
        &self,
        party: PartyId,
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), ShelfError> {
        let missing = || ShelfError::missing(party);
        match self.places.get(&party).ok_or_else(missing)? {
            Place::Memory(answer) => {
                out.extend_from_slice(answer.get(range).ok_or_else(missing)?);
                Ok(())
            }
            Place::File(place) => self.read_file(party, place, range, out),
        }
    }

    fn waits(&self) -> bool {
        self.file.is_some()
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.shared.used.fetch_sub(self.reserved, Ordering::Relaxed);
        let spilled = &self.shared.spilled;
        spilled.fetch_sub(self.written, Ordering::Relaxed);
    }
}

/// Reads at a place, whatever other threads read meanwhile.
#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let read = std::os::windows::fs::FileExt::seek_read(file, buffer, offset)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = buffer.split_at_mut(read).1;
        offset += read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(party: u32, length: usize) -> Bytes {
        let bytes = (0..length).map(|i| (i as u32 * 7 + party) as u8);
        bytes.collect::<Vec<u8>>().into()
    }

    fn read(spool: &Spool, party: u32, range: Range<usize>) -> Vec<u8> {
        let mut out = b"before".to_vec();
        spool.read(PartyId(party), range, &mut out).unwrap();
        assert_eq!(&out[..6], b"before");
        out.split_off(6)
    }

    #[test]
    fn answers_are_the_same_in_memory_and_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let spools = Spools::new(1000, Some(&folder.path().join("store.db")));
        let mut spool = Spool::new(&spools);
        let lengths = [400, 500, 600, 90, 2 * CHUNK, 0, 10, 1];
        for (party, length) in (0..).zip(lengths) {
            spool.keep(PartyId(party), answer(party, length)).unwrap();
        }
        // 600 and 2 * CHUNK bytes did not fit, nor did the last one.
        assert_eq!(spools.used(), 400 + 500 + 90 + 10);
        assert_eq!(spool.written, 600 + 2 * CHUNK as u64 + 1);
        assert!(spool.waits());
        for (party, length) in (0..).zip(lengths) {
            let whole = answer(party, length);
            assert_eq!(read(&spool, party, 0..length), whole);
            assert_eq!(
                read(&spool, party, length / 3..length / 2),
                whole[length / 3..length / 2]
            );
            for beyond in [length..length + 1, 0..length + 1] {
                let result = spool.read(PartyId(party), beyond, &mut Vec::new());
                let error = result.unwrap_err().to_string();
                assert!(error.contains("did not come"), "{error}");
            }
        }
        let nobody = spool.read(PartyId(99), 0..0, &mut Vec::new());
        assert!(nobody.is_err());
        // The file has no name, so nothing is left over however the process ends.
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn memory_is_shared_and_given_back() {
        let spools = Spools::new(100, None);
        let (mut first, mut second) = (Spool::new(&spools), Spool::new(&spools));
        first.keep(PartyId(0), answer(0, 60)).unwrap();
        second.keep(PartyId(0), answer(0, 60)).unwrap();
        assert_eq!((first.waits(), second.waits()), (false, true));
        second.keep(PartyId(1), answer(1, 40)).unwrap();
        assert_eq!(spools.used(), 100);
        drop(first);
        assert_eq!(spools.used(), 40);
        second.keep(PartyId(2), answer(2, 60)).unwrap();
        assert_eq!((spools.used(), second.written), (100, 60));
        drop(second);
        assert_eq!(spools.used(), 0);
    }

    #[test]
    fn memory_holds_the_answer_and_not_the_buffer_that_it_came_in() {
        let spools = Spools::new(100, None);
        let mut spool = Spool::new(&spools);
        let buffer = Bytes::from(vec![1; CHUNK]);
        spool.keep(PartyId(0), buffer.slice(..10)).unwrap();
        assert!(buffer.is_unique());
    }

    #[test]
    fn errors_name_the_folder_and_the_reason() {
        let gone = Path::new("/no/such/folder/store.db");
        let mut spool = Spool::new(&Spools::new(0, Some(gone)));
        let error = spool.keep(PartyId(0), answer(0, 9)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("/no/such/folder"), "{error}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_an_error() {
        let full = |_: &Path| File::options().read(true).write(true).open("/dev/full");
        let spools = Spools::with(10, "/spool".into(), full);
        let mut spool = Spool::new(&spools);
        spool.keep(PartyId(0), answer(0, 9)).unwrap();
        let error = spool.keep(PartyId(1), answer(1, 9)).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("there is no room left on the disk"),
            "{error}"
        );
        // What was not kept is not there.
        assert!(spool.read(PartyId(1), 0..9, &mut Vec::new()).is_err());
        assert_eq!(read(&spool, 0, 0..9), answer(0, 9));
    }

    #[test]
    fn a_file_that_was_cut_short_is_an_error() {
        let spools = Spools::new(0, None);
        let mut spool = Spool::new(&spools);
        spool.keep(PartyId(0), answer(0, 100)).unwrap();
        spool.file.as_ref().unwrap().set_len(50).unwrap();
        assert_eq!(read(&spool, 0, 0..50), answer(0, 100)[..50]);
        assert!(spool.read(PartyId(0), 40..60, &mut Vec::new()).is_err());
    }
}
