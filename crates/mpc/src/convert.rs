//! From bits to numbers.

use crate::stock::DoubleBits;
use crate::{Bits, Mpc, MpcError, Ring, Shares, join_all};

impl<R: Ring> Mpc<R> {
    /// Makes double bits ahead, in these shapes: numbers side by side, and bits of each. Two rounds, and as many less in
    /// whatever takes them then.
    pub(crate) async fn make_ahead(
        &self,
        shapes: impl IntoIterator<Item = (usize, usize)>,
    ) -> Result<(), MpcError> {
        let mut shapes: Vec<(usize, usize)> = shapes.into_iter().collect();
        if self.is_exact {
            // Each truncation turns a bit into a number.
            let masks = shapes.iter().filter(|(_, bits)| *bits == 64);
            let bits: Vec<_> = masks.map(|(count, _)| (*count, 1)).collect();
            shapes.extend(bits);
        }
        let made = join_all(
            shapes
                .iter()
                .map(|shape| self.make_double_bits(shape.0, shape.1)),
        );
        let made = made.await?;
        for (shape, bits) in shapes.into_iter().zip(made) {
            self.stock.put(shape, bits);
        }
        Ok(())
    }

    /// Random bits in both kinds of shares, made ahead or now.
    pub(crate) async fn double_bits(
        &self,
        width: usize,
        rows: usize,
    ) -> Result<DoubleBits<R>, MpcError> {
        match self.stock.take((width, rows)) {
            Some(bits) => Ok(bits),
            None => self.make_double_bits(width, rows).await,
        }
    }

    /// Two rounds; two elements for each bit. They depend on nothing, so they can be made before anything is known.
    async fn make_double_bits(&self, width: usize, rows: usize) -> Result<DoubleBits<R>, MpcError> {
        let bits = self.random_bits(width, rows);
        let component = |number: u8| {
            let part = |words: &[u64], here: bool| match here {
                true => numbers(width, words),
                false => vec![R::ZERO; width * rows],
            };
            let own = part(&bits.own, self.me.number() == number);
            Shares::of(own, part(&bits.next, self.me.next().number() == number))
        };
        let first = self.either(&component(0), &component(1)).await?;
        let numbers = self.either(&first, &component(2)).await?;
        Ok(DoubleBits { numbers, bits })
    }

    /// u XOR v for numbers 0 and 1: u + v − 2uv. One round.
    async fn either(&self, u: &Shares<R>, v: &Shares<R>) -> Result<Shares<R>, MpcError> {
        let both = self.multiply(u, v).await?.times(R::of(2));
        u.plus(v)?.minus(&both)
    }

    /// Bits as numbers 0 and 1: all of the first row, then all of the second, and so on. One round, and two more if no
    /// random bits were made ahead of time.
    pub async fn to_numbers(&self, x: &Bits) -> Result<Shares<R>, MpcError> {
        let masks = self.double_bits(x.width(), x.rows()).await?;
        let opened = self.open_bits(&x.xor(&masks.bits)).await?;
        // Where 0 was opened, the bit is that of the mask; where 1, the other one.
        let opened = numbers::<R>(x.width(), &opened);
        let flipped = |masks: &[R], here: bool| {
            let bits = masks.iter().zip(&opened);
            let flip = |(mask, opened): (&R, &R)| {
                let public = if here { *opened } else { R::ZERO };
                public.plus(mask.minus(opened.times(*mask).times(R::of(2))))
            };
            bits.map(flip).collect()
        };
        let own = flipped(&masks.numbers.own, self.me.number() == 0);
        let next = flipped(&masks.numbers.next, self.me.number() == 2);
        Ok(Shares::of(own, next))
    }
}

/// Rows of bits as numbers 0 and 1.
fn numbers<R: Ring>(width: usize, rows: &[u64]) -> Vec<R> {
    let row = |row: &[u64]| {
        let bit = |place: usize| R::of(row[place / 64] >> (place % 64) & 1);
        (0..width).map(bit).collect::<Vec<R>>()
    };
    rows.chunks(width.div_ceil(64).max(1))
        .flat_map(row)
        .collect()
}
