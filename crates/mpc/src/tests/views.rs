//! What each server sees, all of it together: the same distribution whatever the inputs are, as long as the result is the
//! same. On a ring of four numbers, where views are few enough to be counted.

use blindsum_crypto::kdf::hash;
use blindsum_crypto::mask::MaskStream;

use crate::line::TRAILER;
use crate::ring::words;
use crate::testing::{Carried, carry, keys_with, shared_in, shared_signed};
use crate::{Mpc, MpcError, Ring, ServerIndex};

/// A number modulo 4.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tiny(u8);

impl Tiny {
    fn new(value: u64) -> Self {
        Self((value & 3) as u8)
    }
}

impl Ring for Tiny {
    const BYTES: usize = 1;
    const ZERO: Self = Self(0);

    fn of(value: u64) -> Self {
        Self::new(value)
    }

    fn of_wide(value: u128) -> Self {
        Self::of(value as u64)
    }

    fn of_signed(value: i64) -> Self {
        Self::new(value as u64)
    }

    fn low(self) -> u64 {
        self.0.into()
    }

    fn plus(self, other: Self) -> Self {
        Self::new(self.low() + other.low())
    }

    fn minus(self, other: Self) -> Self {
        Self::new(self.low() + 4 - other.low())
    }

    fn times(self, other: Self) -> Self {
        Self::new(self.low() * other.low())
    }

    fn stream(stream: &MaskStream, first: usize, count: usize) -> Vec<Self> {
        words(stream, first, count)
            .into_iter()
            .map(Self::new)
            .collect()
    }

    fn write(values: &[Self], out: &mut Vec<u8>) {
        out.extend(values.iter().map(|it| it.0));
    }

    fn read(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|it| Self::new((*it).into())).collect()
    }
}

/// x · y, and that again times the higher bit of x as −2 and 1.
async fn job(
    mpc: Mpc<Tiny>,
    shows: ServerIndex,
    [x, y]: [u64; 2],
    leaks: bool,
) -> Result<Vec<u64>, MpcError> {
    let shared = |value| shared_in(mpc.me(), shows, &[Tiny::new(value)]);
    let (x, y) = (shared(x), shared(y));
    let product = mpc.multiply(&x, &y).await?;
    let sign = mpc.to_numbers(&mpc.sign(&x, 2).await?).await?;
    let weight = sign.times(Tiny(2)).plus_public(mpc.me(), Tiny(1));
    let z = mpc.multiply(&product, &weight).await?;
    if leaks {
        mpc.open(&x).await?;
    }
    mpc.reveal(&z).await
}

/// How often each view comes of so many, in classes of a hash of it; the results.
fn classes(of: ServerIndex, inputs: [u64; 2], leaks: bool) -> ([f64; CLASSES], Vec<u64>) {
    let mut often = [0.0; CLASSES];
    let mut result = Vec::new();
    for lacks in 0..TIMES {
        // The same inputs never meet the same key.
        let number = lacks * 16 + inputs[0] * 4 + inputs[1];
        let key = |server: ServerIndex| {
            let mut key = [server.number() + 1; 32];
            if server == of.previous() {
                key[..8].copy_from_slice(&number.to_le_bytes());
            }
            key
        };
        let mut view: Vec<u8> = Vec::new();
        let hear = |carried: Carried<'_>| {
            if carried.to == usize::from(of.number()) {
                view.extend(&carried.bytes[..carried.bytes.len() - TRAILER]);
            }
        };
        let code = |me, line| {
            let mpc = Mpc::new(keys_with(me, key), line);
            job(mpc, of.previous(), inputs, leaks)
        };
        let outcome = carry(code, hear).unwrap();
        result = outcome.results[0].iter().map(|it| it & 3).collect();
        let [low, high, ..] = hash("class", &[&view]);
        often[usize::from(u16::from_le_bytes([low, high])) % CLASSES] += 1.0;
    }
    (often, result)
}

const TIMES: u64 = 3000;
const CLASSES: usize = 1024;

/// Σ (a − b)² / (a + b): as many degrees of freedom as there are classes, less one, where both come from one distribution.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let pairs = a.iter().zip(b).filter(|(a, b)| **a + **b > 0.0);
    pairs.map(|(a, b)| (a - b).powi(2) / (a + b)).sum()
}

/// For each server, and three inputs with the same result. Its own shares are those of the same two components: what it
/// lacks is a component of each input and a key.
#[test]
fn views_do_not_depend_on_inputs() {
    // Mean k and variance 2k: five standard deviations.
    let most = CLASSES as f64 + 5.0 * (2.0 * CLASSES as f64).sqrt();
    for of in ServerIndex::ALL {
        let first = classes(of, [1, 2], false);
        for inputs in [[3, 2], [2, 1]] {
            let other = classes(of, inputs, false);
            assert_eq!(first.1, [2]);
            assert_eq!(other.1, [2]);
            let found = distance(&first.0, &other.0);
            assert!(found < most, "{of}, {inputs:?}: {found}");
        }
    }
}

/// The test finds a server that sees one number too many.
#[test]
fn a_view_that_depends_on_inputs_is_found() {
    let of = ServerIndex::ALL[1];
    let (first, other) = (classes(of, [1, 2], true), classes(of, [3, 2], true));
    let found = distance(&first.0, &other.0);
    assert!(found > 1.4 * CLASSES as f64, "{found}");
}

/// How often what a truncation opens is in each class, by its highest and lowest five bits; of a product if it is one.
fn opened_classes(value: i64, of_product: bool) -> [f64; CLASSES] {
    let mut often = [0.0; CLASSES];
    for number in 0..TIMES {
        let key = |server: ServerIndex| {
            let mut key = [server.number() + 1; 32];
            key[..8].copy_from_slice(&(number ^ value.cast_unsigned()).to_le_bytes());
            key
        };
        let code = |me, line| {
            let mpc = Mpc::<u64>::new(keys_with(me, key), line);
            let (x, one) = (shared_signed(me, &[value]), shared_signed(me, &[1]));
            async move {
                match of_product {
                    true => mpc.multiply_truncate(&x, &one, 7).await,
                    false => mpc.truncate(&x, 7).await,
                }
            }
        };
        let mut said = Vec::new();
        let hear = |carried: Carried<'_>| {
            if carried.to == (carried.from + 1) % 3 {
                let word = carried.bytes.first_chunk().copied();
                said.push(word.map_or(0, u64::from_le_bytes));
            }
        };
        carry(code, hear).unwrap();
        // In the last round each server says its part to the next one.
        let opened = said
            .iter()
            .rev()
            .take(3)
            .fold(0u64, |sum, part| sum.wrapping_add(*part));
        often[(opened >> 59 << 5 | opened & 31) as usize] += 1.0;
    }
    often
}

/// Where numbers are truncated they are opened under a mask: what comes out is the same distribution for all of them.
#[test]
fn what_truncations_open_does_not_depend_on_values() {
    let most = CLASSES as f64 + 5.0 * (2.0 * CLASSES as f64).sqrt();
    for of_product in [false, true] {
        let first = opened_classes(0, of_product);
        for value in [1 << 61, -(1 << 61), 12_345] {
            let found = distance(&first, &opened_classes(value, of_product));
            assert!(found < most, "{of_product}, {value}: {found}");
        }
    }
}
