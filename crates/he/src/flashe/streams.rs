//! The streams that the masks of a round are made of.

use blindsum_crypto::mask::{MaskKey, MaskStream, Sign};

/// The streams F(i‖j‖·) of one round i, by rank j.
pub(super) struct RoundStreams {
    round: u64,
    masks: MaskKey,
}

impl RoundStreams {
    /// The streams of round `round` under a key that is for nothing else.
    pub(super) fn new(round: u64, masks: MaskKey) -> Self {
        Self { round, masks }
    }

    /// The round i.
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// The masks F(i‖`rank`‖·), to be added or taken off.
    pub(super) fn of(&self, rank: u32, sign: Sign) -> MaskStream {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&self.round.to_be_bytes());
        nonce[8..].copy_from_slice(&rank.to_be_bytes());
        self.masks.stream(nonce, sign)
    }
}
