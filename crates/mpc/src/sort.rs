//! Hidden numbers in the order of their bits, without anybody knowing the order.

use crate::{Bits, Mpc, MpcError, Ring};

impl<R: Ring> Mpc<R> {
    /// Whether a < b, column by column: one row. 1 + ⌈log2 rows⌉ rounds.
    pub(crate) async fn is_less(&self, a: &Bits, b: &Bits) -> Result<Bits, MpcError> {
        let differ = a.xor(b);
        let less_here = self.and(&a.not(self.me), b).await?;
        self.carry(less_here, differ.not(self.me)).await
    }

    /// Both numbers, the smaller one first, column by column. 2 + ⌈log2 rows⌉ rounds.
    pub(crate) async fn ordered(&self, a: &Bits, b: &Bits) -> Result<(Bits, Bits), MpcError> {
        let is_less = self.is_less(a, b).await?;
        let all = is_less.select(std::iter::repeat_n(0, a.rows()));
        let swap = self.and(&all, &a.xor(b)).await?;
        Ok((b.xor(&swap), a.xor(&swap)))
    }
}

/// Pairs to put in order, layer by layer.
pub(crate) type Layers = Vec<Vec<(usize, usize)>>;

/// Batcher's odd-even merge sort (1968) for any number of values: pairs to put in order, layer by layer.
pub(crate) fn network(n: usize) -> Layers {
    let mut layers = Vec::new();
    let mut sorted = 1;
    while sorted < n {
        let mut step = sorted;
        while step > 0 {
            let mut layer = Vec::new();
            for block in (step % sorted..n.saturating_sub(step)).step_by(2 * step) {
                for first in block..(block + step).min(n - step) {
                    let second = first + step;
                    if first / (2 * sorted) == second / (2 * sorted) {
                        layer.push((first, second));
                    }
                }
            }
            layers.push(layer);
            step /= 2;
        }
        sorted *= 2;
    }
    layers
}

/// What a network needs of itself for the number at one place.
pub(crate) fn network_for(n: usize, place: usize) -> Layers {
    let mut needed = vec![false; n];
    needed[place] = true;
    let mut layers = network(n);
    for layer in layers.iter_mut().rev() {
        layer.retain(|(a, b)| {
            let is_needed = needed[*a] || needed[*b];
            (needed[*a], needed[*b]) = (needed[*a] || is_needed, needed[*b] || is_needed);
            is_needed
        });
    }
    layers.retain(|layer| !layer.is_empty());
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network that sorts all rows of zeros and ones sorts everything.
    #[test]
    fn the_network_sorts() {
        for n in 1..=11 {
            for row in 0..1u32 << n {
                let mut values: Vec<u32> = (0..n).map(|place| row >> place & 1).collect();
                for (a, b) in network(n).into_iter().flatten() {
                    if values[a] > values[b] {
                        values.swap(a, b);
                    }
                }
                assert!(values.is_sorted(), "{n} values, {row:b}");
                for place in 0..n {
                    let mut some: Vec<u32> = (0..n).map(|place| row >> place & 1).collect();
                    for (a, b) in network_for(n, place).into_iter().flatten() {
                        if some[a] > some[b] {
                            some.swap(a, b);
                        }
                    }
                    assert_eq!(some[place], values[place], "{n} values, {row:b}, {place}");
                }
            }
        }
    }
}
