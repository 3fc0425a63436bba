//! Runs a loop with the widest vector instructions of this machine.
//!
//! The loops are plain Rust that the compiler vectorises, and none may fuse a multiplication with an addition:
//! so every instruction set gives the same bits.

/// A loop to run; `run` must be `#[inline(always)]`, to be compiled anew for every instruction set.
pub trait Kernel {
    /// What the loop computes.
    type Output;

    /// The loop.
    fn run(self) -> Self::Output;
}

/// Runs `kernel` with the widest vector instructions found.
pub fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if x86::has_avx512() {
            // SAFETY: the machine has the features that `with_avx512` is compiled for.
            return unsafe { x86::with_avx512(kernel) };
        }
        if x86::has_avx2() {
            // SAFETY: the machine has the feature that `with_avx2` is compiled for.
            return unsafe { x86::with_avx2(kernel) };
        }
    }
    kernel.run()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Kernel;

    pub(super) fn has_avx512() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
    }

    pub(super) fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn with_avx512<K: Kernel>(kernel: K) -> K::Output {
        kernel.run()
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn with_avx2<K: Kernel>(kernel: K) -> K::Output {
        kernel.run()
    }
}

/// What every instruction set of this machine makes of the same kernel, the plain build first. Tests compare them.
pub fn run_on_all<K: Kernel>(kernel: impl Fn() -> K) -> Vec<K::Output> {
    let mut outputs = vec![kernel().run()];
    #[cfg(target_arch = "x86_64")]
    {
        if x86::has_avx2() {
            // SAFETY: the machine has the feature that `with_avx2` is compiled for.
            outputs.push(unsafe { x86::with_avx2(kernel()) });
        }
        if x86::has_avx512() {
            // SAFETY: the machine has the features that `with_avx512` is compiled for.
            outputs.push(unsafe { x86::with_avx512(kernel()) });
        }
    }
    outputs
}
