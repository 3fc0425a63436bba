//! What one server holds of a shared vector.

use std::fmt;
use std::sync::Arc;

use crate::{MpcError, Ring, ServerIndex};

/// Two of the three components of each value: server i has component i, `own`, and component i + 1, `next`. A clone is the
/// same values in memory, not a copy of them.
#[derive(Clone, PartialEq)]
pub struct Shares<R> {
    pub(crate) own: Arc<Vec<R>>,
    pub(crate) next: Arc<Vec<R>>,
}

impl<R> fmt::Debug for Shares<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shares of {} values", self.own.len())
    }
}

impl<R: Ring> Shares<R> {
    /// Shares with these components.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if they are not of one length.
    pub fn new(own: Vec<R>, next: Vec<R>) -> Result<Self, MpcError> {
        same(own.len(), next.len())?;
        Ok(Self::of(own, next))
    }

    /// The same for components that are of one length.
    pub(crate) fn of(own: Vec<R>, next: Vec<R>) -> Self {
        let (own, next) = (Arc::new(own), Arc::new(next));
        Self { own, next }
    }

    /// `count` zeros.
    pub fn zeros(count: usize) -> Self {
        Self::of(vec![R::ZERO; count], vec![R::ZERO; count])
    }

    /// Shares of public numbers: component 0 is the numbers, the others are 0.
    pub fn public(me: ServerIndex, values: &[R]) -> Self {
        let zeros = || vec![R::ZERO; values.len()];
        match me.number() {
            0 => Self::of(values.to_vec(), zeros()),
            2 => Self::of(zeros(), values.to_vec()),
            _ => Self::of(zeros(), zeros()),
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// The components that this server has: number i, then number i + 1.
    pub fn components(&self) -> [&[R]; 2] {
        [&self.own, &self.next]
    }

    /// The two components of each value.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (R, R)> {
        self.own.iter().copied().zip(self.next.iter().copied())
    }

    /// Applies a linear map, which each server does by itself: `f` maps a component to a component.
    pub fn linear(&self, f: impl Fn(&[R]) -> Vec<R>) -> Self {
        Self::of(f(&self.own), f(&self.next))
    }

    /// self + other.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if they are not of one length.
    pub fn plus(&self, other: &Self) -> Result<Self, MpcError> {
        self.with(other, R::plus)
    }

    /// self − other.
    ///
    /// # Errors
    /// [`MpcError::Shape`] if they are not of one length.
    pub fn minus(&self, other: &Self) -> Result<Self, MpcError> {
        self.with(other, R::minus)
    }

    fn with(&self, other: &Self, f: impl Fn(R, R) -> R) -> Result<Self, MpcError> {
        same(self.len(), other.len())?;
        let zip = |a: &[R], b: &[R]| a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect();
        Ok(Self::of(
            zip(&self.own, &other.own),
            zip(&self.next, &other.next),
        ))
    }

    /// Each value times a public number.
    pub fn times(&self, factor: R) -> Self {
        self.linear(|values| values.iter().map(|it| it.times(factor)).collect())
    }

    /// Each value plus a public number.
    pub fn plus_public(&self, me: ServerIndex, number: R) -> Self {
        let add = |values: &[R], here: bool| {
            let number = if here { number } else { R::ZERO };
            values.iter().map(|it| it.plus(number)).collect()
        };
        Self::of(
            add(&self.own, me.number() == 0),
            add(&self.next, me.number() == 2),
        )
    }

    /// The values at these places.
    ///
    /// # Panics
    /// If a place is not below the number of values.
    pub fn at(&self, places: impl IntoIterator<Item = usize> + Clone) -> Self {
        let take = |values: &[R], places: &mut dyn Iterator<Item = usize>| {
            places.map(|place| values[place]).collect()
        };
        Self::of(
            take(&self.own, &mut places.clone().into_iter()),
            take(&self.next, &mut places.into_iter()),
        )
    }

    /// The sums of runs of `length` values that follow each other.
    pub fn sums(&self, length: usize) -> Self {
        let sum = |values: &[R]| values.iter().fold(R::ZERO, |sum, it| sum.plus(*it));
        self.linear(|values| values.chunks(length.max(1)).map(sum).collect())
    }

    /// All parts, one after the other.
    pub fn concat(parts: &[&Self]) -> Self {
        let all = |pick: fn(&Self) -> &Vec<R>| {
            let values = parts.iter().flat_map(|part| pick(part).iter().copied());
            values.collect()
        };
        Self::of(all(|part| &part.own), all(|part| &part.next))
    }

    /// The values before `place`, and those from it on.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn split_at(self, place: usize) -> (Self, Self) {
        let (own, next) = (self.own.split_at(place), self.next.split_at(place));
        (
            Self::of(own.0.to_vec(), next.0.to_vec()),
            Self::of(own.1.to_vec(), next.1.to_vec()),
        )
    }
}

/// Refuses two vectors that are not of one length.
pub(crate) fn same(left: usize, right: usize) -> Result<(), MpcError> {
    let rule = "as many in both";
    match left == right {
        true => Ok(()),
        false => Err(MpcError::Shape { left, right, rule }),
    }
}
