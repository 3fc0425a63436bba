//! Kernels for the lanes that a bitmap chooses: bit k % 64 of piece k / 64 stands for lane k. A compacted tile holds
//! only the chosen lanes, in order.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512;

#[cfg(target_arch = "x86_64")]
use self::avx512::Avx512;
use super::Lane;

/// Adds to each chosen lane the lane at the same place in `addends`, wrapping at the lane.
///
/// # Panics
/// If there are not as many addends as lanes, or the bitmap is not for this number of lanes.
pub fn add_chosen<L: Lane>(pieces: &[u64], lanes: &mut [L], addends: &[L]) {
    check(pieces, lanes.len(), addends.len());
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::detect() {
        return avx512.add_chosen(pieces, lanes, addends);
    }
    portable::change_chosen(pieces, lanes, addends, L::plus);
}

/// Subtracts from each chosen lane the lane at the same place in `numbers`, wrapping at the lane.
///
/// # Panics
/// As [`add_chosen`].
pub fn subtract_chosen<L: Lane>(pieces: &[u64], lanes: &mut [L], numbers: &[L]) {
    check(pieces, lanes.len(), numbers.len());
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::detect() {
        return avx512.subtract_chosen(pieces, lanes, numbers);
    }
    portable::change_chosen(pieces, lanes, numbers, L::minus);
}

/// Adds the lanes of a compacted tile to the chosen lanes, wrapping at the lane.
///
/// # Panics
/// If the compacted tile does not have as many lanes as are chosen, or the bitmap is not for this number of lanes.
pub fn add_compacted<L: Lane>(pieces: &[u64], lanes: &mut [L], compacted: &[L]) {
    check(pieces, lanes.len(), lanes.len());
    check_count(pieces, compacted.len());
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::detect() {
        return avx512.add_compacted(pieces, lanes, compacted);
    }
    portable::add_compacted(pieces, lanes, compacted);
}

/// Writes the chosen lanes to `compacted`, in order.
///
/// # Panics
/// As [`add_compacted`].
pub fn compact<L: Lane>(pieces: &[u64], lanes: &[L], compacted: &mut [L]) {
    check(pieces, lanes.len(), lanes.len());
    check_count(pieces, compacted.len());
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::detect() {
        return avx512.compact(pieces, lanes, compacted);
    }
    portable::compact(pieces, lanes, compacted);
}

/// The kernels rely on it.
fn check(pieces: &[u64], lanes: usize, others: usize) {
    assert_eq!(lanes, others, "lanes of two tiles");
    assert_eq!(pieces.len(), lanes.div_ceil(64), "pieces of {lanes} lanes");
    let used = lanes % 64;
    let behind = pieces
        .last()
        .is_some_and(|last| used > 0 && last >> used != 0);
    assert!(!behind, "bits behind the last of {lanes} lanes");
}

fn check_count(pieces: &[u64], compacted: usize) {
    let chosen: usize = pieces.iter().map(|piece| piece.count_ones() as usize).sum();
    assert_eq!(compacted, chosen, "lanes of a compacted tile");
}

/// In plain Rust, bit by bit.
mod portable {
    use super::Lane;

