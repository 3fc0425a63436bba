//! AES-256-CTR with AVX-512 and VAES, added to the vector in registers.
//!
//! A `zmm` register holds 4 blocks. Eight of them are in flight, which hides the latency of a round, and
//! the 15 round keys stay in registers too. A tile that starts or ends inside a group of eight registers
//! uses masked loads and stores, so there is no scratch memory that would have to be wiped.

use std::arch::x86_64::*;
use std::hint::black_box;

use zeroize::ZeroizeOnDrop;

use super::{Lane, Sign};

/// Registers in flight.
const REGISTERS: usize = 8;
/// Bytes of keystream in a group of registers.
const GROUP_BYTES: usize = REGISTERS * 64;
/// Blocks in a group of registers.
const GROUP_BLOCKS: usize = REGISTERS * 4;

/// Whether this machine has the instructions; the answer is cached by the standard library.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("aes")
}

/// The 15 round keys of AES-256. They exist only on machines that can use them.
#[derive(ZeroizeOnDrop)]
pub(super) struct RoundKeys([[u8; 16]; 15]);

impl RoundKeys {
    /// The key schedule of `key` (FIPS 197 section 5.2), or `None` on a machine without the
    /// instructions.
    pub(super) fn expand(key: &[u8; 32]) -> Option<Self> {
        let mut keys = RoundKeys([[0; 16]; 15]);
        if !is_available() {
            return None;
        }
        // SAFETY: the features were detected.
        unsafe { keys.fill(key) };
        Some(keys)
    }

    #[target_feature(enable = "aes,sse2")]
    fn fill(&mut self, key: &[u8; 32]) {
        let (low, high) = key.split_at(16);
        // SAFETY: both halves have 16 bytes.
        let (mut even, mut odd) = unsafe {
            (
                _mm_loadu_si128(low.as_ptr().cast()),
                _mm_loadu_si128(high.as_ptr().cast()),
            )
        };
        self.store(0, even);
        self.store(1, odd);
        // Round constant i of FIPS 197 is x^(i-1); AES-256 needs seven.
        macro_rules! step {
            ($i:literal) => {
                let word =
                    _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<{ 1 << ($i - 1) }>(odd));
                even = _mm_xor_si128(prefix_xor(even), word);
                self.store(2 * $i, even);
                if $i < 7 {
                    let word = _mm_shuffle_epi32::<0xaa>(_mm_aeskeygenassist_si128::<0>(even));
                    odd = _mm_xor_si128(prefix_xor(odd), word);
                    self.store(2 * $i + 1, odd);
                }
            };
        }
        step!(1);
        step!(2);
        step!(3);
        step!(4);
        step!(5);
        step!(6);
        step!(7);
    }

    #[target_feature(enable = "sse2")]
    fn store(&mut self, index: usize, key: __m128i) {
        // SAFETY: the place has 16 bytes.
        unsafe { _mm_storeu_si128(self.0[index].as_mut_ptr().cast(), key) };
    }

    /// Every round key in all four blocks of a register.
    #[target_feature(enable = "avx512f")]
    fn broadcast(&self) -> [__m512i; 15] {
        let mut wide = [_mm512_setzero_si512(); 15];
        for (wide, key) in wide.iter_mut().zip(&self.0) {
            // SAFETY: a round key has 16 bytes.
            let key = unsafe { _mm_loadu_si128(key.as_ptr().cast()) };
            *wide = _mm512_broadcast_i32x4(key);
        }
        wide
    }
}

/// Word i of the result is the sum (xor) of words 0..=i.
#[target_feature(enable = "sse2")]
fn prefix_xor(words: __m128i) -> __m128i {
    let words = _mm_xor_si128(words, _mm_slli_si128::<4>(words));
    _mm_xor_si128(words, _mm_slli_si128::<8>(words))
}

/// Encrypts the first `count` blocks, and those behind them up to a whole group of [`GROUP_BLOCKS`].
pub(super) fn encrypt<const N: usize>(keys: &RoundKeys, blocks: &mut [[u8; 16]; N], count: usize) {
    const { assert!(N.is_multiple_of(GROUP_BLOCKS)) };
    let (groups, _) = blocks.as_chunks_mut::<GROUP_BLOCKS>();
    for group in &mut groups[..count.div_ceil(GROUP_BLOCKS)] {
        // SAFETY: `keys` exist, so the features were detected.
        unsafe { encrypt_group(keys, group) };
    }
}

