//! Circuits on shared bits. A round for each level, whatever the number of bits in it; a bit for each AND.

use crate::bits::ones;
use crate::keys::Use;
use crate::ring::words;
use crate::shares::same;
use crate::{Bits, Mpc, MpcError, Ring, Shares};

impl<R: Ring> Mpc<R> {
    /// Random bits that no server knows. No round.
    pub(crate) fn random_bits(&self, width: usize, rows: usize) -> Bits {
        self.bits_for(Use::Bits, width, rows)
    }

    fn bits_for(&self, for_use: Use, width: usize, rows: usize) -> Bits {
        let (own, next) = self.keys.streams(for_use);
        let ones = ones(width);
        let cut = |stream| {
            let words: Vec<u64> = words(&stream, 0, ones.len() * rows);
            let bits = words.into_iter().zip(ones.iter().cycle());
            bits.map(|(word, ones)| word & ones).collect()
        };
        Bits::new(width, cut(own), cut(next))
    }

    /// x AND y, bit by bit. One round.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if there are not as many of both; [`MpcError::Padding`].
    pub(crate) async fn and(&self, x: &Bits, y: &Bits) -> Result<Bits, MpcError> {
        same(x.width(), y.width())?;
        same(x.rows(), y.rows())?;
        let blind = self.bits_for(Use::ZeroBits, x.width(), x.rows());
        let operands = x.pairs().zip(y.pairs());
        let products = operands
            .map(|((x_own, x_next), (y_own, y_next))| x_own & (y_own ^ y_next) ^ x_next & y_own);
        let own = products.zip(blind.pairs());
        let blinded = own.map(|(product, (own, next))| product ^ own ^ next);
        let own: Vec<u64> = blinded.collect();
        #[cfg(test)]
        let own = self.bend_bits(own);
        let to_previous = to_bytes(x.width(), &own);
        let from_next = self.pass_back(to_previous).await?;
        let next = from_bytes(x.width(), &from_next).map_err(|error| self.end(error))?;
        let z = Bits::new(x.width(), own, next);
        // guard: ands-are-verified
        self.ledger.add_and(x, y, &z);
        Ok(z)
    }

    /// Shows bits to all three servers, row by row. They must be masked. One round.
    ///
    /// # Errors
    /// [`MpcError::Padding`].
    pub(crate) async fn open_bits(&self, x: &Bits) -> Result<Vec<u64>, MpcError> {
        let to_next = to_bytes(x.width(), &x.own);
        let from_previous = self.pass_on(to_next).await?;
        let missing = from_bytes(x.width(), &from_previous).map_err(|error| self.end(error))?;
        let known = x.pairs().zip(missing);
        let value = |((own, next), missing)| own ^ next ^ missing;
        let opened: Vec<u64> = known.map(value).collect();
        self.see(&opened);
        Ok(opened)
    }

    /// The bit that is carried out of a sum, from the bits that make a carry (`g`) and those that pass one on (`p`), lowest
    /// first: one row. ⌈log2 rows⌉ rounds.
    pub(crate) async fn carry(&self, mut g: Bits, mut p: Bits) -> Result<Bits, MpcError> {
        while g.rows() > 1 {
            let (pairs, odd) = (g.rows() / 2, g.rows() % 2 == 1);
            let lower = || (0..pairs).map(|pair| 2 * pair);
            let upper = || (0..pairs).map(|pair| 2 * pair + 1);
            let passes = p.select(upper());
            let left = Bits::stack(&[&passes, &passes])?;
            let right = Bits::stack(&[&g.select(lower()), &p.select(lower())])?;
            let both = self.and(&left, &right).await?;
            let mut made = g.select(upper()).xor(&both.select(0..pairs));
            let mut passed = both.select(pairs..2 * pairs);
            if odd {
                let last = g.rows() - 1..g.rows();
                made = Bits::stack(&[&made, &g.select(last.clone())])?;
                passed = Bits::stack(&[&passed, &p.select(last)])?;
            }
            (g, p) = (made, passed);
        }
        Ok(g)
    }

    /// The `bits` lowest bits of the three components as two numbers whose sum is the value: a full adder for each
    /// bit. One round; an AND for each bit.
    async fn two_numbers(&self, x: &Shares<R>, bits: usize) -> Result<(Bits, Bits), MpcError> {
        let all = Bits::of_components(x, bits);
        let of = |keep: fn(u8) -> bool| {
            all.only([keep(self.me.number()), keep(self.me.next().number())])
        };
        // The bit that two or three of the components have.
        let both = self.and(&of(|it| it != 1), &of(|it| it != 0)).await?;
        let most = both.xor(&of(|it| it == 2));
        // What is carried counts for the next bit.
        let carried = Bits::stack(&[&Bits::zeros(x.len(), 1), &most.select(0..bits - 1)])?;
        Ok((all, carried))
    }

