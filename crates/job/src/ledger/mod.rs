//! The ledger of a party: what its data has cost in all jobs with noise, at all coordinators.
//!
//! A job counts its own releases, and its coordinator may lie. A party that takes part in several jobs with the same data
//! adds their guarantees up itself. Each release is charged before the first byte of the update leaves, and written down:
//! a party that is killed in between is charged for what it has not sent, never the other way round. Nothing is given back,
//! also where a round fails.
//!
//! A ledger is of one unit: a name for the data whose owners are protected. Records are chained by hashes. Two ledgers with
//! the same number of records and the same last hash are the same.

mod entry;
mod memory;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use blindsum_protocol::Spent;

use self::entry::{Entry, Read, first_head};
use crate::{JobError, PolicyError};

pub use memory::MemoryLedger;

/// Characters of the name of a unit.
pub const LONGEST_UNIT: usize = 64;

/// Where the records of a ledger are. A host provides it.
///
/// Calls may wait for a disk and for other processes: a machine makes them in its tasks.
pub trait LedgerFile: fmt::Debug + Send + Sync {
    /// Where they are, for messages to people.
    fn place(&self) -> &Path;

    /// Opens them, while nobody else has them open: waits for other threads and processes.
    ///
    /// # Errors
    /// They cannot be read or written.
    fn open(&self) -> io::Result<Box<dyn OpenLedger + '_>>;
}

/// The records of a ledger, which nobody else has open.
pub trait OpenLedger {
    /// The bytes from this one on; `None` if there are fewer.
    ///
    /// # Errors
    /// Reading failed.
    fn read_from(&mut self, start: u64) -> io::Result<Option<Vec<u8>>>;

    /// Cuts off what is behind so many bytes, and appends these. When this returns they survive a crash; after a crash before
    /// that there may be a part of them.
    ///
    /// # Errors
    /// Writing failed.
    fn append(&mut self, behind: u64, bytes: &[u8]) -> io::Result<()>;

    /// What the witness has: another place that no backup of the ledger brings back.
    ///
    /// # Errors
    /// Reading failed.
    fn witness(&mut self) -> io::Result<Witness>;

    /// Lays what the witness shall have beside what it has, if there is a witness.
    ///
    /// # Errors
    /// Writing failed.
    fn prepare_witness(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// The witness has what was prepared. When this returns it survives a crash; after a crash before that the witness has this or
    /// what it had.
    ///
    /// # Errors
    /// Writing failed.
    fn tell_witness(&mut self) -> io::Result<()>;
}

/// What a witness has.
pub enum Witness {
    /// There is no witness.
    None,
    /// There is one, and it is not where it must be.
    Missing,
    /// These bytes: none if its owner has laid it there anew.
    Has(Vec<u8>),
}

/// Checks the name of a unit: 1 to [`LONGEST_UNIT`] lowercase letters, digits and `-`.
///
/// # Errors
/// What must hold.
pub fn check_unit(unit: &str) -> Result<(), String> {
    let is_right = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match (1..=LONGEST_UNIT).contains(&unit.len()) && unit.bytes().all(is_right) {
        true => Ok(()),
        false => Err(format!(
            "{unit:?} must be 1 to {LONGEST_UNIT} lowercase letters, digits and '-'"
        )),
    }
}

/// A release that is to be charged.
#[derive(Clone, Debug)]
pub struct Release {
    /// The hash of the job's specification.
    pub job: [u8; 32],
    /// The round.
    pub round: u64,
    /// A name of what is sent: the same bytes again are no other release.
    pub key: [u8; 32],
    /// What it costs.
    pub cost: Spent,
    /// How many parties' noise that counts on.
    pub honest: usize,
    /// Seconds since 1970, in UTC.
    pub time: u64,
}

/// The most that a unit may have cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The largest ε.
    pub epsilon: f64,
    /// The δ that it is for.
    pub delta: f64,
}

/// How far a ledger has come: how many records it has, and the hash of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    sequence: u64,
    head: [u8; 32],
}

impl Mark {
    /// One record further.
    fn before(self, head: [u8; 32]) -> Self {
        Self {
            sequence: self.sequence + 1,
            head,
        }
    }
}

/// What a unit has cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Balance {
    /// Releases.
    pub releases: u64,
    /// What they cost.
    pub spent: Spent,
}

/// The ledger of one unit.
pub struct Ledger {
    unit: String,
    file: Arc<dyn LedgerFile>,
    known: Mutex<Known>,
}

/// What was read of a ledger.
struct Known {
    /// Bytes of whole records.
    length: u64,
    spent: Spent,
    keys: BTreeSet<[u8; 32]>,
    /// The hash behind each record; the first one is that before all.
    heads: Vec<[u8; 32]>,
}

