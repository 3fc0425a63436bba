//! How an option is declared: once, with its name, type, default, one line of documentation and the values that it may
//! take.
//!
//! Options stand in tables: those of every job ([`JobSpec`](crate::JobSpec)), those of each protocol (in its
//! folder) and those of each encoding (`spec/encodings`). [`table!`](crate::core::options::table) makes a struct
//! with one field an option, and from the same lines the list that everything else is derived from: reading and
//! writing, the hash, the command line, Python's classes, the JSON schema and the documentation.

mod bounds;
mod choices;
mod declare;
mod error;
mod settings;
mod table;
mod value;

pub use bounds::{Bounds, Edge, Rule};
pub(crate) use bounds::{any, at_least, fits, fraction, positive, within};
pub(crate) use choices::{choice, written_by_name};
pub(crate) use declare::{Declared, Declares, check_each, table};
pub use error::SpecError;
pub(crate) use settings::{Setting, expected, in_range, listing};
pub use table::{Kind, Named, OptionInfo, Table};
pub(crate) use value::Entry;
pub use value::Value;
