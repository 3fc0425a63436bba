//! Credentials from files, and how a change of the files is noticed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blindsum_crypto::{Zeroizing, pem};

use super::{Credentials, Part};
use crate::NetError;

/// The files of one side's credentials, all PEM.
#[derive(Clone, Debug)]
pub struct CredentialFiles {
    /// This side's certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The certificate of the job's CA.
    pub ca: PathBuf,
    /// The CA's revocation list.
    pub revoked: Option<PathBuf>,
}

/// Where credentials come from, and what the files looked like just before they were read.
pub(super) struct Source {
    pub files: CredentialFiles,
    pub seen: Seen,
}

/// What tells one state of the files from another: time of the last change, size, and which file it is.
pub(super) type Seen = [Option<(i64, i64, u64, u64)>; 4];

const PARTS: [Part; 4] = [Part::Certificate, Part::Key, Part::Ca, Part::Revoked];

impl CredentialFiles {
    /// Reads all files. A coordinator or party with these credentials reads the files again when they change.
    ///
    /// # Errors
    /// [`NetError::Credential`] for the first file that cannot be read, with its name.
    pub fn read(self) -> Result<Credentials, NetError> {
        let seen = self.look();
        let text = |part| self.text(part).map(Option::unwrap_or_default);
        let public = |part| text(part).map(|text| text.to_string());
        let mut credentials = Credentials::new(public(Part::Certificate)?, "", public(Part::Ca)?);
        credentials.key = Arc::new(text(Part::Key)?);
        credentials.revoked = self.text(Part::Revoked)?.map(|text| text.to_string());
        credentials.source = Some(Arc::new(Source { files: self, seen }));
        Ok(credentials)
    }

    fn text(&self, part: Part) -> Result<Option<Zeroizing<String>>, NetError> {
        let read = |path: &Path| {
            let refused = |why: String| {
                NetError::credential(part.name(), format!("{}: {why}", path.display()))
            };
            let bytes = std::fs::read(path).map_err(|e| refused(format!("cannot be read: {e}")))?;
            pem::text(bytes).map_err(refused)
        };
        self.path(part).map(read).transpose()
    }

    pub(super) fn path(&self, part: Part) -> Option<&Path> {
        match part {
            Part::Certificate => Some(&self.certificate),
            Part::Key => Some(&self.key),
            Part::Ca => Some(&self.ca),
            Part::Revoked => self.revoked.as_deref(),
        }
    }

    pub(super) fn look(&self) -> Seen {
        PARTS.map(|part| {
            let file = std::fs::metadata(self.path(part)?).ok()?;
            Some((file.mtime(), file.mtime_nsec(), file.size(), file.ino()))
        })
    }
}
