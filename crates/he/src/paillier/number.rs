//! Numbers as words of 64 bits, the least significant first, and as bytes, the most significant first.

/// Bytes of a word.
pub(super) const WORD_BYTES: usize = size_of::<u64>();

/// Writes big-endian bytes to as many words as they take exactly.
pub(super) fn read(bytes: &[u8], words: &mut [u64]) {
    debug_assert_eq!(bytes.len(), words.len() * WORD_BYTES);
    let (pieces, _) = bytes.as_chunks();
    for (word, piece) in words.iter_mut().zip(pieces.iter().rev()) {
        *word = u64::from_be_bytes(*piece);
    }
}

/// Writes words to as many big-endian bytes as they take exactly.
pub(super) fn write(words: &[u64], bytes: &mut [u8]) {
    debug_assert_eq!(bytes.len(), words.len() * WORD_BYTES);
    let (pieces, _) = bytes.as_chunks_mut();
    for (word, piece) in words.iter().zip(pieces.iter_mut().rev()) {
        *piece = word.to_be_bytes();
    }
}

/// Numbers of `each` words as bytes, one behind the other.
pub(super) fn to_bytes(numbers: &[u64], each: usize) -> Vec<u8> {
    let mut bytes = vec![0; numbers.len() * WORD_BYTES];
    let pieces = bytes.chunks_exact_mut(each * WORD_BYTES);
    numbers
        .chunks_exact(each)
        .zip(pieces)
        .for_each(|(words, bytes)| write(words, bytes));
    bytes
}

/// Whether x < y, for numbers of as many words, in a time that depends on nothing else.
pub(super) fn is_less(x: &[u64], y: &[u64]) -> bool {
    debug_assert_eq!(x.len(), y.len());
    let borrow = x.iter().zip(y).fold(false, |borrow, (x, y)| {
        let (difference, first) = x.overflowing_sub(*y);
        let (_, second) = difference.overflowing_sub(u64::from(borrow));
        first | second
    });
    std::hint::black_box(borrow)
}
