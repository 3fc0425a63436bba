//! Tags of single ciphertexts: who holds the key can tell whether the server passed one on unchanged.
//!
//! What the server adds up has no tag. The key of a tag is
//! `derive32(K_round, context, "flashe tag", [round, rank, scheme, width, lanes])`, all big-endian, of 8, 4,
//! 1 (1 single, 2 double), 1 and 8 bytes: each ciphertext has its own, so that a one-time tag will do.

use blindsum_crypto::{kdf::derive32, mac::OneTimeKey};

use super::{Ciphertext, RoundKey, Shape};
use crate::HeError;

impl RoundKey {
    /// The tag of a ciphertext, over context, round, rank, shape and bytes.
    ///
    /// # Errors
    /// [`HeError::Ticket`] for a ciphertext of another key or round.
    pub fn tag(&self, ciphertext: &Ciphertext) -> Result<[u8; 16], HeError> {
        self.check(ciphertext.id, ciphertext.round)?;
        let key = self.tag_key(ciphertext.rank, ciphertext.shape);
        Ok(key.tag(ciphertext.packed()))
    }

    /// Checks that `packed` is what the party of rank `rank` encrypted in this round, in constant time.
    ///
    /// # Errors
    /// [`HeError::Tag`].
    pub fn verify(
        &self,
        rank: u32,
        shape: Shape,
        packed: &[u8],
        tag: &[u8; 16],
    ) -> Result<(), HeError> {
        if self.tag_key(rank, shape).verify(packed, tag) {
            Ok(())
        } else {
            Err(HeError::Tag { rank })
        }
    }

    fn tag_key(&self, rank: u32, shape: Shape) -> OneTimeKey {
        let parts: [&[u8]; 5] = [
            &self.round.to_be_bytes(),
            &rank.to_be_bytes(),
            &[shape.scheme().masks_to_encrypt() as u8],
            &[shape.width().bits() as u8],
            &(shape.lanes() as u64).to_be_bytes(),
        ];
        OneTimeKey::from(derive32(&self.secret, &self.context, "flashe tag", &parts))
    }
}
