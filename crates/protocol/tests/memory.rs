//! What a party of `fssa` and `pss` needs in memory to share its vector: the message, and one tile.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use blindsum_math::words::TileMut;
use blindsum_protocol::{
    Answer, AnySurvivors, Client, ClientSetup, Closed, Excuse, Fault, FaultKind, Follower,
    FollowerSetup, Input, Job, JobMemory, JobSpec, KnownServers, MemoryVault, Message, Outcome,
    Outgoing, PartyId, PartySet, ProtocolName, Round, RoundSum, Seat, Server, ServerIdentity,
    ServerIndex, ServerRole, SparseInput,
};

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use testing::Rig;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counter;

// SAFETY: every request is passed on to the system's allocator, its size is only counted.
unsafe impl GlobalAlloc for Counter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: the caller's promise about `layout`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise about `block` and `layout`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTER: Counter = Counter;

/// The bytes that `work` had allocated at most, beyond those that were allocated before.
fn peak_of<R>(work: impl FnOnce() -> R) -> (usize, R) {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    (PEAK.load(Relaxed) - before, result)
}

/// Small words that take no memory.
struct Counting(usize);

impl Input for Counting {
    fn lanes(&self) -> usize {
        self.0
    }

    fn read(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        let TileMut::W32(lanes) = tile else {
            panic!("words of 22 bits")
        };
        for (lane, at) in lanes.iter_mut().zip(first_lane..) {
            *lane = at as u32 % 1000;
        }
        Ok(())
    }
}

/// One test, because there is one count for all threads.
#[test]
fn a_vector_is_shared_in_the_memory_of_its_message() {
    const DIM: usize = 400_000;
    for protocol in [ProtocolName::Fssa, ProtocolName::Pss] {
        let spec = JobSpec {
            protocol: protocol.into(),
            parties: 40,
            dim: DIM as u64,
            ..JobSpec::default()
        };
        let mut rig = Rig::at(spec, 0);
        rig.serve().unwrap();
        let me = PartyId(1);
        let keys = rig.down[&me].clone();
        let client = rig.clients.get_mut(&me).unwrap();
        let input = Counting(DIM);
        let (peak, answer) = peak_of(|| client.answer(&keys, Some(&input), &mut rig.rng).unwrap());
        let Answer::Send(message) = answer else {
            panic!("columns go out")
        };
        // Far less than the vector as words beside the message, let alone n shares of every word.
        let room = DIM * 4 / 2;
        assert!(
            message.len() > room && peak < message.len() + room,
            "{peak}"
        );
    }
}
