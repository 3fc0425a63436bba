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

use blindsum_crypto::kdf::hash;
use blindsum_crypto::mask::{MaskKey, MaskSeed, Sign};
use blindsum_crypto::secret::Secret;

use crate::arithmetic::{product, sum, triangle};
use crate::ledger::{And, Pending, Relation};
use crate::line::Say;
use crate::ring::words;
use crate::{Mpc, MpcError, Ring, Shares, join};

/// Numbers that all three servers get to know at the same time, and that none of them chose.
struct Challenge {
    coin: [u8; 32],
    key: MaskKey,
}

impl Challenge {
    /// 64-bit numbers for the relation with this number.
    fn words(&self, relation: usize, count: usize) -> Vec<u64> {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&(relation as u64).to_be_bytes());
        words(&self.key.stream(nonce, Sign::Add), count)
    }

    /// A hash of one component of all checks.
    fn digest<R: Ring>(&self, numbers: &[R], word: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        R::write(numbers, &mut bytes);
        hash("mpc/zero", &[&self.coin, &bytes, &word.to_le_bytes()]).to_vec()
    }

    /// 64-bit numbers in the ring.
    fn numbers<R: Ring>(&self, relation: usize, count: usize) -> Vec<R> {
        self.words(relation, count).into_iter().map(R::of).collect()
    }
}

/// The random left factors, before the challenge is known.
struct Blinds<R> {
    /// Of each relation.
    factors: Vec<Shares<R>>,
    /// c of all relations but those of vectors with each other; then, for these, one for each vector.
    products: Shares<R>,
    /// A word for each AND.
    words: Shares<u64>,
    /// c of all ANDs.
    word: [u64; 2],
}

