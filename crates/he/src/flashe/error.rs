//! What FLASHE refuses.

use blindsum_math::MathError;

/// Why an operation of FLASHE refused its input. Nothing was encrypted or decrypted then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlasheError {
    /// A vector longer than the masks of one round and rank.
    #[error("lanes: D = {lanes}, but D <= {largest} must hold for words of {bits} bits")]
    Lanes {
        /// Lanes D of the vector.
        lanes: usize,
        /// The most lanes that 2^36 bytes of mask are enough for.
        largest: u64,
        /// The width of a lane, in bits.
        bits: u32,
    },
    /// A number of parties that has no ranks.
    #[error("parties: n = {parties}, but 1 <= n < 2^32 must hold")]
    Parties {
        /// Parties n.
        parties: u32,
    },
    /// A rank that no party has, or the last rank of all, whose neighbour would have no number.
    #[error("rank: j = {rank}, but j < n = {parties} must hold")]
    Rank {
        /// The rank j.
        rank: u32,
        /// Parties n.
        parties: u32,
    },
    /// Survivors that are not in increasing order, or one that is listed twice.
    #[error("survivors: rank {rank} after rank {previous}, but they must increase")]
    Survivors {
        /// The rank that is out of place.
        rank: u32,
        /// The one before it.
        previous: u32,
    },
    /// A sum of nobody's vectors.
    #[error("survivors: none, but there must be at least one")]
    NoSurvivors,
    /// No survivors, or more than there are parties.
    #[error("survivors: s = {survivors} of n = {parties}, but 1 <= s <= n must hold")]
    SurvivorCount {
        /// Survivors s.
        survivors: u32,
        /// Parties n.
        parties: u32,
    },
    /// A round that may already have been used for encryption, or a saved state that is older than the party's record.
    #[error("round: i = {round}, but i >= {next} must hold: earlier rounds may be used")]
    CounterReuse {
        /// The round i asked for, or the first unused one of the state to be restored.
        round: u64,
        /// The first round that is unused for certain.
        next: u64,
    },
    /// The last of all rounds, which would leave the state without a successor.
    #[error("round: i = {round}, but i < 2^64 - 1 must hold")]
    Round {
        /// The round i.
        round: u64,
    },
    /// A ticket of another key or round.
    #[error("ticket: for another key, or for round {ticket} instead of {round}")]
    Ticket {
        /// The round of the ticket.
        ticket: u64,
        /// The round of the key.
        round: u64,
    },
    /// Saved state that is damaged, of another version or of another key.
    #[error("state: not one that was saved under this key")]
    State,
    /// A key that differs from what the others have.
    #[error("key: its confirmation differs, but all parties must hold the same key")]
    Confirmation,
    /// A ciphertext or sum of the wrong length.
    #[error("ciphertext: {got} bytes, but it takes exactly {expected}")]
    CiphertextLength {
        /// Bytes given.
        got: usize,
        /// Bytes of packed words and check.
        expected: usize,
    },
    /// A sum that was changed, or is not the sum that it claims to be.
    #[error("sum: its check is wrong, but it must be that of exactly the survivors' ciphertexts")]
    Check,
    /// More dense coordinates than there are numbers for.
    #[error("coordinates: D = {lanes}, but D <= {largest} must hold for sparse vectors")]
    DenseLanes {
        /// Dense coordinates D.
        lanes: usize,
        /// The most there may be.
        largest: u64,
    },
    /// A coordinate that the vector does not have.
    #[error("coordinate: d = {coordinate}, but d < D = {lanes} must hold")]
    Coordinate {
        /// The coordinate d.
        coordinate: u32,
        /// Dense coordinates D.
        lanes: usize,
    },
    /// Coordinates out of order, or one that is listed twice.
    #[error("coordinates: {coordinate} after {previous}, but they must increase")]
    Coordinates {
        /// The coordinate that is out of place.
        coordinate: u32,
        /// The one before it.
        previous: u32,
    },
    /// A set of coordinates in a form that is not the one that must be sent.
    #[error("sparse mask: {rule}")]
    MaskEncoding {
        /// What must hold.
        rule: &'static str,
    },
    /// A set of coordinates of vectors of another length.
    #[error("sparse mask: of {got} coordinates, but all must be of D = {expected}")]
    MaskLanes {
        /// Dense coordinates of the mask.
        got: usize,
        /// Dense coordinates D of the others, the shape or the permutation.
        expected: usize,
    },
    /// A number of masks that is not the number of survivors.
    #[error("sparse masks: {got} of {expected} survivors, but there must be one for each")]
    Masks {
        /// Masks given.
        got: usize,
        /// Survivors s.
        expected: usize,
    },
    /// A packed vector with padding bits set, a check that is not canonical, or an impossible width.
    #[error(transparent)]
    Math(#[from] MathError),
}
