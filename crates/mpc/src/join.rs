//! Code that runs side by side: whenever messages have come, every part of it goes on, in order.

use std::pin::Pin;
use std::task::{Context, Poll};

/// A future, or what it came to.
enum Slot<F: Future> {
    Runs(Pin<Box<F>>),
    Over(Option<F::Output>),
}

impl<F: Future> Slot<F> {
    /// Goes on; whether it is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        if let Self::Runs(future) = self
            && let Poll::Ready(output) = future.as_mut().poll(cx)
        {
            *self = Self::Over(Some(output));
        }
        matches!(self, Self::Over(_))
    }

    fn take(&mut self) -> Option<F::Output> {
        match self {
            Self::Runs(_) => None,
            Self::Over(output) => output.take(),
        }
    }
}

/// Runs both and gives both results. If one fails, the other is not run on.
///
/// # Errors
/// The error of the first that fails.
pub async fn join<A, B, E>(
    first: impl Future<Output = Result<A, E>>,
    second: impl Future<Output = Result<B, E>>,
) -> Result<(A, B), E> {
    let mut first = Slot::Runs(Box::pin(first));
    let mut second = Slot::Runs(Box::pin(second));
    std::future::poll_fn(move |cx| {
        let over = [first.poll(cx), second.poll(cx)];
        if let Slot::Over(Some(Err(_))) = &first
            && let Some(Err(error)) = first.take()
        {
            return Poll::Ready(Err(error));
        }
        if let Slot::Over(Some(Err(_))) = &second
            && let Some(Err(error)) = second.take()
        {
            return Poll::Ready(Err(error));
        }
        if over != [true; 2] {
            return Poll::Pending;
        }
        match (first.take(), second.take()) {
            (Some(Ok(first)), Some(Ok(second))) => Poll::Ready(Ok((first, second))),
            // Both are over, and neither failed.
            _ => Poll::Pending,
        }
    })
    .await
}

/// Runs all three and gives their results.
///
/// # Errors
/// The error of the first that fails.
pub async fn join3<A, B, C, E>(
    first: impl Future<Output = Result<A, E>>,
    second: impl Future<Output = Result<B, E>>,
    third: impl Future<Output = Result<C, E>>,
) -> Result<(A, B, C), E> {
    let (first, (second, third)) = join(first, join(second, third)).await?;
    Ok((first, second, third))
}

/// Runs all of them and gives their results, in order.
///
/// # Errors
/// The error of the first that fails.
pub async fn join_all<A, E>(
    all: impl IntoIterator<Item = impl Future<Output = Result<A, E>>>,
) -> Result<Vec<A>, E> {
    let mut slots: Vec<_> = all.into_iter().map(|it| Slot::Runs(Box::pin(it))).collect();
    std::future::poll_fn(move |cx| {
        let mut is_over = true;
        for slot in &mut slots {
            is_over &= slot.poll(cx);
            if let Slot::Over(Some(Err(_))) = slot
                && let Some(Err(error)) = slot.take()
            {
                return Poll::Ready(Err(error));
            }
        }
        match is_over {
            true => Poll::Ready(slots.iter_mut().filter_map(Slot::take).collect()),
            false => Poll::Pending,
        }
    })
    .await
}
