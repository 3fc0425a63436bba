//! What a backend offers to the kernels: arithmetic on the eight residues of a row, reduced as late as possible.
//!
//! Each backend says what range its residues have between operations. Kernels are written once, over [`Lanes`], and
//! compiled into each backend's entry point with the instructions that it needs: hence `inline(always)` throughout.

use super::Row;

/// A constant factor w and what the backend needs to know of w/p, in the backend's own form.
#[derive(Clone, Copy)]
pub(super) struct Factor(pub(super) u64, pub(super) u64);

/// Arithmetic modulo p on the eight residues of a row.
pub(super) trait Lanes: Copy {
    /// Eight residues, not necessarily canonical.
    type Vector: Copy;
    /// A factor, ready for use with eight residues.
    type Broadcast: Copy;

    /// The canonical residues of a row.
    fn load(self, row: &Row) -> Self::Vector;
    /// Makes the residues canonical and writes them.
    fn store(self, vector: Self::Vector, row: &mut Row);
    /// What [`Lanes::store_partial`] wrote.
    fn load_partial(self, row: &Row) -> Self::Vector;
    /// Writes residues as they are.
    fn store_partial(self, vector: Self::Vector, row: &mut Row);

    /// A factor for eight residues.
    fn broadcast(self, factor: &Factor) -> Self::Broadcast;
    /// a + w b and a − w b. From canonical residues on, this may follow on itself
    /// [`LOG_MAX_POINTS`](super::LOG_MAX_POINTS) times.
    fn down(
        self,
        a: Self::Vector,
        b: Self::Vector,
        w: Self::Broadcast,
    ) -> (Self::Vector, Self::Vector);
    /// a + b and (a − b) w. From canonical residues on, this may follow on itself any number of times.
    fn up(
        self,
        a: Self::Vector,
        b: Self::Vector,
        w: Self::Broadcast,
    ) -> (Self::Vector, Self::Vector);
    /// Two steps up, from the values at four grandchildren to their node: `w` is for the node and its two children.
    #[inline(always)]
    fn up_twice(self, x: [Self::Vector; 4], w: [Self::Broadcast; 3]) -> [Self::Vector; 4] {
        let (a, b) = self.up(x[0], x[1], w[1]);
        let (c, d) = self.up(x[2], x[3], w[2]);
        let (a, c) = self.up(a, c, w[0]);
        let (b, d) = self.up(b, d, w[0]);
        [a, b, c, d]
    }
    /// w x, for the result of any other operation.
    fn scale(self, x: Self::Vector, w: Self::Broadcast) -> Self::Vector;
}

/// Work to be done with the arithmetic of some backend.
pub(super) trait Job {
    /// Does it.
    fn run<L: Lanes>(self, lanes: L);
}
