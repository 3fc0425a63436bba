//! The factors of the remainder tree, which depend on public sizes only.

use super::Backend;
use super::lanes::Factor;
use crate::MathError;
use crate::field::batch_invert;
use crate::prime_field::NttField;

/// The factors √c of a complete remainder tree for X^N − shift^N, or their inverses.
pub(super) struct Tree {
    log_size: u32,
    /// In heap order: node v has the children 2v and 2v + 1; entry 0 is not used.
    factors: Vec<Factor>,
}

impl Tree {
    /// The tree whose leaves are shift · ω^bitrev(j), N = 2^⌈log2 `points`⌉ of them.
    pub(super) fn new<F: NttField>(
        shift: F,
        points: usize,
        backend: Backend,
    ) -> Result<Self, MathError> {
        let log_size = points.next_power_of_two().ilog2();
        let factors = node_factors(shift, log_size)?;
        Ok(Self {
            log_size,
            factors: factors.iter().map(|&w| backend.factor(w)).collect(),
        })
    }

    /// The inverse factors of the tree for X^N − 1.
    pub(super) fn inverse<F: NttField>(points: usize, backend: Backend) -> Result<Self, MathError> {
        let log_size = points.next_power_of_two().ilog2();
        let mut factors = node_factors(F::ONE, log_size)?;
        batch_invert(&mut factors)?;
        Ok(Self {
            log_size,
            factors: factors.iter().map(|&w| backend.factor(w)).collect(),
        })
    }

    /// The number N of leaves.
    pub(super) fn size(&self) -> usize {
        1 << self.log_size
    }

    /// The factor of heap node `node`.
    #[inline(always)]
    pub(super) fn factor(&self, node: usize) -> &Factor {
        &self.factors[node]
    }
}

/// The roots of unity of order 2, 4, .., 2^⌈log2 `points`⌉.
pub(super) fn roots_up_to<F: NttField>(points: usize) -> Result<Vec<F>, MathError> {
    (1..=points.next_power_of_two().ilog2())
        .map(F::root_of_unity)
        .collect()
}

/// ω^bitrev(index) for the largest of the roots, and for any larger one as well: bit b of the index has the weight
/// 1/2^(b + 1) of a full turn.
///
/// # Panics
/// If the index has more bits than there are roots.
pub(super) fn leaf<F: NttField>(roots: &[F], index: usize) -> F {
    let bits = usize::BITS - index.leading_zeros();
    (0..bits as usize)
        .filter(|bit| index >> bit & 1 == 1)
        .fold(F::ONE, |product, bit| product * roots[bit])
}

/// The factors of all inner nodes in heap order, behind an entry 1 that is not used.
///
/// Node number i of those of size m has the factor shift^(m/2) · √(ω^bitrev(i)).
fn node_factors<F: NttField>(shift: F, log_size: u32) -> Result<Vec<F>, MathError> {
    let mut square_roots = vec![F::ONE];
    for bit in 2..=log_size {
        let root = F::root_of_unity(bit)?;
        let more: Vec<F> = square_roots.iter().map(|&w| w * root).collect();
        square_roots.extend(more);
    }
    F::root_of_unity(log_size)?;
    let mut factors = vec![F::ONE; 1 << log_size];
    for level in 0..log_size {
        let scale = shift.power(1 << (log_size - level - 1));
        let nodes = &mut factors[1 << level..2 << level];
        for (factor, &square_root) in nodes.iter_mut().zip(&square_roots) {
            *factor = scale * square_root;
        }
    }
    Ok(factors)
}

/// A subtree: the rows that it covers and its place in the heap.
#[derive(Clone, Copy)]
pub(super) struct Subtree {
    /// Its first row.
    pub(super) start: usize,
    /// Its number of rows.
    pub(super) size: usize,
    /// The heap node at its root.
    pub(super) node: usize,
}

impl Subtree {
    pub(super) fn left(self) -> Self {
        Self {
            start: self.start,
            size: self.size / 2,
            node: 2 * self.node,
        }
    }

    fn right(self) -> Self {
        Self {
            start: self.start + self.size / 2,
            size: self.size / 2,
            node: 2 * self.node + 1,
        }
    }
}

/// A node on the way to the first missing value, at which some values of the one child are known.
pub(super) struct Step {
    /// The node with all below it.
    pub(super) subtree: Subtree,
    /// How many of its values are known: at least one, not all.
    pub(super) known: usize,
    /// The node's factor w.
    pub(super) factor: Factor,
    /// 2w.
    pub(super) twice: Factor,
    /// 1/(2w).
    pub(super) half_inverse: Factor,
}

/// The way that the truncated inverse takes: from the root to the first missing value.
pub(super) struct Spine {
    /// The nodes on the way, the root first.
    pub(super) steps: Vec<Step>,
    /// The subtree where it ends, if that has all its values; otherwise it has none.
    pub(super) end: Option<Subtree>,
    /// 1/2^a for a = 0, 1, .., which undoes the doublings of a levels.
    pub(super) halvings: Vec<Factor>,
}

impl Spine {
    /// The way in the tree for X^N − 1, N = 2^⌈log2 `values`⌉, if the first `values` values are known.
    pub(super) fn new<F: NttField>(values: usize, backend: Backend) -> Result<Self, MathError> {
        let size = values.next_power_of_two();
        let factors = node_factors(F::ONE, size.ilog2())?;
        let half = (F::ONE + F::ONE).inverse();
        let halvings = (0..=size.ilog2()).map(|a| backend.factor(half.power(u64::from(a))));
        let mut spine = Self {
            steps: Vec::new(),
            end: None,
            halvings: halvings.collect(),
        };
        let mut subtree = Subtree {
            start: 0,
            size,
            node: 1,
        };
        let mut known = values;
        while known > 0 && known < subtree.size {
            let factor = factors[subtree.node];
            spine.steps.push(Step {
                subtree,
                known,
                factor: backend.factor(factor),
                twice: backend.factor(factor + factor),
                half_inverse: backend.factor(half * factor.inverse()),
            });
            subtree = if known < subtree.size / 2 {
                subtree.left()
            } else {
                known -= subtree.size / 2;
                subtree.right()
            };
        }
        spine.end = (known > 0).then_some(subtree);
        Ok(spine)
    }
}
