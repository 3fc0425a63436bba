//! Whose vectors were summed where this party had a part: what the parties of later sums are compared with.

use std::path::PathBuf;
use std::sync::Arc;

use super::durable;
use super::policy::Cohort;
use crate::NetError;
use crate::coordinator::blocking;

/// Sets that are remembered, the latest ones.
const MOST: usize = 256;

/// The sets of parties that this party confirmed, or answered for, in all jobs of one name under one CA. They lie
/// beside the folders of the jobs: a job with another specification is compared with them too.
#[derive(Default)]
pub(super) struct Sums {
    /// None where the party remembers nothing beyond its process.
    file: Option<PathBuf>,
    /// Different ones, oldest first.
    sets: Arc<Vec<Cohort>>,
}

impl Sums {
    /// Those in a file, which need not be there yet.
    pub fn open(file: PathBuf) -> Result<Self, NetError> {
        let failed = |reason: String| NetError::State {
            path: file.clone(),
            reason,
        };
        let bytes = durable::read(&file).map_err(|e| failed(e.to_string()))?;
        let sets = match bytes {
            None => Vec::new(),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|_| {
                failed(
                    "damaged; without it min_cohort_change begins anew: remove it to accept that"
                        .into(),
                )
            })?,
        };
        Ok(Self {
            sets: Arc::new(sets),
            file: Some(file),
        })
    }

    /// All of them.
    pub fn sets(&self) -> Arc<Vec<Cohort>> {
        self.sets.clone()
    }

    /// Remembers one more. When this returns it survives a crash, where there is a file.
    pub async fn add(&mut self, cohort: Cohort) -> Result<(), NetError> {
        if self.sets.contains(&cohort) {
            return Ok(());
        }
        let sets = Arc::make_mut(&mut self.sets);
        if sets.len() >= MOST {
            sets.remove(0);
        }
        sets.push(cohort);
        let (Some(file), sets) = (self.file.clone(), self.sets.clone()) else {
            return Ok(());
        };
        let write = move || {
            let written = serde_json::to_vec(&*sets).map_err(std::io::Error::from);
            let written = written.and_then(|bytes| durable::replace(&file, &[&bytes]));
            written.map_err(|error| NetError::State {
                path: file,
                reason: error.to_string(),
            })
        };
        blocking(write).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cohort(number: usize) -> Cohort {
        [format!("party-{number}")].into()
    }

    #[tokio::test]
    async fn the_latest_sets_are_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sums");
        let mut sums = Sums::open(file.clone()).unwrap();
        for number in (0..=MOST).chain([MOST]) {
            sums.add(cohort(number)).await.unwrap();
        }
        let again = Sums::open(file.clone()).unwrap().sets();
        assert_eq!(again.len(), MOST);
        assert_eq!(again.first(), Some(&cohort(1)));
        assert_eq!(again.last(), Some(&cohort(MOST)));
        std::fs::write(&file, b"nonsense").unwrap();
        let error = Sums::open(file).err().unwrap().to_string();
        assert!(error.contains("damaged"), "{error}");
    }

    #[tokio::test]
    async fn without_a_file_sets_live_as_long_as_the_process() {
        let mut sums = Sums::default();
        sums.add(cohort(1)).await.unwrap();
        assert_eq!(*sums.sets(), [cohort(1)]);
    }
}
