//! The keys that two servers have in common and the third one lacks.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use blindsum_crypto::kdf::{Context, hash};
use blindsum_crypto::kex::SharedSecret;
use blindsum_crypto::mask::{MaskKey, MaskSeed, MaskStream, Sign};
use blindsum_crypto::secret::Secret;

use crate::{Ring, ServerIndex};

/// The agreement of all three servers before they compute. Keys of other rounds, vectors or rings are other keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// A hash of the job with its rule, of the round and of who may be in it.
    pub round: [u8; 32],
    /// A hash of whose vectors are computed with, and of the keys by which servers 0, 1 and 2 came to their secrets.
    pub begun: [u8; 32],
}

impl Agreed {
    /// A hash of all of it, and of the bits of the ring.
    pub(crate) fn context(&self, bits: u32) -> Context {
        // guard: noise-is-that-of-the-survivors
        let parts: [&[u8]; 3] = [&self.round, &self.begun, &bits.to_be_bytes()];
        Context(hash("mpc3/context", &parts))
    }
}

/// What the numbers of a stream are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Parts of zero that hide parts of numbers.
    Zero,
    /// Parts of zero that hide parts of bits.
    ZeroBits,
    /// Random numbers.
    Numbers,
    /// Random bits.
    Bits,
    /// Random factors of the verification.
    Factors,
    /// The same for bits.
    WordFactors,
    /// A part of zero that hides a part of a word.
    ZeroWord,
    /// The challenge.
    Coin,
}

const USES: usize = Use::Coin as usize + 1;

/// A server's two keys of one computation, for numbers of the ring `R`: key j is known to server j and server
/// j − 1, so server i has key i and key i + 1. Each gives one stream for each use and step, and no stream is used twice:
/// steps are counted here, and all three servers take the same.
pub struct PairKeys<R> {
    me: ServerIndex,
    context: Context,
    own: MaskKey,
    next: MaskKey,
    steps: [AtomicU64; USES],
    ring: PhantomData<fn() -> R>,
}

impl<R: Ring> PairKeys<R> {
    /// The keys of server `me`, from the secrets that it shares with the server before and with the next one.
    pub fn derive(
        me: ServerIndex,
        with_previous: &SharedSecret,
        with_next: &SharedSecret,
        agreed: &Agreed,
    ) -> Self {
        let context = agreed.context(8 * R::BYTES as u32);
        let key = |secret: &SharedSecret, j: ServerIndex| {
            secret.derive(&context, "mpc3/K", &[&[j.number()]])
        };
        let (own, next) = (key(with_previous, me), key(with_next, me.next()));
        Self::of(me, context, own, next)
    }

    /// From key i and key i + 1 of server i.
    pub(crate) fn of(me: ServerIndex, context: Context, own: Secret<32>, next: Secret<32>) -> Self {
        Self {
            me,
            context,
            own: MaskKey::new(MaskSeed::from(own)),
            next: MaskKey::new(MaskSeed::from(next)),
            steps: Default::default(),
            ring: PhantomData,
        }
    }

    /// Whose keys they are.
    pub fn me(&self) -> ServerIndex {
        self.me
    }

    /// What they are bound to.
    pub(crate) fn context(&self) -> [u8; 32] {
        self.context.0
    }

    /// The streams of the next step of a use, of key i and of key i + 1.
    pub(crate) fn streams(&self, for_use: Use) -> (MaskStream, MaskStream) {
        let step = match self.steps.get(for_use as usize) {
            Some(step) => step.fetch_add(1, Ordering::Relaxed),
            None => 0,
        };
        let nonce = nonce(for_use, step);
        (
            self.own.stream(nonce, Sign::Add),
            self.next.stream(nonce, Sign::Add),
        )
    }
}

/// The use, then the step.
fn nonce(for_use: Use, step: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&(for_use as u32).to_be_bytes());
    nonce[4..].copy_from_slice(&step.to_be_bytes());
    nonce
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use blindsum_crypto::kex::{KeyPair, Suite};

    use super::*;
    use crate::ring::words;

    const ALL: [Use; USES] = [
        Use::Zero,
        Use::ZeroBits,
        Use::Numbers,
        Use::Bits,
        Use::Factors,
        Use::WordFactors,
        Use::ZeroWord,
        Use::Coin,
    ];

    fn agreed() -> Agreed {
        Agreed {
            round: [1; 32],
            begun: [2; 32],
        }
    }

    fn pair(number: u8) -> KeyPair {
        KeyPair::from_secret(Suite::X25519, Secret::from([number + 1; 32])).unwrap()
    }

    fn keys<R: Ring>(me: ServerIndex, agreed: &Agreed) -> PairKeys<R> {
        let mine = pair(me.number());
        let with = |other: ServerIndex| mine.agree(pair(other.number()).public()).unwrap();
        PairKeys::derive(me, &with(me.previous()), &with(me.next()), agreed)
    }

    fn first<R: Ring>(keys: &PairKeys<R>, for_use: Use) -> [Vec<u64>; 2] {
        let (own, next) = keys.streams(for_use);
        [words(&own, 0, 2), words(&next, 0, 2)]
    }

    #[test]
    fn two_servers_have_a_key_and_the_third_one_another() {
        let [zero, one, two] =
            ServerIndex::ALL.map(|me| first(&keys::<u64>(me, &agreed()), Use::Zero));
        assert_eq!(zero[1], one[0]);
        assert_eq!(one[1], two[0]);
        assert_eq!(two[1], zero[0]);
        assert!(zero[0] != zero[1] && one[0] != one[1] && two[0] != two[1]);
    }

    #[test]
    fn whatever_differs_gives_other_keys() {
        let me = ServerIndex::ALL[1];
        let mut seen = BTreeSet::new();
        let mut others = vec![agreed(); 2];
        others[0].round[31] ^= 1;
        others[1].begun[0] ^= 1;
        for agreed in others.iter().chain([&agreed()]) {
            seen.extend(first(&keys::<u64>(me, agreed), Use::Zero));
        }
        seen.extend(first(&keys::<u128>(me, &agreed()), Use::Zero));
        assert_eq!(seen.len(), 2 * 4);
    }

    #[test]
    fn no_two_uses_share_a_stream() {
        let keys = keys::<u64>(ServerIndex::ALL[0], &agreed());
        let mut seen = BTreeSet::new();
        for _ in 0..5 {
            for for_use in ALL {
                for word in first(&keys, for_use).concat() {
                    assert!(seen.insert(word), "{for_use:?}");
                }
            }
        }
        assert_eq!(seen.len(), 5 * USES * 4);
    }
}
