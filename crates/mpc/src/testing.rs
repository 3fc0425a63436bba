//! Three servers in one thread, for the tests of this crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use blindsum_crypto::kdf::Context;
use blindsum_crypto::secret::Secret;

use crate::line::{Line, Progress, Script, TRAILER};
use crate::{Mpc, MpcError, PairKeys, Ring, ServerIndex, Shares, Vectors};

/// What a computation came to.
pub struct Outcome<T> {
    /// At each server.
    pub results: [T; 3],
    /// Rounds that it took.
    pub rounds: u32,
    /// Bytes that each server sent, without the numbers of rounds.
    pub sent: [usize; 3],
}

/// What a server does that does not follow the protocol: it adds something to its part of one product, says so and keeps
/// it, and believes everything.
pub struct Cheat {
    /// Products, or rows of ANDs, before that one.
    pub before: AtomicUsize,
    /// What it adds to each number, or to the lowest bit of each row.
    pub error: u128,
}

impl Cheat {
    /// One that adds its error to the parts behind so many others.
    pub fn at(before: usize, error: u128) -> Arc<Self> {
        let before = AtomicUsize::new(before);
        Arc::new(Self { before, error })
    }

    /// One that only believes everything.
    pub fn never() -> Arc<Self> {
        Self::at(usize::MAX, 0)
    }

    /// Whether it has added its error.
    pub fn is_done(&self) -> bool {
        self.before.load(Ordering::Relaxed) > usize::MAX / 2
    }

    /// Whether it is time.
    fn is_now(&self) -> bool {
        self.before.fetch_sub(1, Ordering::Relaxed) == 0
    }
}

impl<R: Ring> Mpc<R> {
    /// Shows masked values to all three servers. One round; an element for each value.
    pub async fn open(&self, x: &Shares<R>) -> Result<Vec<R>, MpcError> {
        let mut to_next = Vec::new();
        R::write(&x.own, &mut to_next);
        let from_previous = self.pass_on(to_next).await?;
        let missing = R::read(&from_previous);
        let known = x.pairs().zip(missing);
        let value = |((own, next), missing): ((R, R), R)| own.plus(next).plus(missing);
        let values: Vec<R> = known.map(value).collect();
        self.see(&values);
        Ok(values)
    }

    /// Adds the error of a cheating server to its parts.
    pub fn bend(&self, parts: &mut [R]) {
        if let Some(cheat) = self.cheat.as_ref().filter(|cheat| cheat.is_now()) {
            let error = R::of((cheat.error >> 64) as u64).times(R::of(1 << 32));
            let error = error.times(R::of(1 << 32)).plus(R::of(cheat.error as u64));
            for part in parts {
                *part = part.plus(error);
            }
        }
    }

    /// The same for bits.
    pub fn bend_bits(&self, mut parts: Vec<u64>) -> Vec<u64> {
        if let Some(cheat) = self.cheat.as_ref().filter(|cheat| cheat.is_now()) {
            for part in &mut parts {
                *part ^= (cheat.error & 1) as u64;
            }
        }
        parts
    }
}

/// Key j is all j + 1.
pub fn keys<R: Ring>(me: ServerIndex) -> PairKeys<R> {
    keys_with(me, |server| [server.number() + 1; 32])
}

/// Other keys.
pub fn keys_with<R: Ring>(me: ServerIndex, key: impl Fn(ServerIndex) -> [u8; 32]) -> PairKeys<R> {
    let key = |server| Secret::from(key(server));
    PairKeys::of(me, Context([9; 32]), key(me), key(me.next()))
}

/// A server of a test.
pub fn server<R: Ring>(me: ServerIndex, line: Line) -> Mpc<R> {
    Mpc::new(keys(me), line)
}

/// One that verifies what others compute.
pub fn verifying(me: ServerIndex, line: Line) -> Mpc<u128> {
    Mpc::verifying(keys(me), line)
}

/// A message on its way.
pub struct Carried<'a> {
    /// Its place among all messages, from 0.
    pub number: usize,
    /// Who says it.
    pub from: usize,
    /// Who hears it.
    pub to: usize,
    /// The round, from 0.
    pub round: u32,
    /// What it says; may be changed.
    pub bytes: &'a mut Vec<u8>,
}

/// Runs the code of three servers to its end.
pub fn run<R, T, F>(code: impl Fn(Mpc<R>) -> F) -> Result<Outcome<T>, MpcError>
where
    R: Ring,
    F: Future<Output = Result<T, MpcError>> + Send + 'static,
{
    carry(|me, line| code(server(me, line)), |_| {})
}

