//! The sum of the columns that a party holds.

use zeroize::Zeroizing;

/// One party's shares of all blocks, summed over the dealers so far: for each field one vector of B elements. Wiped
/// when dropped.
pub struct ColumnSum {
    pub(super) limbs: Vec<Zeroizing<Vec<u64>>>,
}

impl ColumnSum {
    pub(super) fn zero(limbs: usize, blocks: usize) -> Self {
        let limb = || Zeroizing::new(vec![0; blocks]);
        Self {
            limbs: std::iter::repeat_with(limb).take(limbs).collect(),
        }
    }
}