/// What both components of a check are that must be 0 in sum.
struct Zero<R> {
    numbers: [Vec<R>; 2],
    word: [u64; 2],
}

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
            self.open(&masked(&pending, &blinds, &challenge)?),
            self.open_words(&masked_words(&pending, &blinds, &challenge)),
        )
        .await?;
        let zero = zeros(&pending, &blinds, &challenge, &e, &words);
        // Another e shown to one server hides an error from it; and what it then said of the products would show a factor.
        self.same_seen("opened values of the verification").await?;
        self.is_zero(&zero, &challenge).await?;
        // Who hears this from both others knows that they go on: a cheating server knows what the one behind it expects.
        self.same_seen("whether others go on").await?;
        self.ledger.settle();
        Ok(())
    }

    /// Random left factors, and their products with the right factors. One round.
    async fn blinds(&self, pending: &Pending<R>) -> Result<Blinds<R>, MpcError> {
        let mut factors = Vec::new();
        let (mut one, mut parts) = (R::ZERO, Vec::new());
        for relation in &pending.relations {
            let factor = match relation {
                Relation::Dots { y, .. } => {
                    let factor = self.random(y.len());
                    let products = factor.pairs().zip(y.pairs());
                    one = one.plus(sum(products.map(|(a, y)| product(a, y))));
                    factor
                }
                Relation::Weighted { weights, .. } => {
                    let factor = self.random(weights.len());
                    let products = factor.pairs().zip(weights.pairs());
                    one = one.plus(sum(products.map(|(a, w)| product(a, w))));
                    factor
                }
                Relation::Gram { vectors, .. } => {
                    let factor = self.random(vectors.length());
                    for row in 0..vectors.count() {
                        let products = factor.pairs().zip(vectors.row(row));
                        parts.push(sum(products.map(|(a, x)| product(a, x))));
                    }
                    factor
                }
            };
            factors.push(factor);
        }
        parts.insert(0, one);
        let count = pending
            .ands
            .iter()
            .map(|and| and.x.width() * and.x.rows())
            .sum();
        let words = self.random_words(count);
        let mut word = 0;
        for ((own, next), (y_own, y_next)) in words.pairs().zip(bits(pending, |and| &and.y)) {
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

    /// Random words that no server knows, of which the exclusive or of three components counts.
    fn random_words(&self, count: usize) -> Shares<u64> {
        let (own, next) = self.keys.streams();
        Shares {
            own: words(&own, count),
            next: words(&next, count),
        }
    }

    /// As [`Mpc::reshare`], for a word.
    async fn reshare_word(&self, part: u64) -> Result<[u64; 2], MpcError> {
        let blind = self.random_words(1);
        let own = blind
            .pairs()
            .fold(part, |part, (own, next)| part ^ own ^ next);
        let say = Say {
            to_previous: own.to_le_bytes().to_vec(),
            from_next: 8,
            ..Say::default()
        };
        let heard = self.exchange(say).await?;
        let next = u64::read(&heard.from_next)
            .into_iter()
            .fold(0, |_, next| next);
        Ok([own, next])
    }

    /// Shows masked words to all three servers.
    async fn open_words(&self, shared: &Shares<u64>) -> Result<Vec<u64>, MpcError> {
        let mut to_next = Vec::new();
        u64::write(&shared.own, &mut to_next);
        let from_previous = self.pass_on(to_next).await?;
        let missing = u64::read(&from_previous);
        let known = shared.pairs().zip(missing);
        let value = |((own, next), missing)| own ^ next ^ missing;
        let opened: Vec<u64> = known.map(value).collect();
        self.see(&opened);
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

    /// The challenge: from parts that the keys have fixed, of which each server lacks one. One round.
    async fn challenge(&self) -> Result<Challenge, MpcError> {
        let parts = self.random_words(4);
        let (mut own, mut next) = (Vec::new(), Vec::new());
        u64::write(&parts.own, &mut own);
        u64::write(&parts.next, &mut next);
        let say = Say {
            to_next: own.clone(),
            to_previous: next.clone(),
            from_next: 32,
            from_previous: 32,
        };
        let heard = self.exchange(say).await?;
        if heard.from_next != heard.from_previous {
            self.accuse("a part of the challenge", self.me.next())?;
        }
        // In the order of the components, at every server.
        let mut three = [own, next, heard.from_next];
        three.rotate_right(usize::from(self.me.number()));
        let seen = self.ledger.seen().unwrap_or_default();
        let [zero, one, two] = &three;
        let coin = hash("mpc/challenge", &[&seen, zero, one, two]);
        let key = MaskKey::new(MaskSeed::from(Secret::from(coin)));
        Ok(Challenge { coin, key })
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

/// The bits of one side of all ANDs, each as a word of zeros or ones.
fn bits<R>(
    pending: &Pending<R>,
    side: impl Fn(&And) -> &crate::Bits,
) -> impl Iterator<Item = (u64, u64)> {
    pending.ands.iter().flat_map(move |and| {
        let bits = side(and);
        let (words, width) = (bits.words(), bits.width());
        let whole = move |all: &[u64], row: usize, place: usize| {
            (all[row * words + place / 64] >> (place % 64) & 1).wrapping_neg()
        };
        let places =
            (0..bits.rows()).flat_map(move |row| (0..width).map(move |place| (row, place)));
        places
            .map(move |(row, place)| (whole(&bits.own, row, place), whole(&bits.next, row, place)))
    })
}

/// e of every relation, before it is opened.
fn masked<R: Ring>(
    pending: &Pending<R>,
    blinds: &Blinds<R>,
    challenge: &Challenge,
) -> Result<Shares<R>, MpcError> {
    let mut all = Shares::zeros(0);
    for (number, (relation, factor)) in pending.relations.iter().zip(&blinds.factors).enumerate() {
        let times_r = match relation {
            Relation::Dots { x, length, z, .. } => {
                let r = challenge.numbers::<R>(number, z.len());
                let each = |values: &[R]| {
                    let chunks = values.chunks(*length).zip(&r);
                    chunks
                        .flat_map(|(x, r)| x.iter().map(|x| x.times(*r)))
                        .collect()
                };
                x.linear(each)
            }
            Relation::Weighted { vectors, .. } => {
                vectors.dot_public(&challenge.numbers(number, vectors.length()))?
            }
            Relation::Gram { vectors, .. } => {
                let r = challenge.numbers::<R>(number, vectors.count());
                let mut sum = Shares::<R>::zeros(vectors.length());
                for (row, r) in r.into_iter().enumerate() {
                    let to = sum.own.iter_mut().zip(&mut sum.next);
                    for ((to_own, to_next), (own, next)) in to.zip(vectors.row::<R>(row)) {
                        *to_own = to_own.plus(r.times(own));
                        *to_next = to_next.plus(r.times(next));
                    }
                }
                sum
            }
        };
        let masked = times_r.plus(factor)?;
        all.own.extend(masked.own);
        all.next.extend(masked.next);
    }
    Ok(all)
}

/// e of every AND, before it is opened.
fn masked_words<R>(pending: &Pending<R>, blinds: &Blinds<R>, challenge: &Challenge) -> Shares<u64> {
    let r = challenge.words(pending.relations.len(), blinds.words.len());
    let x = bits(pending, |and| &and.x);
    let masked = blinds.words.pairs().zip(x).zip(r);
    let (own, next) = masked
        .map(|(((own, next), (x_own, x_next)), r)| (own ^ r & x_own, next ^ r & x_next))
        .unzip();
    Shares { own, next }
}

/// What must be 0 of everything, component by component.
fn zeros<R: Ring>(
    pending: &Pending<R>,
    blinds: &Blinds<R>,
    challenge: &Challenge,
    e: &[R],
    words: &[u64],
) -> Zero<R> {
    let pick = |shares: &Shares<R>, part: usize| -> Vec<R> { shares.components()[part].to_vec() };
    let mut zero = Zero {
        numbers: [Vec::new(), Vec::new()],
        word: blinds.word,
    };
    for (part, numbers) in zero.numbers.iter_mut().enumerate() {
        let mut products = pick(&blinds.products, part).into_iter();
        let (mut one, mut rest) = (products.next().unwrap_or(R::ZERO), e);
        for (number, relation) in pending.relations.iter().enumerate() {
            let dot = |a: &[R], b: &[R]| sum(a.iter().zip(b).map(|(a, b)| a.times(*b)));
            let z = match relation {
                Relation::Dots { z, .. } | Relation::Weighted { z, .. } => z,
                Relation::Gram { z, .. } => z,
            };
            let count = blinds.factors.get(number).map_or(0, Shares::len);
            let (opened, behind) = rest.split_at(count);
            rest = behind;
            match relation {
                Relation::Dots { y, .. } => {
                    let r = challenge.numbers(number, z.len());
                    let left = dot(&pick(z, part), &r);
                    one = one.plus(left).minus(dot(opened, &pick(y, part)));
                }
                Relation::Weighted { weights, .. } => {
                    let r = challenge.numbers(number, z.len());
                    let left = dot(&pick(z, part), &r);
                    one = one.plus(left).minus(dot(opened, &pick(weights, part)));
                }
                Relation::Gram { vectors, .. } => {
                    let count = vectors.count();
                    let r = challenge.numbers::<R>(number, count);
                    let z = pick(z, part);
                    for (row, c) in (0..count).zip(products.by_ref()) {
                        let of_row = r.iter().enumerate().map(|(other, r)| {
                            let place = triangle(count, row.min(other), row.max(other));
                            r.times(z[place])
                        });
                        let components = vectors.row::<R>(row);
                        let x = components.map(|(own, next)| if part == 0 { own } else { next });
                        let shown = sum(x.zip(opened).map(|(x, e)| x.times(*e)));
                        numbers.push(sum(of_row).plus(c).minus(shown));
                    }
                }
            }
        }
        numbers.push(one);
    }
    let r = challenge.words(pending.relations.len(), words.len());
    let (y, z) = (bits(pending, |and| &and.y), bits(pending, |and| &and.z));
    for (((r, e), y), z) in r.iter().zip(words).zip(y).zip(z) {
        zero.word[0] ^= r & z.0 ^ e & y.0;
        zero.word[1] ^= r & z.1 ^ e & y.1;
    }
    zero
}

#[cfg(test)]
#[path = "tests/hiding.rs"]
mod hiding;
