//! Encrypted vectors, and parts of them, with a roll call: a lane for each party, in which it adds 1. A sum that by mistake
//! lacks some party's vector, or has it twice, is known by it. It is no defence against parties that lie: they can write
//! into any lane.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use blindsum_he::paillier::{
    Ciphertexts, Encryptor, Exponents, KeyId, Noise, PaillierError, PublicKey, SecretKey,
    WordPacking,
};
use blindsum_math::words::Words;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::options::Options;
use crate::{FaultKind, Job, PartyId, PartySet, Round};

/// Bits of a lane of the roll call: every party may add to it as often as there are parties, and it does not overflow.
const ROLL_BITS: u32 = 16;

/// How the words of a round stand in ciphertexts.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    roll: WordPacking,
    words: WordPacking,
    ciphertext: usize,
    parties: usize,
}

/// A sum of some parties' encrypted words.
pub(super) struct Sum {
    /// Whose they are, as everybody says who added to it.
    pub of: PartySet,
    pub roll: Ciphertexts,
    pub words: Ciphertexts,
}

impl Sum {
    /// Whether it has a ciphertext that the other one has in the same place.
    pub fn has_some_of(&self, other: &Self) -> bool {
        self.roll.has_some_of(&other.roll) || self.words.has_some_of(&other.words)
    }
}

impl Layout {
    pub fn of(job: &Job, options: &Options, parties: usize) -> Result<Self, PaillierError> {
        Ok(Self {
            roll: WordPacking::new(options.size, ROLL_BITS)?,
            words: WordPacking::new(options.size, job.width().bits())?,
            ciphertext: options.size.ciphertext_bytes(),
            parties,
        })
    }

    /// Parties of the round.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// Ciphertexts of the roll call.
    fn of_roll(&self) -> usize {
        self.roll.plaintexts(self.parties)
    }

    /// Ciphertexts of so many words, and of their roll call.
    pub fn ciphertexts(&self, words: usize) -> usize {
        self.of_roll() + self.words.plaintexts(words)
    }

    /// Bytes of a sum of so many words.
    pub fn len(&self, words: usize) -> usize {
        self.parties.div_ceil(8) + self.ciphertexts(words) * self.ciphertext
    }

    /// `contributors bitmap ‖ ciphertexts of the roll call ‖ ciphertexts of the words`.
    pub fn write(&self, sum: &Sum) -> Vec<u8> {
        let mut bytes = sum.of.as_bitmap().to_vec();
        bytes.extend(sum.roll.to_bytes());
        bytes.extend(sum.words.to_bytes());
        bytes
    }

    /// Reads what [`write`](Self::write) wrote of so many words.
    pub fn read(&self, key: &PublicKey, words: usize, bytes: &[u8]) -> Result<Sum, FaultKind> {
        let (got, expected) = (bytes.len(), self.len(words));
        if got != expected {
            let rule = format!("{got} bytes, but a sum of {words} words takes {expected}");
            return Err(FaultKind::malformed("sum", rule));
        }
        let cut = || FaultKind::malformed("sum", "cut short");
        let (bitmap, rest) = (bytes.split_at_checked(self.parties.div_ceil(8))).ok_or_else(cut)?;
        let (roll, words) =
            (rest.split_at_checked(self.of_roll() * self.ciphertext)).ok_or_else(cut)?;
        let stranger = || FaultKind::malformed("contributors", "not a bitmap of this roster");
        Ok(Sum {
            of: PartySet::from_bitmap(self.parties, bitmap).ok_or_else(stranger)?,
            roll: key.ciphertexts(roll)?,
            words: key.ciphertexts(words)?,
        })
    }

    /// Adds sums up; none of them may have a party that another one has.
    pub fn add(&self, key: &PublicKey, sums: &[Sum]) -> Result<Sum, FaultKind> {
        let mut of = PartySet::empty(self.parties);
        for party in sums.iter().flat_map(|sum| sum.of.iter()) {
            if !of.insert(party) {
                let rule = format!("{party} is in two of the sums that are added up");
                return Err(FaultKind::malformed("contributors", rule));
            }
        }
        let rolls: Vec<_> = sums.iter().map(|sum| &sum.roll).collect();
        let words: Vec<_> = sums.iter().map(|sum| &sum.words).collect();
        Ok(Sum {
            of,
            roll: key.sum(&rolls)?,
            words: key.sum(&words)?,
        })
    }

    /// Opens the roll call of a sum: how often each party has added to it.
    pub fn open_roll(&self, key: &SecretKey, sum: &Sum) -> Result<Vec<u64>, FaultKind> {
        let roll = self.roll.unpack(&key.decrypt(&sum.roll)?, self.parties)?;
        Ok(roll.to_vec())
    }

    /// Opens the words of a sum, of which there are so many.
    pub fn open_words(
        &self,
        key: &SecretKey,
        sum: &Sum,
        words: usize,
    ) -> Result<Zeroizing<Vec<u64>>, FaultKind> {
        Ok(self.words.unpack(&key.decrypt(&sum.words)?, words)?)
    }
}

/// What a party encrypts with.
pub(super) struct Cipher {
    pub layout: Layout,
    encryptor: Arc<Encryptor>,
}

impl Cipher {
    pub fn new(round: &Round, options: &Options, key: &PublicKey) -> Result<Self, FaultKind> {
        Ok(Self {
            layout: Layout::of(round.job(), options, round.parties())?,
            encryptor: encryptor(key, options.exponents),
        })
    }

    pub fn key(&self) -> &PublicKey {
        self.encryptor.key()
    }

