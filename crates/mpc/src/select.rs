//! Ranks of a few numbers among each other, and the smallest of them.

use crate::bits::ones;
use crate::sort::network_for;
use crate::{Bits, Mpc, MpcError, Ring, ServerIndex, Shares, join_all};

/// Bits in which ranks are compared; there are at most 2^(bits − 1) numbers in a group.
const RANK_BITS: usize = 9;

/// Groups above this size are sorted where that is cheaper.
const LARGE: usize = 32;

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

    /// 1 for the `keep` smallest numbers of each group of `size`, 0 for the others; of equal ones the first are smaller.
    /// Many large groups are sorted where servers verify: that takes half of the ANDs, at 8 bytes each, and a few rounds
    /// for each layer of a sorting network.
    ///
    /// # Errors
    /// As [`Mpc::ranks`].
    pub async fn smallest(
        &self,
        values: &Shares<R>,
        size: usize,
        keep: usize,
    ) -> Result<Shares<R>, MpcError> {
        if self.sorts(values.len().checked_div(size).unwrap_or(0), size) {
            return self.smallest_sorted(values, size, keep.min(size)).await;
        }
        let ranks = self.ranks(values, size).await?;
        let below = ranks.plus_public(self.me, R::of_signed(-(keep.min(size) as i64)));
        self.to_numbers(&self.sign(&below, RANK_BITS + 1).await?)
            .await
    }

    /// Whether groups are sorted.
    fn sorts(&self, groups: usize, size: usize) -> bool {
        self.ledger.is_kept() && groups > 1 && size > LARGE
    }

    /// The last number that is kept is found by a sorting network, and all are compared with it.
    async fn smallest_sorted(
        &self,
        values: &Shares<R>,
        size: usize,
        keep: usize,
    ) -> Result<Shares<R>, MpcError> {
        let groups = values.len() / size;
        if keep == 0 || !values.len().is_multiple_of(size) {
            return Ok(Shares::zeros(values.len()));
        }
        let places = (0..size).flat_map(|place| (0..groups).map(move |group| group * size + place));
        let places: Vec<usize> = places.collect();
        let above_zero = values.plus_public(self.me, R::of(1 << 62));
        let bits = self.to_bits(&above_zero.at(places.clone()), 63).await?;
        let numbers = numbered(self.me, &bits.in_rows(groups), size)?;
        let mut sorted = numbers.clone();
        for layer in network_for(size, keep - 1) {
            let pairs = layer
                .iter()
                .map(|(a, b)| self.ordered(&sorted[*a], &sorted[*b]));
            let pairs = join_all(pairs).await?;
            for ((a, b), (less, more)) in layer.into_iter().zip(pairs) {
                (sorted[a], sorted[b]) = (less, more);
            }
        }
        let last = &sorted[keep - 1];
        let behind = join_all(numbers.iter().map(|number| self.is_less(last, number))).await?;
        let behind = Bits::stack(&behind.iter().collect::<Vec<_>>())?;
        let kept = self.to_numbers(&behind.not(self.me)).await?;
        // Back in the order of groups.
        let place = |at: usize| (at % size) * groups + at / size;
        Ok(kept.at((0..values.len()).map(place)))
    }

    /// The random bits that [`Mpc::smallest`] takes for so many groups.
    pub(crate) fn bits_of_smallest(&self, groups: usize, size: usize) -> Vec<(usize, usize)> {
        match self.sorts(groups, size) {
            true => vec![(groups, size)],
            false => vec![
                (groups * size * size.saturating_sub(1) / 2, 1),
                (groups * size, 1),
            ],
        }
    }
}

/// The numbers at each place of all groups, and below their bits those of the place: no two in a group are equal.
fn numbered(me: ServerIndex, bits: &Bits, size: usize) -> Result<Vec<Bits>, MpcError> {
    let rows = bits.rows() / size;
    let ones = ones(bits.width());
    let number = |place: usize| {
        let of_place = bits.select((0..rows).map(|row| row * size + place));
        let index_bits = 0..size.next_power_of_two().ilog2();
        let index: Vec<u64> = index_bits
            .clone()
            .flat_map(|bit| {
                ones.iter()
                    .map(move |ones| if place >> bit & 1 == 1 { *ones } else { 0 })
            })
            .collect();
        let index = Bits::zeros(bits.width(), index_bits.len()).xor_public(me, &index);
        Bits::stack(&[&index, &of_place])
    };
    (0..size).map(number).collect()
}
