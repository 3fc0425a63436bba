//! Rounds, and messages that no honest server sends.

use crate::line::{Progress, Script};
use crate::testing::{run, server, shared};
use crate::{Mpc, MpcError, ServerIndex, Shares, join, join3};

#[test]
fn what_runs_side_by_side_shares_its_rounds() {
    let outcome = run(|mpc: Mpc<u64>| async move {
        let x = shared(mpc.me(), &[3, 4]);
        let deep = async {
            let mut power = x.clone();
            for _ in 0..5 {
                power = mpc.multiply(&power, &x).await?;
            }
            mpc.open(&power).await
        };
        join3(deep, mpc.open(&x), mpc.sign(&x, 64)).await
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.results[1].0, [729, 4096]);
    assert_eq!(outcome.results[2].1, [3, 4]);
    assert_eq!(outcome.rounds, 8);
}

/// One server that opens a value and adds bits, at its first round.
fn waiting() -> Script<Shares<u64>> {
    let me = ServerIndex::ALL[1];
    let code = |line| {
        let mpc = server::<u64>(me, line);
        async move {
            let x = shared(me, &[3; 5]);
            let bits = mpc.to_bits(&x, 2).await?;
            mpc.to_numbers(&bits).await
        }
    };
    let (script, progress) = Script::start(me, code).unwrap();
    let Progress::Says(round) = progress else {
        panic!("it waits for nothing");
    };
    assert_eq!(
        (round.number, round.to_next.len(), round.to_previous.len()),
        (0, 0, 2)
    );
    script
}

#[test]
fn a_message_of_another_length_is_refused() {
    let length = |from: u8, expected, got| MpcError::Length {
        round: 0,
        from: ServerIndex::try_from(from).unwrap(),
        expected,
        got,
    };
    assert_eq!(
        waiting().hear(vec![0; 3], Vec::new()).unwrap_err(),
        length(2, 2, 3)
    );
    assert_eq!(
        waiting().hear(Vec::new(), Vec::new()).unwrap_err(),
        length(2, 2, 0)
    );
    assert_eq!(
        waiting().hear(vec![0; 2], vec![0]).unwrap_err(),
        length(0, 0, 1)
    );
}

#[test]
fn bits_behind_the_end_of_a_row_are_refused() {
    assert!(waiting().hear(vec![0x1f; 2], Vec::new()).is_ok());
    let refused = waiting().hear(vec![0x1f, 0x20], Vec::new());
    assert_eq!(refused.unwrap_err(), MpcError::Padding);
}

#[test]
fn the_first_error_ends_it() {
    let outcome = run(|mpc: Mpc<u64>| async move {
        let x = shared(mpc.me(), &[1]);
        let fails = async {
            mpc.open(&x).await?;
            mpc.sign(&x, 1).await
        };
        join(mpc.sign(&x, 64), fails).await
    });
    let (name, value, rule) = ("bits", 1, "2 <= bits <= 64");
    assert_eq!(outcome.err(), Some(MpcError::Range { name, value, rule }));
}

#[test]
fn code_that_waits_for_nothing_is_stuck() {
    let me = ServerIndex::ALL[0];
    let stuck = Script::<()>::start(me, |_| std::future::pending());
    assert_eq!(stuck.err(), Some(MpcError::Stuck));
}

#[test]
fn there_are_three_servers() {
    assert_eq!(ServerIndex::try_from(3), Err(3));
    let [zero, one, two] = ServerIndex::ALL;
    assert_eq!((zero.previous(), one.next(), two.next()), (two, two, zero));
    assert_eq!(two.to_string(), "server 2");
}
