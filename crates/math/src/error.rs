//! The one error type of this crate.

/// Why an operation of `blindsum-math` refused its input. Unless the operation says otherwise, its operands are
/// unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MathError {
    /// A word width outside 1..=64 bits.
    #[error("width: {bits} bits, but 1 <= bits <= 64 must hold")]
    Width {
        /// The width asked for, in bits.
        bits: u32,
    },
    /// A packed vector of the wrong length.
    #[error(
        "packed words: {got} bytes, but {lanes} lanes of {bits} bits take exactly {expected} bytes"
    )]
    PackedLength {
        /// Bytes given.
        got: usize,
        /// Bytes that `lanes` lanes of `bits` bits take.
        expected: usize,
        /// Lanes of the vector.
        lanes: usize,
        /// Width of a lane, in bits.
        bits: u32,
    },
    /// Bits behind the last lane are set. They must be zero, so that every vector has one packing.
    #[error(
        "packed words: the last byte is {last:#04x}, but the bits behind the last lane must be zero"
    )]
    Padding {
        /// The last byte given.
        last: u8,
    },
    /// Two vectors of different length or width.
    #[error(
        "words: {got_lanes} lanes of {got_bits} bits, but {lanes} lanes of {bits} bits are needed here"
    )]
    Shape {
        /// Lanes of the operand.
        got_lanes: usize,
        /// Width of the operand, in bits.
        got_bits: u32,
        /// Lanes needed.
        lanes: usize,
        /// Width needed, in bits.
        bits: u32,
    },
    /// A value that does not fit its lane.
    #[error("words: value {value} at lane {lane}, but value < 2^{bits} must hold")]
    Value {
        /// Index of the lane.
        lane: usize,
        /// The value given.
        value: u64,
        /// Width of a lane, in bits.
        bits: u32,
    },
    /// Bytes that should encode one field element.
    #[error("field element: {got} bytes, but it takes exactly {need}")]
    ElementLength {
        /// Bytes given.
        got: usize,
        /// Bytes of an encoded element.
        need: usize,
    },
    /// The encoded representative is not reduced.
    #[error("field element: not canonical, but value < p = {modulus} must hold")]
    NonCanonical {
        /// The prime p.
        modulus: u64,
    },
    /// An element to be inverted is zero.
    #[error("field element: value to invert is 0, but value != 0 must hold")]
    InverseOfZero,
    /// A code without room for its message.
    #[error("code: dimension k = {dimension}, length n = {length}, but 1 <= k <= n must hold")]
    CodeDimension {
        /// Dimension k.
        dimension: usize,
        /// Length n.
        length: usize,
    },
    /// Two evaluation points of a code are equal.
    #[error("code: two evaluation points are equal, but all must be distinct")]
    EqualPoints,
    /// A received word of the wrong length.
    #[error("code: {got} received values, but the length is n = {length}")]
    WordLength {
        /// Values given.
        got: usize,
        /// Length n of the code.
        length: usize,
    },
    /// No codeword is close enough.
    #[error(
        "code: of {length} received values, {dimension} needed, more than {correctable} are wrong"
    )]
    Undecodable {
        /// Dimension k.
        dimension: usize,
        /// Length n.
        length: usize,
        /// ⌊(n − k)/2⌋.
        correctable: usize,
    },
    /// The field has no root of unity of this order.
    #[error(
        "root of unity: order {base}^{log_order}, but {base}^{largest} is the largest that divides p - 1"
    )]
    RootOrder {
        /// 2 or 3.
        base: u64,
        /// The exponent asked for.
        log_order: u32,
        /// The largest exponent there is.
        largest: u32,
    },
    /// A transform of impossible size.
    #[error(
        "transform: k = {coefficients} coefficients, n = {points} points, but 1 <= k <= n <= {largest} must hold"
    )]
    TransformSize {
        /// Number k of coefficients.
        coefficients: usize,
        /// Number n of points.
        points: usize,
        /// The largest n.
        largest: usize,
    },
    /// Packed elements of the wrong length.
    #[error(
        "packed elements: {got} bytes, but {elements} elements of {element_len} bytes are needed"
    )]
    PackedElements {
        /// Bytes given.
        got: usize,
        /// Elements needed; where any number is allowed, the whole elements that the bytes have room for.
        elements: usize,
        /// Bytes of an element.
        element_len: usize,
    },
    /// A matrix with the wrong number of entries.
    #[error("matrix: {got} entries, but {rows} rows of {columns} entries are needed")]
    MatrixShape {
        /// Entries given.
        got: usize,
        /// Rows.
        rows: usize,
        /// Columns.
        columns: usize,
    },
}
