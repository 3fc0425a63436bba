//! Messages that the coordinator only passes on, piece by piece, from parties to parties. Together they are as large as
//! what everybody sends to everybody. So they are kept in memory up to a limit and in a temporary file above it, and
//! are read again when they are sent.

mod message;
mod spool;

pub(crate) use message::{Chunk, Relayed, Unreadable};
pub(crate) use spool::Spools;
