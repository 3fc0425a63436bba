//! Verification of all products since the last time, among three servers of which one may do what it likes.
//!
//! A server can add an error of its choice to the part of a product that it sends, and that is all it can do: whoever
//! receives the part cannot tell. So the servers check that z = x · y for all products at once, without showing any of
//! them. With a random a that nobody knows, c = a · y is computed by the same means, before anybody knows the challenge r.
//! Then e = r · x + a is opened, which a hides, and r · z + c − e · y must be 0. An error δ in z and one γ in c that nobody
//! could choose after r leave r · δ + γ, which is 0 modulo 2^128 for one of 2^64 values of r at most, if δ is not 0 modulo
//! 2^64. Many products share one such sum, each with an r of its own.
//!
//! * Dot products: c is one number for all of them. A server sends 16 bytes for each factor that is opened.
//! * Weighted sums of vectors, z_t = Σ w_c x_ct: all coordinates at once, with the roles of r and x the other way round:
//!   e_c = Σ r_t x_ct + a_c are as many numbers as there are vectors.
//! * All dot products of vectors with each other: e = Σ r_j x_j + a is as long as a vector, and is opened once for all.
//!   One check for each vector.
//! * ANDs: the same with words of 64 bits in place of numbers, added without carry; 8 bytes for each AND.
//!
//! Nothing that was computed may be shown before this has passed. An error gets through with probability 2^-64, whatever
//! the number of products.

use std::sync::Arc;

use blindsum_crypto::kdf::hash;

use crate::checks::{
    Blinds, Challenge, Factors, Masked, Opened, Zero, bits, count_ands, masked, masked_words, zeros,
};
use crate::keys::Use;
use crate::ledger::Pending;
use crate::line::Say;
use crate::ring::words;
use crate::{Mpc, MpcError, Ring, join};

impl<R: Ring> Mpc<R> {
    /// Verifies everything that was computed since the last time. 7 rounds, or none if this server does not verify.
    ///
    /// # Errors
    /// [`MpcError::Differs`]: one of the servers cheats.
    pub async fn verify(&self) -> Result<(), MpcError> {
        let Some(pending) = self.ledger.take() else {
            return Ok(());
        };
        let blinds = self.blinds(&pending).await?;
        // Who hears this from both others knows that both have all that the challenge is about.
        self.same_seen("opened values").await?;
        let challenge = self.challenge().await?;
        let (e, words) = join(
            self.show(masked(&pending, &blinds, &challenge), R::plus),
            self.show(masked_words(&pending, &blinds, &challenge), |a, b| a ^ b),
        )
        .await?;
        let zero = zeros(&pending, &blinds, &challenge, &e, &words);
        // Another e shown to one server hides an error from it; and what it then said of the products would show a factor.
        // guard: what-verification-opened-is-compared
        self.same_seen("opened values of the verification").await?;
        // guard: products-are-verified
        self.is_zero(&zero, &challenge).await?;
        // Who hears this from both others knows that they go on: a cheating server knows what the one behind it expects.
        // guard: nobody-goes-on-alone
        self.same_seen("whether others go on").await?;
        self.ledger.settle();
        Ok(())
    }

    fn factors(&self, for_use: Use) -> Factors {
        let (own, next) = self.keys.streams(for_use);
        Factors(Arc::new(own), Arc::new(next))
    }

    /// Random left factors, and their products with the right factors. One round.
    async fn blinds(&self, pending: &Pending<R>) -> Result<Blinds<R>, MpcError> {
        let mut factors = Vec::new();
        let (mut one, mut parts) = (R::ZERO, Vec::new());
        for relation in &pending.relations {
            let of_relation = self.factors(Use::Factors);
            relation.blind_products(&of_relation, &mut one, &mut parts);
            factors.push(of_relation);
        }
        parts.insert(0, one);
        let words = self.factors(Use::WordFactors);
        let mut word = 0;
        let pairs = words.pairs::<u64>(count_ands(pending));
        for ((own, next), (y_own, y_next)) in pairs.zip(bits(pending, |and| &and.y)) {
            word ^= own & (y_own ^ y_next) ^ next & y_own;
        }
        let (products, word) = join(self.reshare(parts), self.reshare_word(word)).await?;
        Ok(Blinds {
            factors,
            products,
            words,
            word,
        })
    }

