//! The public coin: all servers know the same one, and none of them chose it.

use std::collections::BTreeSet;

use crate::testing::{Carried, carry, keys_with, shared_signed, verifying};
use crate::{Mpc, MpcError, ServerIndex, Shares, join};

/// Abuse case 38: all three servers draw the coin. It has a part of each key, so no server knows it before the others have
/// said theirs.
#[test]
fn case_38_the_coin_has_a_part_that_each_server_lacks() {
    let coin = |changed: Option<ServerIndex>| {
        let key =
            |server: ServerIndex| [server.number() + 1 + 7 * u8::from(changed == Some(server)); 32];
        let code = |me, line| {
            let mpc = Mpc::<u64>::new(keys_with(me, key), line);
            async move { mpc.coin().await }
        };
        let [zero, one, two] = carry(code, |_| {}).unwrap().results;
        assert!(zero == one && one == two);
        zero
    };
    let coins: BTreeSet<[u8; 32]> = ServerIndex::ALL.map(|server| coin(Some(server))).into();
    assert_eq!(coins.len(), 3);
    assert!(!coins.contains(&coin(None)));
}

/// Abuse case 38: a part of the coin that is said to one server and another one to the other is found out.
#[test]
fn case_38_two_parts_of_the_coin_are_found_out() {
    let code = |me, line| {
        let mpc = verifying(me, line);
        async move { mpc.coin().await }
    };
    let mut messages = 0;
    carry(code, |_| messages += 1).unwrap();
    assert_eq!(messages, 6);
    for changed in 0..messages {
        let outcome = carry(code, |carried| {
            if carried.number == changed {
                carried.bytes[31] ^= 1;
            }
        });
        let found = outcome.err();
        let is_found =
            matches!(&found, Some(MpcError::Differs { what, .. }) if what.contains("challenge"));
        assert!(is_found, "{changed}: {found:?}");
    }
}

/// Abuse case 38: a server that shows other values has another coin to fit them to.
#[test]
fn case_38_the_coin_depends_on_what_was_opened() {
    let coin = |value: u128| {
        let code = |me, line| {
            let mpc = verifying(me, line);
            async move {
                mpc.open_low(&Shares::public(me, &[value])).await?;
                mpc.coin().await
            }
        };
        carry(code, |_| {}).unwrap().results[0]
    };
    let coins: BTreeSet<[u8; 32]> = [1, 2, 3, 1].map(coin).into();
    assert_eq!(coins.len(), 3);
}

/// Abuse case 38: a server that hears the others' parts of a coin first cannot choose among coins by what it shows to all in
/// the same letters. Each of these errors changes what is opened, and none of them changes the coin.
#[test]
fn case_38_a_coin_cannot_be_ground_in_its_own_letters() {
    let drawn = |delta: u64| {
        let code = |me: ServerIndex, line| {
            let mpc = verifying(me, line);
            async move {
                // As the gate does it.
                let beside = mpc.branch();
                let (x, y) = (shared_signed(me, &[5 << 20]), shared_signed(me, &[7]));
                mpc.make_ahead([(1, 64)]).await?;
                let product = mpc.multiply_truncate(&x, &y, 8);
                let (_, coin) = join(product, beside.coin()).await?;
                Ok((coin, mpc.ledger.seen()))
            }
        };
        let rush = |carried: Carried<'_>| {
            if carried.round == 2
                && carried.from == 1
                && let Some(opened) = carried.bytes.first_chunk_mut::<8>()
            {
                *opened = u64::from_le_bytes(*opened)
                    .wrapping_add(delta)
                    .to_le_bytes();
            }
        };
        let [zero, _, two] = carry(code, rush).unwrap().results;
        assert_eq!(zero, two);
        zero
    };
    let (coins, seen): (BTreeSet<_>, BTreeSet<_>) = (0..64).map(drawn).unzip();
    assert_eq!(seen.len(), 64, "what is opened changes each time");
    assert_eq!(coins.len(), 1);
}
