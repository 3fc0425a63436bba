//! The configuration file of a running coordinator, as it was read last.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Mutex;

use super::file::ConfigFile;

/// A configuration file and the settings that override it, and how it was when it was read last. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Configured(pub Arc<Mutex<Option<(Source, ConfigFile)>>>);

/// A path, and settings as for [`ConfigFile::read`].
pub(super) type Source = (Option<PathBuf>, Vec<String>);
