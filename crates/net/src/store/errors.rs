//! Errors of SQLite as errors of a store.

use rusqlite::ErrorCode;

use crate::StoreError;

/// Why a store cannot be used.
pub(super) fn store_error(path: &str, error: &rusqlite::Error) -> StoreError {
    let (path, reason) = (path.to_owned(), store_words(error));
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::InUse { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { path, reason }
        }
        _ => StoreError::Io { path, reason },
    }
}

/// What failed, in words.
pub(super) fn store_words(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "there is no room left on the disk: make room there".into(),
        Some(ErrorCode::ReadOnly) => "it may only be read: let this user write it".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn a_full_disk_is_named_with_what_to_do() {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None);
        let said = store_error("job.sqlite", &error).to_string();
        assert!(
            said.contains("no room left on the disk: make room there"),
            "{said}"
        );
        assert!(!said.contains("database or disk is full"), "{said}");
    }
}
