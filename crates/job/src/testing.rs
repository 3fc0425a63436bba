//! What the tests of this crate share.

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::machine::{Hand, Machine, Now};

/// When tests take place, in seconds since 1970-01-01 UTC.
pub const NOW: u64 = 1_800_000_000;

/// Randomness that is the same in every run.
pub fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// What comes of code that has only tasks done.
pub fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    code: impl FnOnce(Hand<(), T>) -> F,
) -> T {
    let now = Now::default();
    let mut machine = Machine::start([0; 32], now, (), |hand: Hand<(), T>| {
        let (said, code) = (hand.clone(), code(hand));
        async move { said.say(code.await) }
    });
    let done = machine.poll_working(now);
    done.expect("the code ends or has a task done")
}
