//! What tells the connections of a party, and its processes, apart.

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
