//! How a file of SQLite is opened: by its name, whatever that looks like.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::private;

/// The same file, by a name that is nothing else to SQLite. As the library is built here, it reads `file:...` as a URI even
/// without being asked to; and "", ":memory:" and some URIs are databases that nobody finds again.
pub(super) fn literal(path: &Path) -> PathBuf {
    match path.is_absolute() {
        true => path.to_owned(),
        // guard: no-uris-for-stores
        false => Path::new(".").join(path),
    }
}

/// Opens or makes the file, a new one for its owner alone. Its log gets the same mode.
pub(super) fn open(path: &Path) -> rusqlite::Result<Connection> {
    // Where that fails SQLite says why.
    let _ = private::reserve(&literal(path));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(literal(path), flags)
}

/// Opens the file if it is there.
pub(super) fn open_existing(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(literal(path), flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a name means to SQLite, what is written is in a file by this name.
    #[test]
    fn case_30_a_name_is_that_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "file:a?mode=memory",
            ":memory:",
            "file::memory:?cache=shared",
            "a%20b?cache=shared",
        ] {
            let path = folder.path().join(name);
            let connection = open(&path).unwrap();
            connection
                .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1);")
                .unwrap();
            assert!(path.is_file(), "{name}");
            assert!(open_existing(&path).is_ok(), "{name}");
            let relative = literal(Path::new(name));
            assert_eq!(relative.to_string_lossy(), format!("./{name}"));
        }
        assert!(open(Path::new("")).is_err());
        assert!(open_existing(&folder.path().join("none")).is_err());
    }
}
