//! What servers that compute together say to each other, and what parties give them: `lines` keeps a line to each of
//! the others, `keeping` is one while it is up, `queue` has what waits for it, `door` is the service that takes lines
//! and uploads.

mod door;
mod keeping;
mod lines;
mod queue;

pub(crate) use door::{Door, TakesUploads, computing};
pub(crate) use keeping::Heard;
pub(crate) use lines::{LineDoor, LineParts, Lines};
