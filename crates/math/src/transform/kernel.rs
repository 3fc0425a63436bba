//! The walks through the remainder tree, over the arithmetic of any backend.
//!
//! The evaluation is a number of walks down subtrees of the size M = 2^⌈log2 k⌉, one level in the first pass
//! over the rows if log2 M is odd, two levels in each other pass. The first pass leaves out the coefficients that are
//! not there; the last one makes the values canonical.

use super::Row;
use super::lanes::{Job, Lanes};
use super::tree::{Spine, Step, Subtree, Tree};

/// See [`CosetTransform::evaluate`](super::CosetTransform::evaluate).
pub(super) struct Evaluate<'a> {
    pub(super) tree: &'a Tree,
    pub(super) coefficients: usize,
    pub(super) points: usize,
    pub(super) rows: &'a mut [Row],
}

impl Job for Evaluate<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let size = self.coefficients.next_power_of_two();
        let nodes = self.tree.size() / size;
        // The first subtree last, as its rows hold the coefficients.
        let mut number = self.points.div_ceil(size) - 1;
        while number > 0 {
            let (first, rest) = self.rows.split_at_mut(size * number);
            let coefficients = &first[..self.coefficients];
            let rows = &mut rest[..size];
            let wanted = (self.points - size * number).min(size);
            first_pass::<L, false>(
                lanes,
                self.tree,
                nodes + number,
                coefficients,
                self.coefficients,
                rows,
            );
            later_passes(lanes, self.tree, nodes + number, rows, wanted);
            number -= 1;
        }
        let rows = &mut self.rows[..size];
        first_pass::<L, true>(lanes, self.tree, nodes, &[], self.coefficients, rows);
        later_passes(lanes, self.tree, nodes, rows, self.points.min(size));
    }
}

/// The first one or two levels below `node`: from `count` coefficients to partial residues, or to canonical values if
/// there are no more levels. The coefficients come from `rows` itself if `IN_PLACE`, otherwise from `source`.
#[inline(always)]
fn first_pass<L: Lanes, const IN_PLACE: bool>(
    lanes: L,
    tree: &Tree,
    node: usize,
    source: &[Row],
    count: usize,
    rows: &mut [Row],
) {
    let log_size = rows.len().ilog2();
    match log_size {
        0 => {
            if !IN_PLACE {
                rows[0] = source[0];
            }
        }
        1 => one_level::<L, IN_PLACE, true>(lanes, tree, node, source, count, rows),
        2 => two_levels::<L, IN_PLACE, true>(lanes, tree, node, source, count, rows),
        _ if log_size % 2 == 1 => {
            one_level::<L, IN_PLACE, false>(lanes, tree, node, source, count, rows)
        }
        _ => two_levels::<L, IN_PLACE, false>(lanes, tree, node, source, count, rows),
    }
}

/// Writes what leaves a pass: values if it is the last one.
#[inline(always)]
fn put<L: Lanes, const LAST: bool>(lanes: L, vector: L::Vector, row: &mut Row) {
    if LAST {
        lanes.store(vector, row);
    } else {
        lanes.store_partial(vector, row);
    }
}

/// Coefficient `i` of the first pass.
#[inline(always)]
fn coefficient<L: Lanes, const IN_PLACE: bool>(
    lanes: L,
    source: &[Row],
    rows: &[Row],
    i: usize,
) -> L::Vector {
    lanes.load(if IN_PLACE { &rows[i] } else { &source[i] })
}

/// The level below `node`, of more than half the coefficients.
#[inline(always)]
fn one_level<L: Lanes, const IN_PLACE: bool, const LAST: bool>(
    lanes: L,
    tree: &Tree,
    node: usize,
    source: &[Row],
    count: usize,
    rows: &mut [Row],
) {
    let half = rows.len() / 2;
    let w = lanes.broadcast(tree.factor(node));
    for i in 0..half {
        let mut a = coefficient::<L, IN_PLACE>(lanes, source, rows, i);
        let mut b = a;
        if half + i < count {
            b = coefficient::<L, IN_PLACE>(lanes, source, rows, half + i);
            (a, b) = lanes.down(a, b, w);
        }
        put::<L, LAST>(lanes, a, &mut rows[i]);
        put::<L, LAST>(lanes, b, &mut rows[half + i]);
    }
}

