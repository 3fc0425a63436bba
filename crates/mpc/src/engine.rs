//! A server in a computation: who it is, the keys it shares, and its line to the others.

use crate::ledger::Ledger;
use crate::line::{Heard, Line, Say};
use crate::stock::Stock;
use crate::{MpcError, PairKeys, Ring, ServerIndex, Shares};

/// One server's side of a computation on values of the ring `R`.
///
/// Operations that need the other servers are `async`. Their documentation says how many rounds they wait for, and how
/// much each server sends. Between servers that verify, each of them can also fail with [`MpcError::Differs`].
pub struct Mpc<R> {
    pub(crate) me: ServerIndex,
    pub(crate) keys: PairKeys,
    pub(crate) line: Line,
    pub(crate) ledger: Ledger<R>,
    pub(crate) stock: Stock<R>,
    /// What a cheating server of a test does.
    #[cfg(test)]
    pub(crate) cheat: Option<crate::testing::Cheat>,
}

impl<R: Ring> Mpc<R> {
    /// A server that trusts the others to follow the protocol: nothing is verified.
    pub fn new(me: ServerIndex, keys: PairKeys, line: Line) -> Self {
        Self::with(me, keys, line, Ledger::none())
    }

    fn with(me: ServerIndex, keys: PairKeys, line: Line, ledger: Ledger<R>) -> Self {
        Self {
            me,
            keys,
            line,
            ledger,
            stock: Stock::default(),
            #[cfg(test)]
            cheat: None,
        }
    }

    /// Which server this is.
    pub fn me(&self) -> ServerIndex {
        self.me
    }

    /// Random values that no server knows. No round.
    pub fn random(&self, count: usize) -> Shares<R> {
        let (own, next) = self.keys.streams();
        Shares {
            own: R::stream(&own, count),
            next: R::stream(&next, count),
        }
    }

    /// Turns parts z_i, one at each server and in sum the values, into shares of them. One round; an element for each
    /// value.
    pub(crate) async fn reshare(&self, mut parts: Vec<R>) -> Result<Shares<R>, MpcError> {
        self.blind(&mut parts);
        let mut to_previous = Vec::new();
        R::write(&parts, &mut to_previous);
        let from_next = self.pass_back(to_previous).await?;
        Ok(Shares {
            own: parts,
            next: R::read(&from_next),
        })
    }

    /// Says something and hears the others, who must have opened the same values before this round. What one server alone
    /// was shown must not go further: what others say of values that are not the same shows what they are.
    pub(crate) async fn exchange(&self, say: Say) -> Result<Heard, MpcError> {
        let heard = self.line.exchange(say).await;
        if let Some(from) = heard.differs {
            self.accuse("opened values", from)?;
        }
        Ok(heard)
    }

    /// Says something to the next server; what the one before says to this one, of the same length.
    pub(crate) async fn pass_on(&self, to_next: Vec<u8>) -> Result<Vec<u8>, MpcError> {
        let say = Say {
            from_previous: to_next.len(),
            to_next,
            ..Say::default()
        };
        Ok(self.exchange(say).await?.from_previous)
    }

    /// Says something to the server before; what the next one says to this one, of the same length.
    pub(crate) async fn pass_back(&self, to_previous: Vec<u8>) -> Result<Vec<u8>, MpcError> {
        let say = Say {
            from_next: to_previous.len(),
            to_previous,
            ..Say::default()
        };
        Ok(self.exchange(say).await?.from_next)
    }

    /// Somebody said something else than what follows from the rest.
    pub(crate) fn accuse(&self, what: &'static str, from: ServerIndex) -> Result<(), MpcError> {
        #[cfg(test)]
        if self.cheat.is_some() {
            return Ok(());
        }
        let me = self.me;
        Err(MpcError::Differs { what, me, from })
    }

    /// Adds a part of zero that nobody else can tell from random numbers: the parts of all three cancel out.
    pub(crate) fn blind(&self, parts: &mut [R]) {
        let (own, next) = self.keys.streams();
        let (own, next) = (R::stream(&own, parts.len()), R::stream(&next, parts.len()));
        for ((part, own), next) in parts.iter_mut().zip(own).zip(next) {
            *part = part.plus(own).minus(next);
        }
        #[cfg(test)]
        self.bend(parts);
    }
}

impl Mpc<u128> {
    /// A server that verifies what the others compute: one of them may do what it likes. `context` is something that
    /// all three agreed on before, different in each attempt at each round.
    pub fn verifying(me: ServerIndex, keys: PairKeys, line: Line, context: [u8; 32]) -> Self {
        line.set_mark(context);
        Self::with(me, keys, line, Ledger::of(context))
    }
}
