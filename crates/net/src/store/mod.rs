//! What a coordinator must not forget, in a file: [`Store`] on SQLite.

mod endings;
mod errors;
mod lock;
mod read;
mod reader;
mod rounds;
mod sqlite;

pub use blindsum_job::store::{Ending, Store, StoredJob};
pub use reader::{StoreReader, StoredStatus};
pub use sqlite::SqliteStore;
