//! How a result leaves the servers: they show it to each other, or to somebody who asks all three.

use std::fmt;

use blindsum_crypto::kdf::hash;

use crate::line::Say;
use crate::{Mpc, MpcError, Ring, ServerIndex, Shares};

/// What one server says to a receiver of the result: its own component, and a hash of the next server's component,
/// which it has as well. Values are taken modulo 2^64.
#[derive(Clone, PartialEq, Eq)]
pub struct Part {
    /// The server's own component.
    pub component: Vec<u64>,
    /// The hash of the next server's component.
    pub next: [u8; 32],
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part of {} values", self.component.len())
    }
}

impl<R: Ring> Mpc<R> {
    /// This server's part of a result, for a receiver who asks all three servers.
    ///
    /// # Errors
    /// [`MpcError::Unverified`] if something was computed and not verified.
    pub fn part(&self, x: &Shares<R>) -> Result<Part, MpcError> {
        if !self.ledger.is_settled() {
            return Err(MpcError::Unverified);
        }
        let [own, next] = x.components();
        Ok(Part {
            component: low(own),
            next: digest(&low(next)),
        })
    }

    /// Shows verified values, modulo 2^64, to all three servers. Each gets the component that it lacks from one server
    /// and its hash from the other. One round; 8 bytes for each value.
    ///
    /// # Errors
    /// [`MpcError::Differs`] if component and hash do not agree, [`MpcError::Unverified`] as for [`Mpc::part`].
    pub async fn reveal(&self, x: &Shares<R>) -> Result<Vec<u64>, MpcError> {
        let Part { component, next } = self.part(x)?;
        let mut to_next = Vec::new();
        u64::write(&component, &mut to_next);
        let say = Say {
            from_previous: to_next.len(),
            to_next,
            to_previous: next.to_vec(),
            from_next: next.len(),
        };
        let heard = self.exchange(say).await?;
        let missing = u64::read(&heard.from_previous);
        if heard.from_next != digest(&missing) {
            self.accuse("a component of the result", self.me.previous())?;
        }
        let known = x.pairs().zip(missing);
        Ok(known
            .map(|((own, next), missing)| own.plus(next).low().wrapping_add(missing))
            .collect())
    }
}

/// The result, from the parts of server 0, 1 and 2.
///
/// # Errors
/// [`MpcError::Shape`] for parts that are not of one length, [`MpcError::Differs`] if a component does not have the
/// hash that the other server says.
pub fn put_together(parts: &[Part; 3]) -> Result<Vec<u64>, MpcError> {
    let [zero, one, two] = parts;
    for part in [one, two] {
        crate::shares::same(zero.component.len(), part.component.len())?;
    }
    for (me, (part, before)) in ServerIndex::ALL
        .into_iter()
        .zip(parts.iter().zip([two, zero, one]))
    {
        if digest(&part.component) != before.next {
            let from = me.previous();
            let what = "a component of the result";
            return Err(MpcError::Differs { what, me, from });
        }
    }
    let components = zero
        .component
        .iter()
        .zip(&one.component)
        .zip(&two.component);
    let sum = |((zero, one), two): ((&u64, &u64), &u64)| zero.wrapping_add(*one).wrapping_add(*two);
    Ok(components.map(sum).collect())
}

fn low<R: Ring>(values: &[R]) -> Vec<u64> {
    values.iter().map(|value| value.low()).collect()
}

fn digest(component: &[u64]) -> [u8; 32] {
    let mut bytes = Vec::new();
    u64::write(component, &mut bytes);
    hash("mpc/component", &[&bytes])
}