impl Known {
    /// The ledger of this unit before all records.
    fn of(unit: &str) -> Self {
        Self {
            length: 0,
            spent: Spent::default(),
            keys: BTreeSet::new(),
            heads: vec![first_head(unit)],
        }
    }

    fn releases(&self) -> u64 {
        self.heads.len() as u64 - 1
    }

    /// The last bytes that were read; empty before the first record.
    fn last_bytes(&self) -> &[u8] {
        match self.heads.as_slice() {
            [_, .., last] => last,
            _ => &[],
        }
    }

    fn mark(&self) -> Mark {
        Mark {
            sequence: self.releases(),
            head: self.heads.last().copied().unwrap_or_default(),
        }
    }

    fn balance(&self) -> Balance {
        Balance {
            releases: self.releases(),
            spent: self.spent.clone(),
        }
    }

    /// Whether a ledger that has come this far is this one, or an earlier state of it.
    fn has(&self, mark: Mark) -> bool {
        let index = usize::try_from(mark.sequence).ok();
        index.and_then(|index| self.heads.get(index)) == Some(&mark.head)
    }

    fn take(&mut self, entry: Entry) {
        self.length += entry.length;
        self.spent = self.spent.plus(&entry.release.cost);
        self.keys.insert(entry.release.key);
        self.heads.push(entry.head);
    }
}

impl Ledger {
    /// The ledger of a unit, with what its records say.
    ///
    /// # Errors
    /// [`JobError::State`] for records that cannot be read, are damaged, or older than their witness.
    pub fn open(unit: impl Into<String>, file: Arc<dyn LedgerFile>) -> Result<Arc<Self>, JobError> {
        let unit = unit.into();
        let ledger = Self {
            known: Mutex::new(Known::of(&unit)),
            unit,
            file,
        };
        ledger.balance()?;
        Ok(Arc::new(ledger))
    }

    /// Checks that a release can be charged, as far as that can be known before.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), or the witness cannot be written.
    pub fn check_writable(&self) -> Result<(), JobError> {
        let mut known = self.known();
        let mut open = self.file.open().map_err(|error| self.failed(error))?;
        self.catch_up(&mut known, &mut *open, |_| {})?;
        self.prepare(&mut *open, known.mark())
    }