#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn encrypt_group(keys: &RoundKeys, blocks: &mut [[u8; 16]; GROUP_BLOCKS]) {
    let keys = keys.broadcast();
    let place: *mut __m512i = blocks.as_mut_ptr().cast();
    let mut registers = [keys[0]; REGISTERS];
    for (i, register) in registers.iter_mut().enumerate() {
        // SAFETY: register i covers blocks 4 i..4 i + 4.
        *register = _mm512_xor_si512(*register, unsafe { _mm512_loadu_si512(place.add(i)) });
    }
    encrypt_registers(&keys, &mut registers);
    for (i, register) in registers.into_iter().enumerate() {
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(place.add(i), register) };
    }
}

/// Registers that [`rounds_alone`] keeps busy: more than hide the latency of a round.
const BUSY: usize = 12;

/// Encrypts blocks that stay in registers over and over, [`BUSY`] registers at a time and `bytes` in all, rounded up:
/// no counters, no memory, no addition. What comes out depends on all rounds; `None` without the instructions.
pub(super) fn rounds_alone(bytes: usize) -> Option<i64> {
    // SAFETY: the features were detected.
    is_available().then(|| unsafe { busy_rounds(bytes.div_ceil(BUSY * 64)) })
}

#[target_feature(enable = "avx512f,vaes")]
fn busy_rounds(groups: usize) -> i64 {
    let mut keys = [_mm512_setzero_si512(); 15];
    for (i, key) in keys.iter_mut().enumerate() {
        *key = _mm512_set1_epi64(black_box(i as i64));
    }
    let mut blocks = [keys[0]; BUSY];
    for (block, key) in blocks.iter_mut().zip(&keys) {
        *block = _mm512_add_epi64(*key, keys[1]);
    }
    for _ in 0..groups {
        for key in &keys[1..14] {
            for block in &mut blocks {
                *block = _mm512_aesenc_epi128(*block, *key);
            }
        }
        for block in &mut blocks {
            *block = _mm512_aesenclast_epi128(*block, keys[14]);
        }
    }
    let sums = blocks.map(|block| _mm512_reduce_add_epi64(block));
    sums.into_iter().fold(0, i64::wrapping_add)
}

/// All rounds but the first addition of a key.
#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn encrypt_registers(keys: &[__m512i; 15], registers: &mut [__m512i; REGISTERS]) {
    for key in &keys[1..14] {
        for register in &mut *registers {
            *register = _mm512_aesenc_epi128(*register, *key);
        }
    }
    for register in registers {
        *register = _mm512_aesenclast_epi128(*register, keys[14]);
    }
}

/// Applies the lanes `first_lane..` of the stream; see [`super::apply_masks`].
pub(super) fn apply<L: Lane>(
    keys: &RoundKeys,
    origin: u128,
    sign: Sign,
    first_lane: u64,
    lanes: &mut [L],
) {
    let start = lanes.as_mut_ptr().cast::<u8>();
    // SAFETY: `keys` exist, so the features were detected. A lane is a u32 or a u64 and WIDE says
    // which, so `start` and the length describe exactly the memory of `lanes`, which is ours to write.
    unsafe {
        match (L::WIDE, sign) {
            (false, Sign::Add) => run::<false, false>(keys, origin, first_lane, start, lanes.len()),
            (false, Sign::Sub) => run::<false, true>(keys, origin, first_lane, start, lanes.len()),
            (true, Sign::Add) => run::<true, false>(keys, origin, first_lane, start, lanes.len()),
            (true, Sign::Sub) => run::<true, true>(keys, origin, first_lane, start, lanes.len()),
        }
    }
}

