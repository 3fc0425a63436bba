//! Decryption with both primes.

use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{NonZero, Uint};
use rayon::prelude::*;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use super::PaillierError;
use super::backend::Backend;
use super::kernel::Arithmetic;

/// What decrypts, for either size.
pub(super) trait Decrypt: Send + Sync {
    /// The plaintexts of ciphertexts.
    fn decrypt(&self, ciphertexts: &[u64]) -> Result<Zeroizing<Vec<u64>>, PaillierError>;
}

/// One prime p of `P` words.
struct Branch<const P: usize> {
    prime: Zeroizing<Uint<P>>,
    params: Zeroizing<FixedMontyParams<P>>,
    /// p − 1.
    exponent: Zeroizing<Vec<u64>>,
    /// 1/p modulo 2^(64·`P`).
    inverse: Zeroizing<Uint<P>>,
    /// 1/L(g^(p−1) mod p²) mod p for g = 1 + N, which is 1/(−q).
    factor: Zeroizing<FixedMontyForm<P>>,
    /// Modulo p².
    arithmetic: Box<dyn Arithmetic>,
}

/// Both primes p < q.
pub(super) struct Crt<const P: usize> {
    p: Branch<P>,
    q: Branch<P>,
    /// 1/p mod q.
    join: Zeroizing<FixedMontyForm<P>>,
}

/// `x` modulo the modulus of `params`, inverted: both are primes, and different.
fn inverted<const P: usize>(
    x: &Uint<P>,
    params: &FixedMontyParams<P>,
) -> Zeroizing<FixedMontyForm<P>> {
    let reduced = Zeroizing::new(x.rem(params.modulus().as_nz_ref()));
    let form = Zeroizing::new(FixedMontyForm::new(&reduced, params));
    Zeroizing::new(form.invert().expect_copied("different primes"))
}

impl<const P: usize> Branch<P> {
    fn new(prime: &Uint<P>, other: &Uint<P>, backend: Backend) -> Self {
        let odd = prime.to_odd().expect_copied("a prime");
        let params = Zeroizing::new(FixedMontyParams::new(odd));
        let (low, high) = prime.widening_square();
        let square = Zeroizing::new([low.to_words(), high.to_words()].concat());
        let inverse = prime.invert_mod2k(Uint::<P>::BITS);
        let exponent = Zeroizing::new(prime.wrapping_sub(&Uint::ONE));
        let mut factor = inverted(other, &params);
        *factor = factor.neg();
        Self {
            prime: Zeroizing::new(*prime),
            exponent: Zeroizing::new(exponent.to_words().to_vec()),
            inverse: Zeroizing::new(inverse.expect_copied("a prime")),
            factor,
            arithmetic: backend.modulo(&square),
            params,
        }
    }

    /// m mod p from u = c^(p−1) mod p², which is 1 + p·L(u); and whether u has that form.
    fn plaintext(&self, power: &[u64]) -> (Zeroizing<Uint<P>>, bool) {
        let (low, high) = power.split_at(P);
        let low = Zeroizing::new(super::portable::uint::<P>(low));
        // The quotient is below p, so that its lower half is all of it.
        let quotient = Zeroizing::new(low.wrapping_sub(&Uint::ONE).wrapping_mul(&*self.inverse));
        let (again, upper) = quotient.widening_mul(&*self.prime);
        let (again, upper) = (Zeroizing::new(again), Zeroizing::new(upper));
        let whole = again
            .wrapping_add(&Uint::ONE)
            .as_words()
            .ct_eq(low.as_words())
            & upper.as_words()[..].ct_eq(high);
        let form = Zeroizing::new(FixedMontyForm::new(&quotient, &self.params));
        let plaintext = Zeroizing::new(form.mul(&self.factor).retrieve());
        // guard: decryption-sees-shared-factors
        (plaintext, whole.into())
    }
}

impl<const P: usize> Crt<P> {
    /// Two primes that were checked, the smaller one first.
    pub fn new(p: &Uint<P>, q: &Uint<P>, backend: Backend) -> Self {
        let of_q = Branch::new(q, p, backend);
        Self {
            p: Branch::new(p, q, backend),
            join: inverted(p, &of_q.params),
            q: of_q,
        }
    }

    /// m from m mod p and m mod q: m_p + p·((m_q − m_p)/p mod q).
    fn joined(&self, of_p: &Uint<P>, of_q: &Uint<P>, plaintext: &mut [u64]) {
        let modulus: &NonZero<Uint<P>> = self.q.params.modulus().as_nz_ref();
        let difference = Zeroizing::new(of_q.sub_mod(of_p, modulus));
        let form = Zeroizing::new(FixedMontyForm::new(&difference, &self.q.params));
        let times = Zeroizing::new(form.mul(&self.join).retrieve());
        let (low, high) = times.widening_mul(&*self.p.prime);
        let (mut low, mut high) = (low, high);
        let (sum, carry) = low.carrying_add(of_p, crypto_bigint::Limb::ZERO);
        let (top, _) = high.carrying_add(&Uint::ZERO, carry);
        let (lower, upper) = plaintext.split_at_mut(P);
        lower.copy_from_slice(sum.as_words());
        upper.copy_from_slice(top.as_words());
        low.zeroize();
        high.zeroize();
    }
}

impl<const P: usize> Decrypt for Crt<P> {
    fn decrypt(&self, ciphertexts: &[u64]) -> Result<Zeroizing<Vec<u64>>, PaillierError> {
        let power = |branch: &Branch<P>| branch.arithmetic.power(ciphertexts, &branch.exponent);
        let (of_p, of_q) = (power(&self.p), power(&self.q));
        let mut plaintexts = Zeroizing::new(vec![0; ciphertexts.len() / 2]);
        let refused = plaintexts
            .par_chunks_exact_mut(2 * P)
            .zip(of_p.par_chunks_exact(2 * P))
            .zip(of_q.par_chunks_exact(2 * P))
            .position_first(|((plaintext, of_p), of_q)| {
                let (of_p, first) = self.p.plaintext(of_p);
                let (of_q, second) = self.q.plaintext(of_q);
                self.joined(&of_p, &of_q, plaintext);
                !(first & second)
            });
        match refused {
            None => Ok(plaintexts),
            Some(index) => Err(PaillierError::Ciphertext {
                index,
                rule: "gcd(c, N) = 1 must hold",
            }),
        }
    }
}
