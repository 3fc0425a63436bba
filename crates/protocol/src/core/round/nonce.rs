//! Nonces to which parties commit before they reveal them.
//!
//! If a graph is drawn from the context of a round, a party that knows all other nonces could try its own until the
//! graph suits it. So each party commits to its nonce first, and reveals it once the roster is fixed: then nobody has a
//! choice any more.

use blindsum_crypto::kdf;

use crate::Job;

/// A party's commitment to its nonce: `H("blindsum nonce"; job hash, number of the round, name of the party, nonce)`.
/// Because of the name no other party can use it, and because of the number it cannot be used in another round.
pub fn nonce_commitment(job: &Job, round: u64, name: &str, nonce: &[u8; 32]) -> [u8; 32] {
    let parts: [&[u8]; 4] = [job.hash(), &round.to_be_bytes(), name.as_bytes(), nonce];
    kdf::hash("blindsum nonce", &parts)
}
