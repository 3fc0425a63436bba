//! What is known of a connection: the bytes that go over it, as they are counted, and how its keys were agreed on.

/// Counts the bytes of a connection, and knows how its keys were agreed on.
pub trait Traffic: Send + Sync {
    /// Bytes that came from the party.
    fn read(&self) -> u64;
    /// Bytes that were sent to it.
    fn written(&self) -> u64;
    /// The key exchange of TLS, as in `X25519MLKEM768`; empty without TLS.
    fn key_exchange(&self) -> &str {
        ""
    }
}
