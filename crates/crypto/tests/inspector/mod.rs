//! An allocator that looks into every block it takes back, for tests of wiping.
//!
//! Only memory of the Rust heap is seen; aws-lc wipes its own, and what the compiler leaves on the stack
//! nobody can promise. There is one allocator for all threads, so one test a program.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    hint::black_box,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

/// Half of a secret is enough to be found.
const NEEDLE_BYTES: usize = 16;
static NEEDLE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static FOUND: AtomicUsize = AtomicUsize::new(0);

struct Inspector;

// SAFETY: every request is passed on to the system's allocator; blocks are only looked at before they
// are given back.
unsafe impl GlobalAlloc for Inspector {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Zeroed, so that `dealloc` may read all of it.
        // SAFETY: the caller's promise about `layout`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block is still ours, and was initialised by `alloc`.
        let bytes = unsafe { std::slice::from_raw_parts(block, layout.size()) };
        let needle = NEEDLE
            .each_ref()
            .map(|half| half.load(Relaxed).to_ne_bytes());
        if needle != [[0; 8]; 2]
            && bytes
                .windows(NEEDLE_BYTES)
                .any(|window| window == needle.as_flattened())
        {
            FOUND.fetch_add(1, Relaxed);
        }
        // SAFETY: the caller's promise about `block` and `layout`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static INSPECTOR: Inspector = Inspector;

/// How many blocks that `work` gave back held the needle.
pub fn left_behind<R>(needle: &[u8], work: impl FnOnce() -> R) -> usize {
    for (place, half) in NEEDLE.iter().zip(needle[..NEEDLE_BYTES].chunks(8)) {
        place.store(
            u64::from_ne_bytes(half.try_into().expect("8 bytes")),
            Relaxed,
        );
    }
    FOUND.store(0, Relaxed);
    drop(black_box(work()));
    NEEDLE.iter().for_each(|place| place.store(0, Relaxed));
    FOUND.load(Relaxed)
}
