//! Errors of SQLite as errors of a store.

use rusqlite::ErrorCode;

use crate::StoreError;

/// Why a store cannot be used.
pub(super) fn store_error(path: &str, error: &rusqlite::Error) -> StoreError {
    let (path, reason) = (path.to_owned(), error.to_string());
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::InUse { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { path, reason }
        }
        _ => StoreError::Io { path, reason },
    }
}