    /// As [`Mpc::reshare`], for a word.
    async fn reshare_word(&self, part: u64) -> Result<[u64; 2], MpcError> {
        let blind = self.factors(Use::ZeroWord);
        let own = blind
            .pairs::<u64>(1)
            .fold(part, |part, (own, next)| part ^ own ^ next);
        let from_next = self.pass_back(own.to_le_bytes().to_vec()).await?;
        let next = u64::read(&from_next).into_iter().fold(0, |_, next| next);
        Ok([own, next])
    }

    /// Shows masked values to all three servers. One round.
    async fn show<S: Ring>(
        &self,
        masked: Masked<S>,
        plus: fn(S, S) -> S,
    ) -> Result<Opened, MpcError> {
        let heard = self.pass_on(masked.said).await?;
        let opened = Opened::from(masked.known, heard, plus);
        self.see_bytes(opened.bytes());
        Ok(opened)
    }

    /// All three have opened the same values so far. One round.
    async fn same_seen(&self, what: &'static str) -> Result<(), MpcError> {
        let Some(seen) = self.ledger.seen() else {
            return Ok(());
        };
        let say = Say {
            to_next: seen.to_vec(),
            to_previous: seen.to_vec(),
            from_next: seen.len(),
            from_previous: seen.len(),
        };
        let heard = self.exchange(say).await?;
        for (from, said) in [
            (self.me.next(), heard.from_next),
            (self.me.previous(), heard.from_previous),
        ] {
            if said != seen {
                self.accuse(what, from)?;
            }
        }
        Ok(())
    }

    async fn challenge(&self) -> Result<Challenge, MpcError> {
        Ok(Challenge::new(self.coin().await?))
    }

    /// A public coin: from parts that the keys have fixed, of which each server lacks one, and from the hash of all that was
    /// opened in rounds before this one. All that it decides about must have come before. What is opened in the round of the
    /// coin does not count: a server that hears both others first would know the parts, and could choose among coins by
    /// choosing what it opens. One round.
    ///
    /// # Errors
    /// [`MpcError::Differs`]: somebody cheats.
    pub async fn coin(&self) -> Result<[u8; 32], MpcError> {
        let (own, next) = self.keys.streams(Use::Coin);
        let part = |stream| {
            let mut bytes = Vec::new();
            u64::write(&words(&stream, 0, 4), &mut bytes);
            bytes
        };
        let (own, next) = (part(own), part(next));
        let say = Say {
            to_next: own.clone(),
            to_previous: next.clone(),
            from_next: 32,
            from_previous: 32,
        };
        let heard = self.exchange(say).await?;
        // guard: parts-of-a-coin-are-compared
        if heard.from_next != heard.from_previous {
            self.accuse("a part of the challenge", self.me.next())?;
        }
        // In the order of the components, at every server.
        let mut three = [own, next, heard.from_next];
        three.rotate_right(usize::from(self.me.number()));
        // guard: coins-cannot-be-ground
        let seen = heard.mark.unwrap_or_default();
        let [zero, one, two] = &three;
        // guard: coins-depend-on-what-was-opened, a-coin-is-drawn-by-all-three
        Ok(hash("mpc/challenge", &[&seen, zero, one, two]))
    }

    /// The two components here say what the third one must be, whose hash a server sends that has it. One round.
    async fn is_zero(&self, zero: &Zero<R>, challenge: &Challenge) -> Result<(), MpcError> {
        let [own, next] = &zero.numbers;
        let to_previous = challenge.digest(next, zero.word[1]);
        let pairs = own.iter().zip(next);
        let rest: Vec<R> = pairs
            .map(|(own, next)| R::ZERO.minus(own.plus(*next)))
            .collect();
        let must_be = challenge.digest(&rest, zero.word[0] ^ zero.word[1]);
        let say = Say {
            to_previous,
            from_next: must_be.len(),
            ..Say::default()
        };
        let heard = self.exchange(say).await?;
        match heard.from_next == must_be {
            true => Ok(()),
            false => self.accuse("the products", self.me.next()),
        }
    }
}

#[cfg(test)]
#[path = "tests/hiding.rs"]
mod hiding;
