//! Messages between servers that compute together, and uploads of parties to them: `channels` has a connection to each of
//! the others, `keeping` is one while it is up, `queue` has its waiting letters, `service` accepts connections and uploads.

mod channels;
mod keeping;
mod queue;
mod service;

pub(crate) use channels::{ChannelAcceptor, ChannelParts, ServerChannels};
pub(crate) use keeping::Heard;
pub(crate) use service::{ComputingService, TakesUploads, computing};