    /// Bytes of what is drawn ahead for so many words.
    pub fn noise_len(&self, words: usize) -> usize {
        self.layout.ciphertexts(words) * self.layout.ciphertext
    }

    /// Draws ahead what encrypting so many words takes, unless some round before has drawn it and sent nothing with it.
    pub fn draw(&self, words: usize, parked: &Parked, rng: &mut dyn CryptoRng) -> Drawn {
        let roll = self.layout.of_roll();
        let counts = (roll, self.layout.words.plaintexts(words));
        parked
            .take(self.key().id(), counts)
            .unwrap_or_else(|| Drawn {
                roll: self.encryptor.noise(counts.0, rng),
                words: self.encryptor.noise(counts.1, rng),
            })
    }

    /// One party's words, with what was drawn ahead.
    pub fn encrypt_with(&self, me: PartyId, words: &[u64], drawn: Drawn) -> Result<Sum, FaultKind> {
        let layout = &self.layout;
        let (roll, words) = (
            layout.roll.pack(&self.present(me)),
            layout.words.pack(words),
        );
        Ok(Sum {
            of: PartySet::of(layout.parties, [me]),
            roll: self.encryptor.encrypt_with(&roll, drawn.roll)?,
            words: self.encryptor.encrypt_with(&words, drawn.words)?,
        })
    }

    /// A party's part of the roll call.
    fn present(&self, me: PartyId) -> Vec<u64> {
        let ranks = 0..self.layout.parties;
        ranks.map(|rank| (rank == me.rank()).into()).collect()
    }

    /// One party's words.
    pub fn encrypt(
        &self,
        me: PartyId,
        words: &[u64],
        rng: &mut dyn CryptoRng,
    ) -> Result<Sum, FaultKind> {
        let layout = &self.layout;
        let roll = layout.roll.pack(&self.present(me));
        Ok(Sum {
            of: PartySet::of(layout.parties, [me]),
            roll: self.encryptor.encrypt(&roll, rng)?,
            words: self.encryptor.encrypt(&layout.words.pack(words), rng)?,
        })
    }
}

/// The random part of one party's ciphertexts, before they are made. It is used once.
pub(super) struct Drawn {
    roll: Noise,
    words: Noise,
}

/// What a party drew for rounds that ended before anything was sent with it: the next one under the same key takes it.
#[derive(Default)]
pub(super) struct Parked(Mutex<Option<Drawn>>);

impl Parked {
    /// What is there, if it fits. What does not will hardly ever fit again: it is dropped.
    fn take(&self, key: KeyId, counts: (usize, usize)) -> Option<Drawn> {
        let fits = |drawn: &Drawn| {
            // guard: noise-is-for-its-key, noise-is-for-as-many
            drawn.words.key() == key && (drawn.roll.count(), drawn.words.count()) == counts
        };
        // guard: noise-that-does-not-fit-is-dropped
        self.place().take().filter(fits)
    }

    /// Keeps what nothing was sent with, in the place of what was kept before.
    pub fn park(&self, drawn: Drawn) {
        *self.place() = Some(drawn);
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.place().is_none()
    }

    fn place(&self) -> MutexGuard<'_, Option<Drawn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tables for encryption, by key: public, and a process needs one for all its parties and rounds.
static TABLES: Mutex<Vec<(KeyId, Exponents, Arc<Encryptor>)>> = Mutex::new(Vec::new());
/// Tables that are kept: a key and the one before it.
const TABLES_KEPT: usize = 2;

fn tables() -> MutexGuard<'static, Vec<(KeyId, Exponents, Arc<Encryptor>)>> {
    TABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The key with these bytes, checked: now, or when its table was made.
pub(super) fn public_key(bytes: &[u8]) -> Result<PublicKey, PaillierError> {
    let tables = tables();
    let mut keys = tables.iter().map(|(_, _, table)| table.key());
    match keys.find(|key| key.to_bytes() == bytes).cloned() {
        Some(known) => Ok(known),
        None => {
            drop(tables);
            PublicKey::from_bytes(bytes)
        }
    }
}

fn encryptor(key: &PublicKey, exponents: Exponents) -> Arc<Encryptor> {
    let mut tables = tables();
    let known = tables
        .iter()
        .find(|(id, of, _)| *id == key.id() && *of == exponents);
    if let Some((_, _, table)) = known {
        return table.clone();
    }
    let made = Arc::new(Encryptor::new(key, exponents));
    if tables.len() == TABLES_KEPT {
        tables.remove(0);
    }
    tables.push((key.id(), exponents, made.clone()));
    made
}

/// The words of a vector that part `index` of `parts` has: as many in each, one less in the last ones.
pub(super) fn part(words: usize, parts: usize, index: usize) -> Range<usize> {
    let (each, more) = (words / parts.max(1), words % parts.max(1));
    let start = |index: usize| index * each + index.min(more);
    start(index)..start(index + 1)
}

/// Opened words as those of the job.
pub(super) fn to_words(job: &Job, words: &[u64]) -> Result<Words, FaultKind> {
    Words::from_values(job.width(), words)
        .map_err(|error| FaultKind::malformed("sum", error.to_string()))
}

impl From<PaillierError> for FaultKind {
    fn from(error: PaillierError) -> Self {
        match error {
            PaillierError::Rest { .. } | PaillierError::Plaintexts { .. } => FaultKind::WrongSum,
            PaillierError::Width { .. } | PaillierError::Lanes { .. } => {
                FaultKind::Parameters(error.to_string())
            }
            error => FaultKind::malformed("ciphertexts", error.to_string()),
        }
    }
}
