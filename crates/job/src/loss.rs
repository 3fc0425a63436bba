//! Why a party lost its place in a round, for reports and for those who count.

use crate::closed::words;

words! {
    /// Why a party lost its place in a round.
    LossCause {
        /// Its connection ended, and it did not come back within `reconnect_grace`.
        Connection => "connection",
        /// It gave no sign of life for the length of a lease.
        Lease => "lease",
        /// It left the job.
        Left => "left",
        /// Its program, or its training function, failed.
        Failed => "failed",
        /// Its certificate was revoked.
        Revoked => "revoked",
        /// An operator has banned it.
        Banned => "banned",
        /// It had not answered when the stage's deadline passed.
        Deadline => "deadline",
        /// It sat out: its program gave no update to this round.
        SatOut => "sat_out",
        /// It did not accept its own update, as one that is not finite.
        NotAccepted => "not_accepted",
        /// It refused to go on in this round, for another reason.
        Refused => "refused",
        /// It sent something that the protocol does not allow.
        Fault => "fault",
        /// It came back without its state of the round, or with an older one.
        Restarted => "restarted",
        /// The protocol goes on without it.
        Protocol => "protocol",
    }
}

impl LossCause {
    /// Whether the party had no update for the round by its own word: it was not lost.
    pub fn is_sitting_out(self) -> bool {
        matches!(self, Self::SatOut | Self::NotAccepted)
    }
}
