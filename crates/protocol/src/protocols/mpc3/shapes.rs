//! The shapes of what parties upload and of results: bits of a word, and words.

use blindsum_math::words::Width;

use super::weighing::Weighing;
use crate::Job;

/// The shape of what parties upload: bits of a word, and words.
pub(super) fn upload_shape(job: &Job) -> Shape {
    match Weighing::of(job) {
        Some(weighing) => Shape::numbers(weighing.upload_words()),
        None => Shape::of_sum(job),
    }
}

/// The shape of a result.
pub(super) fn result_shape(job: &Job) -> Shape {
    match Weighing::of(job) {
        Some(weighing) => Shape::numbers(weighing.result_words()),
        None => Shape::of_sum(job),
    }
}

/// Words of one width.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub width: Width,
    pub lanes: usize,
}

impl Shape {
    fn of_sum(job: &Job) -> Self {
        let (width, lanes) = (job.width(), job.lanes());
        Self { width, lanes }
    }

    fn numbers(lanes: usize) -> Self {
        Self {
            width: Width::WIDEST,
            lanes,
        }
    }

    /// Bytes of them.
    pub fn packed_len(self) -> usize {
        self.width.packed_len(self.lanes)
    }
}
