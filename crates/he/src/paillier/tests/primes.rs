//! Keys as they are drawn.

use crypto_bigint::Uint;

use super::super::portable::uint;
use super::super::prime;
use super::*;

/// What the scheme needs of its primes.
fn check<const P: usize>(key: &SecretKey) {
    let half = 8 * P;
    let bytes = key.to_bytes();
    let [p, q] = [&bytes[..half], &bytes[half..2 * half]].map(|bytes| {
        let mut words = [0; P];
        super::super::number::read(bytes, &mut words);
        Uint::from_words(words)
    });
    let less = |prime: &Uint<P>| prime.wrapping_sub(&Uint::ONE);
    assert!(p < q);
    for prime in [&p, &q] {
        assert_eq!(prime.as_words()[0] % 4, 3);
        assert_eq!(prime.bits_vartime() as usize, 64 * P);
        for base in [2, 3, 5, 7, 11, 13u64] {
            assert!(prime::passes(prime, &Uint::from(base)));
        }
    }
    assert_eq!(less(&p).gcd_vartime(&less(&q)), Uint::from(2u64));
    // gcd(N, φ(N)) = 1.
    assert_eq!(p.gcd_vartime(&less(&q)), Uint::ONE);
    assert_eq!(q.gcd_vartime(&less(&p)), Uint::ONE);
    let (low, high) = p.widening_mul(&q);
    assert_eq!(
        key.public().modulus(),
        [low.to_words(), high.to_words()].concat()
    );
    assert_eq!(high.as_words()[P - 1] >> 63, 1);
    assert_eq!(uint::<P>(&key.public().modulus()[..P]), low);
}

#[test]
fn keys_have_the_form_of_the_scheme() {
    check::<16>(key(KeySize::Bits2048));
    check::<24>(key(KeySize::Bits3072));
    check::<16>(&SecretKey::generate(KeySize::Bits2048, &mut rng(11)));
}

/// The same generator gives the same key, which comes back from its bytes.
#[test]
fn keys_are_reproducible() {
    for size in KeySize::ALL {
        let again = SecretKey::generate(size, &mut rng(1));
        assert_eq!(again.to_bytes(), key(size).to_bytes());
        let public = again.public();
        let read = SecretKey::from_bytes(&again.to_bytes()).unwrap();
        assert_eq!(read.public(), public);
        assert_eq!(&PublicKey::from_bytes(&public.to_bytes()).unwrap(), public);
        assert_eq!(read.public().id(), public.id());
    }
}

/// Carmichael numbers and products of two primes pass no test to all bases.
#[test]
fn composites_do_not_pass() {
    for composite in [8_911u64, 1_024_651, 3_215_031_751, 0xffff_ffff_ffff_fffb] {
        let number = Uint::<2>::from(composite);
        let bases = [2u64, 3, 5, 7, 11, 13].map(|base| prime::passes(&number, &Uint::from(base)));
        assert!(bases.contains(&false), "{composite}");
    }
    assert!(prime::passes(
        &Uint::<2>::from(2_147_483_647u64),
        &Uint::from(2u64)
    ));
    assert!(prime::has_small_factor(&Uint::<2>::from(
        2_039u64 * 1_000_003
    )));
    assert!(!prime::has_small_factor(&Uint::<2>::from(
        1_000_003u64 * 1_000_033
    )));
}
