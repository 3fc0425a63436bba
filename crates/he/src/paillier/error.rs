//! What Paillier's scheme refuses.

/// Why an operation refused its input. Nothing was encrypted, added or decrypted then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PaillierError {
    /// Bytes of the wrong length.
    #[error("{what}: {got} bytes, but it takes exactly {expected}")]
    Length {
        /// What the bytes should be.
        what: &'static str,
        /// Bytes given.
        got: usize,
        /// Bytes that it takes.
        expected: usize,
    },
    /// Bytes that are not whole numbers of so many bytes.
    #[error("{what}: {got} bytes, but each takes {each}")]
    Pieces {
        /// What the bytes should be.
        what: &'static str,
        /// Bytes given.
        got: usize,
        /// Bytes of one.
        each: usize,
    },
    /// A public key that breaks a rule.
    #[error("public key: {rule}")]
    PublicKey {
        /// What must hold.
        rule: &'static str,
    },
    /// A secret key that breaks a rule.
    #[error("secret key: {rule}")]
    SecretKey {
        /// What must hold.
        rule: &'static str,
    },
    /// A number that is no plaintext.
    #[error("plaintext {index}: m < N must hold")]
    Plaintext {
        /// Its place.
        index: usize,
    },
    /// A number that is no ciphertext, or one that nobody encrypted.
    #[error("ciphertext {index}: {rule}")]
    Ciphertext {
        /// Its place.
        index: usize,
        /// What must hold.
        rule: &'static str,
    },
    /// Ciphertexts of another key.
    #[error("ciphertexts: of another key")]
    Key,
    /// A sum of nothing.
    #[error("sum: of no vectors, but there must be at least one")]
    NothingToAdd,
    /// Vectors of different lengths.
    #[error("sum: {got} ciphertexts, but the others have {expected}")]
    Count {
        /// Ciphertexts of the vector.
        got: usize,
        /// Ciphertexts of the first one.
        expected: usize,
    },
    /// Lanes that cannot be.
    #[error("lanes: {bits} bits and {parties} parties, but {rule}")]
    Lanes {
        /// Bits of a value.
        bits: u32,
        /// Parties P.
        parties: u32,
        /// What must hold.
        rule: &'static str,
    },
    /// A value that does not fit into its lane.
    #[error("value {index}: {value}, but -2^{top} <= v < 2^{top} must hold", top = bits - 1)]
    Value {
        /// Its place.
        index: usize,
        /// The value v.
        value: i64,
        /// Bits of a value.
        bits: u32,
    },
    /// A number of plaintexts that does not hold so many values.
    #[error("plaintexts: {got}, but {values} values take {expected}")]
    Plaintexts {
        /// Plaintexts given.
        got: usize,
        /// Values asked for.
        values: usize,
        /// Plaintexts that they take.
        expected: usize,
    },
    /// Words that cannot be packed.
    #[error("width: {width} bits, but 1 <= width <= 64 must hold")]
    Width {
        /// Bits of a word.
        width: u32,
    },
    /// A plaintext that no packed words add up to.
    #[error("plaintext {index}: not a sum of packed words: there are bits after the last one")]
    Rest {
        /// Its place.
        index: usize,
    },
    /// A sum of more than all parties, or of none.
    #[error("contributions: {contributions}, but 1 <= contributions <= P = {parties} must hold")]
    Contributions {
        /// Vectors in the sum.
        contributions: u32,
        /// Parties P.
        parties: u32,
    },
    /// A plaintext that is no sum of so many packed vectors.
    #[error("plaintext {index}: not the sum of {contributions} packed ones")]
    Sum {
        /// Its place.
        index: usize,
        /// Vectors in the sum.
        contributions: u32,
    },
}