    /// Runs `with` on the numbers of the bits that are set.
    fn each(pieces: &[u64], mut with: impl FnMut(usize)) {
        for (at, &piece) in pieces.iter().enumerate() {
            let mut left = piece;
            while left != 0 {
                with(64 * at + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }

    pub(super) fn change_chosen<L: Lane>(
        pieces: &[u64],
        lanes: &mut [L],
        by: &[L],
        change: impl Fn(L, L) -> L,
    ) {
        each(pieces, |lane| lanes[lane] = change(lanes[lane], by[lane]));
    }

    pub(super) fn add_compacted<L: Lane>(pieces: &[u64], lanes: &mut [L], compacted: &[L]) {
        let mut rest = compacted.iter();
        each(pieces, |lane| {
            if let Some(&addend) = rest.next() {
                lanes[lane] = lanes[lane].plus(addend);
            }
        });
    }

    pub(super) fn compact<L: Lane>(pieces: &[u64], lanes: &[L], compacted: &mut [L]) {
        let mut rest = compacted.iter_mut();
        each(pieces, |lane| {
            if let Some(to) = rest.next() {
                *to = lanes[lane];
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A bitmap that has about so many of 16 bits set, and as many lanes of two tiles.
    fn tiles() -> impl Strategy<Value = (Vec<u64>, Vec<u64>, Vec<u64>)> {
        (0..300_usize, 0..=16_u8).prop_flat_map(|(lanes, density)| {
            let bit = (0..16_u8).prop_map(move |number| number < density);
            let pieces = prop::collection::vec(bit, lanes).prop_map(|bits| {
                let pieces = bits.chunks(64).map(|bits| {
                    let bits = bits.iter().rev();
                    bits.fold(0, |piece, &bit| piece << 1 | u64::from(bit))
                });
                pieces.collect()
            });
            let tile = || prop::collection::vec(any::<u64>(), lanes);
            (pieces, tile(), tile())
        })
    }

    fn chosen(pieces: &[u64], lane: usize) -> bool {
        pieces[lane / 64] >> (lane % 64) & 1 == 1
    }

    /// All four operations, by their definitions, on the kernels that this machine uses and on portable ones.
    fn obeys<L: Lane + PartialEq + std::fmt::Debug>(pieces: &[u64], first: &[L], second: &[L]) {
        let places: Vec<usize> = (0..first.len()).filter(|&k| chosen(pieces, k)).collect();
        let changed = |change: fn(L, L) -> L, by: &dyn Fn(usize) -> L| {
            let mut lanes = first.to_vec();
            places
                .iter()
                .for_each(|&k| lanes[k] = change(lanes[k], by(k)));
            lanes
        };
        let after = |work: &dyn Fn(&mut [L])| {
            let mut lanes = first.to_vec();
            work(&mut lanes);
            lanes
        };
        let sum = changed(L::plus, &|k| second[k]);
        assert_eq!(after(&|lanes| add_chosen(pieces, lanes, second)), sum);
        let portable = |lanes: &mut [L]| portable::change_chosen(pieces, lanes, second, L::plus);
        assert_eq!(after(&portable), sum);

        let difference = changed(L::minus, &|k| second[k]);
        assert_eq!(
            after(&|lanes| subtract_chosen(pieces, lanes, second)),
            difference
        );

        let compacted = &second[..places.len()];
        let number = |k| places.iter().position(|&place| place == k).unwrap();
        let expanded = changed(L::plus, &|k| compacted[number(k)]);
        assert_eq!(
            after(&|lanes| add_compacted(pieces, lanes, compacted)),
            expanded
        );
        let portable = |lanes: &mut [L]| portable::add_compacted(pieces, lanes, compacted);
        assert_eq!(after(&portable), expanded);

        let of_places: Vec<L> = places.iter().map(|&k| first[k]).collect();
        let mut to = compacted.to_vec();
        compact(pieces, first, &mut to);
        assert_eq!(to, of_places);
        let mut to = compacted.to_vec();
        portable::compact(pieces, first, &mut to);
        assert_eq!(to, of_places);
    }

    proptest! {
        #[test]
        fn chosen_lanes_and_no_others_change((pieces, first, second) in tiles()) {
            obeys(&pieces, &first, &second);
            let narrow = |lanes: &[u64]| lanes.iter().map(|&lane| lane as u32).collect::<Vec<_>>();
            obeys(&pieces, &narrow(&first), &narrow(&second));
        }
    }

    #[test]
    #[should_panic(expected = "bits behind the last of 3 lanes")]
    fn bits_behind_the_lanes_are_refused() {
        add_chosen(&[8], &mut [0_u32; 3], &[0; 3]);
    }

    #[test]
    #[should_panic(expected = "lanes of a compacted tile")]
    fn compacted_tiles_have_as_many_lanes_as_bits() {
        add_compacted(&[7], &mut [0_u64; 3], &[0; 2]);
    }

    #[test]
    #[should_panic(expected = "pieces of 65 lanes")]
    fn bitmaps_have_a_bit_for_each_lane() {
        compact(&[0], &[0_u32; 65], &mut []);
    }
}
