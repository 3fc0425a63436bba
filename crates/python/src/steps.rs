//! Steps of a host, as Python gives them.

use blindsum_protocol::Tag;

/// A step: its number, and the hash of what it is about.
pub type Step = (u64, Option<[u8; 32]>);

/// The tag of a step.
pub fn tag_of(step: Option<Step>) -> Option<Tag> {
    step.map(|(number, about)| Tag { number, about })
}