/// Runs it with somebody who may change messages.
pub fn carry<T, F>(
    code: impl Fn(ServerIndex, Line) -> F,
    mut change: impl FnMut(Carried<'_>),
) -> Result<Outcome<T>, MpcError>
where
    F: Future<Output = Result<T, MpcError>> + Send + 'static,
{
    let mut scripts = Vec::new();
    let mut states = Vec::new();
    for me in ServerIndex::ALL {
        let (script, progress) = Script::start(me, |line| code(me, line))?;
        scripts.push(script);
        states.push(progress);
    }
    let (mut rounds, mut sent, mut number) = (0, [0; 3], 0);
    loop {
        let mut said = Vec::new();
        let mut results = Vec::new();
        for (from, state) in states.into_iter().enumerate() {
            match state {
                Progress::Done(result) => results.push(result),
                Progress::Says(mut round) => {
                    assert_eq!(round.number, rounds);
                    sent[from] += round.to_next.len() + round.to_previous.len() - 2 * TRAILER;
                    let messages = [&mut round.to_next, &mut round.to_previous];
                    for (to, bytes) in [from + 1, from + 2].into_iter().zip(messages) {
                        if bytes.len() > TRAILER {
                            change(Carried {
                                number,
                                from,
                                to: to % 3,
                                round: rounds,
                                bytes,
                            });
                            number += 1;
                        }
                    }
                    said.push(round);
                }
            }
        }
        if let Ok(results) = <[T; 3]>::try_from(results) {
            return Ok(Outcome {
                results,
                rounds,
                sent,
            });
        }
        assert_eq!(said.len(), 3, "all of them end in the same round");
        rounds += 1;
        let mut heard = |me: usize| {
            let (next, previous) = ((me + 1) % 3, (me + 2) % 3);
            let from_next = said[next].to_previous.clone();
            scripts[me].receive(from_next, said[previous].to_next.clone())
        };
        states = vec![heard(0)?, heard(1)?, heard(2)?];
    }
}

/// Shares of values, for one server; the first two components are made up.
pub fn shared<R: Ring>(me: ServerIndex, values: &[R]) -> Shares<R> {
    shared_in(me, ServerIndex::ALL[2], values)
}

/// The same where the values show in the component with the number of another server.
pub fn shared_in<R: Ring>(me: ServerIndex, shows: ServerIndex, values: &[R]) -> Shares<R> {
    let made_up = |number: ServerIndex| {
        let mix = move |place: usize| {
            let number = u64::from(number.number()) + 1;
            let it = (place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ number << 7);
            R::of(it ^ it >> 29).times(R::of(0xd6e8_feb8_6659_fd93))
        };
        (0..values.len()).map(mix).collect::<Vec<R>>()
    };
    let of = |server: ServerIndex| {
        if server != shows {
            return made_up(server);
        }
        let (a, b) = (made_up(server.next()), made_up(server.previous()));
        let rest = values.iter().zip(a.iter().zip(&b));
        rest.map(|(value, (a, b))| value.minus(*a).minus(*b))
            .collect()
    };
    Shares::new(of(me), of(me.next())).unwrap()
}

/// Shares of vectors.
pub fn vectors_of<const N: usize>(me: ServerIndex, vectors: &[[u64; N]]) -> Vectors {
    let components = |vector: &[u64; N]| shared(me, vector).components().map(<[u64]>::to_vec);
    Vectors::new(vectors.iter().map(components).collect()).unwrap()
}

/// Shares of signed numbers.
pub fn shared_signed<R: Ring>(me: ServerIndex, values: &[i64]) -> Shares<R> {
    let values: Vec<R> = values.iter().map(|value| R::of_signed(*value)).collect();
    shared(me, &values)
}

/// The values that three servers have shares of; both holders of a component must have the same.
pub fn opened<R: Ring>(shares: &[Shares<R>; 3]) -> Vec<R> {
    for (server, shares_of) in shares.iter().enumerate() {
        assert_eq!(
            shares_of.next,
            shares[(server + 1) % 3].own,
            "component after {server}"
        );
    }
    let [zero, one, two] = shares;
    let values = zero.own.iter().zip(one.own.iter()).zip(two.own.iter());
    values
        .map(|((zero, one), two)| zero.plus(*one).plus(*two))
        .collect()
}

/// The same as signed numbers.
pub fn opened_signed<R: Ring>(shares: &[Shares<R>; 3]) -> Vec<i64> {
    opened(shares)
        .into_iter()
        .map(|value| value.low() as i64)
        .collect()
}
