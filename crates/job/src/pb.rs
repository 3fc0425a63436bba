//! The messages of `proto/blindsum.proto`, written by `tools/schema`, and how frames are made of them.
#![allow(missing_docs, clippy::all)]

use blindsum_protocol::RoundParameters;

include!("generated/messages.rs");

/// The versions of the wire format, oldest to newest, that this program speaks.
pub const WIRE_VERSIONS: std::ops::RangeInclusive<u32> = 4..=4;

/// Name and version of this program, for logs and messages.
pub const PROGRAM: &str = concat!("blindsum ", env!("CARGO_PKG_VERSION"));

/// Declares how the messages of a frame are put into it.
macro_rules! frames {
    ($frame:ident, $module:ident: $($variant:ident($message:ty),)+) => {
        $(impl From<$message> for $frame {
            fn from(message: $message) -> Self {
                Self { frame: Some($module::Frame::$variant(message)) }
            }
        })+
    };
}

frames!(PartyFrame, party_frame:
    Hello(Hello),
    ModelRequest(ModelRequest),
    Ready(Ready),
    Chunk(Chunk),
    RoundRefused(RoundRefused),
    RoundConfirmed(RoundConfirmed),
    ModelChunk(ModelChunk),
    ModelRefused(ModelRefused),
    NonceOpening(NonceOpening),
    Leaving(Leaving),
);

frames!(CoordinatorFrame, coordinator_frame:
    Welcome(Welcome),
    Refused(Refused),
    ModelChunk(ModelChunk),
    RoundOffer(RoundOffer),
    RoundStart(RoundStart),
    Chunk(Chunk),
    RoundAborted(RoundAborted),
    RoundDone(RoundDone),
    JobDone(JobDone),
    ModelWanted(ModelWanted),
    RosterFixed(RosterFixed),
    JobHeld(JobHeld),
);

impl From<blindsum_protocol::RoundKind> for RoundKind {
    fn from(kind: blindsum_protocol::RoundKind) -> Self {
        match kind {
            blindsum_protocol::RoundKind::Sum => Self::Sum,
            blindsum_protocol::RoundKind::KeySetup => Self::KeySetup,
        }
    }
}

impl From<RoundKind> for blindsum_protocol::RoundKind {
    fn from(kind: RoundKind) -> Self {
        match kind {
            RoundKind::Sum => Self::Sum,
            RoundKind::KeySetup => Self::KeySetup,
        }
    }
}

impl From<RoundParameters> for Numbers {
    fn from(chosen: RoundParameters) -> Self {
        let [neighbours, threshold, packing] = chosen.words();
        Self {
            neighbours,
            threshold,
            packing,
        }
    }
}

impl From<&Numbers> for RoundParameters {
    fn from(told: &Numbers) -> Self {
        Self::from_words([told.neighbours, told.threshold, told.packing])
    }
}

impl Refused {
    /// A refusal without a token.
    pub fn new(code: RefusalCode, reason: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            reason: reason.into(),
            ..Self::default()
        }
    }
}