    /// The name of the unit.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// What the unit has cost by now, in all processes.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn balance(&self) -> Result<Balance, JobError> {
        let mut known = self.known();
        let mut open = self.file.open().map_err(|error| self.failed(error))?;
        self.catch_up(&mut known, &mut *open, |_| {})?;
        Ok(known.balance())
    }

    /// What the unit has cost as far as it was read last.
    pub fn known_balance(&self) -> Balance {
        self.known().balance()
    }

    /// Every release, in order.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn releases(&self) -> Result<Vec<Release>, JobError> {
        let (mut known, mut read) = (Known::of(&self.unit), Vec::new());
        let mut open = self.file.open().map_err(|error| self.failed(error))?;
        self.catch_up(&mut known, &mut *open, |release| read.push(release.clone()))?;
        Ok(read)
    }

    /// What the unit costs with one more release.
    ///
    /// # Errors
    /// [`PolicyError::Budget`] if that is more than the budget, and those of [`open`](Self::open).
    pub fn afford(&self, cost: &Spent, budget: Option<Budget>) -> Result<Balance, JobError> {
        let balance = self.balance()?;
        self.with_one_more(&balance, cost, budget)
    }

    /// Charges a release, before anything of it is sent. When this returns it survives a crash. What was charged already is
    /// not charged again.
    ///
    /// # Errors
    /// [`PolicyError::Budget`] if the unit would cost more than the budget, and those of [`open`](Self::open). Nothing may be
    /// sent then.
    pub fn charge(&self, release: Release, budget: Option<Budget>) -> Result<Balance, JobError> {
        let mut known = self.known();
        // Until it is written down nobody else reads what was spent.
        // guard: two-processes-do-not-spend-the-same
        let mut open = self.file.open().map_err(|error| self.failed(error))?;
        self.catch_up(&mut known, &mut *open, |_| {})?;
        // guard: the-same-bytes-are-charged-once
        if known.keys.contains(&release.key) {
            self.prepare(&mut *open, known.mark())?;
        } else {
            self.with_one_more(&known.balance(), &release.cost, budget)?;
            let entry = Entry::new(release, known.mark().head);
            // Where the witness cannot be written nothing is charged.
            // guard: what-no-witness-can-see-is-not-charged
            self.prepare(&mut *open, known.mark().before(entry.head))?;
            // guard: charged-before-it-is-sent
            open.append(known.length, &entry.bytes())
                .map_err(|error| self.failed(error))?;
            known.take(entry);
        }
        // Not before: a witness that is ahead of its ledger shows that the ledger is an older copy.
        open.tell_witness().map_err(|error| self.unseen(error))?;
        Ok(known.balance())
    }

    fn prepare(&self, open: &mut dyn OpenLedger, mark: Mark) -> Result<(), JobError> {
        let bytes = witnessed(mark);
        open.prepare_witness(&bytes)
            .map_err(|error| self.unseen(error))
    }

    fn unseen(&self, error: io::Error) -> JobError {
        self.failed(format!("its witness cannot be written: {error}"))
    }

    fn with_one_more(
        &self,
        balance: &Balance,
        cost: &Spent,
        budget: Option<Budget>,
    ) -> Result<Balance, JobError> {
        let spent = balance.spent.plus(cost);
        let Some(budget) = budget else {
            let releases = balance.releases + 1;
            return Ok(Balance { releases, spent });
        };
        let epsilon = spent.epsilon(budget.delta).unwrap_or(f64::INFINITY);
        // guard: no-more-than-the-budget
        if epsilon > budget.epsilon {
            let error = PolicyError::Budget {
                epsilon,
                allowed: budget.epsilon,
                delta: budget.delta,
                unit: self.unit.clone(),
                releases: balance.releases,
            };
            return Err(error.into());
        }
        Ok(Balance {
            releases: balance.releases + 1,
            spent,
        })
    }

    /// Reads what was written since, and compares it with the witness.
    fn catch_up(
        &self,
        known: &mut Known,
        open: &mut dyn OpenLedger,
        mut each: impl FnMut(&Release),
    ) -> Result<(), JobError> {
        let last = known.last_bytes();
        let bytes = open
            .read_from(known.length - last.len() as u64)
            .map_err(|error| self.failed(error))?
            .unwrap_or_default();
        // guard: a-ledger-does-not-shrink
        let mut rest = bytes.strip_prefix(last).ok_or_else(|| {
            self.failed(
                "it is not the one that was read before, or has fewer records: an older copy was put back; put the latest \
                 one back",
            )
        })?;
        while !rest.is_empty() {
            match Entry::read(rest, &known.mark().head) {
                Read::Entry(entry) => {
                    rest = rest.get(entry.length as usize..).unwrap_or_default();
                    each(&entry.release);
                    known.take(*entry);
                }
                // It was not synced, so nothing was sent. The next record takes its place.
                Read::Torn => break,
                Read::Damaged => {
                    let number = known.releases() + 1;
                    return Err(self.failed(format!(
                        "the ledger is damaged in record {number}; put an undamaged copy back that has all releases, or give \
                         privacy_unit another name and lower max_epsilon by what was spent"
                    )));
                }
            }
        }
        match open.witness().map_err(|error| self.failed(error))? {
            Witness::None => Ok(()),
            // guard: a-witness-does-not-get-lost
            Witness::Missing if known.releases() > 0 => Err(self.failed(format!(
                "its witness is missing, and the ledger has {} releases: bring the disk of the witness back; or, if you know that \
                 the ledger is the latest one, make an empty file in its place",
                known.releases()
            ))),
            Witness::Missing => Ok(()),
            Witness::Has(bytes) if bytes.is_empty() => Ok(()),
            Witness::Has(bytes) => self.compare(known, &bytes),
        }
    }

    /// Compares the ledger with what its witness has.
    fn compare(&self, known: &Known, witness: &[u8]) -> Result<(), JobError> {
        let damaged = || self.failed("its witness is damaged; put the right file there");
        let mark = read_witness(witness).ok_or_else(damaged)?;
        // guard: a-ledger-is-not-older-than-its-witness
        if known.has(mark) {
            return Ok(());
        }
        let (has, other) = (known.releases(), mark.sequence);
        Err(self.failed(match other > has {
            true => format!(
                "the ledger is older than its witness: it has {has} releases of {other}; put the latest copy back"
            ),
            false => format!(
                "the ledger is not that of its witness: release {other} is another one; put the right file back"
            ),
        }))
    }

    fn failed(&self, reason: impl fmt::Display) -> JobError {
        JobError::State {
            path: self.file.place().to_owned(),
            reason: reason.to_string(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("unit", &self.unit)
            .finish_non_exhaustive()
    }
}

fn witnessed(mark: Mark) -> Vec<u8> {
    [&mark.sequence.to_le_bytes()[..], &mark.head].concat()
}

fn read_witness(bytes: &[u8]) -> Option<Mark> {
    let (sequence, head) = bytes.split_first_chunk::<8>()?;
    Some(Mark {
        sequence: u64::from_le_bytes(*sequence),
        head: head.try_into().ok()?,
    })
}
