//! How a result leaves the servers: they show it to each other, or to somebody who asks all three.

use std::fmt;

use blindsum_crypto::kdf::hash;

use crate::circuits::{from_bytes, to_bytes};
use crate::line::Say;
use crate::{Bits, Mpc, MpcError, Ring, ServerIndex, Shares};

/// The message of one server to a receiver of the result: its own component, and a hash of the next server's
/// component, which it has as well. Values are taken modulo 2^64.
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
    /// [`MpcError::Unverified`] if something was computed and not verified, [`MpcError::Ended`] after another error.
    pub fn part(&self, x: &Shares<R>) -> Result<Part, MpcError> {
        self.may_be_shown()?;
        let [own, next] = x.components();
        Ok(Part {
            component: own.iter().map(|value| value.low()).collect(),
            next: digest(&low_bytes(next)),
        })
    }

    /// Both components that this server has of verified values, modulo 2^64: for a receiver to whom they are told together.
    ///
    /// # Errors
    /// As [`Mpc::part`].
    pub fn both_parts(&self, x: &Shares<R>) -> Result<[Vec<u64>; 2], MpcError> {
        self.may_be_shown()?;
        Ok(x.components()
            .map(|component| component.iter().map(|value| value.low()).collect()))
    }

    /// Shows verified values, modulo 2^64, to all three servers. Each gets the component that it lacks from one server
    /// and its hash from the other. One round; 8 bytes for each value.
    ///
    /// # Errors
    /// [`MpcError::Differs`] if component and hash do not agree, [`MpcError::Unverified`] as for [`Mpc::part`].
    pub async fn reveal(&self, x: &Shares<R>) -> Result<Vec<u64>, MpcError> {
        self.may_be_shown()?;
        let [own, next] = x.components();
        let missing = self.shown(low_bytes(own), digest(&low_bytes(next))).await?;
        let (missing, _) = missing.as_chunks::<8>();
        let known = x.pairs().zip(missing);
        let value = |((own, next), missing): ((R, R), &[u8; 8])| {
            own.plus(next)
                .low()
                .wrapping_add(u64::from_le_bytes(*missing))
        };
        Ok(known.map(value).collect())
    }

    /// The same for bits, row by row.
    ///
    /// # Errors
    /// As [`Mpc::reveal`], and [`MpcError::Padding`].
    pub(crate) async fn reveal_bits(&self, x: &Bits) -> Result<Vec<u64>, MpcError> {
        self.may_be_shown()?;
        let to_next = to_bytes(x.width(), &x.own);
        let next = digest(&to_bytes(x.width(), &x.next));
        let missing = self.shown(to_next, next).await?;
        let missing = from_bytes(x.width(), &missing).map_err(|error| self.end(error))?;
        let known = x.pairs().zip(missing);
        Ok(known.map(|((own, next), it)| own ^ next ^ it).collect())
    }

    /// The component that this server lacks, from the server before, as the next one knows it.
    async fn shown(&self, to_next: Vec<u8>, next: [u8; 32]) -> Result<Vec<u8>, MpcError> {
        let say = Say {
            from_previous: to_next.len(),
            to_next,
            to_previous: next.to_vec(),
            from_next: next.len(),
        };
        let heard = self.exchange(say).await?;
        // guard: a-component-of-the-result-is-compared
        if heard.from_next != digest(&heard.from_previous) {
            self.accuse("a component of the result", self.me.previous())?;
        }
        Ok(heard.from_previous)
    }

    fn may_be_shown(&self) -> Result<(), MpcError> {
        self.line.goes_on()?;
        match self.ledger.is_settled() {
            true => Ok(()),
            false => Err(MpcError::Unverified),
        }
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
        if digest(&low_bytes(&part.component)) != before.next {
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

/// The values modulo 2^64 as bytes.
fn low_bytes<R: Ring>(values: &[R]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.low().to_le_bytes())
        .collect()
}

fn digest(component: &[u8]) -> [u8; 32] {
    hash("mpc/component", &[component])
}
