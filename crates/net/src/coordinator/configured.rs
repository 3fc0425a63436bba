//! The configuration file of a running coordinator, as it was read last.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::file::ConfigFile;

/// A configuration file and the settings that override it, and how it was when it was read last. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Configured(pub Arc<Mutex<Option<Source>>>);

/// Applies the part of a reloaded file that concerns the program around the coordinator; returns the outcome in
/// words.
pub type Also = Box<dyn FnMut(&ConfigFile) -> Result<Option<String>, String> + Send>;

/// Where the configuration comes from.
pub(super) struct Source {
    pub path: Option<PathBuf>,
    /// As for [`ConfigFile::read`].
    pub settings: Vec<String>,
    pub before: ConfigFile,
    pub also: Also,
}
