//! Ranks of a few numbers among each other, and the smallest of them.

use crate::{Mpc, MpcError, Ring, Shares};

/// Bits in which ranks are compared; there are at most 2^(bits − 1) numbers in a group.
const RANK_BITS: usize = 9;

impl<R: Ring> Mpc<R> {
    /// The rank of each number in its group of `size`: how many numbers of the group are smaller, or equal and before
    /// it. All pairs are compared at once: 9 rounds, and size · (size − 1) / 2 comparisons for each group. Numbers must
    /// be from −2^62 to 2^62 − 1.
    ///
    /// # Errors
    /// [`MpcError::Range`] unless `size` is from 1 to 256; [`MpcError::Shape`].
    pub async fn ranks(&self, values: &Shares<R>, size: usize) -> Result<Shares<R>, MpcError> {
        if !(1..=1 << (RANK_BITS - 1)).contains(&size) {
            return Err(MpcError::Range {
                name: "size",
                value: size as u64,
                rule: "1 <= size <= 256",
            });
        }
        if !values.len().is_multiple_of(size) {
            let rule = "a multiple of the size of a group, which is the second number,";
            let (left, right) = (values.len(), size);
            return Err(MpcError::Shape { left, right, rule });
        }
        let groups = values.len() / size;
        let pairs: Vec<(usize, usize)> = (0..size)
            .flat_map(|first| (first + 1..size).map(move |second| (first, second)))
            .collect();
        let places = |pick: fn(&(usize, usize)) -> usize| -> Vec<usize> {
            let of_group = |group: usize| pairs.iter().map(move |pair| group * size + pick(pair));
            (0..groups).flat_map(of_group).collect()
        };
        let (first, second) = (
            values.at(places(|pair| pair.0)),
            values.at(places(|pair| pair.1)),
        );
        // 1 where the second one is smaller.
        let smaller = self
            .to_numbers(&self.sign(&second.minus(&first)?, 64).await?)
            .await?;
        let counted = smaller.linear(|smaller| {
            let mut ranks = vec![R::ZERO; groups * size];
            for (group, smaller) in smaller.chunks(pairs.len().max(1)).enumerate() {
                for ((first, second), smaller) in pairs.iter().zip(smaller) {
                    let (first, second) = (group * size + first, group * size + second);
                    ranks[first] = ranks[first].plus(*smaller);
                    ranks[second] = ranks[second].minus(*smaller);
                }
            }
            ranks
        });
        // Of the pairs in which a number is the second one, all count for it unless it is smaller.
        let before: Vec<R> = (0..groups * size)
            .map(|place| R::of((place % size) as u64))
            .collect();
        counted.plus(&Shares::public(self.me, &before))
    }

    /// 1 for the `keep` smallest numbers of each group of `size`, 0 for the others. Of equal numbers the first count as
    /// smaller.
    ///
    /// # Errors
    /// As [`Mpc::ranks`].
    pub async fn smallest(
        &self,
        values: &Shares<R>,
        size: usize,
        keep: usize,
    ) -> Result<Shares<R>, MpcError> {
        let ranks = self.ranks(values, size).await?;
        let below = ranks.plus_public(self.me, R::of_signed(-(keep.min(size) as i64)));
        self.to_numbers(&self.sign(&below, RANK_BITS + 1).await?)
            .await
    }
}

/// The random bits that [`Mpc::smallest`] takes for so many groups.
pub(crate) fn bits_of_smallest(groups: usize, size: usize) -> [(usize, usize); 2] {
    [
        (groups * size * size.saturating_sub(1) / 2, 1),
        (groups * size, 1),
    ]
}
