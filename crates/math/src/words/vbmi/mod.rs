//! Packing and adding packed words with AVX-512 VBMI: 16 narrow or 8 wide lanes a step, which are whole bytes.
//!
//! To unpack, one byte permutation brings to each lane the bytes that its bits lie in, another one the byte
//! behind those, and a funnel shift by bit offset gives the lane. To pack, pairs of narrow lanes are joined, so
//! that 8 numbers of W bits are left, W = 2b or b. Each byte of the result is then 8 bits of one number, or the
//! last bits of one and the first bits of the next: two multishifts cut these pieces out, two permutations
//! bring them to their places.

mod sum;

use core::arch::x86_64::*;

use super::{Width, portable};

/// Proof that this machine has the instructions.
#[derive(Clone, Copy)]
pub(super) struct Vbmi(());

/// One vector register.
type Bytes = [u8; 64];

/// Where the bits of the lanes lie in one step of the packed form.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Unpack {
    /// For byte k of lane i, the index of the k-th byte that the lane lies in.
    bytes: Bytes,
    /// For byte 0 of lane i, the index of the byte behind those.
    behind: Bytes,
    /// For byte 0 of lane i, the lane's bit offset in its first byte.
    offset: Bytes,
}

/// Where the bits of each byte of the packed form lie in 8 numbers of W bits.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Pack {
    /// For byte m of number a, the bit that starts the m-th byte to start in the number.
    whole: Bytes,
    /// For byte 0 of number a, the rotation that brings its bits before the first such byte to the end of it.
    head: Bytes,
    /// For byte j of the packed form, the byte of the numbers cut by `whole` that it is.
    from_whole: Bytes,
    /// For byte j that two numbers share, the byte of the second one's head.
    from_head: Bytes,
    /// For byte j, its bits that belong to the first number.
    whole_bits: Bytes,
    /// For byte j, its bits that belong to the second number.
    head_bits: Bytes,
}

/// Tables for each width b; that of 0 is not used.
static UNPACK: [Unpack; 65] = {
    let mut tables = [unpack_table(1); 65];
    let mut bits = 2;
    while bits <= 64 {
        tables[bits] = unpack_table(bits);
        bits += 1;
    }
    tables
};

/// Tables for each W from 8; smaller ones are not used.
static PACK: [Pack; 65] = {
    let mut tables = [pack_table(8); 65];
    let mut bits = 9;
    while bits <= 64 {
        tables[bits] = pack_table(bits);
        bits += 1;
    }
    tables
};

const fn unpack_table(bits: usize) -> Unpack {
    let lane_bytes = if bits <= 32 { 4 } else { 8 };
    let mut table = Unpack {
        bytes: [0; 64],
        behind: [0; 64],
        offset: [0; 64],
    };
    let mut at = 0;
    while at < 64 {
        let lane = at / lane_bytes;
        let first = lane * bits / 8;
        // Indices of 64 and more belong to bits that the lane does not have; the permutation wraps them.
        table.bytes[at] = ((first + at % lane_bytes) % 64) as u8;
        if at % lane_bytes == 0 {
            table.behind[at] = ((first + lane_bytes) % 64) as u8;
            table.offset[at] = (lane * bits % 8) as u8;
        }
        at += 1;
    }
    table
}

const fn pack_table(bits: usize) -> Pack {
    let mut table = Pack {
        whole: [0; 64],
        head: [0; 64],
        from_whole: [0; 64],
        from_head: [0; 64],
        whole_bits: [0; 64],
        head_bits: [0; 64],
    };
    let mut at = 0;
    while at < 64 {
        let head_len = first_byte_of(at / 8, bits);
        table.whole[at] = ((head_len + 8 * (at % 8)) % 64) as u8;
        table.head[at] = ((64 - 8 + head_len) % 64) as u8;
        at += 1;
    }
    let mut byte = 0;
    while byte < bits {
        let number = 8 * byte / bits;
        let bit = 8 * byte % bits;
        table.from_whole[byte] = (8 * number + (bit - first_byte_of(number, bits)) / 8) as u8;
        let left = bits - bit;
        if left >= 8 {
            table.whole_bits[byte] = 0xff;
        } else {
            table.whole_bits[byte] = (1 << left) - 1;
            table.head_bits[byte] = !table.whole_bits[byte];
            table.from_head[byte] = (8 * (number + 1)) as u8;
        }
        byte += 1;
    }
    table
}

/// The bit of number `number` at which the first byte starts that starts in it.
const fn first_byte_of(number: usize, bits: usize) -> usize {
    (8 - number * bits % 8) % 8
}

