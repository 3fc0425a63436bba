//! What a party keeps of its connections beside the [`Connection`](crate::connection::Connection) itself.

use crate::chunks::Assembly;
use crate::pb;

/// By what a coordinator tells a late Hello from a new one, and this process from another one of the same party.
pub(super) struct Introduction {
    pub process: [u8; 16],
    /// Connections that were begun.
    pub connections: u64,
    /// What the coordinator told this process to bring, to see that it lives.
    pub token: Vec<u8>,
}

impl Introduction {
    /// Of a process that begins.
    pub fn of(process: [u8; 16]) -> Self {
        Self {
            process,
            connections: 0,
            token: Vec::new(),
        }
    }
}

/// What a party has of one connection. It ends with the connection.
#[derive(Default)]
pub(super) struct Conversation {
    /// Whether a newer certificate waits to be shown.
    pub newer: bool,
    pub offer: Option<pb::RoundOffer>,
    /// The round that it has begun: nothing is answered in it before both know what came.
    pub begun: Option<u64>,
    /// The model that was asked for, and what has come of it.
    pub requested: Option<(pb::ModelName, Option<Assembly>)>,
    /// Whether the party was asked for its first model.
    pub gave: bool,
    /// The version of the model that the party has sealed for others, and how often.
    pub sealed: (u64, u32),
}
