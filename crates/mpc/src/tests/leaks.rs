//! What a server learns that is found out: nothing but that it was found out.

use std::sync::{Arc, Mutex};

use blindsum_crypto::kdf::hash;

use super::{Mask, OFFSET};
use crate::line::TRAILER;
use crate::testing::{Cheat, carry, shared_signed, verifying};
use crate::{MpcError, Ring, Shares};

/// Bits behind the point.
const F: u32 = 20;

/// What server 0 knows of two truncations, one after the other.
#[derive(Clone, Copy)]
struct Known {
    top: [u128; 2],
    first: u64,
    second: u64,
}

/// Server 0 shows server 1 another masked value. What server 1 then opens depends on a component that server 0 lacks: on
/// the highest bit of the mask, and with it on the value. A hash of it would show that bit.
#[test]
fn case_38_another_masked_value_shown_to_one_server() {
    let known = Arc::new(Mutex::new(None));
    let mut said_to_zero = Vec::new();
    let start = |me: crate::ServerIndex, line| {
        let mut mpc = verifying(me, line);
        if me.number() == 0 {
            mpc.cheat = Some(Cheat::never());
        }
        let known = known.clone();
        async move {
            let x: Shares<u128> = shared_signed(me, &[-(1 << 61)]);
            let lift = |x: &Shares<u128>, mask: &Mask<u128>| {
                let shifted = x.plus_public(me, u128::of(1 << OFFSET));
                shifted.plus(&mask.whole)
            };
            let first = mpc.mask(1, F).await?;
            let again = mpc.mask(1, F).await?;
            let c = mpc.open_low(&lift(&x, &first)?).await?;
            let y = mpc.unmask(&c, &first, F)?;
            let d = mpc.open_low(&lift(&y, &again)?).await?;
            if me.number() == 0 {
                *known.lock().unwrap() = Some(Known {
                    top: [first.top.own[0], first.top.next[0]],
                    first: c[0],
                    second: d[0],
                });
            }
            mpc.verify().await
        }
    };
    let outcome = carry(start, |carried| {
        if (carried.from, carried.to) == (1, 0) {
            said_to_zero.push(carried.bytes[..carried.bytes.len() - TRAILER].to_vec());
        }
        // Masks take four rounds; then the first value is opened.
        if (carried.from, carried.to, carried.round) == (0, 1, 4) {
            carried.bytes[7] ^= 0x80;
        }
    });
    assert!(matches!(outcome, Err(MpcError::Differs { .. })));
    let known: Option<Known> = *known.lock().unwrap();
    let known = known.unwrap();
    let chain = |seen: [u8; 32], value: u64| hash("mpc/seen", &[&seen, &value.to_le_bytes()]);
    for bit in 0..2u128 {
        let [zero, one] = known.top;
        let two = bit.wrapping_sub(zero).wrapping_sub(one);
        let both = (one.wrapping_add(two) as u64).wrapping_mul(1 << (64 - F));
        let difference = match known.first >> 63 {
            0 => both.wrapping_neg(),
            _ => both,
        };
        let seen = chain([9; 32], known.first ^ 1 << 63);
        let guess = chain(seen, known.second.wrapping_add(difference));
        for said in &said_to_zero {
            assert!(
                !said.ends_with(&guess),
                "the highest bit of the mask is {bit}"
            );
        }
    }
}
