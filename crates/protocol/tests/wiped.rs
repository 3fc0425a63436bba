//! Secrets of a round leave nothing behind on the heap: an allocator that looks into every block it takes back.
//!
//! Only memory of the Rust heap is seen, not the stack.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    convert::Infallible,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use blindsum_crypto::{seal::StorageKey, secret::Secret};
use blindsum_math::words::TileMut;
use blindsum_protocol::{
    Adversary, Answer, Client, ClientSetup, Closed, EncodingName, Fault, FaultKind, Input, Job,
    JobSpec, MemoryVault, Message, Outcome, PartyId, PartySet, ProtocolName, Round, RoundSum,
    Server, SparseInput,
};
use rand_core::{Rng, SeedableRng, TryCryptoRng, TryRng};

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use testing::{Given, Rig};

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
        let is_needle = |window: &[u8]| window == needle.as_flattened();
        if needle != [[0; 8]; 2] && bytes.windows(NEEDLE_BYTES).any(is_needle) {
            FOUND.fetch_add(1, Relaxed);
        }
        // SAFETY: the caller's promise about `block` and `layout`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static INSPECTOR: Inspector = Inspector;

/// How many blocks that `work` gave back held the first half of the needle.
fn left_behind<R>(needle: &[u8; 32], work: impl FnOnce() -> R) -> usize {
    for (place, half) in NEEDLE.iter().zip(needle.as_chunks().0) {
        place.store(u64::from_ne_bytes(*half), Relaxed);
    }
    FOUND.store(0, Relaxed);
    drop(std::hint::black_box(work()));
    NEEDLE.iter().for_each(|place| place.store(0, Relaxed));
    FOUND.load(Relaxed)
}

/// Gives one secret that the test knows, then what a good generator gives.
struct Planted(Option<[u8; 32]>, rand_chacha::ChaCha20Rng);

impl TryRng for Planted {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.1.next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.1.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        match self.0.take() {
            Some(planted) => bytes.copy_from_slice(&planted),
            None => self.1.fill_bytes(bytes),
        }
        Ok(())
    }
}

impl TryCryptoRng for Planted {}

/// One test, because there is one allocator for all threads.
#[test]
fn case_41_secrets_are_wiped() {
    let canary: [u8; 32] = std::array::from_fn(|i| 0xa5 ^ (11 * i) as u8);
    let found = left_behind(&canary, || Box::new(canary));
    assert_eq!(found, 1, "what is not wiped is found");
    self_mask_seed(&canary);
    refused_input(&canary);
    for protocol in [ProtocolName::Fssa, ProtocolName::Pss] {
        ramp_sharing(&canary, protocol);
    }
}

fn spec(dim: u64) -> JobSpec {
    JobSpec {
        protocol: ProtocolName::SecAgg,
        adversary: Adversary::Active,
        parties: 4,
        dim,
        ..JobSpec::default()
    }
}

/// b, from its drawing to the masked vector, through a snapshot.
fn self_mask_seed(canary: &[u8; 32]) {
    let (me, key) = (PartyId(1), StorageKey::from(Secret::from([3; 32])));
    let mut rig = Rig::at(spec(50), 0);
    rig.serve().unwrap();
    let keys = rig.down[&me].clone();
    let mut planted = Planted(Some(*canary), rand_chacha::ChaCha20Rng::seed_from_u64(1));
    let found = left_behind(canary, || {
        let mut client = rig.clients.remove(&me).unwrap();
        let answer = client.answer(&keys, None, &mut planted).unwrap();
        let sealed = client.seal(&key, &mut planted).unwrap();
        drop(client);
        let client = Client::unseal(rig.cohort.setup(me), &key, &sealed).unwrap();
        let Answer::Send(message) = answer else {
            panic!("it answers")
        };
        (rig.clients.insert(me, client), rig.up.insert(me, message))
    });
    assert!(planted.0.is_none(), "the seed was drawn");
    assert_eq!(found, 0, "drawn, shared, sealed and opened");

    rig.down.remove(&me);
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    let shares = rig.down[&me].clone();
    let words = rig.cohort.inputs[me.rank()].clone();
    let found = left_behind(canary, || {
        let client = rig.clients.get_mut(&me).unwrap();
        client
            .answer(&shares, Some(&mut Given(&words)), &mut planted)
            .unwrap()
    });
    assert_eq!(found, 0, "expanded and dropped");
}

/// Words of which the second tile is no good.
struct Breaking<'a>(&'a [u8; 32], usize);

impl Input for Breaking<'_> {
    fn lanes(&self) -> usize {
        self.1
    }

    fn read(&mut self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        let TileMut::W32(lanes) = tile else {
            panic!("words of 18 bits")
        };
        for (lane, bytes) in lanes.iter_mut().zip(self.0.as_chunks().0.iter().cycle()) {
            *lane = u32::from_ne_bytes(*bytes);
        }
        match first_lane {
            0 => Ok(()),
            _ => Err(FaultKind::Input("the rest is lost".into())),
        }
    }
}

/// The words of a vector that could not be encoded to its end.
fn refused_input(canary: &[u8; 32]) {
    let me = PartyId(1);
    let mut rig = Rig::at(spec(10_000), 1);
    rig.serve().unwrap();
    let shares = rig.down[&me].clone();
    let mut client = rig.clients.remove(&me).unwrap();
    let mut plain = Breaking(canary, rig.cohort.round.job().lanes());
    let found = left_behind(canary, || {
        client
            .answer(&shares, Some(&mut plain), &mut rig.rng)
            .unwrap_err()
    });
    assert_eq!(found, 0);
}

/// Words that are the secret over and over.
struct Repeating<'a>(&'a [u8; 32], usize);

impl Input for Repeating<'_> {
    fn lanes(&self) -> usize {
        self.1
    }

    fn read(&mut self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        let TileMut::W64(lanes) = tile else {
            panic!("words of 64 bits")
        };
        let words = self.0.as_chunks().0.iter().cycle().skip(first_lane % 4);
        for (lane, bytes) in lanes.iter_mut().zip(words) {
            *lane = u64::from_ne_bytes(*bytes);
        }
        Ok(())
    }
}

/// The seed of the random elements and the words, from sharing to the sealed columns, through a snapshot.
fn ramp_sharing(canary: &[u8; 32], protocol: ProtocolName) {
    let (me, key) = (PartyId(1), StorageKey::from(Secret::from([3; 32])));
    let spec = JobSpec {
        protocol,
        encoding: EncodingName::Fixed64,
        ..spec(3000)
    };
    for seed in [Some(*canary), None] {
        let mut rig = Rig::at(spec.clone(), 0);
        rig.serve().unwrap();
        let keys = rig.down[&me].clone();
        let mut planted = Planted(seed, rand_chacha::ChaCha20Rng::seed_from_u64(1));
        let words = rig.cohort.inputs[me.rank()].clone();
        let found = left_behind(canary, || {
            let mut client = rig.clients.remove(&me).unwrap();
            let mut input: Box<dyn Input> = match seed {
                Some(_) => Box::new(Given(&words)),
                None => Box::new(Repeating(canary, 3000)),
            };
            client
                .answer(&keys, Some(&mut *input), &mut planted)
                .unwrap();
            let sealed = client.seal(&key, &mut planted).unwrap();
            drop(client);
            Client::unseal(rig.cohort.setup(me), &key, &sealed).unwrap()
        });
        assert!(planted.0.is_none(), "the seed was drawn");
        assert_eq!(found, 0, "shared, sealed and opened");
    }
}
