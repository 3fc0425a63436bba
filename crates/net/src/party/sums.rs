//! Whose vectors were summed where this party had a part: what the parties of later sums are compared with.

use std::path::PathBuf;
use std::sync::Arc;

use super::durable;
use super::policy::{Cohort, Groups};
use crate::NetError;
use crate::coordinator::blocking;

/// The parties of all sums that this party confirmed, or answered for, in all jobs of one name under one CA. They lie
/// beside the folders of the jobs: a job with another specification is compared with them too.
#[derive(Default)]
pub(super) struct Sums {
    /// None where the party remembers nothing beyond its process.
    file: Option<PathBuf>,
    groups: Arc<Groups>,
}

impl Sums {
    /// Those in a file, which need not be there yet.
    pub fn open(file: PathBuf) -> Result<Self, NetError> {
        let failed = |reason: String| NetError::State {
            path: file.clone(),
            reason,
        };
        let bytes = durable::read(&file).map_err(|e| failed(e.to_string()))?;
        let groups = match bytes {
            None => Groups::default(),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|_| {
                failed(
                    "damaged, or of an earlier version; without it min_cohort_change begins anew: remove it to \
                     accept that"
                        .into(),
                )
            })?,
        };
        Ok(Self {
            groups: Arc::new(groups),
            file: Some(file),
        })
    }

    /// Who was in the same sums.
    pub fn groups(&self) -> Arc<Groups> {
        self.groups.clone()
    }

    /// Remembers one more, of a job of so many parties. When this returns it survives a crash, where there is a file.
    pub async fn add(&mut self, cohort: Cohort, parties: u32) -> Result<(), NetError> {
        let groups = self.groups.refine(&cohort, parties).groups;
        if groups == *self.groups {
            return Ok(());
        }
        self.groups = Arc::new(groups);
        let (Some(file), groups) = (self.file.clone(), self.groups.clone()) else {
            return Ok(());
        };
        let write = move || {
            let written = serde_json::to_vec(&*groups).map_err(std::io::Error::from);
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

    fn cohort(parties: &[&str]) -> Cohort {
        parties.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn sums_are_known_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sums");
        let mut sums = Sums::open(file.clone()).unwrap();
        for parties in [&["a", "b", "c"], &["b", "c", "d"]] {
            sums.add(cohort(parties), 4).await.unwrap();
        }
        let again = Sums::open(file.clone()).unwrap();
        assert_eq!(again.groups(), sums.groups());
        for damage in [&b"nonsense"[..], br#"[["a", "b"]]"#] {
            std::fs::write(&file, damage).unwrap();
            let error = Sums::open(file.clone()).err().unwrap().to_string();
            assert!(error.contains("damaged"), "{error}");
        }
    }

    #[tokio::test]
    async fn without_a_file_sums_are_known_as_long_as_the_process_lives() {
        let mut sums = Sums::default();
        sums.add(cohort(&["a", "b"]), 2).await.unwrap();
        assert_ne!(*sums.groups(), Groups::default());
    }
}