/// `count` lanes from `start` on: a masked group if the first block begins before the first lane, whole
/// groups, and a masked one for what is left.
///
/// # Safety
///
/// `start` points to `count` lanes of 4 bytes (8 if `WIDE`) that may be read and written.
#[target_feature(enable = "avx512f,avx512bw,vaes")]
unsafe fn run<const WIDE: bool, const SUB: bool>(
    keys: &RoundKeys,
    origin: u128,
    first_lane: u64,
    start: *mut u8,
    count: usize,
) {
    let lane_bytes = if WIDE { 8 } else { 4 };
    let lanes_per_block = 16 / lane_bytes as u64;
    let group_lanes = GROUP_BYTES / lane_bytes;
    let keys = keys.broadcast();

    let skip = (first_lane % lanes_per_block) as usize;
    let mut counter = origin + u128::from(first_lane / lanes_per_block);
    // The lane at which the current group begins, relative to `start` - skip.
    let mut at = 0;
    let end = skip + count;
    let place = start.wrapping_sub(skip * lane_bytes);
    while at < end {
        let group = place.wrapping_add(at * lane_bytes);
        let mask = keystream(&keys, counter);
        let from = skip.saturating_sub(at);
        let to = (end - at).min(group_lanes);
        if from == 0 && to == group_lanes {
            // SAFETY: lanes at..at + group_lanes lie within skip..end.
            unsafe { add_whole::<WIDE, SUB>(group, &mask) };
        } else {
            // SAFETY: of the group, lanes from..to lie within skip..end.
            unsafe { add_part::<WIDE, SUB>(group, &mask, from, to) };
        }
        // Behind the last block of the last nonce there is none, and none is used.
        counter = counter.wrapping_add(GROUP_BYTES as u128 / 16);
        at += group_lanes;
    }
}

/// The blocks counter, counter + 1, ... encrypted, 4 in each register.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn keystream(keys: &[__m512i; 15], counter: u128) -> [__m512i; REGISTERS] {
    // Counters are kept as little-endian 128-bit numbers; CTR wants them big-endian: reverse the bytes.
    let reverse = _mm512_broadcast_i32x4(_mm_set_epi8(
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    ));
    let (high, low) = ((counter >> 64) as i64, counter as i64);
    let first = _mm512_add_epi64(
        _mm512_set_epi64(high, low, high, low, high, low, high, low),
        _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0),
    );
    let mut blocks = [_mm512_setzero_si512(); REGISTERS];
    for (i, block) in blocks.iter_mut().enumerate() {
        let number = _mm512_add_epi64(first, _mm512_maskz_set1_epi64(0b0101_0101, 4 * i as i64));
        *block = _mm512_xor_si512(_mm512_shuffle_epi8(number, reverse), keys[0]);
    }
    encrypt_registers(keys, &mut blocks);
    blocks
}

#[inline]
#[target_feature(enable = "avx512f")]
fn combine<const WIDE: bool, const SUB: bool>(lanes: __m512i, mask: __m512i) -> __m512i {
    match (WIDE, SUB) {
        (false, false) => _mm512_add_epi32(lanes, mask),
        (false, true) => _mm512_sub_epi32(lanes, mask),
        (true, false) => _mm512_add_epi64(lanes, mask),
        (true, true) => _mm512_sub_epi64(lanes, mask),
    }
}

/// Applies a whole group.
///
/// # Safety
///
/// `place` points to [`GROUP_BYTES`] bytes that may be read and written.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_whole<const WIDE: bool, const SUB: bool>(
    place: *mut u8,
    masks: &[__m512i; REGISTERS],
) {
    for (i, mask) in masks.iter().enumerate() {
        // SAFETY: register i covers bytes 64 i..64 i + 64 of the group.
        unsafe {
            let place = place.add(64 * i).cast();
            _mm512_storeu_si512(
                place,
                combine::<WIDE, SUB>(_mm512_loadu_si512(place), *mask),
            );
        }
    }
}

/// Applies lanes from..to of a group and touches no other.
///
/// # Safety
///
/// Lanes from..to, counted from `place`, may be read and written; `place` itself may lie outside.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_part<const WIDE: bool, const SUB: bool>(
    place: *mut u8,
    masks: &[__m512i; REGISTERS],
    from: usize,
    to: usize,
) {
    let register_lanes: usize = if WIDE { 8 } else { 16 };
    for (i, mask) in masks.iter().enumerate() {
        let below =
            |lane: usize| (1u32 << lane.saturating_sub(i * register_lanes).min(register_lanes)) - 1;
        let chosen = below(to) & !below(from);
        let place = place.wrapping_add(64 * i);
        // SAFETY: masked-out lanes are neither read nor written, and the chosen ones are lanes from..to.
        unsafe {
            if WIDE {
                let chosen = chosen as __mmask8;
                let lanes = _mm512_maskz_loadu_epi64(chosen, place.cast());
                _mm512_mask_storeu_epi64(place.cast(), chosen, combine::<WIDE, SUB>(lanes, *mask));
            } else {
                let chosen = chosen as __mmask16;
                let lanes = _mm512_maskz_loadu_epi32(chosen, place.cast());
                _mm512_mask_storeu_epi32(place.cast(), chosen, combine::<WIDE, SUB>(lanes, *mask));
            }
        }
    }
}
