//! A vault in two of the party's records: the sealed contents, and the mark, which shows whether the contents are from
//! an old backup.

use std::sync::{Arc, Mutex, MutexGuard};

use blindsum_protocol::{FaultKind, Kept, Vault};
use rand_chacha::ChaCha20Rng;

use super::records::JobRecords;
use crate::JobError;

/// What is authenticated with the contents.
const HEADER: &[u8] = b"blindsum vault";

/// The vault of a party with records. One call at a time uses them: they belong together.
pub(super) struct SealedVault {
    state: Arc<JobRecords>,
    rng: Mutex<ChaCha20Rng>,
}

impl SealedVault {
    pub fn new(state: Arc<JobRecords>, rng: ChaCha20Rng) -> Self {
        let rng = Mutex::new(rng);
        Self { state, rng }
    }

    fn turn(&self) -> Result<MutexGuard<'_, ChaCha20Rng>, FaultKind> {
        let turn = self.rng.lock();
        turn.map_err(|error| FaultKind::Vault(error.to_string()))
    }

    fn read_mark(&self) -> Result<u64, FaultKind> {
        let Some(bytes) = self.state.read("mark").map_err(unusable)? else {
            return Ok(0);
        };
        let bytes = bytes.try_into();
        let bytes = bytes.map_err(|_| unusable(self.state.failed("mark", "must have 8 bytes")))?;
        Ok(u64::from_be_bytes(bytes))
    }
}

impl Vault for SealedVault {
    fn read(&self) -> Result<Kept, FaultKind> {
        let _turn = self.turn()?;
        // guard: the-mark-outlives-the-vault
        let mark = self.read_mark()?;
        let contents = match self.state.read("vault").map_err(unusable)? {
            None => None,
            Some(sealed) => Some(self.state.key().open(HEADER, &sealed).map_err(|_| {
                let rule = "damaged or of another party; without it the other parties deliver the key again";
                unusable(self.state.failed("vault", rule))
            })?),
        };
        Ok(Kept { contents, mark })
    }

    fn write(&self, contents: &[u8], mark: u64) -> Result<(), FaultKind> {
        let mut rng = self.turn()?;
        let mark = mark.max(self.read_mark()?).to_be_bytes();
        let sealed = self.state.key().seal(HEADER, contents, &mut *rng);
        // The contents first: with a mark that is ahead of them they would count as an old backup.
        let written = self.state.replace("vault", &[&sealed]);
        let written = written.and_then(|()| self.state.replace("mark", &[&mark]));
        written.map_err(unusable)
    }
}

/// The fault of a record that cannot be used.
fn unusable(error: JobError) -> FaultKind {
    FaultKind::Vault(match error {
        JobError::State { path, reason } => {
            let record = path.file_name().unwrap_or_default().to_string_lossy();
            format!("{record}: {reason}")
        }
        error => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::records::tests::state;
    use super::*;
    use crate::testing::rng;

    #[test]
    fn what_is_written_is_read_again_and_nothing_else() {
        let state = state();
        let open = || SealedVault::new(state.clone(), rng(1));
        let kept = open().read().unwrap();
        assert_eq!((kept.contents.is_none(), kept.mark), (true, 0));
        let vault = open();
        vault.write(b"the key of the job", 7).unwrap();
        vault.write(b"another key of the job", 3).unwrap();
        let sealed = state.read("vault").unwrap().unwrap();
        assert!(!sealed.windows(3).any(|window| window == b"key"));
        let kept = open().read().unwrap();
        assert_eq!(&**kept.contents.unwrap(), b"another key of the job");
        assert_eq!(kept.mark, 7);
        state.replace("vault", &[&sealed[1..]]).unwrap();
        let damaged = open().read().err().unwrap().to_string();
        assert!(
            damaged.contains("vault: damaged or of another party"),
            "{damaged}"
        );
        state.replace("mark", &[b"7"]).unwrap();
        let short = open().read().err().unwrap().to_string();
        assert!(short.contains("must have 8 bytes"), "{short}");
    }
}
