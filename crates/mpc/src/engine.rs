//! A server in a computation: who it is, the keys it shares, and its line to the others.

use std::sync::Arc;

use crate::keys::Use;
use crate::ledger::Ledger;
use crate::line::{Heard, Line, Say};
use crate::ring::Flow;
use crate::stock::Stock;
use crate::{MpcError, PairKeys, Ring, ServerIndex, Shares};

/// One server's side of a computation on values of the ring `R`.
///
/// Operations that need the other servers are `async`. Their documentation says how many rounds they wait for, and how
/// much each server sends. Between servers that verify, each of them can also fail with [`MpcError::Differs`].
pub struct Mpc<R> {
    pub(crate) me: ServerIndex,
    pub(crate) keys: Arc<PairKeys<R>>,
    pub(crate) line: Line,
    pub(crate) ledger: Ledger<R>,
    pub(crate) stock: Stock<R>,
    /// Truncations round down.
    pub(crate) is_exact: bool,
    /// What a cheating server of a test does.
    #[cfg(test)]
    pub(crate) cheat: Option<Arc<crate::testing::Cheat>>,
}

impl<R: Ring> Mpc<R> {
    /// A server among servers that follow the protocol: nothing is verified.
    pub fn new(keys: PairKeys<R>, line: Line) -> Self {
        Self::with(keys, line, Ledger::none())
    }

    fn with(keys: PairKeys<R>, line: Line, ledger: Ledger<R>) -> Self {
        Self {
            me: keys.me(),
            keys: Arc::new(keys),
            line,
            ledger,
            stock: Stock::default(),
            is_exact: false,
            #[cfg(test)]
            cheat: None,
        }
    }

    /// The same server with a ledger of its own, for work that runs beside other work and is verified by itself. Keys and
    /// the line are the same, and so is the hash of what was opened.
    pub(crate) fn branch(&self) -> Self {
        Self {
            me: self.me,
            keys: self.keys.clone(),
            line: self.line.clone(),
            ledger: self.ledger.branch(),
            stock: Stock::default(),
            is_exact: self.is_exact,
            #[cfg(test)]
            cheat: self.cheat.clone(),
        }
    }

    /// Which server this is.
    pub fn me(&self) -> ServerIndex {
        self.me
    }

    /// Random values that no server knows. No round.
    pub fn random(&self, count: usize) -> Shares<R> {
        let (own, next) = self.keys.streams(Use::Numbers);
        Shares::of(R::stream(&own, 0, count), R::stream(&next, 0, count))
    }

    /// Turns parts z_i, one at each server and in sum the values, into shares of them. One round; an element for each
    /// value.
    pub(crate) async fn reshare(&self, mut parts: Vec<R>) -> Result<Shares<R>, MpcError> {
        self.blind(&mut parts);
        let mut to_previous = Vec::new();
        R::write(&parts, &mut to_previous);
        let from_next = self.pass_back(to_previous).await?;
        Ok(Shares::of(parts, R::read(&from_next)))
    }

    /// Says something and hears the others, who must have opened the same values before this round. What one server alone
    /// was shown must not go further: what others say of values that are not the same shows what they are.
    pub(crate) async fn exchange(&self, say: Say) -> Result<Heard, MpcError> {
        let heard = self.line.exchange(say).await?;
        // guard: marks-are-compared-in-each-round
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
        Err(self.end(MpcError::Differs { what, me, from }))
    }

    /// Ends the computation: whatever is asked of this server from now on fails.
    pub(crate) fn end(&self, error: MpcError) -> MpcError {
        // guard: an-error-ends-it
        self.line.end();
        error
    }

    /// Adds a part of zero that nobody else can tell from random numbers: the parts of all three cancel out.
    pub(crate) fn blind(&self, parts: &mut [R]) {
        let (own, next) = self.keys.streams(Use::Zero);
        let count = parts.len();
        let of = |stream| Flow::<R>::new(Arc::new(stream), count);
        let blinds = of(own).zip(of(next));
        for (part, (own, next)) in parts.iter_mut().zip(blinds) {
            *part = part.plus(own).minus(next);
        }
        #[cfg(test)]
        self.bend(parts);
    }
}

impl Mpc<u128> {
    /// A server that verifies what the others compute: one of them may do what it likes.
    pub fn verifying(keys: PairKeys<u128>, line: Line) -> Self {
        let context = keys.context();
        line.set_mark(context);
        Self::with(keys, line, Ledger::of(context))
    }
}