/// The factors of a node and its two children.
#[inline(always)]
fn factors<L: Lanes>(lanes: L, tree: &Tree, node: usize) -> [L::Broadcast; 3] {
    [
        lanes.broadcast(tree.factor(node)),
        lanes.broadcast(tree.factor(2 * node)),
        lanes.broadcast(tree.factor(2 * node + 1)),
    ]
}

/// The two levels below `node`, of more than half the coefficients.
#[inline(always)]
fn two_levels<L: Lanes, const IN_PLACE: bool, const LAST: bool>(
    lanes: L,
    tree: &Tree,
    node: usize,
    source: &[Row],
    count: usize,
    rows: &mut [Row],
) {
    let quarter = rows.len() / 4;
    let w = factors(lanes, tree, node);
    for i in 0..quarter {
        let mut a = coefficient::<L, IN_PLACE>(lanes, source, rows, i);
        let mut b = coefficient::<L, IN_PLACE>(lanes, source, rows, quarter + i);
        let (mut c, mut d) = (a, b);
        if 2 * quarter + i < count {
            c = coefficient::<L, IN_PLACE>(lanes, source, rows, 2 * quarter + i);
            (a, c) = lanes.down(a, c, w[0]);
        }
        if 3 * quarter + i < count {
            d = coefficient::<L, IN_PLACE>(lanes, source, rows, 3 * quarter + i);
            (b, d) = lanes.down(b, d, w[0]);
        }
        (a, b) = lanes.down(a, b, w[1]);
        (c, d) = lanes.down(c, d, w[2]);
        put::<L, LAST>(lanes, a, &mut rows[i]);
        put::<L, LAST>(lanes, b, &mut rows[quarter + i]);
        put::<L, LAST>(lanes, c, &mut rows[2 * quarter + i]);
        put::<L, LAST>(lanes, d, &mut rows[3 * quarter + i]);
    }
}

/// The remaining levels below `node`, two in a pass, for the first `wanted` values.
#[inline(always)]
fn later_passes<L: Lanes>(lanes: L, tree: &Tree, node: usize, rows: &mut [Row], wanted: usize) {
    let log_size = rows.len().ilog2();
    if log_size < 3 {
        return;
    }
    let mut log_nodes = 2 - log_size % 2;
    while log_nodes + 2 < log_size {
        let size = rows.len() >> log_nodes;
        let first = node << log_nodes;
        for (i, rows) in rows
            .chunks_exact_mut(size)
            .take(wanted.div_ceil(size))
            .enumerate()
        {
            middle_levels(lanes, factors(lanes, tree, first + i), rows);
        }
        log_nodes += 2;
    }
    let first = node << log_nodes;
    let (quadruples, _) = rows.as_chunks_mut::<4>();
    for (i, rows) in quadruples.iter_mut().take(wanted.div_ceil(4)).enumerate() {
        last_levels(lanes, factors(lanes, tree, first + i), rows);
    }
}

/// Two levels that are neither the first nor the last ones.
#[inline(always)]
fn middle_levels<L: Lanes>(lanes: L, w: [L::Broadcast; 3], rows: &mut [Row]) {
    let (left, right) = rows.split_at_mut(rows.len() / 2);
    let (a, b) = left.split_at_mut(left.len() / 2);
    let (c, d) = right.split_at_mut(right.len() / 2);
    for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
        let quadruple = quadruple(lanes, w, [&*a, &*b, &*c, &*d]);
        lanes.store_partial(quadruple[0], a);
        lanes.store_partial(quadruple[1], b);
        lanes.store_partial(quadruple[2], c);
        lanes.store_partial(quadruple[3], d);
    }
}

/// The last two levels.
#[inline(always)]
fn last_levels<L: Lanes>(lanes: L, w: [L::Broadcast; 3], rows: &mut [Row; 4]) {
    let [a, b, c, d] = rows;
    let quadruple = quadruple(lanes, w, [&*a, &*b, &*c, &*d]);
    lanes.store(quadruple[0], a);
    lanes.store(quadruple[1], b);
    lanes.store(quadruple[2], c);
    lanes.store(quadruple[3], d);
}

