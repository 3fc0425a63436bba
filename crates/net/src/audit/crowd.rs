//! What one name may write of one kind: ten entries a minute, and after that one that says how many there were. A party that
//! connects again and again does not fill the disk.

use std::collections::BTreeMap;

use super::entry::Entry;

/// Milliseconds that entries of a name are counted for.
const WINDOW: u64 = 60_000;
/// Entries that are written of them one by one.
const ONE_BY_ONE: u64 = 10;
/// Names that are remembered at most; those beyond are not counted, and written.
const MAX_NAMES: usize = 4096;

/// Whether an entry is written.
#[derive(Debug, PartialEq)]
pub(super) enum Turn {
    /// Now; it stands for so many.
    Now(u64),
    /// It is counted only.
    Later,
}

/// Who has come how often lately.
#[derive(Default)]
pub(super) struct Crowd(BTreeMap<(&'static str, String), Lately>);

struct Lately {
    since: u64,
    written: u64,
    /// How many were not written, and the latest of them.
    counted: Option<(u64, Entry)>,
}

impl Crowd {
    /// Decides about an entry at a time in milliseconds.
    pub fn turn(&mut self, now: u64, entry: &Entry) -> Turn {
        let Some(key) = entry.counted_by() else {
            return Turn::Now(1);
        };
        if self.0.len() >= MAX_NAMES && !self.0.contains_key(&key) {
            return Turn::Now(1);
        }
        let lately = self.0.entry(key).or_insert(Lately {
            since: now,
            written: 0,
            counted: None,
        });
        if lately.written < ONE_BY_ONE {
            lately.written += 1;
            return Turn::Now(1);
        }
        let before = lately.counted.as_ref().map_or(0, |(count, _)| *count);
        lately.counted = Some((before + 1, entry.clone()));
        Turn::Later
    }

    /// Entries that stand for what was counted in windows that are over. These windows are forgotten.
    pub fn overdue(&mut self, now: u64) -> Vec<Entry> {
        let over = |lately: &Lately| now.saturating_sub(lately.since) >= WINDOW;
        let old = self.0.extract_if(.., |_, lately| over(lately));
        old.filter_map(|(_, lately)| lately.rest()).collect()
    }

    /// The same of all windows.
    pub fn rest(&mut self) -> Vec<Entry> {
        let all = std::mem::take(&mut self.0);
        all.into_values().filter_map(Lately::rest).collect()
    }
}

impl Lately {
    fn rest(self) -> Option<Entry> {
        let (count, entry) = self.counted?;
        Some(entry.standing_for(count))
    }
}
