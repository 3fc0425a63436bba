//! What a party keeps of its connections beside the [`Connection`](crate::connection::Connection) itself.

use crate::chunks::Assembly;
use crate::pb;

/// Random bytes that name a process.
pub(super) const PROCESS_LEN: usize = 16;

/// By what a coordinator tells a late Hello from a new one, and this process from another one of the same party.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Introduction {
    /// [`PROCESS_LEN`] random bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub process: Vec<u8>,
    /// Connections that were begun.
    #[prost(uint64, tag = "2")]
    pub connections: u64,
    /// What the coordinator told this process to bring, to see that it lives.
    #[prost(bytes = "vec", tag = "3")]
    pub token: Vec<u8>,
}

/// What a party has of one connection. It ends with the connection.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Conversation {
    /// Whether a newer certificate waits to be shown.
    #[prost(bool, tag = "1")]
    pub newer: bool,
    #[prost(message, optional, tag = "2")]
    pub offer: Option<pb::RoundOffer>,
    /// The round that it has begun: nothing is answered in it before both know what came.
    #[prost(uint64, optional, tag = "3")]
    pub begun: Option<u64>,
    #[prost(message, optional, tag = "4")]
    pub requested: Option<Requested>,
    /// Whether the party was asked for its first model.
    #[prost(bool, tag = "5")]
    pub gave: bool,
    /// The version of the model that the party has sealed for others, and how often.
    #[prost(uint64, tag = "6")]
    pub sealed: u64,
    #[prost(uint32, tag = "7")]
    pub sealed_times: u32,
}

/// A model that was asked for, and what has come of it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Requested {
    #[prost(message, required, tag = "1")]
    pub name: pb::ModelName,
    #[prost(message, optional, tag = "2")]
    pub came: Option<Assembly>,
}