/// Two steps down for four residues.
#[inline(always)]
fn quadruple<L: Lanes>(lanes: L, w: [L::Broadcast; 3], rows: [&Row; 4]) -> [L::Vector; 4] {
    let a = lanes.load_partial(rows[0]);
    let b = lanes.load_partial(rows[1]);
    let c = lanes.load_partial(rows[2]);
    let d = lanes.load_partial(rows[3]);
    let (a, c) = lanes.down(a, c, w[0]);
    let (b, d) = lanes.down(b, d, w[0]);
    let (a, b) = lanes.down(a, b, w[1]);
    let (c, d) = lanes.down(c, d, w[2]);
    [a, b, c, d]
}

/// See [`Interpolation::interpolate`](super::Interpolation::interpolate).
pub(super) struct Interpolate<'a> {
    /// The inverse factors.
    pub(super) tree: &'a Tree,
    pub(super) spine: &'a Spine,
    pub(super) rows: &'a mut [Row],
}

impl Job for Interpolate<'_> {
    /// Every node on the spine gets the polynomial at its complete child first, which gives what the incomplete child's
    /// polynomial has where it is known; then, from the end of the spine up, the rest.
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        for step in &self.spine.steps {
            if step.known >= step.subtree.size / 2 {
                climb(lanes, self.tree, self.spine, step.subtree.left(), self.rows);
            }
            descend(lanes, step, self.rows);
        }
        if let Some(end) = self.spine.end {
            climb(lanes, self.tree, self.spine, end, self.rows);
        }
        for step in self.spine.steps.iter().rev() {
            ascend(lanes, self.spine, step, self.rows);
        }
    }
}

/// From all values of a subtree to the polynomial at its root: one level in the first pass over the rows if the number of
/// levels is odd, two levels in each other pass. The last one undoes the doublings of all.
#[inline(always)]
fn climb<L: Lanes>(lanes: L, tree: &Tree, spine: &Spine, subtree: Subtree, rows: &mut [Row]) {
    let rows = &mut rows[subtree.start..][..subtree.size];
    let levels = subtree.size.ilog2();
    let halving = lanes.broadcast(&spine.halvings[levels as usize]);
    let mut log_size = 2 - levels % 2;
    let lowest = subtree.node << (levels.max(log_size) - log_size);
    match levels {
        0 => {}
        1 => up_one::<L, true>(lanes, tree, lowest, halving, rows),
        2 => up_two::<L, true>(lanes, tree, lowest, halving, rows),
        _ if log_size == 1 => up_one::<L, false>(lanes, tree, lowest, halving, rows),
        _ => up_two::<L, false>(lanes, tree, lowest, halving, rows),
    }
    while log_size + 2 < levels {
        log_size += 2;
        let first = subtree.node << (levels - log_size);
        for (i, rows) in rows.chunks_exact_mut(1 << log_size).enumerate() {
            up_two_more::<L, false>(lanes, factors(lanes, tree, first + i), halving, rows);
        }
    }
    if log_size < levels {
        up_two_more::<L, true>(lanes, factors(lanes, tree, subtree.node), halving, rows);
    }
}

/// Writes what leaves a pass up: scaled coefficients if it is the last one.
#[inline(always)]
fn put_up<L: Lanes, const LAST: bool>(
    lanes: L,
    vector: L::Vector,
    halving: L::Broadcast,
    row: &mut Row,
) {
    if LAST {
        lanes.store(lanes.scale(vector, halving), row);
    } else {
        lanes.store_partial(vector, row);
    }
}

/// The lowest level: pairs of values, below the nodes from number `first` on.
#[inline(always)]
fn up_one<L: Lanes, const LAST: bool>(
    lanes: L,
    tree: &Tree,
    first: usize,
    halving: L::Broadcast,
    rows: &mut [Row],
) {
    for (i, [a, b]) in rows.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let inverse = lanes.broadcast(tree.factor(first + i));
        let (sum, difference) = lanes.up(lanes.load(a), lanes.load(b), inverse);
        put_up::<L, LAST>(lanes, sum, halving, a);
        put_up::<L, LAST>(lanes, difference, halving, b);
    }
}

