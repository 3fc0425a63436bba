//! Which holders to leave out where decoding cannot tell: set after set, until the rest gives what the owner published.

/// Sets that are tried at most: all of them in small rounds, in which a single liar may be beyond what decoding corrects.
pub(super) const MAX_TRIES: usize = 1024;

/// Every way to leave `out` of `of` positions out, in lexicographic order.
pub(super) fn ways_to_leave_out(of: usize, out: usize) -> impl Iterator<Item = Vec<usize>> {
    let first = (out <= of).then(|| (0..out).collect());
    std::iter::successors(first, move |last: &Vec<usize>| {
        // The last position that can still move, and all behind it as near as they can be.
        let (at, &moving) = (last.iter().enumerate().rev()).find(|&(at, &p)| p < of - out + at)?;
        let before = last.iter().copied().take(at);
        Some(before.chain((moving + 1..).take(out - at)).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_comes_once() {
        let ways = |of, out| ways_to_leave_out(of, out).collect::<Vec<_>>();
        assert_eq!(ways(3, 1), [[0], [1], [2]]);
        let pairs = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
        assert_eq!(ways(4, 2), pairs);
        assert_eq!(ways(4, 0), [[0; 0]]);
        assert_eq!(ways(2, 2), [[0, 1]]);
        assert!(ways(1, 2).is_empty());
        assert_eq!(ways(10, 4).len(), 210);
    }
}
