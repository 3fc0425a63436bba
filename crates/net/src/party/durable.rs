//! Files whose new contents survive a crash from the moment they are written.

use std::fs::{self, File};
use std::io::{ErrorKind, Result, Write};
use std::path::Path;

/// Replaces a file in a folder by the pieces, one after the other.
pub(super) fn replace(path: &Path, pieces: &[&[u8]]) -> Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    for piece in pieces {
        file.write_all(piece)?;
    }
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_folder(path)
}

/// The contents of a file, if it is there.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_folder(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