    /// The sign of each value, one row of bits: the highest of its `bits` lowest bits, set if it is negative. Values
    /// must be from −2^(bits−1) to 2^(bits−1) − 1. 2 + ⌈log2(bits − 1)⌉ rounds: 8 for 64 bits; about 4 ANDs for each
    /// bit.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless `bits` is from 2 to 64.
    pub async fn sign(&self, x: &Shares<R>, bits: usize) -> Result<Bits, MpcError> {
        checked(bits)?;
        let (a, b) = self.two_numbers(x, bits).await?;
        let passed = a.xor(&b);
        let made = self
            .and(&a.select(0..bits - 1), &b.select(0..bits - 1))
            .await?;
        let carried = self.carry(made, passed.select(0..bits - 1)).await?;
        Ok(passed.select(bits - 1..bits).xor(&carried))
    }

    /// The `bits` lowest bits of each value, lowest first: a row for each. 2 + ⌈log2 bits⌉ rounds.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless `bits` is from 2 to 64.
    pub async fn to_bits(&self, x: &Shares<R>, bits: usize) -> Result<Bits, MpcError> {
        checked(bits)?;
        let (a, b) = self.two_numbers(x, bits).await?;
        let passes = a.xor(&b);
        let (mut g, mut p) = (self.and(&a, &b).await?, passes.clone());
        let mut distance = 1;
        // After each level a row knows of twice as many rows below (Kogge and Stone 1973).
        while distance < bits {
            let upper = p.select(distance..bits);
            let left = Bits::stack(&[&upper, &upper])?;
            let below = 0..bits - distance;
            let right = Bits::stack(&[&g.select(below.clone()), &p.select(below.clone())])?;
            let both = self.and(&left, &right).await?;
            let made = g.select(distance..bits).xor(&both.select(below.clone()));
            let passed = both.select(below.end..2 * below.end);
            g = Bits::stack(&[&g.select(0..distance), &made])?;
            p = Bits::stack(&[&p.select(0..distance), &passed])?;
            distance *= 2;
        }
        let carried = Bits::stack(&[&Bits::zeros(x.len(), 1), &g.select(0..bits - 1)])?;
        Ok(passes.xor(&carried))
    }

    /// For each number the highest bit that is set, and no other; none where the number is 0. ⌈log2 rows⌉ rounds.
    pub(crate) async fn highest(&self, x: &Bits) -> Result<Bits, MpcError> {
        let rows = x.rows();
        // From the highest row down; after each level a row knows whether any of twice as many rows above is set.
        let mut any = x.select((0..rows).rev());
        let mut distance = 1;
        while distance < rows {
            let (here, above) = (any.select(distance..rows), any.select(0..rows - distance));
            let both = self.and(&here, &above).await?;
            let or = here.xor(&above).xor(&both);
            any = Bits::stack(&[&any.select(0..distance), &or])?;
            distance *= 2;
        }
        let before = Bits::stack(&[
            &Bits::zeros(x.width(), 1),
            &any.select(0..rows.saturating_sub(1)),
        ])?;
        Ok(any.xor(&before).select((0..rows).rev()))
    }
}

fn checked(bits: usize) -> Result<(), MpcError> {
    match bits {
        2..=64 => Ok(()),
        _ => Err(MpcError::Range {
            name: "bits",
            value: bits as u64,
            rule: "2 <= bits <= 64",
        }),
    }
}

/// Rows on the wire: each begins with a byte of its own.
pub(crate) fn to_bytes(width: usize, rows: &[u64]) -> Vec<u8> {
    let length = width.div_ceil(8);
    let row = |row: &[u64]| {
        let bytes = row.iter().flat_map(|word| word.to_le_bytes());
        bytes.take(length).collect::<Vec<u8>>()
    };
    rows.chunks(width.div_ceil(64).max(1))
        .flat_map(row)
        .collect()
}

pub(crate) fn from_bytes(width: usize, bytes: &[u8]) -> Result<Vec<u64>, MpcError> {
    let ones = ones(width);
    let mut words = Vec::new();
    for row in bytes.chunks(width.div_ceil(8).max(1)) {
        for (bytes, ones) in row.chunks(8).zip(&ones) {
            let mut word = [0; 8];
            for (to, byte) in word.iter_mut().zip(bytes) {
                *to = *byte;
            }
            let word = u64::from_le_bytes(word);
            if word & !ones != 0 {
                return Err(MpcError::Padding);
            }
            words.push(word);
        }
    }
    Ok(words)
}
