//! Files and folders for their owner alone: stores, state folders and results hold models, and what shows misbehaviour.
//! What is there already keeps its mode, which its owner may have chosen.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes an empty file, or empties the one that is there. A new one has mode 0600.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

/// Makes an empty file of mode 0600 unless there is one, for a library that would choose another mode.
pub(crate) fn reserve(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options.open(path).map(drop)
}

/// Makes a folder, and those above it, unless they are there. New ones have mode 0700.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn new_files_are_for_their_owner_and_others_keep_their_mode() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        create_folder(&inner).unwrap();
        assert_eq!(
            (mode(&inner), mode(inner.parent().unwrap())),
            (0o700, 0o700)
        );
        let path = inner.join("file");
        create(&path).unwrap().write_all(b"x").unwrap();
        assert_eq!(mode(&path), 0o600);
        reserve(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"x");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        create(&path).unwrap();
        assert_eq!(mode(&path), 0o640);
        assert_eq!(fs::read(&path).unwrap(), b"");
        reserve(&inner.join("other")).unwrap();
        assert_eq!(mode(&inner.join("other")), 0o600);
    }
}
