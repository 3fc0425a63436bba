//! What one server holds of a shared vector.

use std::fmt;

use crate::{MpcError, Ring, ServerIndex};

/// Two of the three components of each value: server i has component i, `own`, and component i + 1, `next`.
#[derive(Clone, PartialEq)]
pub struct Shares<R> {
    pub(crate) own: Vec<R>,
    pub(crate) next: Vec<R>,
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
        Ok(Self { own, next })
    }

    /// `count` zeros.
    pub fn zeros(count: usize) -> Self {
        Self {
            own: vec![R::ZERO; count],
            next: vec![R::ZERO; count],
        }
    }

    /// Shares of public numbers: component 0 is the numbers, the others are 0.
    pub fn public(me: ServerIndex, values: &[R]) -> Self {
        let mut shares = Self::zeros(values.len());
        match me.number() {
            0 => shares.own.copy_from_slice(values),
            2 => shares.next.copy_from_slice(values),
            _ => {}
        }
        shares
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
        Self {
            own: f(&self.own),
            next: f(&self.next),
        }
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
        Ok(Self {
            own: zip(&self.own, &other.own),
            next: zip(&self.next, &other.next),
        })
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
        Self {
            own: add(&self.own, me.number() == 0),
            next: add(&self.next, me.number() == 2),
        }
    }

    /// The values at these places.
    ///
    /// # Panics
    /// If a place is not below the number of values.
    pub fn at(&self, places: impl IntoIterator<Item = usize> + Clone) -> Self {
        let take = |values: &[R], places: &mut dyn Iterator<Item = usize>| {
            places.map(|place| values[place]).collect()
        };
        Self {
            own: take(&self.own, &mut places.clone().into_iter()),
            next: take(&self.next, &mut places.into_iter()),
        }
    }

    /// The sums of runs of `length` values that follow each other.
    pub fn sums(&self, length: usize) -> Self {
        let sum = |values: &[R]| values.iter().fold(R::ZERO, |sum, it| sum.plus(*it));
        self.linear(|values| values.chunks(length.max(1)).map(sum).collect())
    }

    /// All parts, one after the other.
    pub fn concat(parts: &[&Self]) -> Self {
        Self {
            own: parts
                .iter()
                .flat_map(|part| part.own.iter().copied())
                .collect(),
            next: parts
                .iter()
                .flat_map(|part| part.next.iter().copied())
                .collect(),
        }
    }

    /// The values before `place`, and those from it on.
    ///
    /// # Panics
    /// If `place` is beyond the end.
    pub fn split_at(mut self, place: usize) -> (Self, Self) {
        let own = self.own.split_off(place);
        let next = self.next.split_off(place);
        (self, Self { own, next })
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