/// The lowest two levels: quadruples of values, below the nodes from number `first` on.
#[inline(always)]
fn up_two<L: Lanes, const LAST: bool>(
    lanes: L,
    tree: &Tree,
    first: usize,
    halving: L::Broadcast,
    rows: &mut [Row],
) {
    for (i, [a, b, c, d]) in rows.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let values = [lanes.load(a), lanes.load(b), lanes.load(c), lanes.load(d)];
        let up = lanes.up_twice(values, factors(lanes, tree, first + i));
        put_up::<L, LAST>(lanes, up[0], halving, a);
        put_up::<L, LAST>(lanes, up[1], halving, b);
        put_up::<L, LAST>(lanes, up[2], halving, c);
        put_up::<L, LAST>(lanes, up[3], halving, d);
    }
}

/// Two levels that are not the lowest ones, up to one node.
#[inline(always)]
fn up_two_more<L: Lanes, const LAST: bool>(
    lanes: L,
    w: [L::Broadcast; 3],
    halving: L::Broadcast,
    rows: &mut [Row],
) {
    let (left, right) = rows.split_at_mut(rows.len() / 2);
    let (a, b) = left.split_at_mut(left.len() / 2);
    let (c, d) = right.split_at_mut(right.len() / 2);
    for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
        let partial = [
            lanes.load_partial(a),
            lanes.load_partial(b),
            lanes.load_partial(c),
            lanes.load_partial(d),
        ];
        let up = lanes.up_twice(partial, w);
        put_up::<L, LAST>(lanes, up[0], halving, a);
        put_up::<L, LAST>(lanes, up[1], halving, b);
        put_up::<L, LAST>(lanes, up[2], halving, c);
        put_up::<L, LAST>(lanes, up[3], halving, d);
    }
}

/// The two halves of a subtree's rows.
#[inline(always)]
fn halves(subtree: Subtree, rows: &mut [Row]) -> (&mut [Row], &mut [Row]) {
    rows[subtree.start..][..subtree.size].split_at_mut(subtree.size / 2)
}

/// At a node u = A + B X^{m/2}, of which the coefficients from number `known` on are in place: replaces A by what is
/// known of the left child L = A + w B, or of both children if L is complete and in A's place.
#[inline(always)]
fn descend<L: Lanes>(lanes: L, step: &Step, rows: &mut [Row]) {
    let half = step.subtree.size / 2;
    let (left, right) = halves(step.subtree, rows);
    if step.subtree.node == 1 {
        // The coefficients behind the last one are zero: both children are A there.
        right[step.known - half..].copy_from_slice(&left[step.known - half..]);
        return;
    }
    let w = lanes.broadcast(&step.factor);
    let twice = lanes.broadcast(&step.twice);
    for (left, right) in left.iter_mut().zip(right).skip(step.known % half) {
        let (a, b) = (lanes.load(left), lanes.load(right));
        let (plus, minus) = lanes.down(a, b, w);
        if step.known < half {
            lanes.store(plus, left);
        } else {
            lanes.store(minus, left);
            lanes.store(lanes.down(a, b, twice).1, right);
        }
    }
}

/// At the same node, when the incomplete child is in place: the coefficients below number `known`.
#[inline(always)]
fn ascend<L: Lanes>(lanes: L, spine: &Spine, step: &Step, rows: &mut [Row]) {
    let half = step.subtree.size / 2;
    let (left, right) = halves(step.subtree, rows);
    let w = lanes.broadcast(&step.factor);
    let halving = lanes.broadcast(&spine.halvings[1]);
    let half_inverse = lanes.broadcast(&step.half_inverse);
    for (left, right) in left.iter_mut().zip(right).take(step.known % half) {
        let (a, b) = (lanes.load(left), lanes.load(right));
        if step.known < half {
            lanes.store(lanes.down(a, b, w).1, left);
        } else {
            let (sum, difference) = lanes.up(a, b, half_inverse);
            lanes.store(lanes.scale(sum, halving), left);
            lanes.store(difference, right);
        }
    }
}
