//! The parties of the sums in which this party took part, with which the parties of later sums are compared.

use std::sync::Arc;

use super::policy::{Cohort, Groups};
use super::records::{failed, read};
use crate::machine::Hand;
use crate::records::Records;
use crate::{JobError, hex};

/// The parties of all sums that this party confirmed, or answered for, in all jobs of one name under one CA: a job with
/// another specification is compared with them too.
#[derive(Default)]
pub(super) struct Sums {
    /// None where the party remembers nothing beyond its process.
    record: Option<(Arc<dyn Records>, String)>,
    groups: Arc<Groups>,
}

impl Sums {
    /// Those under a CA, by the fingerprint of its certificate. There need not be any yet.
    pub fn open(records: Arc<dyn Records>, ca: &[u8; 32]) -> Result<Self, JobError> {
        let name = format!("sums-{}", hex(ca));
        let groups = match read(&*records, &name)? {
            None => Groups::default(),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|_| {
                let reason = "damaged, or of an earlier version; without it min_cohort_change begins anew: remove it \
                              to accept that";
                failed(&*records, &name, reason)
            })?,
        };
        Ok(Self {
            groups: Arc::new(groups),
            record: Some((records, name)),
        })
    }

    /// Who was in the same sums.
    pub fn groups(&self) -> Arc<Groups> {
        self.groups.clone()
    }

    /// Remembers one more, of a job of so many parties. When this returns it survives a crash, where there are records.
    pub async fn add<I, E>(
        &mut self,
        cohort: Cohort,
        parties: u32,
        hand: &Hand<I, E>,
    ) -> Result<(), JobError> {
        let groups = self.groups.refine(&cohort, parties).groups;
        if groups == *self.groups {
            return Ok(());
        }
        self.groups = Arc::new(groups);
        let (Some((records, name)), groups) = (self.record.clone(), self.groups.clone()) else {
            return Ok(());
        };
        let write = move || {
            let written = serde_json::to_vec(&*groups).map_err(std::io::Error::from);
            // guard: survivors-are-written-down
            let written = written.and_then(|bytes| records.replace(&name, &[&bytes]));
            written.map_err(|error| failed(&*records, &name, error))
        };
        hand.work(write).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::MemoryRecords;
    use crate::testing::run;

    const CA: [u8; 32] = [7; 32];

    fn cohort(parties: &[&str]) -> Cohort {
        parties.iter().map(ToString::to_string).collect()
    }

    /// The same sums with these added.
    fn with(mut sums: Sums, added: Vec<Cohort>) -> Sums {
        run(|hand| async move {
            for cohort in added {
                sums.add(cohort, 4, &hand).await.unwrap();
            }
            sums
        })
    }

    #[test]
    fn sums_are_known_after_a_restart() {
        let records = Arc::new(MemoryRecords::default());
        let open = || Sums::open(records.clone(), &CA);
        let added = [&["a", "b", "c"], &["b", "c", "d"]].map(|parties| cohort(parties));
        let sums = with(open().unwrap(), added.into());
        assert_eq!(open().unwrap().groups(), sums.groups());
        let name = format!("sums-{}", hex(&CA));
        for damage in [&b"nonsense"[..], br#"[["a", "b"]]"#] {
            records.replace(&name, &[damage]).unwrap();
            let error = open().err().unwrap().to_string();
            assert!(error.contains("damaged"), "{error}");
        }
    }

    #[test]
    fn without_records_sums_are_known_as_long_as_the_process_lives() {
        let sums = with(Sums::default(), vec![cohort(&["a", "b"])]);
        assert_ne!(*sums.groups(), Groups::default());
    }
}