impl Vbmi {
    /// Asks the machine.
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2");
        found.then_some(Self(()))
    }

    /// Packs lanes of at most 32 bits into `packed`, which is exactly their packed length.
    pub(super) fn pack32(self, width: Width, lanes: &[u32], packed: &mut [u8]) {
        // A byte of the packed form may have bits of three numbers of less than 8 bits.
        if width.bits() < 4 {
            return portable::pack32(width, lanes, packed);
        }
        let (steps, rest) = lanes.as_chunks::<16>();
        let (step_bytes, rest_bytes) = packed.split_at_mut(width.packed_len(16 * steps.len()));
        // SAFETY: `self` proves the features.
        unsafe { pack32_steps(width, steps, step_bytes) };
        portable::pack32(width, rest, rest_bytes);
    }

    /// Packs lanes of 33 to 64 bits into `packed`, which is exactly their packed length.
    pub(super) fn pack64(self, width: Width, lanes: &[u64], packed: &mut [u8]) {
        let (steps, rest) = lanes.as_chunks::<8>();
        let (step_bytes, rest_bytes) = packed.split_at_mut(width.packed_len(8 * steps.len()));
        // SAFETY: `self` proves the features.
        unsafe { pack64_steps(width, steps, step_bytes) };
        portable::pack64(width, rest, rest_bytes);
    }

    /// Adds packed lanes of at most 32 bits to `lanes`.
    pub(super) fn add32(self, width: Width, lanes: &mut [u32], packed: &[u8]) {
        let (steps, rest) = lanes.as_chunks_mut::<16>();
        let (step_bytes, rest_bytes) = packed.split_at(width.packed_len(16 * steps.len()));
        // SAFETY: `self` proves the features.
        unsafe { add32_steps(width, steps, step_bytes) };
        portable::add32(width, rest, rest_bytes);
    }

    /// Adds packed lanes of 33 to 64 bits to `lanes`.
    pub(super) fn add64(self, width: Width, lanes: &mut [u64], packed: &[u8]) {
        let (steps, rest) = lanes.as_chunks_mut::<8>();
        let (step_bytes, rest_bytes) = packed.split_at(width.packed_len(8 * steps.len()));
        // SAFETY: `self` proves the features.
        unsafe { add64_steps(width, steps, step_bytes) };
        portable::add64(width, rest, rest_bytes);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
fn pack32_steps(width: Width, steps: &[[u32; 16]], packed: &mut [u8]) {
    let bits = width.bits() as usize;
    let packer = Packer::new(2 * bits);
    let mask = _mm512_set1_epi32(width.mask() as i32);
    let join = _mm512_set1_epi64(32 - bits as i64);
    for (lanes, bytes) in steps.iter().zip(packed.chunks_exact_mut(2 * bits)) {
        // SAFETY: an array of 64 bytes.
        let lanes = unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) };
        let even = _mm512_maskz_and_epi32(0x5555, lanes, mask);
        let odd = _mm512_maskz_and_epi32(0xaaaa, lanes, mask);
        packer.store(_mm512_or_si512(even, _mm512_srlv_epi64(odd, join)), bytes);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
fn pack64_steps(width: Width, steps: &[[u64; 8]], packed: &mut [u8]) {
    let bits = width.bits() as usize;
    let packer = Packer::new(bits);
    for (lanes, bytes) in steps.iter().zip(packed.chunks_exact_mut(bits)) {
        // SAFETY: an array of 64 bytes.
        let numbers = unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) };
        packer.store(numbers, bytes);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
fn add32_steps(width: Width, steps: &mut [[u32; 16]], packed: &[u8]) {
    let bits = width.bits() as usize;
    let unpacker = Unpacker::new(width, 2 * bits);
    let mask = _mm512_set1_epi32(width.mask() as i32);
    for (lanes, bytes) in steps.iter_mut().zip(packed.chunks_exact(2 * bits)) {
        let (low, high) = unpacker.load(bytes);
        let words = _mm512_and_si512(_mm512_shrdv_epi32(low, high, unpacker.offset), mask);
        let lanes = lanes.as_mut_ptr().cast();
        // SAFETY: an array of 64 bytes.
        unsafe {
            let sum = _mm512_add_epi32(_mm512_loadu_si512(lanes), words);
            _mm512_storeu_si512(lanes, sum);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
fn add64_steps(width: Width, steps: &mut [[u64; 8]], packed: &[u8]) {
    let bits = width.bits() as usize;
    let unpacker = Unpacker::new(width, bits);
    let mask = _mm512_set1_epi64(width.mask() as i64);
    for (lanes, bytes) in steps.iter_mut().zip(packed.chunks_exact(bits)) {
        let (low, high) = unpacker.load(bytes);
        let words = _mm512_and_si512(_mm512_shrdv_epi64(low, high, unpacker.offset), mask);
        let lanes = lanes.as_mut_ptr().cast();
        // SAFETY: an array of 64 bytes.
        unsafe {
            let sum = _mm512_add_epi64(_mm512_loadu_si512(lanes), words);
            _mm512_storeu_si512(lanes, sum);
        }
    }
}

/// [`Pack`] in registers.
struct Packer {
    bits: usize,
    bytes: __mmask64,
    whole: __m512i,
    head: __m512i,
    from_whole: __m512i,
    from_head: __m512i,
    whole_bits: __m512i,
    head_bits: __m512i,
}

impl Packer {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
    fn new(bits: usize) -> Self {
        let table = &PACK[bits];
        Self {
            bits,
            bytes: first_bytes(bits),
            whole: load(&table.whole),
            head: load(&table.head),
            from_whole: load(&table.from_whole),
            from_head: load(&table.from_head),
            whole_bits: load(&table.whole_bits),
            head_bits: load(&table.head_bits),
        }
    }

    /// Packs 8 numbers of W bits, with junk above, into W bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
    fn store(&self, numbers: __m512i, bytes: &mut [u8]) {
        assert!(bytes.len() == self.bits);
        let whole = _mm512_multishift_epi64_epi8(self.whole, numbers);
        let head = _mm512_multishift_epi64_epi8(self.head, numbers);
        let whole = _mm512_permutexvar_epi8(self.from_whole, whole);
        let head = _mm512_permutexvar_epi8(self.from_head, head);
        let packed = _mm512_or_si512(
            _mm512_and_si512(whole, self.whole_bits),
            _mm512_and_si512(head, self.head_bits),
        );
        // SAFETY: only the first W bytes are written, which `bytes` has.
        unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), self.bytes, packed) };
    }
}

/// [`Unpack`] in registers.
struct Unpacker {
    step: usize,
    in_step: __mmask64,
    bytes: __m512i,
    behind: __m512i,
    offset: __m512i,
}

impl Unpacker {
    /// For steps of `step` bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
    fn new(width: Width, step: usize) -> Self {
        let table = &UNPACK[width.bits() as usize];
        Self {
            step,
            in_step: first_bytes(step),
            bytes: load(&table.bytes),
            behind: load(&table.behind),
            offset: load(&table.offset),
        }
    }

    /// The bytes that each lane's bits lie in: as many as a lane has, and those behind.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
    fn load(&self, bytes: &[u8]) -> (__m512i, __m512i) {
        assert!(bytes.len() == self.step);
        // SAFETY: only the bytes of the step are read, which `bytes` has.
        let packed = unsafe { _mm512_maskz_loadu_epi8(self.in_step, bytes.as_ptr().cast()) };
        let low = _mm512_permutexvar_epi8(self.bytes, packed);
        let high = _mm512_permutexvar_epi8(self.behind, packed);
        (low, high)
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &Bytes) -> __m512i {
    // SAFETY: an array of 64 bytes.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// The mask of the first `count` bytes of a register, 1 to 64.
fn first_bytes(count: usize) -> __mmask64 {
    u64::MAX >> (64 - count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two vectors of one length, with junk above bit b.
    fn vectors() -> impl Strategy<Value = (Vec<u64>, Vec<u64>)> {
        let lane = || prop_oneof![4 => any::<u64>(), 1 => Just(0), 1 => Just(u64::MAX)];
        prop::collection::vec((lane(), lane()), 0..100).prop_map(|pairs| pairs.into_iter().unzip())
    }

    /// Packs `lanes` and adds the packing to `sums`, by either code.
    fn check(vbmi: Vbmi, bits: u32, lanes: &[u64], sums: &[u64]) {
        let width = Width::new(bits).unwrap();
        let mut packed = vec![0xa5; width.packed_len(lanes.len())];
        let mut packed_again = vec![0x5a; packed.len()];
        if width.fits_u32() {
            let [lanes, sums] = [lanes, sums]
                .map(|lanes| -> Vec<u32> { lanes.iter().map(|&lane| lane as u32).collect() });
            portable::pack32(width, &lanes, &mut packed);
            vbmi.pack32(width, &lanes, &mut packed_again);
            assert_eq!(packed, packed_again, "{bits} bits");
            let [mut sum, mut sum_again] = [sums.clone(), sums];
            portable::add32(width, &mut sum, &packed);
            vbmi.add32(width, &mut sum_again, &packed);
            assert_eq!(sum, sum_again, "{bits} bits");
        } else {
            portable::pack64(width, lanes, &mut packed);
            vbmi.pack64(width, lanes, &mut packed_again);
            assert_eq!(packed, packed_again, "{bits} bits");
            let [mut sum, mut sum_again] = [sums.to_vec(), sums.to_vec()];
            portable::add64(width, &mut sum, &packed);
            vbmi.add64(width, &mut sum_again, &packed);
            assert_eq!(sum, sum_again, "{bits} bits");
        }
    }

    proptest! {
        #[test]
        fn equals_the_portable_code((lanes, sums) in vectors()) {
            if let Some(vbmi) = Vbmi::detect() {
                (1..=64).for_each(|bits| check(vbmi, bits, &lanes, &sums));
            }
        }
    }
}
