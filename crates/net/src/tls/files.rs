//! Credentials from files, and how a change of the files is noticed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blindsum_crypto::{CryptoError, Zeroizing, encrypted, pem};

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

/// The passphrase of a private key. It is secret, so it cannot be printed.
#[derive(Clone)]
pub struct Passphrase(Arc<Zeroizing<String>>);

impl Passphrase {
    /// This text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Arc::new(Zeroizing::new(text.into())))
    }

    /// The first line of a file.
    ///
    /// # Errors
    /// [`NetError::Credential`] if the file cannot be read, or its first line is empty.
    pub fn read(path: &Path) -> Result<Self, NetError> {
        let refused =
            |why: String| NetError::credential("passphrase", format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(path).map(Zeroizing::new);
        let text = text.map_err(|e| refused(format!("cannot be read: {}", crate::io_words(&e))))?;
        match text.lines().next().unwrap_or_default() {
            "" => Err(refused(
                "has an empty first line: write the passphrase there".into(),
            )),
            line => Ok(Self::new(line)),
        }
    }
}

/// Where credentials come from, and what the files looked like just before they were read.
pub(super) struct Source {
    pub files: CredentialFiles,
    pub seen: Seen,
    passphrase: Option<Passphrase>,
}

impl Source {
    /// Reads the files again, with the same passphrase.
    pub fn again(&self) -> Result<Credentials, NetError> {
        self.files.clone().read_with(self.passphrase.clone())
    }
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
        self.read_with(None)
    }

    /// The same, where the key may be encrypted with this passphrase.
    ///
    /// # Errors
    /// As [`read`](Self::read), and if the passphrase is wrong.
    pub fn read_with(self, passphrase: Option<Passphrase>) -> Result<Credentials, NetError> {
        let seen = self.look();
        let text = |part| self.text(part).map(Option::unwrap_or_default);
        let public = |part| text(part).map(|text| text.to_string());
        let mut credentials = Credentials::new(public(Part::Certificate)?, "", public(Part::Ca)?);
        let key = text(Part::Key)?;
        credentials.key = Arc::new(match &passphrase {
            None => key,
            Some(passphrase) => self.decrypted(&key, passphrase)?,
        });
        credentials.revoked = self.text(Part::Revoked)?.map(|text| text.to_string());
        credentials.source = Some(Arc::new(Source {
            files: self,
            seen,
            passphrase,
        }));
        Ok(credentials)
    }

    fn decrypted(&self, key: &str, passphrase: &Passphrase) -> Result<Zeroizing<String>, NetError> {
        encrypted::decrypt(key, &passphrase.0).map_err(|error| {
            let why = match error {
                CryptoError::Pem { why, .. } => why,
                other => other.to_string(),
            };
            NetError::credential(Part::Key.name(), format!("{}: {why}", self.key.display()))
        })
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
