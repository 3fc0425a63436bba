//! Bytes that go over a connection, as they are counted.

/// Counts the bytes of a connection.
pub trait Traffic: Send + Sync {
    /// Bytes that came from the party.
    fn read(&self) -> u64;
    /// Bytes that were sent to it.
    fn written(&self) -> u64;
}
