//! Nonces that parties commit to before they say them.
//!
//! Where a graph is drawn from the context of a round, who knows all other nonces could try its own until the graph
//! suits it. So each party commits to its nonce first, and says it once the roster is fixed: then nobody has a choice
//! any more.

use blindsum_crypto::kdf;

use crate::Job;

/// What a party commits to its nonce with:
/// `H("blindsum nonce"; job hash, number of the round, name of the party, nonce)`. The name keeps it from being used by
/// another party, the number from being used in another round.
pub fn nonce_commitment(job: &Job, round: u64, name: &str, nonce: &[u8; 32]) -> [u8; 32] {
    let parts: [&[u8]; 4] = [job.hash(), &round.to_be_bytes(), name.as_bytes(), nonce];
    kdf::hash("blindsum nonce", &parts)
}
