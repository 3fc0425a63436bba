//! What goes wrong in an episode, and how often.

use bytes::Bytes;
use rand_chacha::ChaCha20Rng;

use crate::seeds::{below, unit};

/// How an episode goes wrong. Each number is the probability of one fault at each occasion for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// A machine is killed before its next effect is carried out.
    pub kill: f64,
    /// A server is killed after it has opened a result with others.
    pub opened: f64,
    /// A killed party stays away for so long that it misses rounds.
    pub away: f64,
    /// A connection breaks, at each step of the episode.
    pub cut: f64,
    /// The session of a party ends by itself, at each step of the episode.
    pub ends: f64,
    /// A party that restarts has records of an earlier time.
    pub rollback: f64,
    /// A coordinator that restarts has a store of an earlier time.
    pub restored: f64,
    /// A task takes seconds: a slow disk, a busy machine.
    pub slow: f64,
    /// A frame takes seconds.
    pub late: f64,
    /// A caller gives no update, or gives it too late.
    pub careless: f64,
    /// A lying party sends something else than its machine says.
    pub lie: f64,
    /// A lying coordinator sends something else than its machine says.
    pub server_lies: f64,
}

/// A kind of episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nothing goes wrong, but callers and work may take long.
    Calm,
    /// Kills, cuts, slow disks.
    Storm,
    /// Kills, cuts and slow disks; and records and stores come back from backups.
    Rollback,
    /// One party lies, and a few other things go wrong.
    Liar,
    /// The coordinator lies.
    LyingServer,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Calm,
        Self::Storm,
        Self::Rollback,
        Self::Liar,
        Self::LyingServer,
    ];

    /// The kind of an episode, by its seed.
    pub(super) fn of(seed: u64) -> Self {
        match seed % 10 {
            0 => Self::Calm,
            1..=4 => Self::Storm,
            5 | 6 => Self::Rollback,
            7 | 8 => Self::Liar,
            _ => Self::LyingServer,
        }
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Storm => "storm",
            Self::Rollback => "rollback",
            Self::Liar => "liar",
            Self::LyingServer => "lying-server",
        }
    }

    pub(super) fn faults(self) -> Faults {
        let calm = Faults {
            late: 0.002,
            careless: 0.02,
            ..Faults::default()
        };
        let storm = Faults {
            kill: 0.006,
            opened: 0.1,
            cut: 0.01,
            slow: 0.02,
            late: 0.01,
            ends: 0.001,
            ..calm
        };
        match self {
            Self::Calm => calm,
            Self::Storm => storm,
            Self::Rollback => Faults {
                rollback: 0.4,
                restored: 0.2,
                ..storm
            },
            Self::Liar => Faults {
                cut: 0.002,
                lie: 0.4,
                ..calm
            },
            Self::LyingServer => Faults {
                kill: 0.002,
                cut: 0.005,
                server_lies: 0.05,
                ..calm
            },
        }
    }
}

/// Where every draw of an episode comes from.
pub(super) struct Dice(pub ChaCha20Rng);

impl Dice {
    /// Whether something happens that has this chance. A chance of nothing draws nothing.
    pub fn chance(&mut self, chance: f64) -> bool {
        chance > 0.0 && unit(&mut self.0) < chance
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        below(&mut self.0, bound)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let index = self.below(of.len() as u64) as usize;
        of.get(index).copied()
    }

    /// A small number, a large one, or one near the rounds of the job.
    pub fn wild(&mut self) -> u64 {
        let any = self.below(u64::MAX);
        self.pick(&[any, any % 9, u64::MAX]).unwrap_or(any)
    }

    /// The same bytes with one bit turned, or cut short.
    pub fn spoilt(&mut self, bytes: Bytes) -> Bytes {
        let mut bytes = bytes.to_vec();
        let at = self.below(bytes.len().max(1) as u64) as usize;
        match (self.chance(0.1), bytes.get_mut(at)) {
            (true, _) => bytes.truncate(at),
            (false, Some(byte)) => *byte ^= 1 << (at % 8),
            (false, None) => bytes.push(0),
        }
        bytes.into()
    }
}
